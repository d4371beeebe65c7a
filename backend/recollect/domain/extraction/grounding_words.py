"""The words, names and numbers of a statement: what has to be in the turns that it cites."""

import re
import unicodedata
from collections.abc import Iterable, Iterator

from recollect.domain.recall.words import normal, stem, words_asked_for, words_in

_FUNCTION_WORDS = """
    a an the and or but nor if of at by for with about to from in on is are was were be been being am do does did doing
    have has had having i me my we our us you your he him his she her hers it its they them their theirs what which who
    whom whose this that these those will would shall should can could may might must how when where why there here so
    than too very just not no yes as into onto over after before between during any some such own same then once all
    each both more most other only up down out off again also still now later since until while because although though
    however despite however when whenever after before every everyone everybody somebody someone something anything
    nothing let lets please one ones another many much few several including like well even ever never always often
    sometimes usually currently recently today
    """
_REPORTING_WORDS = """
    say said says tell told tells ask asks asked mention mentions mentioned talk talks talked discuss discusses discussed
    explain explains explained share shares shared describe describes described add adds added reply replies replied
    answer answers answered suggest suggests suggested recommend recommends recommended confirm confirms confirmed
    express expresses expressed report reports reported note notes noted state states stated plan plans planned want
    wants wanted user assistant conversation chat message person people named called name year years old day date
    love loves loved like likes liked enjoy enjoys enjoyed prefer prefers preferred hate hates hated dislike dislikes
    disliked live lives lived work works worked go goes get gets come comes make makes take takes
    initially finally first firstly next meanwhile together afterwards additionally moreover overall both instead
    """
_CHINESE_NEUTRAL = """
    表示 提到 告诉 告訴 说道 說道 讨论 討論 询问 詢問 建议 建議 回答 认为 認為 觉得 覺得 计划 計劃 打算 准备 準備 希望
    用户 助手 对话 對話 目前 现在 現在 已经 已經 今年 自己 名叫 叫做 名字 居住 工作 喜欢 喜歡 以及 并且 並且 因为 因為
    所以 他们 她们 我们 可能 关于 關於 分享 介绍 确认 担任 從事 从事 拥有 擁有 进行 位于 来自 來自 年龄 职业 一只 一位 等人
    """
_CHINESE_FUNCTION = frozenset(
    "的了是我你您他她它們们在有和与與也都就不这這那哪呢吗嗎吧啊呀哦嗯么麼什怎着著过過把被给給对對很还還要会會能想请請一个個"
    "说說从從到于於以为為及其之而且或并並"
)
_NEUTRAL = frozenset(stem(word) for word in (_FUNCTION_WORDS + _REPORTING_WORDS).split())
_NEUTRAL_STARTS = frozenset((_FUNCTION_WORDS + _REPORTING_WORDS).split())
_NEVER_NAMES = frozenset([*_FUNCTION_WORDS.split(), "mr", "mrs", "ms", "dr"])
_neutral_chinese = re.compile("|".join(_CHINESE_NEUTRAL.split()))

_UNITS = (  # noqa: SIM905 - twenty lines of one word each say no more
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_ORDINALS = "second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()  # noqa: SIM905
_WRITTEN: dict[str, int] = {
    **{word: number for number, word in enumerate(_UNITS) if number > 1},
    **{word: 10 * number for number, word in enumerate(_TENS, 2)},
    **{word: number for number, word in enumerate(_ORDINALS, 2)},
    "hundred": 100, "thousand": 1000, "million": 1_000_000, "dozen": 12, "couple": 2, "twice": 2, "pair": 2,
    "noon": 12, "zwei": 2, "drei": 3, "vier": 4, "fünf": 5, "deux": 2, "trois": 3, "quatre": 4, "cinq": 5, "dos": 2,
    "tres": 3, "cuatro": 4, "cinco": 5, "два": 2, "две": 2, "три": 3, "четыре": 4, "пять": 5,
}  # fmt: skip
"""Not "one" and "first", which are hardly ever meant as numbers."""
_WRITTEN_STEMS = frozenset(map(stem, _WRITTEN))
_CHINESE_DIGITS = {
    "零": 0, "\u3007": 0, "一": 1, "二": 2, "两": 2, "兩": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9,
}  # fmt: skip
_CHINESE_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "萬": 10_000}
_idioms = re.compile(
    "十分|千万|千萬|万一|萬一|三明治|四川|一[些起般样樣直定切]|七夕|八卦|百度|五一|十一(?=长假|黄金周)"
)
_digits = re.compile(r"\d+(?:[.,]\d+)*")
_grouped = re.compile(r"\d{1,3}(?:[.,]\d{3})+").fullmatch
_chinese_number = re.compile("[零\u3007一二两兩三四五六七八九十百千万萬]+")
_clock = re.compile(r"(\d{1,2})(?::\d{2})?\s?(?:p\.?m\b)|(?:下午|晚上|傍晚)\s?(\d{1,2})", re.IGNORECASE)
_from_apostrophe = re.compile("['\u2019\u02bc].*")
_full_hour = re.compile(r"(?<=\d):00\b")
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_MARKED = (
    (0x300, 0x370), (0x591, 0x5C8), (0x64B, 0x671), (0x900, 0xE00),
    (0x1AB0, 0x1B00), (0x1DC0, 0x1E00), (0x20D0, 0x2100), (0xFE20, 0xFE30),
)  # fmt: skip
# A vowel sign is no \\w, though the word goes on behind it.
_MARKS = "".join(
    chr(code)
    for first, last in _MARKED
    for code in range(first, last)
    if unicodedata.category(chr(code)).startswith("M")
)
_names = re.compile(rf"(?<!\w[{_MARKS}])(?![{_UNSPACED}])\w(?:(?![{_UNSPACED}])[\w{_MARKS}'\u2019\u02bc-])*")
_sentence_start = re.compile(
    r"(?:^|[.!?:\u3002\uff01\uff1f\n\"\u201c(\u2022-])\s*[\"'\u201c\u2018(\[*]*$"
).search
_stray_accent = re.compile(r"(?:^|(?<=\s))[\u0300-\u036f]+")
_spaced_words = re.compile(r"[^\W\d_]+")
_han_or_katakana = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u30a1-\u30fa]+")


def compared(text: str) -> str:
    """As statements and what they are held against are read.

    An accent that stands alone, typed for an apostrophe, is no part of the word behind it.
    """
    return _stray_accent.sub("", normal(text))


def content_terms(text: str) -> set[str]:
    """Stems and pairs of characters that carry meaning, numbers apart; all words where none does."""
    words = set(words_asked_for(_neutral_chinese.sub(" ", text)))
    return {word for word in words if not _is_neutral(word)} or set(words_asked_for(text))


def vocabulary(text: str) -> frozenset[str]:
    """All that a statement's words are looked up in."""
    return frozenset(words_in(text))


def names_in(text: str, *, starts: bool = True) -> Iterator[str]:
    """What is written like a name: with a capital letter, though not a plain word that begins a sentence.

    Without `starts`, no word that begins a sentence: orders and reports begin with verbs.
    """
    for found in _names.finditer(text):
        begins = _sentence_start(text[max(0, found.start() - 8) : found.start()]) is not None
        if begins and not starts:
            continue
        for part in found[0].split("-"):
            bare = _from_apostrophe.sub("", part).lower()
            if part[:1].isupper() and bare not in (_NEUTRAL_STARTS if begins else _NEVER_NAMES):
                yield part


def numbers_in(text: str) -> set[str]:
    """The numbers of a text, however they are written; a full hour is the hour alone."""
    plain = _full_hour.sub("", normal(text))
    found = {_canonical(match[0]) for match in _digits.finditer(plain)}
    words = [word.lower() for word in re.findall(r"[^\W\d_]+", plain)]
    for position, word in enumerate(words):
        value = _WRITTEN.get(word)
        if value is None:
            continue
        follows = _WRITTEN.get(words[position + 1]) if position + 1 < len(words) else None
        if value in range(20, 100, 10) and follows is not None and follows < 10:
            found.add(str(value + follows))
        elif position and words[position - 1] in _TENS and value < 10:
            continue
        else:
            found.add(str(value))
    return found | {str(value) for value in _chinese_numbers(plain)}


def numbers_said(text: str) -> set[str]:
    """The numbers of a turn, and what else they can be called: 3 pm is 15, and the parts of a phone number."""
    plain = normal(text)
    found = numbers_in(text)
    found |= {_canonical(run) for run in re.findall(r"\d+", plain)}
    found |= {str((int(match[1] or match[2]) % 12) + 12) for match in _clock.finditer(plain)}
    words = set(re.findall(r"[^\W\d_]+", plain.lower()))
    return found | {str(_WRITTEN[word]) for word in words & _WRITTEN.keys()}


def holds_unknown_characters(text: str, known: str) -> bool:
    """Whether two characters in a row, of a script without capitals and spaces, are nowhere in what is known."""
    plain = _neutral_chinese.sub(" ", normal(text))
    seen = set(normal(known)) | _CHINESE_FUNCTION
    for run in _han_or_katakana.findall(plain):
        unknown = "".join("x" if character not in seen else " " for character in run)
        if "xx" in unknown:
            return True
    return False


def needed_share(text: str) -> float:
    """How much of a statement's words has to be in the turns: more where names can't be told by their capitals."""
    words = _spaced_words.findall(_han_or_katakana.sub(" ", text))
    caseless = sum(
        unicodedata.category(word[0]) == "Lo" and not "\u0e00" <= word[0] <= "\u1fff" for word in words
    )
    return 2 / 3 if caseless * 2 > len(words) else 1 / 2


def has_capitals(text: str) -> bool:
    """Whether the text's script has them, so that names can be told from other words."""
    return any(character.lower() != character.upper() for character in text)


def is_known(word: str, known: frozenset[str]) -> bool:
    """Whether a word, or each part of it, is among those that are known."""
    stems = words_in(word)
    return any(each in known for each in stems[:1]) or (
        len(stems) > 1 and all(each in known for each in stems[1:])
    )


def _is_neutral(word: str) -> bool:
    if word in _NEUTRAL or word in _WRITTEN_STEMS or word.isdigit():
        return True
    return not word.isascii() and not _CHINESE_FUNCTION.isdisjoint(word)


def _canonical(number: str) -> str:
    if _grouped(number):
        return str(int(re.sub("[.,]", "", number)))
    whole, _, rest = number.replace(",", ".").partition(".")
    return f"{int(whole[:40])}.{rest}" if rest else str(int(whole[:40]))


def _chinese_numbers(text: str) -> Iterable[int]:
    for found in _chinese_number.finditer(_idioms.sub(" ", text)):
        value = _chinese_value(found[0][:12])
        if value != 1:
            yield value


def _chinese_value(written: str) -> int:
    total, digit = 0, 0
    for character in written:
        if character in _CHINESE_UNITS:
            unit = _CHINESE_UNITS[character]
            total = (
                (total + (digit or (0 if total else 1))) * unit
                if unit > 1000
                else total + (digit or 1) * unit
            )
            digit = 0
        else:
            digit = digit * 10 + _CHINESE_DIGITS[character]
    return total + digit
