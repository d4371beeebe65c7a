"""Words: what a text is found by, in any script."""

import itertools
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import Stemmer

_FORMS = (  # noqa: SIM905 - seventy lines of one verb each say no more
    "be am is are was were been, go goes went gone, do did done does, have had has, get got gotten, make "
    "made, take took taken, come came, see saw seen, know knew known, think thought, give gave given, "
    "find found, tell told, become became, leave left, feel felt, bring brought, begin began begun, keep "
    "kept, hold held, write wrote written, stand stood, hear heard, mean meant, meet met, run ran, pay "
    "paid, sit sat, speak spoke spoken, lead led, grow grew grown, lose lost, fall fell fallen, send "
    "sent, build built, understand understood, draw drew drawn, break broke broken, spend spent, drive "
    "drove driven, buy bought, wear wore worn, choose chose chosen, eat ate eaten, teach taught, win won, "
    "catch caught, sell sold, sing sang sung, swim swam swum, fly flew flown, sleep slept, ride rode "
    "ridden, fight fought, throw threw thrown, drink drank drunk, forget forgot forgotten, show shown, "
    "say said, shoot shot, hide hid hidden, wake woke woken, child children kid kids, man men, woman "
    "women, person people, foot feet, tooth teeth, mouse mice, wife wives"
).split(", ")

BASE_FORM: dict[str, str] = {form: forms.split()[0] for forms in _FORMS for form in forms.split()[1:]}
"""Each irregular form, in lower case, to the form that stands for all of them."""


_LONGEST = 64
"""Characters of one word; what is longer (base64, say) is cut."""
_LONGEST_IDENTIFIER = 256
"""As far as an identifier gives its parts."""

# Characters that belong to the word they stand in though they are no letters: vowel signs, accents, joiners.
_MARKS = "".join(
    re.escape(chr(code))
    for first, last in ((0x300, 0x370), (0x483, 0x488), (0x591, 0x5C8), (0x610, 0x6F0), (0x711, 0x712),
                        (0x730, 0x74B), (0x900, 0xE4F), (0xE80, 0x1200), (0x1700, 0x18B0), (0x1AB0, 0x1B00),
                        (0x1DC0, 0x1E00), (0x20D0, 0x20F1), (0xA8E0, 0xA8F2), (0xFE20, 0xFE30))
    for code in range(first, last)
    if unicodedata.category(chr(code)).startswith("M")
)  # fmt: skip
# Han with its extensions, kana, Thai, Lao, Myanmar, Khmer: scripts without spaces between words. Hangul, because
# its words carry their particles.
_UNSPACED = (
    "\u3005\u3007\u3041-\u309f\u30a0-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d"
    "\U00020000-\U0003ffff\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ede\u1000-\u109f\u1780-\u17d3\uac00-\ud7af"
)
# Two letters make a flag. Skin tones are left out: a thumb is a thumb.
_EMOJI = (
    "[\U0001f1e6-\U0001f1ff]{2}|[\U0001f000-\U0001f3fa\U0001f400-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u2300-\u23ff"
    "\u2190-\u21ff\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2934\u2935\u00a9\u00ae\u3030\u303d]"
)
_APOSTROPHES = "'\u2019\u02bc"
_tokens = re.compile(
    f"(?P<unspaced>[{_UNSPACED}]+)|(?P<emoji>{_EMOJI})"
    f"|(?P<word>(?:(?![{_UNSPACED}])[\\w{_MARKS}]|(?<=\\w)[{_APOSTROPHES}](?=\\w))+)"
).finditer
_clusters = re.compile(f"[{_UNSPACED}][{_MARKS}]{{0,8}}").findall
_parts = re.compile(
    r"_+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)"
).split
_is_mixed = re.compile(r"[a-z][A-Z]|_|[A-Za-z]\d|\d[A-Za-z]|[A-Z]{2}[a-z]").search
_possessive = re.compile(f"[{_APOSTROPHES}]s$").sub
_elided = re.compile(
    f"(?:[cdjlmnst]|qu|un|(?:d|n|s)?(?:al|el|ul)l)[{_APOSTROPHES}](\\w{{3,}})", re.IGNORECASE
).fullmatch
# Turkish sets a proper name's endings off; whatever else follows an apostrophe stays with its word.
_DOTLESS_I = "\u0131"
_close = f"[i{_DOTLESS_I}uü]"
_turkish_ending = re.compile(
    f"(\\w{{2,}})[{_APOSTROPHES}](?:[yn]?[ae]|[yn]?{_close}|n?[dt][ae]n?|n?{_close}n|y?l[ae]|l{_close}|[dt]{_close}r)"
).fullmatch
_apostrophes = re.compile(f"[{_APOSTROPHES}]").sub
# Soft hyphens, and the joiners that only change how a word looks.
_invisible = re.compile("[\u00ad\u200d\u2060\ufeff]").sub
_BLOCK = 50_000
_blocks = re.compile(
    rf".{{1,{_BLOCK}}}(?<=[\s\u3001\u3002\uff0c\uff01\uff1f])|.{{1,{_BLOCK}}}(?![{_MARKS}])|.{{1,{_BLOCK}}}",
    re.DOTALL,
).findall
_pieces = re.compile(rf".{{1,500}}(?!\S)|.{{1,500}}(?![{_MARKS}])|.{{1,500}}", re.DOTALL).findall

# Two ways to write a letter that Arabic, Persian and Urdu texts mix; the signs for vowels, and the stretching line.
_ARABIC = str.maketrans(
    "أإآٱىیےةک", "اااايييهك", "\u0640" + "".join(map(chr, range(0x64B, 0x660))) + "\u0670"
)
# "And", "so", "with", "like", "to" are written onto the article, and that onto its noun.
_arabic_article = re.compile("(?:[وف]?[بك]?ال|[وف]?لل)(?=\\w{3})").match
# Where the accent falls is written for learners, and the dots of "ё" for them alone.
_CYRILLIC = str.maketrans("ё", "е", "\u0300\u0301")  # noqa: RUF001
_HIRAGANA = str.maketrans(
    {code: code - 0x60 for code in (*range(0x30A1, 0x30F7), 0x30FD, 0x30FE)} | {"臺": "台"}
)

_FOLDED = _HIRAGANA | {
    code: None
    for code in (*range(0x300, 0x3100), *range(0xA600, 0xAC00), *range(0xFB00, 0xFE30))
    if unicodedata.combining(chr(code))
}
# "And" or "that", then "the", "in", "like", "to" or "from" are written onto a word: of three letters at least, with
# signs for vowels perhaps.
_vowels = "[\u0591-\u05c7]*"
_hebrew_prefixes = re.compile(
    f"([\u05d5\u05e9]{_vowels})?([\u05d1\u05d4\u05db\u05dc\u05de]{_vowels})?(?=(?:[\u05d0-\u05ea]{_vowels}){{3}})"
).match
# Of case, number and definiteness; a short one is taken off where more is left.
_bengali_ending = re.compile(
    unicodedata.normalize(
        "NFKC",
        "(?:(?<=..)(?:গুলোর|গুলোকে|গুলোতে|গুলো|গুলির|গুলিকে|গুলিতে|গুলি|দেরকে|দের|টির|টার|টিকে|টাকে|টিতে|টাতে|টি|টা|রা|কে|তে)"
        "|(?<=...)(?:য়ের|য়ে|য়|ের|ে|র))$",
    )
).search

_STEMMED_SCRIPTS = (
    ("\u0400", "\u052f", "russian"),
    ("\u0370", "\u03ff", "greek"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
    ("\u0530", "\u058f", "armenian"),
)


def words_in(text: str) -> list[str]:
    """The words of a text, in order, as they are stored."""
    return list(_words(text, single_characters=True))


def words_asked_for(query: str) -> list[str]:
    """The words of a query: where a pair of characters is asked for, its single characters are not."""
    return list(_words(query, single_characters=False))


def normal(text: str) -> str:
    """One way to write what looks alike: full-width letters are plain ones, an accent is part of its letter."""
    if text.isascii():
        return text
    # In pieces: thousands of accents on one letter would take the time of their number squared.
    return _invisible("", "".join(unicodedata.normalize("NFKC", piece) for piece in _pieces(text)))


def folded(text: str) -> str:
    """A text in which the beginnings of its words can be found without taking it apart: no case, accents, katakana."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFD", normal(text).casefold()).translate(_FOLDED)


def _words(text: str, *, single_characters: bool) -> Iterator[str]:
    # A block at a time: other threads must not wait for all of a long text.
    blocks = [text] if len(text) <= _BLOCK else _blocks(text)
    for found in itertools.chain.from_iterable(_tokens(normal(block)) for block in blocks):
        kind = found.lastgroup
        if kind == "word":
            yield from _spaced(found[0][:_LONGEST_IDENTIFIER])
        elif kind == "emoji":
            yield found[0]
        else:
            yield from _unspaced(found[0], single_characters=single_characters)


def _unspaced(run: str, *, single_characters: bool) -> Iterator[str]:
    characters = _clusters(run.translate(_HIRAGANA))
    if single_characters or len(characters) == 1:
        yield from characters
    for first, second in itertools.pairwise(characters):
        yield first + second


@lru_cache(maxsize=50_000)
def _spaced(word: str) -> tuple[str, ...]:
    """A word, stemmed; an identifier with its parts besides, an elided article's noun too."""
    word = _possessive("", word)
    inside = _elided(word) or (_turkish_ending(word) if word[0].isupper() else None)
    word = _apostrophes("", word)
    parts = _parts(word) if _is_mixed(word) else _without_hebrew_prefixes(word)
    if inside:
        parts.append(inside[1])
    stems = (stem(each[:_LONGEST]) for each in (word, *parts))
    return tuple(dict.fromkeys(each for each in stems if each))


def _without_hebrew_prefixes(word: str) -> list[str]:
    """What a Hebrew word may be, should its first letter, or its first two, be words of their own."""
    found = _hebrew_prefixes(word)
    return [] if found is None else [word[end:] for end in (found.end(1), found.end(2)) if end > 0]


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """A word without case, ending, and what not everybody writes: accents, vowel signs, the dot of an i."""
    folded = word.casefold().strip("_")
    if folded.isascii():
        folded = BASE_FORM.get(folded, folded)
        return str(_stemmer("english").stemWord(folded))
    plain = "".join(c for c in unicodedata.normalize("NFD", folded) if not unicodedata.combining(c))
    if plain[:1] < "\u0250":
        return str(_stemmer("english").stemWord(plain.replace(_DOTLESS_I, "i")))
    if "\u0590" <= plain[0] <= "\u05ff":
        return plain
    if "\u0400" <= folded[0] <= "\u052f":
        folded = folded.translate(_CYRILLIC)
    elif "\u0600" <= folded[0] <= "\u06ff":
        folded = _plain_arabic(folded)
    elif "\u0980" <= folded[0] <= "\u09ff":
        folded = _plain_bengali(folded)
    for first, last, language in _STEMMED_SCRIPTS:
        if first <= folded[0] <= last:
            return str(_stemmer(language).stemWord(folded))
    return folded


def _plain_arabic(word: str) -> str:
    plain = word.translate(_ARABIC)
    article = _arabic_article(plain)
    return plain[article.end() :] if article else plain or word


def _plain_bengali(word: str) -> str:
    while (ending := _bengali_ending(word)) is not None:
        word = word[: ending.start()]
    return word


@lru_cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language, 0)


_QUESTION_MARKS = "?\uff1f\u061f\u203d\u2047\u2048\u2049\u037e\u1367\u1945\u2e2e\ua60f\ua6f7\ufe56"
_ENDS = f".!\u3002\uff01\u06d4\u0964{_QUESTION_MARKS}"
# The Armenian mark stands within the word that is asked about.
_question_mark = re.compile(f"[{_QUESTION_MARKS}\u055e]").search
GREEK_MARK = "(?<=[\u0370-\u03ff\u1f00-\u1fff]);"
"""Greek asks with a semicolon."""
_greek_mark = re.compile(f"{GREEK_MARK}(?!\\w)").sub
_sentences = re.compile(f"[^{_ENDS}]+[{_ENDS}]*").findall
_clauses = re.compile(f"[^{_ENDS}\n,;:\uff0c\u3001\u060c\uff1b]+[{_ENDS}]*").findall
_clause_end = re.compile(f"[{_ENDS}\n,;:\uff0c\u3001\u060c\uff1b]+\\s*").sub
_instruction = re.compile(
    r"(?:^|[.!?\n:;]\s*)(?:please\s+)?(?:always|never(?! mind))\s+\w+|\bfrom now on\b|\bplease remember\b"
    r"|\b(?:when(?:ever)?|any ?time|every time|each time|if) i ask\b|\bin (?:the )?future,"
    r"|总是|一直要|从现在起|以后都|いつも|今後は",
    re.IGNORECASE,
).search
_preference = re.compile(r"\b(?:prefer\w*|rather than|i'd rather)\b|更喜欢|宁愿", re.IGNORECASE).search
_any_word = re.compile(r"\w+").findall
_INSTRUCTION_WORDS = frozenset(["always", "never", "now", "remember", "ask", "future"])
_HEAD = 400
"""An instruction or a preference is short, or stands at the beginning."""
_ASKS = 0.8
"""The least share of a question in what does nothing but ask: "I have a dog, where is a park?" tells something."""
_LOOKED_AT = 4_000
"""A longer text says what it is in its beginning."""


def is_question(text: str) -> bool:
    return _question_mark(_beginning(text)) is not None


def _beginning(text: str) -> str:
    """As much of a text as is looked at, with one sign for each mark."""
    text = text[:_LOOKED_AT]
    return text if text.isascii() else _greek_mark("\u037e", text)


def as_question(text: str) -> str:
    """A text that only asks, with a mark at the end of each clause."""
    return _clause_end("? ", text.rstrip()) + "?"


def question_share(text: str) -> float:
    """How much of a text asks, from 0 to 1."""
    if not is_question(text):
        return 0.0
    sentences: list[str] = _sentences(_beginning(text))
    asking = sum(len(sentence) for sentence in sentences if _question_mark(sentence))
    return asking / max(1, sum(map(len, sentences)))


def only_asks(text: str) -> bool:
    """Whether every sentence is a question, and no more than a word or two stand beside the clause that asks."""
    if not is_question(text):
        return False
    sentences: list[str] = _sentences(_beginning(text))
    if any(_any_word(sentence) and not _question_mark(sentence) for sentence in sentences):
        return False
    return mostly_asks(text)


def mostly_asks(text: str) -> bool:
    """Whether no more than a word or two stand beside the clauses that ask: a greeting, say."""
    if not is_question(text):
        return False
    asking, telling = (sum(map(len, clauses)) for clauses in asking_and_telling(text))
    return asking > _ASKS * (asking + telling)


def asking_and_telling(text: str) -> tuple[list[str], list[str]]:
    """The clauses of a text that end with a question mark, and all others. Of a long text, those of its beginning."""
    clauses: list[str] = _clauses(_beginning(text))
    asking = [clause for clause in clauses if _question_mark(clause)]
    telling = [clause for clause in clauses if not _question_mark(clause)]
    return asking, telling


def is_instruction(text: str) -> bool:
    """Whether it tells how things are to be done from now on."""
    likely = _has_word(text[:_HEAD], _INSTRUCTION_WORDS) or not text.isascii()
    return likely and _instruction(text, 0, _HEAD) is not None


def is_preference(text: str) -> bool:
    likely = "prefer" in (head := text[:_HEAD].lower()) or "rather" in head or not text.isascii()
    return likely and _preference(text, 0, _HEAD) is not None


def _has_word(text: str, words: frozenset[str]) -> bool:
    return not words.isdisjoint(_any_word(text[:_LOOKED_AT].lower()))
