"""Where memcells end: by rules, or by a model's answer. Pure: the same turns give the same cuts."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from recollect.domain.extraction.answer import list_of, strict_object
from recollect.domain.extraction.answer_json import find_object
from recollect.domain.extraction.prompts import (
    PROMPT_CHARS,
    PROMPT_TURNS,
    moment_of,
    numbered_lines,
    quoted_sender,
)
from recollect.domain.llm import DATA_LINE
from recollect.domain.model import JsonObject, ThreadRef, Turn
from recollect.domain.recall.words import words_asked_for, words_in

_ENOUGH_SAID = 20
"""The least weight of a message that can start a topic: a shorter one may be a follow-up."""
_COUNTED = 1_000
"""Characters of a message that count for length and topic; longer text was probably pasted or fetched."""
_COUNTED_OF_ANSWER = 60
"""The same for an assistant's answer. Fewer: facts come from people's words, so a cell should hold many of these."""
_KNOWN_SHARE = 0.25
"""A message with a smaller share of known words starts a topic."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Closes the turns from the cut before it (or the start) up to, not including, `turns[end]`."""

    end: int
    reason: str
    """gap, topic, length, model or flush."""


@dataclass(frozen=True)
class BoundaryRules:
    """The limits that close a memcell. All are at least 1."""

    gap_ms: int = 30 * 60_000
    max_turns: int = 40
    max_chars: int = 9_000
    """As far as they count."""
    min_topic_turns: int = 16

    def __post_init__(self) -> None:
        for rule in fields(self):
            if getattr(self, rule.name) < 1:
                raise ValueError(f"{rule.name} must be at least 1")


@dataclass(frozen=True, slots=True)
class BoundaryAnswer:
    """What a model said: cut after each of these 1-based message numbers, or wait for more."""

    reasoning: str
    boundaries: list[int]
    should_wait: bool


def cuts_by_rules(turns: Sequence[Turn], rules: BoundaryRules) -> list[Cut]:
    """Cut at time gaps, topic shifts and length; what is left at the end stays open.

    A cut before a turn depends on that turn and on the turns since the last cut, on nothing else.
    So the cells are the same whether the turns come one by one, in batches or all at once.
    A cell never exceeds twice `max_turns`, and exceeds twice `max_chars` only if it is a single turn.
    """
    cuts: list[Cut] = []
    cell = _OpenCell(rules)
    for index, turn in enumerate(turns):
        if reason := cell.ends_before(turn):
            cuts.append(Cut(index, reason))
            cell = _OpenCell(rules)
        cell.add(turn)
    return cuts


def cuts_by_answer(answer: BoundaryAnswer, turns: Sequence[Turn], rules: BoundaryRules) -> list[Cut]:
    """Cut where the model said, of the turns that its prompt showed; past their end means their end.

    A cut between a tool call and its results moves behind the results, or waits until all have arrived.
    What the model holds is still cut by length, and so is a cell of twice the limits that it closed.
    """
    cuts: list[Cut] = []
    start = 0
    for end in _answered_ends(answer, turns):
        if _is_oversized(turns[start:end], rules):
            cuts += _length_cuts(turns, start, end, rules)
        cuts.append(Cut(end, "model"))
        start = end
    return cuts + _length_cuts(turns, start, len(turns), rules)


def close_all(turns: Sequence[Turn], cuts: Sequence[Cut], reason: str = "flush") -> list[Cut]:
    """The given cuts, and one more, for this reason, for the turns that they leave open, if any."""
    closed = cuts[-1].end if cuts else 0
    return [*cuts, Cut(len(turns), reason)] if closed < len(turns) else list(cuts)


def memcell_id(thread: ThreadRef, message_ids: Sequence[str]) -> str:
    """The id of the memcell that holds exactly these messages, in this order, of this thread."""
    encoded = json.dumps([*thread, list(message_ids)]).encode()
    return f"c-{hashlib.sha256(encoded).hexdigest()[:12]}"


def parse_answer(text: str) -> BoundaryAnswer:
    """Read the JSON object in an answer.

    Raises ValueError when there is none or a field is missing or of the wrong type; the message names the
    field and never quotes the text. Fields that were not asked for are ignored.
    """
    found = find_object(text, _ANSWER_FIELDS)
    if found.cut_off_in is not None:
        raise ValueError("the answer is cut off")
    answer = found.value
    for name, (kind, is_valid) in _ANSWER_FIELDS.items():
        if name not in answer:
            raise ValueError(f"the answer has no field {name!r}")
        if not is_valid(answer[name]):
            raise ValueError(f"{name!r} is not {kind}")
    reasoning = answer["reasoning"].encode("utf-8", "replace").decode()
    return BoundaryAnswer(reasoning, answer["boundaries"], answer["should_wait"])


# Bounded: a very small model finds no end by itself, and a sentence is all that is wanted.
ANSWER_SCHEMA = strict_object(
    reasoning={"type": "string", "maxLength": 200},
    boundaries=list_of({"type": "integer"}, PROMPT_TURNS),
    should_wait={"type": "boolean"},
)
_INSTRUCTIONS = """\
You divide a conversation into episodes: stretches of messages about one matter.
The messages are numbered from 1. Name the number of each message that ends an episode: the last message \
before the talk turns to another matter or starts again after a long pause.
A question and its answer, and a tool call and its results, belong to one episode. A follow-up question is \
not a new matter. If in doubt, do not divide.
Do not end an episode at the last message unless its matter is plainly finished. If you cannot tell yet, \
set should_wait to true and leave boundaries empty.
Answer with one JSON object and nothing else:
{"reasoning": "one short sentence", "boundaries": [message numbers], "should_wait": true or false}"""


def boundary_prompt(turns: Sequence[Turn]) -> list[JsonObject]:
    """The messages to send: the task, and the first `PROMPT_TURNS` turns, quoted one to a line.

    Taken together they hold `PROMPT_CHARS` characters at most; long turns are cut short before short ones.
    """
    lines = numbered_lines(turns, PROMPT_CHARS - len(_INSTRUCTIONS) - len(DATA_LINE), _head)
    return [
        {"role": "system", "content": _INSTRUCTIONS},
        {"role": "user", "content": "\n".join([DATA_LINE, *lines])},
    ]


def _head(number: int, turn: Turn) -> str:
    return f"[{number}] {moment_of(turn.timestamp):%Y-%m-%dT%H:%M:%SZ} {quoted_sender(turn)}"


class _OpenCell:
    """The turns since the last cut."""

    def __init__(self, rules: BoundaryRules) -> None:
        self._rules = rules
        self._turns: list[Turn] = []
        self._chars = 0
        self._words: set[str] = set()
        self._words_unread: list[Turn] = []

    def add(self, turn: Turn) -> None:
        self._turns.append(turn)
        self._words_unread.append(turn)
        self._chars += _size(turn)

    def ends_before(self, turn: Turn) -> str | None:
        """Why the cell must be closed before this turn is added; None when the turn belongs to it."""
        if not self._turns:
            return None
        last = self._turns[-1]
        if turn.timestamp - last.timestamp >= self._rules.gap_ms and not _continues_call(last, turn):
            return "gap"
        if self.is_full_for(turn):
            return "length"
        return "topic" if self._is_left_by(turn) else None

    def is_full_for(self, turn: Turn) -> bool:
        """True when the turn would exceed the limits; for the results of a tool call they are doubled."""
        if not self._turns:
            return False
        room = 2 if _continues_call(self._turns[-1], turn) else 1
        return (
            len(self._turns) >= room * self._rules.max_turns
            or self._chars + _size(turn) > room * self._rules.max_chars
        )

    def _is_left_by(self, turn: Turn) -> bool:
        if turn.role != "user" or len(self._turns) < self._rules.min_topic_turns:
            return False
        weights = {word: _weight(word) for word in words_asked_for(turn.content[:_COUNTED])}
        said = sum(weights.values())
        if said < _ENOUGH_SAID:
            return False
        while self._words_unread:
            self._words.update(words_in(self._words_unread.pop().content[:_COUNTED]))
        known = sum(weight for word, weight in weights.items() if word in self._words)
        return known < _KNOWN_SHARE * said


def _weight(word: str) -> int:
    """Long words tell topics apart; short ones stand in every text, whatever the language."""
    return max(1, len(word) - 2)


def _size(turn: Turn) -> int:
    """How many characters of a turn count."""
    calls = len(json.dumps(turn.tool_calls, ensure_ascii=False)) if turn.tool_calls else 0
    content = min(len(turn.content), _COUNTED_OF_ANSWER if turn.role == "assistant" else _COUNTED)
    return content + min(calls, _COUNTED)


def _continues_call(last: Turn, turn: Turn) -> bool:
    """True when the turn is a tool's result that follows its call or another result."""
    return turn.role == "tool" and (last.role == "tool" or bool(last.tool_calls))


def _answered_ends(answer: BoundaryAnswer, turns: Sequence[Turn]) -> list[int]:
    if answer.should_wait:
        return []
    shown = min(len(turns), PROMPT_TURNS)
    ends = {_behind_results(turns, min(number, shown)) for number in answer.boundaries}
    return sorted(end for end in ends if end > 0 and not (end == len(turns) and _awaits_results(turns)))


def _behind_results(turns: Sequence[Turn], end: int) -> int:
    while 0 < end < len(turns) and _continues_call(turns[end - 1], turns[end]):
        end += 1
    return end


def _awaits_results(turns: Sequence[Turn]) -> bool:
    """True when the last turns are a tool call and fewer results than it asked for."""
    caller = len(turns) - 1
    while caller > 0 and turns[caller].role == "tool":
        caller -= 1
    return len(turns) - 1 - caller < len(turns[caller].tool_calls or ())


def _is_oversized(turns: Sequence[Turn], rules: BoundaryRules) -> bool:
    return len(turns) > 2 * rules.max_turns or sum(map(_size, turns)) > 2 * rules.max_chars


def _length_cuts(turns: Sequence[Turn], start: int, end: int, rules: BoundaryRules) -> list[Cut]:
    cuts: list[Cut] = []
    cell = _OpenCell(rules)
    for index in range(start, end):
        if cell.is_full_for(turns[index]):
            cuts.append(Cut(index, "length"))
            cell = _OpenCell(rules)
        cell.add(turns[index])
    return cuts


def _are_integers(value: object) -> bool:
    return isinstance(value, list) and all(type(number) is int for number in value)


_ANSWER_FIELDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "reasoning": ("a string", lambda value: isinstance(value, str)),
    "boundaries": ("a list of integers", _are_integers),
    "should_wait": ("true or false", lambda value: isinstance(value, bool)),
}
