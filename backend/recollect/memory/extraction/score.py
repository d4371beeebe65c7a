"""How good an extraction is: drafts held against dialogues of which it is written down what they say."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from recollect.memory.extraction.draft import CellText, Draft, Extraction
from recollect.memory.extraction.local_days import local_day
from recollect.memory.model import Turn
from recollect.memory.words import words_in


@dataclass(frozen=True, slots=True)
class Expected:
    """A fact or a plan that a dialogue holds. Any of the `values` says it; an optional one may be left out."""

    subject: str
    values: tuple[str, ...]
    attribute: str = ""
    """Of a fact; of a plan, empty."""
    days: tuple[tuple[date, date], ...] = ()
    """Of a plan: from which day to which, any of these."""
    optional: bool = False


@dataclass(frozen=True, slots=True)
class LabelledDialogue:
    """A conversation, what should come out of it, and what must not."""

    dialogue_id: str
    language: str
    held_out: bool
    """Whether the rules were written without looking at it."""
    cell: CellText
    expected: tuple[Expected, ...]
    never: tuple[str, ...]
    """Words that no fact or plan holds together."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One draft, and whether the dialogue says so."""

    dialogue_id: str
    draft: Draft
    is_right: bool


@dataclass(frozen=True, slots=True)
class ExtractionScore:
    """Facts and plans together."""

    judged: tuple[Judged, ...]
    wanted: int
    found: int
    missed: tuple[tuple[str, Expected], ...]
    """With the id of the dialogue."""

    @property
    def right(self) -> int:
        return sum(each.is_right for each in self.judged)

    @property
    def precision(self) -> float:
        """The share of what came out that is right; 1 where nothing came out."""
        return self.right / len(self.judged) if self.judged else 1.0

    @property
    def recall(self) -> float:
        """The share of what should come out that did."""
        return self.found / self.wanted if self.wanted else 1.0


def read_dialogues(lines: str) -> tuple[LabelledDialogue, ...]:
    """One dialogue of each line of JSON."""
    return tuple(_dialogue(json.loads(line)) for line in lines.splitlines() if line.strip())


def score(dialogues: Iterable[LabelledDialogue], extractions: Mapping[str, Extraction]) -> ExtractionScore:
    """How right and how complete the extractions are, given by dialogue id. A dialogue without one gave nothing."""
    judged: list[Judged] = []
    missed: list[tuple[str, Expected]] = []
    wanted = found = 0
    for dialogue in dialogues:
        extraction = extractions.get(dialogue.dialogue_id, Extraction())
        drafts = [*extraction.of("facts"), *extraction.of("foresight")]
        judged += [Judged(dialogue.dialogue_id, draft, _is_right(draft, dialogue)) for draft in drafts]
        for expected in dialogue.expected:
            if expected.optional:
                continue
            wanted += 1
            if any(_says(draft, expected, dialogue) for draft in drafts):
                found += 1
            else:
                missed.append((dialogue.dialogue_id, expected))
    return ExtractionScore(tuple(judged), wanted, found, tuple(missed))


def _is_right(draft: Draft, dialogue: LabelledDialogue) -> bool:
    said = _words(f"{draft.subject} {draft.text}")
    if any(_words(never) <= said for never in dialogue.never):
        return False
    return any(_says(draft, expected, dialogue) for expected in dialogue.expected)


def _says(draft: Draft, expected: Expected, dialogue: LabelledDialogue) -> bool:
    if (draft.kind == "foresight") != bool(expected.days):
        return False
    if not _words(expected.subject) <= _words(f"{draft.subject} {draft.text}"):
        return False
    if expected.days and not _is_about(draft, expected.days, dialogue.cell.time_zone):
        return False
    said = _words(f"{draft.text} {draft.value}")
    return any(_words(value) <= said for value in expected.values)


def _is_about(draft: Draft, days: Sequence[tuple[date, date]], time_zone: str) -> bool:
    """Whether the plan's time begins on such a day and ends by its last."""
    if draft.about is None:
        return False
    first, last = (local_day(instant, time_zone) for instant in (draft.about[0], draft.about[1] - 1))
    return any(begin <= first <= end and last <= end for begin, end in days)


def _words(text: str) -> frozenset[str]:
    return frozenset(words_in(text))


def _dialogue(line: Mapping[str, Any]) -> LabelledDialogue:
    turns = tuple(_turn(place, turn) for place, turn in enumerate(line["turns"], 1))
    cell = CellText(
        memcell_id=line["id"],
        user_id=line["user_id"],
        turns=turns,
        user_name=line["user_name"],
        time_zone=line["time_zone"],
    )
    expected = [_expected(each) for each in (*line["facts"], *line["plans"])]
    return LabelledDialogue(
        line["id"], line["language"], line["held_out"], cell, tuple(expected), tuple(line["never"])
    )


def _turn(place: int, turn: Mapping[str, Any]) -> Turn:
    at = datetime.fromisoformat(turn["at"])
    if at.tzinfo is None:
        raise ValueError(f"turn {place} has a time without a zone")
    instant = int(at.timestamp() * 1000)
    return Turn(f"t-{place}", f"m-{place}", turn["role"], turn["sender"], turn["content"], instant)


def _expected(label: Mapping[str, Any]) -> Expected:
    days = tuple(
        (date.fromisoformat(first), date.fromisoformat(last)) for first, last in label.get("days", ())
    )
    return Expected(
        label["subject"],
        tuple(label["value"]),
        label.get("attribute", ""),
        days,
        optional=label.get("optional", False),
    )
