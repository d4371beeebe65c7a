"""Slips of the tongue: "on Friday. No wait, I mean Saturday" says Saturday."""

import re
from dataclasses import dataclass

from recollect.domain.extraction.earnest import takes_back
from recollect.domain.extraction.moments import moments_in

_mark = re.compile(
    r"[\s,，.。;:–—-]*(?:\b(?:oh\s+)?(?:oops|sorry|no,? wait|wait,? no|scratch that|correction|my mistake|i misspoke"  # noqa: RUF001
    r"|actually no|let me correct that)\b[\s,.:–—-]*)*"  # noqa: RUF001
    r"(?:\bi mean(?:t)?\b(?: to say)?|\bmake that\b|不对|不對|说错了|說錯了|我的意思是|更正|口误|口誤)?[\s,，:]*(?:应该是|應該是|是)?",  # noqa: RUF001
    re.IGNORECASE,
)
_marker = re.compile(
    r"\b(?:oops|no,? wait|wait,? no|scratch that|correction|sorry,? i mean|i meant|i mean(?= (?:\d|[A-Z]))"
    r"|my mistake|i misspoke|let me correct)\b"
    r"|不对[，,]|不對[，,]|说错了|說錯了|更正|口误|口誤",  # noqa: RUF001
    re.IGNORECASE,
).search
_capitalised = re.compile(r"[A-Z][\w'-]{1,30}(?:\s[A-Z][\w'-]{1,30}){0,3}")
_number = re.compile(r"\d[\d.,]{0,10}")
_states = re.compile(r"(?:I|I'm|I've|my|My|we|We)\b|我").match


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, the turns that say it, and when it was said."""

    text: str
    turn_ids: tuple[str, ...]
    at: int


def corrected(sentences: list[Sentence], time_zone: str) -> list[Sentence]:
    """The sentences of one person, with what they took back replaced by what they meant; or gone, where that is open."""
    kept: list[Sentence] = []
    for sentence in sentences:
        if not takes_back(sentence.text):
            kept.append(sentence)
            continue
        found = _marker(sentence.text)
        if found is None:
            kept.append(sentence)
            continue
        before = sentence.text[: found.start()].rstrip(" ,，.–—-;")  # noqa: RUF001
        meant_at = _mark.match(sentence.text, found.start())
        meant = sentence.text[meant_at.end() if meant_at else found.end() :].strip()
        if before and not _is_filler(before):
            kept.append(Sentence(before, sentence.turn_ids, sentence.at))
        kept += _mended(kept, Sentence(meant, sentence.turn_ids, sentence.at), time_zone)
    return kept


def _mended(kept: list[Sentence], meant: Sentence, time_zone: str) -> list[Sentence]:
    """Takes the last sentence off the list, and gives what is to stand for it."""
    wrong = kept.pop() if kept else None
    if not meant.text:
        return []
    if wrong is None or _states(meant.text):
        return [meant]
    mended = _replaced(wrong, meant, time_zone)
    if mended is None:
        return [meant]
    turns = tuple(dict.fromkeys((*wrong.turn_ids, *meant.turn_ids)))
    return [Sentence(mended, turns, wrong.at)]


def _replaced(wrong: Sentence, meant: Sentence, time_zone: str) -> str | None:
    wrong_times = moments_in(wrong.text, wrong.at, time_zone)
    right_times = moments_in(meant.text, meant.at, time_zone)
    if wrong_times and right_times:
        last, right = wrong_times[-1], right_times[0]
        return wrong.text[: last.start] + meant.text[right.start : right.stop] + wrong.text[last.stop :]
    for pattern in (_capitalised, _number):
        right_words = pattern.match(meant.text)
        wrong_words = [found for found in pattern.finditer(wrong.text) if found.start() > 0]
        if right_words and wrong_words:
            last_words = wrong_words[-1]
            return wrong.text[: last_words.start()] + right_words[0] + wrong.text[last_words.end() :]
    return None


def _is_filler(text: str) -> bool:
    return len(text.split()) <= 2 and text.isascii()
