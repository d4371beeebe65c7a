"""The gate keeps background calls off a backend that streams to a person, whatever comes in whatever order."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from recollect.domain.job import Preempted
from recollect.errors import BackendDown, StreamBroken
from recollect.infra.backends.configured import Backend
from recollect.service.models.backend_priority import Gate, GateState
from tests.fakes import FakeBackend
from tests.standins.background import backend_of

SOON = 30.0
LOCAL = backend_of(name="local", group="gpu")
TWIN = backend_of("ollama", name="twin", group="gpu")
CLOUD = backend_of("openai", local=False, name="cloud", group="cloud")
BATCHING = backend_of("vllm", name="batching", group="gpu")
NOTHING = GateState(chats=0, running=0, waiting=0, oldest_wait_seconds=0.0, preempted=0)


class Background:
    """A background call in a task of its own: it goes on until it is told to end."""

    def __init__(self, gate: Gate, backend: Backend, thread: str, *, patience: float = 60) -> None:
        self.started = asyncio.Event()
        self.release = asyncio.Event()
        self.task = asyncio.create_task(self._run(gate, backend, thread, patience))

    async def _run(self, gate: Gate, backend: Backend, thread: str, patience: float) -> None:
        async with gate.background(backend, thread, patience=patience):
            self.started.set()
            await self.release.wait()

    async def ends(self) -> None:
        self.release.set()
        await asyncio.wait_for(self.task, SOON)


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def gate() -> Gate:
    return Gate()


async def started(*calls: Background) -> list[bool]:
    await settle()
    return [call.started.is_set() for call in calls]


# Who keeps whom waiting


WAYS = [
    (LOCAL, LOCAL, "t2", True),
    (TWIN, LOCAL, "t2", True),
    (BATCHING, LOCAL, "t2", True),
    (CLOUD, CLOUD, "t1", True),
    (CLOUD, LOCAL, "t1", True),
    (CLOUD, CLOUD, "t2", False),
    (CLOUD, LOCAL, "t2", False),
]
"""A chat of thread t1 on a backend, a call of a thread on another, and whether the chat keeps the call off."""


@pytest.mark.parametrize(("chat_on", "call_on", "thread", "in_the_way"), WAYS)
async def test_a_call_waits_for_chats_of_its_thread_or_its_local_hardware_and_for_no_others(
    gate: Gate, chat_on: Backend, call_on: Backend, thread: str, in_the_way: bool
) -> None:
    async with gate.chat(chat_on, "t1"):
        call = Background(gate, call_on, thread)
        assert await started(call) == [not in_the_way]
    assert await started(call) == [True]
    await call.ends()


async def test_between_two_chats_that_follow_each_other_closely_no_call_begins() -> None:
    gate = Gate(quiet_seconds=0.5)
    async with gate.chat(LOCAL, "t1"):
        call = Background(gate, LOCAL, "t2")
    assert (await started(call), gate.state().chats) == ([False], 0)
    async with gate.chat(LOCAL, "t1"):
        assert await started(call) == [False]
    await asyncio.wait_for(call.started.wait(), SOON)
    assert gate.state().preempted == 0
    await call.ends()


async def test_on_local_hardware_calls_run_one_at_a_time_in_the_order_in_which_they_came(gate: Gate) -> None:
    calls = [Background(gate, backend, f"t{n}") for n, backend in enumerate([LOCAL, TWIN, LOCAL])]
    for number, call in enumerate(calls):
        assert await started(*calls) == [n <= number for n in range(3)]
        await call.ends()


async def test_a_call_that_fits_in_does_not_overtake_one_that_waits_for_the_whole_machine(gate: Gate) -> None:
    running = Background(gate, BATCHING, "t1")
    waiting, later = Background(gate, LOCAL, "t2"), Background(gate, BATCHING, "t3")
    assert await started(running, waiting, later) == [True, False, False]
    await running.ends()
    assert await started(waiting, later) == [True, False]
    await waiting.ends()
    await later.ends()


async def test_chats_do_not_wait_for_each_other_and_the_last_one_opens_the_gate(gate: Gate) -> None:
    async with asyncio.timeout(SOON), gate.chat(LOCAL, "t1"):
        async with gate.chat(LOCAL, "t2"), gate.chat(LOCAL, "t1"):
            call = Background(gate, LOCAL, "t3")
            assert await started(call) == [False]
        assert await started(call) == [False]
    assert await started(call) == [True]
    await call.ends()


# Making way


@pytest.mark.parametrize(("chat_on", "call_on", "thread", "in_the_way"), WAYS)
async def test_an_arriving_chat_sends_away_what_is_in_its_way_and_nothing_else(
    gate: Gate, chat_on: Backend, call_on: Backend, thread: str, in_the_way: bool
) -> None:
    call = Background(gate, call_on, thread)
    assert await started(call) == [True]
    async with gate.chat(chat_on, "t1"):
        assert call.task.done() == in_the_way
        assert gate.state().preempted == in_the_way
    if in_the_way:
        with pytest.raises(Preempted):
            await call.task
    else:
        await call.ends()


async def test_a_chat_goes_on_when_a_call_has_not_ended_in_time() -> None:
    gate = Gate(chat_wait_seconds=0.05)
    release = asyncio.Event()

    async def stubborn() -> None:
        async with gate.background(LOCAL, "t1", patience=60):
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

    task = asyncio.create_task(stubborn())
    await settle()
    async with asyncio.timeout(SOON), gate.chat(LOCAL, "t2"):
        assert not task.done()
    waiting = Background(gate, LOCAL, "t3")
    assert await started(waiting) == [False]
    release.set()
    await task
    assert task.cancelling() == 0
    assert await started(waiting) == [True]
    await waiting.ends()


async def test_whatever_a_dropped_call_says_of_its_end_it_made_way(gate: Gate) -> None:
    async def breaks_off() -> None:
        async with gate.background(LOCAL, "t1", patience=60):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise StreamBroken("the connection was closed") from None

    task = asyncio.create_task(breaks_off())
    await settle()
    async with gate.chat(LOCAL, "t2"):
        with pytest.raises(Preempted):
            await task


async def test_an_error_of_the_call_itself_stays_what_it_is(gate: Gate) -> None:
    with pytest.raises(StreamBroken):
        async with gate.background(LOCAL, "t1", patience=60):
            raise StreamBroken("it broke")
    assert gate.state() == NOTHING


async def test_a_call_that_is_cancelled_from_outside_while_it_makes_way_is_cancelled(gate: Gate) -> None:
    call = Background(gate, LOCAL, "t1")
    await settle()
    chat = asyncio.create_task(_enter(gate.chat(LOCAL, "t2")))
    await asyncio.sleep(0)
    call.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call.task
    await chat


async def _enter(context: object) -> None:
    async with context:  # type: ignore[attr-defined]
        pass


async def test_a_time_limit_inside_the_call_still_counts(gate: Gate) -> None:
    with pytest.raises(TimeoutError):
        async with gate.background(LOCAL, "t1", patience=60), asyncio.timeout(0.01):
            await asyncio.Event().wait()
    assert gate.state() == NOTHING


async def test_a_call_that_waits_too_long_goes_back(gate: Gate) -> None:
    async with gate.chat(LOCAL, "t1"):
        call = Background(gate, LOCAL, "t2", patience=0.01)
        with pytest.raises(Preempted):
            await call.task
        assert (gate.state().waiting, gate.state().preempted) == (0, 0)


async def test_a_shut_gate_sends_everybody_away_and_lets_nobody_in(gate: Gate) -> None:
    calls = [Background(gate, LOCAL, "t1"), Background(gate, LOCAL, "t2")]
    await settle()
    gate.shut()
    late = Background(gate, LOCAL, "t3")
    for call in (*calls, late):
        with pytest.raises(Preempted):
            await asyncio.wait_for(call.task, SOON)
    assert (gate.state().running, gate.state().waiting) == (0, 0)


async def test_a_backend_that_cannot_be_asked_leaves_nothing_at_the_gate(gate: Gate) -> None:
    down = FakeBackend(fail=BackendDown("nobody answers"))
    for context in (gate.chat(down, "t1"), gate.background(down, "t1", patience=60)):
        with pytest.raises(BackendDown):
            await _enter(context)
    assert gate.state() == NOTHING


async def test_how_long_the_oldest_call_has_waited_can_be_seen() -> None:
    now = 100.0
    gate = Gate(clock=lambda: now)
    async with gate.chat(LOCAL, "t1"):
        first = Background(gate, LOCAL, "t2")
        await settle()
        now = 107.5
        second = Background(gate, LOCAL, "t3")
        await settle()
        now = 109.0
        assert gate.state() == GateState(1, 0, 2, 9.0, 0)
    await first.ends()
    await second.ends()
    assert gate.state() == NOTHING


# Any order


@dataclass
class Watch:
    """Sees who is inside at any time, and what must not be."""

    chats: list[tuple[Backend, str]] = field(default_factory=list)
    calls: list[tuple[Backend, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def inside(self, among: list[tuple[Backend, str]], who: tuple[Backend, str]) -> AsyncIterator[None]:
        among.append(who)
        await self._check()
        try:
            yield
        finally:
            among.remove(who)

    async def _check(self) -> None:
        for backend, thread in self.calls:
            few = (await backend.facts()).serves_few
            group = backend.gate_group
            if any(other.gate_group == group for other, _ in self.chats) and few:
                self.faults.append(f"a call beside a chat on {group}")
            if any(talking == thread for _, talking in self.chats):
                self.faults.append("a call beside a chat of its own thread")
            if few and sum(other.gate_group == group for other, _ in self.calls) > 1:
                self.faults.append(f"two calls on {group}")
        threads = [thread for _, thread in self.calls]
        if len(set(threads)) < len(threads):
            self.faults.append("two calls of one thread")
        if sum(backend is CLOUD for backend, _ in self.calls) > 4:
            self.faults.append("too many calls at once")


class Storm:
    """Chats and background calls, at random, with some of them cancelled at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.gate = Gate(chat_wait_seconds=SOON)
        self.watch = Watch()
        self.done = 0

    async def run(self) -> None:
        backends = [LOCAL, LOCAL, TWIN, CLOUD, CLOUD, BATCHING]
        tasks = []
        wanted = 0
        for _ in range(self.random.randint(5, 40)):
            backend = self.random.choice(backends)
            thread = f"t{self.random.randint(1, 6)}"
            doomed = self.random.random() < 0.2
            if self.random.random() < 0.4:
                work = self._chat(backend, thread)
            else:
                work = self._job(backend, thread)
                wanted += not doomed
            task = asyncio.create_task(work)
            tasks.append(task)
            if doomed:
                tasks.append(asyncio.create_task(self._cancel(task)))
            await self._steps(3)
        async with asyncio.timeout(SOON):
            await asyncio.gather(*tasks, return_exceptions=True)
        assert self.watch.faults == []
        assert self.done >= wanted
        state = self.gate.state()
        assert (state.chats, state.running, state.waiting) == (0, 0, 0)

    async def _steps(self, most: int) -> None:
        for _ in range(self.random.randint(0, most)):
            await asyncio.sleep(0)

    async def _chat(self, backend: Backend, thread: str) -> None:
        async with self.gate.chat(backend, thread), self.watch.inside(self.watch.chats, (backend, thread)):
            await self._steps(30)

    async def _job(self, backend: Backend, thread: str) -> None:
        """As the job engine does: put back, and run again."""
        while True:
            try:
                await self._call(backend, thread)
            except Preempted:
                continue
            self.done += 1
            return

    async def _call(self, backend: Backend, thread: str) -> None:
        patience = self.random.choice([0.0, SOON, SOON])
        admitted = self.gate.background(backend, thread, patience=patience)
        async with admitted, self.watch.inside(self.watch.calls, (backend, thread)):
            await self._steps(20)

    async def _cancel(self, task: Awaitable[None]) -> None:
        await self._steps(40)
        assert isinstance(task, asyncio.Task)
        task.cancel()


@pytest.mark.parametrize("batch", range(8))
async def test_in_any_order_nobody_is_where_they_must_not_be_and_everybody_gets_done(batch: int) -> None:
    for seed in range(batch * 50, batch * 50 + 50):
        await Storm(seed).run()
