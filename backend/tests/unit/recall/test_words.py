"""Every text is found by its words, in every script."""
# ruff: noqa: RUF001 - letters that look like others are the point

import itertools
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.recall.words import only_asks, words_asked_for, words_in
from tests.unit.awkward_text import texts

FOUND = [
    ("chinese", "我昨天在北京吃了烤鸭", ("烤鸭", "北京", "吃", "我昨天在北京吃了烤鸭")),
    ("traditional chinese", "臺北的天氣很好", ("天氣", "臺北", "好")),
    ("japanese", "昨日、東京タワーに行きました。", ("東京タワー", "タワー", "行きました", "昨日")),
    ("kana of both kinds", "ラーメンとすしが好き", ("らーめん", "ラーメン", "スシ")),
    ("two forms of a character", "臺北的天氣", ("台北", "臺北")),
    ("half-width kana", "ｶﾞﾝﾀﾞﾑ", ("ガンダム", "ダム", "ｶﾞﾝ")),
    ("thai", "ผมชอบกินข้าวผัดกุ้ง", ("ข้าวผัด", "กุ้ง", "ผม")),
    ("thai with sara am", "กำลังทำงาน", ("ทำงาน", "กำลัง", "งาน")),
    ("lao", "ຂ້ອຍມັກກິນເຂົ້າ", ("ກິນ", "ເຂົ້າ")),
    ("khmer", "ខ្ញុំចូលចិត្តបាយ", ("បាយ", "ចិត្ត")),
    ("burmese", "ကျွန်တော်ထမင်းစားတယ်", ("ထမင်း", "စားတယ်")),
    ("korean with particles", "서울에서 김치를 먹었어요", ("김치", "서울", "먹었어요")),
    ("korean from decomposed letters", unicodedata.normalize("NFD", "김치를"), ("김치",)),
    ("hindi", "मुझे दिल्ली की मिठाई पसंद है", ("दिल्ली", "मिठाई", "मिठाइयाँ")),
    ("hindi with a joiner", "क्\u200dष और रक्\u200dत", ("क्ष", "रक्त")),
    ("tamil", "எனக்கு தமிழ் பிடிக்கும்", ("தமிழ்",)),
    ("bengali", "আমি বাংলায় গান গাই", ("গান", "বাংলায়")),
    ("arabic", "أحب القراءة في المكتبة", ("القراءة", "المكتبة", "مكتبة")),
    ("arabic with what is written onto a noun", "والكتاب للمدرسة بالقلم فالبيت كالبحر", ("كتاب", "مدرسة", "قلم", "البيت", "بحر")),
    ("arabic letters that are written in two ways", "أحمد إلى المدرسه على", ("احمد", "المدرسة", "علي")),
    ("persian letters in arabic", "علي رفت کتاب", ("علی", "كتاب")),
    ("arabic with vowel signs", "قَرَأْتُ كِتَابًا", ("كتاب",)),
    ("hebrew with points", "אָמַר שָׁלוֹם", ("שלום", "אמר")),
    ("russian", "Вчера я читал книги о ёлках", ("книга", "книги", "елках", "КНИГ")),
    ("russian with stress marks", "за́мок на горе́", ("замок", "горе", "замо́к")),
    ("turkish names with endings", "İstanbul'a ve Ankara'dan Iğdır’da", ("istanbul", "İstanbul", "ankara", "igdir", "Iğdır")),
    ("greek", "Πήγα στην Ελλάδα", ("ΕΛΛΑΔΑ", "Ελλάδα")),
    ("vietnamese", "Ếch và phở Việt Nam", ("ech", "pho", "Viet", "Việt Nam")),
    ("accents", "Wir trafen José im Café Ångström", ("cafe", "Jose", "angstrom", "CAFÉ", "cafe\u0301")),
    ("german", "Die Straße in Zürich", ("strasse", "STRASSE", "zurich", "Straße")),
    ("french elisions", "J'ai vu l'homme qu'Anne aime aujourd’hui", ("homme", "l'homme", "Anne", "aujourd'hui")),
    ("italian elisions", "nell'acqua dell’arte", ("acqua", "arte")),
    ("full-width forms", "ＡＢＣ１２３ ｈｅｌｌｏ", ("abc123", "hello", "123")),
    ("ligatures", "the o\ufb03ce", ("office",)),
    ("soft hyphens", "Donau\u00addampf\u00adschiff", ("Donaudampfschiff",)),
    ("possessives", "Marta's and James' dogs’ toys", ("Marta", "James", "dogs", "toy", "marta’s")),
    ("contractions", "I don't know, it’s o\u02bcclock", ("dont", "don’t", "don\u02bct", "o'clock")),
    ("camel case", "call getUserName(user42)", ("getUserName", "getusername", "user", "name", "42", "user42")),
    ("snake case", "def parse_date(naïve_bayes)", ("parse_date", "parse date", "date", "naive", "naïve")),
    ("snake case in hindi", "नमस्ते_दुनिया", ("नमस्ते", "दुनिया")),
    ("acronyms", "class HTTPServer: XMLHttpRequest", ("HTTPServer", "http server", "xml", "request")),
    ("dunder", "def __init__(self)", ("__init__", "init", "self")),
    ("long identifiers", "test_that_" + "something_" * 15 + "ends_well", ("that", "ends well")),
    ("paths", "open /usr/share/Überblick/notes-2023.md", ("notes-2023.md", "share", "/usr/share", "uberblick")),
    ("windows paths", r"C:\Users\Ann\report_final.docx", (r"Users\Ann", "report", "final", "docx")),
    ("addresses", "mail ann.lee@example.com, see https://example.com/a?b=c1", ("ann.lee@example.com", "example.com")),
    ("chinese among latin", "我用Python写getUserName函数", ("Python", "函数", "user name", "我用")),
    ("emoji", "Great 🎉🎂!", ("🎉", "🎂", "🎂🎉")),
    ("emoji families", "my 👩‍👩‍👧 is here", ("👩‍👩‍👧", "👧", "👩")),
    ("skin tones", "ok 👍🏽", ("👍", "👍🏿", "👍🏽")),
    ("flags", "from 🇩🇪🇫🇷", ("🇩🇪", "🇫🇷")),
    ("keycaps", "press 1️⃣ or #️⃣", ("1️⃣", "#️⃣", "1")),
    ("emoji with and without the variation sign", "I ❤️ it ▶️", ("❤", "❤️", "▶")),
]  # fmt: skip
SCRIPTS = [pytest.param(text, asked, id=name) for name, text, asked in FOUND]


@pytest.mark.parametrize(("text", "asked"), SCRIPTS)
def test_a_text_is_found_by_each_of_its_parts(text: str, asked: tuple[str, ...]) -> None:
    for query in (*asked, text):
        words = words_asked_for(query)
        assert words, query
        assert set(words) <= set(words_in(text)), query


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("🇩🇪", "🇪🇸"),
        ("👍", "👎"),
        ("烤鸭", "鸭烤"),
        ("दिन", "दान"),
        ("ข้าว", "ขาว"),
        ("cart", "car"),
        ("user42", "user43"),
        ("قلب", "كلب"),
        ("الله", "له"),
        ("don't", "don"),
        ("замок", "зимок"),
    ],
)
def test_what_only_looks_alike_is_not_found(text: str, query: str) -> None:
    assert not set(words_asked_for(query)) <= set(words_in(text))


def test_a_query_does_not_ask_for_single_characters_where_it_has_pairs() -> None:
    assert words_asked_for("北京") == ["北京"]
    assert words_in("北京") == ["北", "京", "北京"]
    assert words_asked_for("京") == ["京"]


def test_words_come_in_their_order_and_as_often_as_they_stand() -> None:
    assert words_in("Dogs chase dogs") == ["dog", "chase", "dog"]


def test_an_identifier_gives_itself_and_its_parts_once() -> None:
    assert words_in("getUserName") == ["getusernam", "get", "user", "name"]
    assert words_in("HTTPServer") == ["httpserver", "http", "server"]
    assert words_in("__init__") == ["init"]


def test_what_is_no_word_gives_none() -> None:
    assert words_in("… — ?! ''' ___ \u0301 \u200d \n\t") == []


@given(texts | st.text(max_size=300))
def test_any_text_gives_words_that_can_be_stored_with_spaces_between(text: str) -> None:
    words = words_in(text)
    assert " ".join(words).split() == words
    assert all(0 < len(word) <= 200 for word in words)


@given(texts | st.text(max_size=100))
def test_any_text_is_found_by_all_of_itself(text: str) -> None:
    assert set(words_asked_for(text)) <= set(words_in(text))


@given(st.lists(st.sampled_from([asked for _, _, each in FOUND for asked in each]), min_size=1, max_size=5))
def test_texts_with_spaces_between_are_found_by_each(parts: list[str]) -> None:
    found = set(words_in(" ".join(parts)))
    assert all(set(words_asked_for(part)) <= found for part in parts)


HOSTILE = {
    "one letter": "a",
    "apostrophes": "a'",
    "possessives": "'s",
    "underscores": "_",
    "case changes": "aB",
    "digits and letters": "1a",
    "accents in two places": "\u0301\u0316",
    "tone marks": "\u0e48",
    "joiners": "\u200d",
    "flag letters": "🇩",
    "han": "漢",
    "han and marks": "漢\u0301",
    "jamo": "\u1112\u1161\u11ab",
    "what NFKC makes long": "\ufdfa",
    "spaces": " ",
    "musical marks": "\U0001d165\U0001d16d",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_takes_time_in_proportion_to_its_length(piece: str) -> None:
    def seconds(length: int) -> float:
        text = "x" + piece * (length // len(piece))
        begun = time.process_time()
        words = words_in(text)
        assert all(len(word) <= 200 for word in itertools.islice(words, 1000))
        return time.process_time() - begun

    seconds(1_000)
    small = min(seconds(20_000) for _ in range(2))
    assert seconds(200_000) < max(0.3, 30 * small)


def test_long_words_that_are_seen_once_are_not_kept_in_memory_whole() -> None:
    assert max(map(len, words_in("A9" * 100_000))) <= 64


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("הלכתי לספרייה בירושלים", "ירושלים"),
        ("ירושלים", "בירושלים"),
        ("גרנו ובבית הישן", "בית"),
        ("וירושלים", "ירושלים"),
        ("שלום", "שלום"),
        ("আমি ঢাকায় থাকি", "ঢাকা"),
        ("ঢাকার রাস্তা", "ঢাকা"),
        ("বইগুলো", "বই"),
        ("শহরের", "শহর"),
        ("ছেলেদেরকে", "ছেলে"),
    ],
)
def test_what_is_written_onto_a_word_does_not_hide_it(text: str, query: str) -> None:
    assert set(words_in(text)) & set(words_asked_for(query))


@pytest.mark.parametrize("word", ["בית", "שלום", "বই", "কে"])
def test_a_short_word_stays_whole(word: str) -> None:
    assert word in words_in(word)


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Where do I live?", True),
        ("Hey, do you remember where my sister lives? And since when?", True),
        ("我住在哪里？", True),
        ("أين أسكن؟", True),
        ("Πού μένω; Και από πότε;", True),
        ("Μένω στο Πόρτο. Εσύ πού μένεις;", False),
        ("while (x) { y; }", False),
        ("Where do I live? 🙂", True),
        ("I live in Porto.", False),
        ("I live in Porto. Where do you live?", False),
        ("I live in Porto with my dog Rex, where is a park?", False),
        ("", False),
    ],
)
def test_a_text_only_asks_where_it_tells_nothing_besides(text: str, asks: bool) -> None:
    assert only_asks(text) is asks
