"""What a text is, besides what it says: a question, a standing instruction, something about a time or a number."""

import re

_question_mark = re.compile(r"[?\uff1f\u061f\u2047]").search
_sentences = re.compile(r"[^.!?\u3002\uff01\uff1f\u061f]+[.!?\u3002\uff01\uff1f\u061f]*").findall
_instruction = re.compile(
    r"(?:^|[.!?\n:;]\s*)(?:please\s+)?(?:always|never(?! mind))\s+\w+|\bfrom now on\b|\bplease remember\b"
    r"|\b(?:when(?:ever)?|any ?time|every time|each time|if) i ask\b|\bin (?:the )?future,"
    r"|总是|一直要|从现在起|以后都|いつも|今後は",
    re.IGNORECASE,
).search
_preference = re.compile(r"\b(?:prefer\w*|rather than|i'd rather)\b|更喜欢|宁愿", re.IGNORECASE).search
_words = re.compile(r"\w+").findall
# Looked up word by word: one pattern of all of them is tried at every letter, which takes three times as long.
_TIME_WORDS = frozenset(
    (  # noqa: SIM905 - thirty lines of one word each say no more
        "yesterday today tonight tomorrow ago last next week weekend month year recently just monday tuesday wednesday "
        "thursday friday saturday sunday january february march april june july august september october november "
        "december day days since soon"
    ).split()
)
_NUMBER_WORDS = frozenset(
    "one two three four five six seven eight nine ten once twice couple dozen".split()  # noqa: SIM905
)
_INSTRUCTION_WORDS = frozenset(["always", "never", "now", "remember", "ask", "future"])
_year_or_day = re.compile(r"20\d\d\b(?<=\b\d{4})|[昨今明]天|[上下]周|[去明]年").search
_number = re.compile(r"[\d一二两三四五六七八九十]").search
_HEAD = 400
"""An instruction or a preference is short, or stands at the beginning."""
_LOOKED_AT = 4_000
"""A longer text says what it is in its beginning."""


def is_question(text: str) -> bool:
    return _question_mark(text, 0, _LOOKED_AT) is not None


def question_share(text: str) -> float:
    """How much of a text asks, from 0 to 1."""
    if not is_question(text):
        return 0.0
    sentences: list[str] = _sentences(text[:_LOOKED_AT])
    asking = sum(len(sentence) for sentence in sentences if _question_mark(sentence))
    return asking / max(1, sum(map(len, sentences)))


def is_instruction(text: str) -> bool:
    """Whether it tells how things are to be done from now on."""
    likely = _has_word(text[:_HEAD], _INSTRUCTION_WORDS) or not text.isascii()
    return likely and _instruction(text, 0, _HEAD) is not None


def is_preference(text: str) -> bool:
    likely = "prefer" in (head := text[:_HEAD].lower()) or "rather" in head or not text.isascii()
    return likely and _preference(text, 0, _HEAD) is not None


def tells_time(text: str) -> bool:
    return _has_word(text, _TIME_WORDS) or _year_or_day(text, 0, _LOOKED_AT) is not None


def tells_number(text: str) -> bool:
    return _number(text, 0, _LOOKED_AT) is not None or _has_word(text, _NUMBER_WORDS)


def _has_word(text: str, words: frozenset[str]) -> bool:
    return not words.isdisjoint(_words(text[:_LOOKED_AT].lower()))
