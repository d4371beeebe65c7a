"""Answers while they stream: any number of clients follow one, from its beginning or from where they left off."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from recollect.domain.chat import Accepted, AnswerText
from recollect.domain.llm import Delta, Finished
from recollect.domain.model import JsonObject, Thread, ThreadRef, Turn
from recollect.errors import RecollectError

KEPT = 256
"""How many finished answers are kept for late followers; older ones are read from the journal."""

PING_SECONDS = 15.0

Key = tuple[ThreadRef, str]
"""The thread and the answer's message id: turn ids start over where a thread's id is used again."""


def key_of(thread: Thread, answer: Turn) -> Key:
    return thread.ref, answer.message_id


@dataclass(frozen=True, slots=True)
class Offset:
    """How much of an answer somebody has, in characters: the same whether it is still live or in the journal."""

    reasoning: int = 0
    text: int = 0

    def __add__(self, delta: Delta) -> "Offset":
        return Offset(self.reasoning + len(delta.reasoning), self.text + len(delta.text))


@dataclass(slots=True)
class Growing:
    """One choice of an answer as it comes in."""

    reasoning: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    calls: dict[int, JsonObject] = field(default_factory=dict)
    logprobs: list[JsonObject] = field(default_factory=list)
    """Kept until nobody listens any more."""

    def add(self, delta: Delta) -> None:
        self.logprobs += delta.logprobs
        self.reasoning += [delta.reasoning] if delta.reasoning else []
        self.text += [delta.text] if delta.text else []
        for fragment in delta.tool_calls:
            self._add_call(fragment)

    def _add_call(self, fragment: JsonObject) -> None:
        """Fragments of one call share their `index`; name and arguments come in pieces."""
        index = int(fragment.get("index", len(self.calls)))
        call = self.calls.setdefault(
            index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        )
        call["id"] = fragment.get("id") or call["id"]
        call["type"] = fragment.get("type") or call["type"]
        if "extra_content" in fragment:
            call["extra_content"] = fragment["extra_content"]
        given = fragment.get("function") or {}
        function = call["function"]
        call["function"] = {
            "name": function["name"] + (given.get("name") or ""),
            "arguments": function["arguments"] + (given.get("arguments") or ""),
        }

    @property
    def answer(self) -> AnswerText:
        calls = tuple(self.calls[index] for index in sorted(self.calls))
        return AnswerText("".join(self.text), "".join(self.reasoning), calls)


class LiveTurn:
    """One request and its answer. Ends with `ended`: complete, or with an error in words."""

    def __init__(self, accepted: Accepted, asked: bytes = b"") -> None:
        self.accepted = accepted
        self.asked = asked
        """Digest of the request: the same one sent again may join."""
        self.turn: Turn = accepted.answer
        """The answer's turn; as it was stored, once it has ended."""
        self.choices = [Growing() for _ in accepted.answers]
        self.deltas: list[Delta] = []
        self.finished: Finished | None = None
        self.error: RecollectError | None = None
        self.receipt: JsonObject = {}
        self.stop_reason: str | None = None
        self.listeners = 0
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._alone_since = time.monotonic()
        self._when_stopped: Callable[[], None] | None = None
        self._begun = asyncio.Event()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    @property
    def has_begun(self) -> bool:
        """Its turns have their place in the thread."""
        return self._begun.is_set()

    @property
    def key(self) -> Key:
        return key_of(self.accepted.thread, self.accepted.answer)

    def add(self, delta: Delta) -> None:
        self.choices[delta.choice].add(delta)
        self.deltas.append(delta)
        self._wake()

    def begun(self, receipt: JsonObject) -> None:
        """The prompt is on its way."""
        self.receipt = receipt
        self._begun.set()
        self._wake()

    def replay(self, turn: Turn, receipt: JsonObject) -> None:
        """An answer that ended before."""
        for piece in _pieces(AnswerText(turn.content, turn.reasoning or "", tuple(turn.tool_calls or ()))):
            self.add(piece)
        self.end(turn, receipt)

    def end(self, turn: Turn, receipt: JsonObject, error: RecollectError | None = None) -> None:
        self.turn, self.receipt, self.error = turn, receipt, error
        self._ended.set()
        self._begun.set()
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def stop(self, reason: str) -> None:
        """Whether it streams already or still waits for its turn."""
        self.stop_reason = self.stop_reason or reason
        if self._when_stopped is not None:
            self._when_stopped()

    def when_stopped(self, act: Callable[[], None] | None) -> None:
        """Set what stops the answer; None: nothing is left to stop. Called at once if it was stopped already."""
        self._when_stopped = act
        if act is not None and self.stop_reason is not None:
            act()

    def shrink(self) -> None:
        """It has ended and nobody follows it now: keep each choice in one piece."""
        whole: list[Delta] = []
        for number, choice in enumerate(self.choices):
            answer = choice.answer
            choice.text, choice.reasoning, choice.logprobs = [answer.content], [answer.reasoning], []
            whole += _pieces(answer, number)
        self.deltas = whole

    def in_stored_order(self) -> list[Growing]:
        """Choice 0 is the turn that the thread goes on with: it comes last."""
        return [*self.choices[1:], self.choices[0]]

    async def wait(self) -> None:
        """Until it has ended. Who waits counts as listening."""
        with self.heard():
            await self._ended.wait()

    async def follow(self, after: Offset | None = None) -> AsyncGenerator[list[Delta]]:
        """The pieces of every choice from there on, as many at a time as have come; returns when the answer has ended.

        None, where nothing came for a while: whoever passes it on can tell that the line is alive.
        """
        with self.heard():
            place, reached = 0, Offset()
            while True:
                come, place = self.deltas[place:], len(self.deltas)
                new, reached = _beyond(after or Offset(), come, reached)
                if new:
                    yield new
                elif self.has_ended:
                    return
                elif not await self._something_new():
                    yield []

    async def _something_new(self) -> bool:
        """Waits for it; False when nothing came for a while."""
        changed = self._changed
        try:
            async with asyncio.timeout(PING_SECONDS):
                await changed.wait()
        except TimeoutError:
            return False
        return True

    @contextmanager
    def heard(self) -> Iterator[None]:
        """The caller counts as a listener inside the block."""
        self._count(+1)
        try:
            yield
        finally:
            self._count(-1)

    def seconds_alone(self) -> float:
        """How long nobody has listened."""
        return 0.0 if self.listeners else time.monotonic() - self._alone_since

    def _count(self, change: int) -> None:
        self.listeners += change
        self._alone_since = time.monotonic()
        if self.has_ended and not self.listeners:
            self.shrink()


def _pieces(answer: AnswerText, choice: int = 0) -> tuple[Delta, Delta]:
    """A whole answer as if it had come in two pieces."""
    calls = tuple({"index": place, **call} for place, call in enumerate(answer.tool_calls))
    return Delta(reasoning=answer.reasoning, choice=choice), Delta(
        answer.content, tool_calls=calls, choice=choice
    )


def _beyond(after: Offset, deltas: Sequence[Delta], reached: Offset) -> tuple[list[Delta], Offset]:
    """The part of these pieces beyond what a follower has of choice 0, and the position they reach."""
    new = []
    for delta in deltas:
        rest = delta
        if delta.choice == 0:
            before, reached = reached, reached + delta
            rest = _rest(delta, before, after)
        if rest.text or rest.reasoning or rest.tool_calls or rest.logprobs:
            new.append(rest)
    return new, reached


def _rest(delta: Delta, before: Offset, after: Offset) -> Delta:
    """The part of a piece beyond `after`."""
    return Delta(
        text=delta.text[max(0, after.text - before.text) :],
        reasoning=delta.reasoning[max(0, after.reasoning - before.reasoning) :],
        tool_calls=delta.tool_calls,
        choice=delta.choice,
        logprobs=delta.logprobs,
    )


class LiveTurns:
    """The answers that stream now, and those that ended last."""

    def __init__(self) -> None:
        self._live: dict[Key, LiveTurn] = {}
        self._ended: OrderedDict[Key, LiveTurn] = OrderedDict()

    def add(self, live: LiveTurn) -> None:
        self._live[live.key] = live

    def ended(self, live: LiveTurn) -> None:
        if self._live.pop(live.key, None) is not live:
            return  # Its thread is forgotten: nobody may follow it any more.
        self._ended[live.key] = live
        if not live.listeners:
            live.shrink()
        while len(self._ended) > KEPT:
            self._ended.popitem(last=False)

    def get(self, thread: Thread, answer: Turn) -> LiveTurn | None:
        key = key_of(thread, answer)
        return self._live.get(key) or self._ended.get(key)

    def is_any_running(self, thread: ThreadRef) -> bool:
        return any(each == thread for each, _ in self._live)

    def running(self, thread: Thread) -> list[LiveTurn]:
        """A thread's answers under way, in the order in which they were asked for."""
        return [live for (each, _), live in self._live.items() if each == thread.ref]

    def all(self) -> list[LiveTurn]:
        return list(self._live.values())

    def forget(self, thread: ThreadRef) -> list[LiveTurn]:
        """Nothing of a thread that is deleted can be joined. Returns what was under way there."""
        for key in [key for key in self._ended if key[0] == thread]:
            del self._ended[key]
        running = [key for key in self._live if key[0] == thread]
        return [self._live.pop(key) for key in running]

    def count(self) -> int:
        return len(self._live)
