"""The gate: keeps background model calls off a backend that is streaming to a person."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from recollect.domain.job import Preempted
from recollect.infra.backends.configured import Backend

CHAT_WAIT_SECONDS = 0.5
"""How long a chat waits for the background calls that it pre-empts."""
QUIET_SECONDS = 0.25
"""Pause after the last chat before a background call begins: within a conversation it would be pre-empted at once."""
AT_ONCE = 4
"""Background calls at a time on a backend that serves many."""


@dataclass(frozen=True, slots=True)
class GateState:
    """Calls at the gate now, and counts since the start."""

    chats: int
    running: int
    waiting: int
    oldest_wait_seconds: float
    preempted: int
    """Background calls that made way for a chat."""


@dataclass(slots=True, eq=False)
class _Chat:
    group: str
    serves_few: bool
    thread_key: str
    is_streaming: bool = True


@dataclass(slots=True, eq=False)
class _Call:
    """A background call, from its arrival to its end."""

    group: str
    serves_few: bool
    thread_key: str
    task: "asyncio.Task[object]"
    since: float
    admitted: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    must_go: bool = False

    def send_away(self) -> None:
        """Cancel the call, once; it ends with Preempted."""
        if not self.must_go:
            self.must_go = True
            self.task.cancel()


class Gate:
    """Decides when a background call may run.

    - Never while its thread streams, and one at a time per thread, on whatever backend.
    - On hardware that serves few requests at once (a `gate_group`): never while any chat streams there, and one at
      a time. On any other: at most `AT_ONCE`.
    - Where a chat would pre-empt it, only after a moment without chats.
    - An arriving chat pre-empts the calls in its way, and waits up to half a second for them to end.
    - First come, first served; waiting long gives no priority.
    """

    def __init__(
        self,
        *,
        chat_wait_seconds: float = CHAT_WAIT_SECONDS,
        quiet_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._chat_wait_seconds = chat_wait_seconds
        self._quiet_seconds = quiet_seconds
        self._clock = clock
        self._chats: list[_Chat] = []
        """Those that stream, and those that ended a moment ago."""
        self._waiting: list[_Call] = []
        self._running: list[_Call] = []
        self._preempted = 0
        self._is_shut = False

    def state(self) -> GateState:
        oldest = min((call.since for call in self._waiting), default=None)
        return GateState(
            chats=sum(chat.is_streaming for chat in self._chats),
            running=len(self._running),
            waiting=len(self._waiting),
            oldest_wait_seconds=0.0 if oldest is None else self._clock() - oldest,
            preempted=self._preempted,
        )

    def shut(self) -> None:
        """Permanently: pre-empt all background calls and admit no more."""
        self._is_shut = True
        for call in (*self._waiting, *self._running):
            call.send_away()

    @asynccontextmanager
    async def chat(self, backend: Backend, thread_key: str) -> AsyncIterator[None]:
        """Around a stream to a person. Chats never wait for each other here."""
        facts = await backend.facts()
        chat = _Chat(backend.gate_group, facts.serves_few, thread_key)
        self._chats.append(chat)
        try:
            await self._clear_the_way(chat)
            yield
        finally:
            chat.is_streaming = False
            if self._quiet_seconds:
                asyncio.get_running_loop().call_later(self._quiet_seconds, self._let_go, chat)
            else:
                self._let_go(chat)

    def _let_go(self, chat: _Chat) -> None:
        self._chats.remove(chat)
        self._admit()

    @asynccontextmanager
    async def background(self, backend: Backend, thread_key: str, *, patience: float) -> AsyncIterator[None]:
        """Around one background call. Raises Preempted when a chat comes, and after `patience` seconds of waiting."""
        facts = await backend.facts()
        if self._is_shut:
            raise Preempted("the server stops")
        task = asyncio.current_task()
        assert task is not None
        call = _Call(backend.gate_group, facts.serves_few, thread_key, task, self._clock())
        cancelled_before = task.cancelling()
        self._waiting.append(call)
        self._admit()
        try:
            await self._wait_for_a_place(call, patience)
            yield
        except asyncio.CancelledError:
            if call.must_go and task.uncancel() <= cancelled_before:
                raise Preempted("made way for a chat") from None
            raise
        except Exception as error:
            if call.must_go:
                # Whatever it says of its end, it ended because its request was dropped.
                task.uncancel()
                raise Preempted("made way for a chat") from error
            raise
        else:
            if call.must_go:
                task.uncancel()
        finally:
            self._leave(call)

    async def _wait_for_a_place(self, call: _Call, patience: float) -> None:
        try:
            async with asyncio.timeout(patience):
                await call.admitted.wait()
        except TimeoutError:
            raise Preempted(f"waited {patience:g} s for the backend to be free") from None

    def _leave(self, call: _Call) -> None:
        (self._running if call in self._running else self._waiting).remove(call)
        call.ended.set()
        self._admit()

    async def _clear_the_way(self, chat: _Chat) -> None:
        in_the_way = [call for call in self._running if _yields(call, chat)]
        for call in in_the_way:
            self._preempted += not call.must_go
            call.send_away()
        try:
            async with asyncio.timeout(self._chat_wait_seconds):
                for call in in_the_way:
                    await call.ended.wait()
        except TimeoutError:
            return

    def _admit(self) -> None:
        """Admit every call that may run now, in order of arrival."""
        taken: set[str] = set()
        for call in list(self._waiting):
            if self._is_kept_off(call):
                continue
            if call.group in taken or not self._has_place(call):
                # Later ones do not overtake it, even where they would fit in sooner.
                taken.add(call.group)
                continue
            self._waiting.remove(call)
            self._running.append(call)
            call.admitted.set()

    def _is_kept_off(self, call: _Call) -> bool:
        """By a chat, or by another call of its thread."""
        return any(_yields(call, chat) for chat in self._chats) or any(
            call.thread_key == other.thread_key for other in self._running
        )

    def _has_place(self, call: _Call) -> bool:
        beside = [other for other in self._running if other.group == call.group]
        if call.serves_few or any(other.serves_few for other in beside):
            return not beside
        return len(beside) < AT_ONCE


def _yields(call: _Call, chat: _Chat) -> bool:
    if call.thread_key == chat.thread_key:
        return True
    return call.group == chat.group and (call.serves_few or chat.serves_few)
