"""Where memcells end: by rules, or by a model's answer. Pure: the same turns give the same cuts."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

from recollect.domain.boundary_prompt import PROMPT_TURNS
from recollect.domain.extraction.answer_json import find_object
from recollect.domain.model import Turn


@dataclass(frozen=True, slots=True)
class Cut:
    """Closes the stretch from the cut before it (or the start) up to, not including, `turns[end]`."""

    end: int
    reason: str
    """gap, topic, length, model or flush."""


@dataclass(frozen=True)
class BoundaryRules:
    """The limits that close a memcell. All are at least 1."""

    gap_ms: int = 30 * 60_000
    max_turns: int = 40
    max_chars: int = 12_000
    min_topic_turns: int = 6

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
    A cell exceeds twice `max_turns` never, and twice `max_chars` only when it is a single turn.
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

    A cut amid a tool call and its results moves behind the results, or waits while they are not all there.
    What the model holds is still cut by length, and so is a stretch of twice the limits that it closed.
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


def memcell_id(space: str, thread_id: str, message_ids: Sequence[str]) -> str:
    """The id of the memcell that holds exactly these messages, in this order, of this thread."""
    encoded = json.dumps([space, thread_id, list(message_ids)]).encode()
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


class _OpenCell:
    """The turns since the last cut."""

    def __init__(self, rules: BoundaryRules) -> None:
        self._rules = rules
        self._turns: list[Turn] = []
        self._chars = 0
        self._terms: set[str] = set()
        self._terms_unread: list[Turn] = []

    def add(self, turn: Turn) -> None:
        self._turns.append(turn)
        self._terms_unread.append(turn)
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
        if _TOPIC_MARKER.match(turn.content):
            return True
        words, pairs = _content_terms(turn.content)
        if 2 * len(words) + len(pairs) < _ENOUGH_HALF_WORDS or _is_follow_up(turn.content):
            return False
        return not self._shares_any(words | pairs)

    def _shares_any(self, terms: set[str]) -> bool:
        """Reads the newest turns first, and no more than the answer takes."""
        while self._terms.isdisjoint(terms):
            if not self._terms_unread:
                return False
            self._terms.update(*_content_terms(self._terms_unread.pop().content))
        return True


def _size(turn: Turn) -> int:
    calls = len(json.dumps(turn.tool_calls, ensure_ascii=False)) if turn.tool_calls else 0
    return len(turn.content) + calls


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


def _is_oversized(stretch: Sequence[Turn], rules: BoundaryRules) -> bool:
    return len(stretch) > 2 * rules.max_turns or sum(map(_size, stretch)) > 2 * rules.max_chars


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


# Topic shift. Scripts that put no space between words, and Korean, whose particles cling to them, are
# compared by pairs of characters; all else by words, cut to a stem.

_ENOUGH_HALF_WORDS = 6
_FOLLOW_UP_CHARS = 80
_STEM_CHARS = 5

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003134f"
)
_MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u0670\u0900-\u0963\u0966-\u0dff"
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_RUN = re.compile(rf"([{_UNSPACED}]+)|((?:[^\W_{_UNSPACED}][{_MARKS}]*)+)")
_CHINESE_STOP = frozenset(
    "的了是我你您他她它們们在有和与與也都就不这這那哪呢吗嗎吧啊呀哦嗯么麼什怎着著过過把被给給对對很还還要会會能想请請一个個"
)
_CHINESE_STOP_PAIRS = """
    可以 为何 為何 如何 多少 关于 關於 告诉 告訴 知道 觉得 覺得 帮忙 幫忙 里面 裡面 时候 時候
"""
_ENGLISH_STOP = """
    a about after again all also am an and any are as at be because been before being best better but by can
    come could day did didn do does doesn doing don each even ever every few find first for from get give go
    going good got great had has hasn have haven having he hello help her here hers hey hi him his how i if in
    into is isn it its just keep kind know last let like little ll long look lot made make many may maybe me
    mean might mine more most much must my need never new next no not now of off oh ok okay on once one only or
    other our out over own people please put quite re really right said same say see she should shouldn since so
    some someone something sorry still such sure take tell than thank thanks that the their them then there these
    they thing things think this those though through time to today too try two under until up us use using ve
    very want was wasn way we well were weren what when where which while who whom whose why will with without
    won would wouldn yeah yes yet you your
"""
_TOPIC_MARKER = re.compile(
    r"""\W* (?:(?:oh|ok|okay|so|well|anyway|anyways|对了|哦|嗯)\b\W*)?
    (?: (?: by\ the\ way | btw | (?:changing|to\ change|let'?s\ change)\ (?:the\ )?(?:subject|topic)
          | (?:change|switch)\ of\ (?:subject|topic) | on\ (?:another|a\ different)\ (?:note|subject|topic)
          | (?:new|different|another)\ (?:subject|topic) | off[\ -]topic | switching\ (?:gears|topics)
          | (?:completely\ |totally\ )?unrelated ) \b
      | 顺便 | 順便 | 换个话题 | 換個話題 | 换一个话题 | 题外话 | 題外話 | 说点别的 | 說點別的 )""",
    re.IGNORECASE | re.VERBOSE,
)
_FOLLOW_UP = re.compile(
    r"""\W* (?:
        (?: and|but|or|so|then|also|plus|why|again|same|ok|okay|yes|yeah|no|thanks|thank\ you
          | (?:what|how)\ about | what\ (?:if|else) | how\ come ) \b
      | (?: \w+\W+ ){0,3}
        (?: he|him|his|she|her|hers|it|its|they|them|their|theirs|this|that|these|those|there ) \b
      | 那|还有|還有|然后|然後|所以|但是|可是|而且|为什么|為什麼|为啥|继续|繼續|好的|谢谢|謝謝|这|這|其
      | .{0,5}(?:他|她|它|这个|這個|那个|那個|这些|這些|那些) )""",
    re.IGNORECASE | re.VERBOSE,
)


def _is_follow_up(text: str) -> bool:
    return len(text) <= _FOLLOW_UP_CHARS and _FOLLOW_UP.match(text) is not None


def _content_terms(text: str) -> tuple[set[str], set[str]]:
    """The stems of the words that carry meaning, and the character pairs of unspaced scripts."""
    if text.isascii():
        return _stems(_ASCII_WORD.findall(text.lower())), set()
    runs = _RUN.findall(unicodedata.normalize("NFKC", text).casefold())
    pairs = {
        first + second
        for unspaced, _ in runs
        for first, second in pairwise(unspaced)
        if first not in _CHINESE_STOP and second not in _CHINESE_STOP
    }
    return _stems(word for _, word in runs if word), pairs - _STOP


def _stems(words: Iterable[str]) -> set[str]:
    return {_stem(word) for word in words if len(word) > 1} - _STOP


def _stem(word: str) -> str:
    return word.removesuffix("s")[:_STEM_CHARS] if len(word) > 3 else word


_STOP = frozenset([*map(_stem, _ENGLISH_STOP.split()), *_CHINESE_STOP_PAIRS.split()])
