"""An episode without a model: the sentences of a cell that tell the most, with who said them and when."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recollect.domain.extraction.corrections import Sentence
from recollect.domain.extraction.draft import CellText, Draft
from recollect.domain.extraction.earnest import asks_in_chinese, is_attack, supposes
from recollect.domain.extraction.moments import day_in, moment_text, moments_in
from recollect.domain.extraction.own_words import OMITTED

_MOST_SENTENCES = 4
_LONGEST_SENTENCE = 280
_LONGEST_TITLE = 80
_FEWEST_WORDS = 3
_FEWEST_CHARACTERS = 5
_WORTH_KEEPING = 1.0
_greeting = re.compile(
    r"(?:hi|hey|hello|good (?:morning|evening|afternoon|night)|thanks?|thank you|thx|cheers|bye|goodbye|see you"
    r"|talk (?:to you )?(?:soon|later)"
    r"|ok|okay|sure|great|nice|cool|wow|yes|no|yeah|perfect|lol|haha+|how are you|how have you been|long time no see"
    r"|welcome|you're welcome|take care|no problem"
    r"|你好|您好|谢谢|謝謝|再见|再見|好的|嗯|哈哈|早上好|晚安|好久不见|不客气)\b.{0,40}$",
    re.IGNORECASE,
).match
_decides = re.compile(
    r"\b(?:decided|bought|booked|agreed|will|plan|planning|going to|moved|started|finished|got|won|lost|married|born"
    r"|adopted|quit|joined|met|went|deadline|because)\b|决定|決定|买|打算|计划|要|去",
    re.IGNORECASE,
).search
_own = re.compile(r"\b(?:I|I'm|I've|my|we|our)\b|我").search
_name = re.compile(r"(?<=[\w,;] )[A-Z][a-z]{2,}").search
_digit = re.compile(r"\d").search
_words = re.compile(r"\w+").findall
_han = re.compile(r"[\u3041-\u30ff\u4e00-\u9fff]").findall


@dataclass(frozen=True, slots=True)
class _Telling:
    turn_ids: tuple[str, ...]
    speaker: str
    text: str
    at: int
    weight: float


def episode_of(cell: CellText, said: Sequence[tuple[str, Sentence]], drafts: Sequence[Draft]) -> Draft | None:
    """What people said in this cell, in a few of their own sentences, given with who says them.

    None where none of them tells anything.
    """
    tellings = list(_tellings(said, cell.time_zone))
    chosen = sorted(sorted(range(len(tellings)), key=lambda n: (-tellings[n].weight, n))[:_MOST_SENTENCES])
    best = [tellings[n] for n in chosen if tellings[n].weight >= _WORTH_KEEPING]
    if not best:
        return None
    when = best[0].at
    lines = [f"{day_in(when, cell.time_zone)}."]
    lines += [f"{telling.speaker}: {_dated(telling, cell.time_zone)}" for telling in best]
    turns = tuple(dict.fromkeys(turn for telling in best for turn in telling.turn_ids))
    return Draft("episodes", _title(best, drafts), "\n".join(lines), when, turns)


def _tellings(said: Sequence[tuple[str, Sentence]], time_zone: str) -> Iterator[_Telling]:
    seen: set[str] = set()
    for speaker, sentence in said:
        text = sentence.text.replace(OMITTED, "…").strip()
        if text.casefold() not in seen:
            seen.add(text.casefold())
            weight = _weight(text, sentence.at, time_zone)
            yield _Telling(sentence.turn_ids, speaker, text, sentence.at, weight)


def _weight(text: str, at: int, time_zone: str) -> float:
    """How much a sentence tells; below 1 it is not worth keeping."""
    words, characters = len(_words(text)), len(_han(text))
    if (words < _FEWEST_WORDS and characters < _FEWEST_CHARACTERS) or _greeting(text):
        return 0.0
    weight = 1.0 + min(words + characters, 20) / 20
    weight += 2.0 * bool(moments_in(text, at, time_zone))
    weight += 1.0 * bool(_digit(text)) + 1.0 * bool(_name(text))
    weight += 1.0 * bool(_own(text)) + 1.0 * bool(_decides(text))
    if text.rstrip().endswith(("?", "？")) or (characters and asks_in_chinese(text)):  # noqa: RUF001
        weight -= 1.5 if weight > 3 else 1.0
        weight = max(weight, _WORTH_KEEPING)
    if supposes(text):
        weight = max(weight - 2, _WORTH_KEEPING)
    return weight / 3 if is_attack(text) else weight


def _dated(telling: _Telling, time_zone: str) -> str:
    """The sentence, with the date behind each word that only those present understand."""
    text = telling.text
    if len(text) > _LONGEST_SENTENCE:
        text = text[:_LONGEST_SENTENCE].rstrip() + "…"
    pieces, at = [], 0
    for moment in moments_in(text, telling.at, time_zone, leaning="past" if _is_told(text) else "future"):
        phrase = text[moment.start : moment.stop]
        pieces.append(text[at : moment.stop])
        if str(moment.stretch.first.year) not in phrase:
            pieces.append(f" ({_bare(moment_text(moment, phrase))})")
        at = moment.stop
    return "".join(pieces) + text[at:]


_was = re.compile(r"\b(?:was|were|went|had|did|got|met|saw|took|made|came|bought|\w{2,}ed)\b|了|过|過").search
_preposition = re.compile(r"^(?:on|in)\s+").sub


def _is_told(text: str) -> bool:
    return _was(text) is not None


def _bare(date: str) -> str:
    return _preposition("", date)


def _title(best: Sequence[_Telling], drafts: Sequence[Draft]) -> str:
    """The first dated statement, else the first one, else the sentence that tells the most."""
    turns = {turn for telling in best for turn in telling.turn_ids}
    cited = [draft for draft in drafts if turns.intersection(draft.turn_ids)]
    dated = [draft for draft in cited if draft.attribute == "did" or draft.about]
    for draft in (*dated, *cited):
        if len(draft.text) <= _LONGEST_TITLE:
            return _line(draft.text)
    most = max(best, key=lambda telling: telling.weight)
    return _line(f"{most.speaker}: {most.text}")


def _line(text: str) -> str:
    if len(text) > _LONGEST_TITLE:
        cut = text[: _LONGEST_TITLE - 1]
        space = cut.rfind(" ")
        text = (cut[:space] if space > _LONGEST_TITLE // 2 else cut) + "…"
    return text.rstrip(" .!?,;:。！？，；：")  # noqa: RUF001 - Chinese punctuation
