"""An episode without a model: the sentences of a memcell that tell the most, with who said them and when.

A sentence tells the more, the more different words it has. That holds in every language; what a sentence means is a
model's business, so without one there are no facts and no plans.
"""

import re
from dataclasses import dataclass

from recollect.domain.extraction.answer import cut_at_sentence, plain_line
from recollect.domain.extraction.draft import CellText, Draft, Extraction
from recollect.domain.extraction.prompts import day_of
from recollect.domain.recall.words import is_question, words_in

_MOST_SENTENCES = 4
_LONGEST_SENTENCE = 280
_LONGEST_TITLE = 80
_LOOKED_AT = 4_000
"""Characters of a message: what is longer is a document."""
_FEWEST_WORDS = 4
_MANY_WORDS = 20
_not_said = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|^[ \t]*>.*$", re.DOTALL | re.MULTILINE).sub
"""Code, and lines that quote somebody else."""
_sentences = re.compile(r"(?:[^.!?…。！？\n]|(?<=\d)\.|[.!?](?=\S))+[.!?…。！？]*").findall  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class _Sentence:
    turn_id: str
    speaker: str
    text: str
    at: int
    weight: float


def extract_without_model(cell: CellText) -> Extraction:
    """The cell's most telling sentences as its episode; nothing where no sentence tells anything."""
    told = _told(cell)
    best = sorted(range(len(told)), key=lambda place: (-told[place].weight, place))[:_MOST_SENTENCES]
    chosen = [told[place] for place in sorted(best)]
    if not chosen:
        return Extraction()
    when = chosen[0].at
    lines = [f"{day_of(when, cell.time_zone).isoformat()}."]
    lines += [f"{each.speaker}: {cut_at_sentence(each.text, _LONGEST_SENTENCE)}" for each in chosen]
    first = max(chosen, key=lambda each: each.weight)
    title = cut_at_sentence(f"{first.speaker}: {first.text}", _LONGEST_TITLE).rstrip(".。")
    turn_ids = tuple(dict.fromkeys(each.turn_id for each in chosen))
    return Extraction((Draft("episodes", title, "\n".join(lines), when, turn_ids),))


def _told(cell: CellText) -> list[_Sentence]:
    """What people said, each sentence once."""
    found: dict[str, _Sentence] = {}
    for turn in cell.turns:
        if turn.role != "user":
            continue
        name = cell.user_name.strip() if turn.sender_id == cell.user_id else ""
        for sentence in _sentences(_not_said("\n", turn.content[:_LOOKED_AT])):
            text = plain_line(sentence)
            weight = _weight(text)
            if weight > 0:
                new = _Sentence(turn.turn_id, name or turn.sender_id, text, turn.timestamp, weight)
                found.setdefault(text.casefold(), new)
    return list(found.values())


def _weight(text: str) -> float:
    """How much a sentence tells; 0 where that is nothing. A question tells less than an answer."""
    words = len(set(words_in(text)))
    if words < _FEWEST_WORDS:
        return 0.0
    return min(words, _MANY_WORDS) / (2 if is_question(text[-1:]) else 1)
