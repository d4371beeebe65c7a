"""Boundaries close memcells out of the buffer: by the model, or by rules where there is none or it fails."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from recollect.domain.boundary import BoundaryRules
from recollect.domain.extraction.prompts import PROMPT_TURNS
from recollect.domain.job import BOUNDARY, Job, Preempted, Unfinished
from recollect.domain.llm import ChatCall
from recollect.domain.model import Append, NewTurn, ThreadRef
from recollect.errors import BackendDown, NotFound
from recollect.failpoints import FailPoints
from recollect.service.models.backend_priority import Gate
from recollect.service.remember.boundaries import Boundaries
from tests.contract.journals import Journal
from tests.eventually import eventually
from tests.fakes import START, FakeBackend
from tests.standins.background import Script, answering, model_on, saying, silent

HOUR = 3_600_000
JOB = Job(1, BOUNDARY, "lane", "default", "me", "t1")
RULES = BoundaryRules(max_turns=5)


def told(boundaries: list[int], *, should_wait: bool = False) -> str:
    return json.dumps({"reasoning": "as told", "boundaries": boundaries, "should_wait": should_wait})


def shown(call: ChatCall) -> int:
    """How many messages a prompt holds."""
    return len(re.findall(r"(?m)^\[\d+\] ", str(call.messages[-1]["content"])))


def waits(call: ChatCall) -> str:
    return told([], should_wait=True)


def cuts_after(*numbers: int) -> Script:
    """Cuts while there are enough turns to cut; then waits."""

    def answer(call: ChatCall) -> str:
        return told(list(numbers)) if shown(call) >= max(numbers) else waits(call)

    return answer


fails = saying(BackendDown("nobody answers"))


async def fill(journal: Journal, count: int, *, gap_after: int = 0) -> None:
    """`count` messages a second apart, with an hour's pause after one of them."""
    turns = [
        NewTurn(
            "user", f"message {n}", START + n * 1000 + (HOUR if gap_after and n > gap_after else 0), "ann"
        )
        for n in range(1, count + 1)
    ]
    await journal.threads.append(Append("default", "t1", turns))


def boundaries(
    journal: Journal,
    backend: FakeBackend | None = None,
    rules: BoundaryRules = RULES,
    gate: Gate | None = None,
) -> "Persistent":
    model = None if backend is None else model_on(backend, gate)
    return Persistent(Boundaries(journal.cells, rules, model, FailPoints(), journal.clock))


@dataclass
class Persistent:
    """Runs a handler again for as long as it says that it has more to do, as the job engine does."""

    boundaries: Boundaries
    runs: int = 0

    async def look(self, job: Job) -> None:
        await self._run(self.boundaries.look, job)

    async def finish(self, job: Job) -> None:
        await self._run(self.boundaries.finish, job)

    async def _run(self, handler: Callable[[Job], Awaitable[None]], job: Job) -> None:
        while True:
            self.runs += 1
            try:
                await handler(job)
            except Unfinished:
                continue
            return


async def closed(journal: Journal) -> list[tuple[tuple[str, ...], str]]:
    cells = await journal.cells.list_cells(ThreadRef("default", "me", "t1"))
    return [(cell.turn_ids, cell.reason) for cell, _ in cells]


async def left(journal: Journal) -> int:
    return await journal.cells.count_buffered(ThreadRef("default", "me", "t1"))


async def test_without_a_model_rules_decide(journal: Journal) -> None:
    await fill(journal, 4, gap_after=2)
    await boundaries(journal).look(JOB)
    assert await closed(journal) == [(("t-1", "t-2"), "gap")]
    assert await left(journal) == 2


async def test_the_models_answer_decides(journal: Journal) -> None:
    await fill(journal, 5)
    await boundaries(journal, answering(cuts_after(1, 4))).look(JOB)
    assert await closed(journal) == [(("t-1",), "model"), (("t-2", "t-3", "t-4"), "model")]


async def test_the_model_is_asked_about_a_bounded_stretch_at_a_time(journal: Journal) -> None:
    await fill(journal, 100)
    backend = answering(waits)
    await boundaries(journal, backend).look(JOB)
    assert max(shown(call) for call in backend.calls) == 2 * RULES.max_turns + 2
    assert all(shown(call) <= PROMPT_TURNS for call in backend.calls)


async def test_an_answer_of_another_shape_is_asked_for_again_and_then_rules_decide(
    journal: Journal,
) -> None:
    await fill(journal, 4, gap_after=2)
    backend = answering(saying('{"boundaries": "two"}'))
    await boundaries(journal, backend).look(JOB)
    assert len(backend.calls) == 3
    assert await closed(journal) == [(("t-1", "t-2"), "gap")]


async def test_a_model_that_failed_is_left_alone_for_a_while(journal: Journal) -> None:
    await fill(journal, 4)
    backend = answering(saying("nonsense"))
    look = boundaries(journal, backend).look
    await look(JOB)
    await look(JOB)
    assert len(backend.calls) == 3
    journal.clock.advance(60_000)
    await look(JOB)
    assert len(backend.calls) == 6


async def test_a_look_that_makes_way_for_a_chat_changes_nothing_and_is_no_failure_of_the_model(
    journal: Journal,
) -> None:
    await fill(journal, 4, gap_after=2)
    backend, gate = silent(), Gate()
    backend.answer = cuts_after(4)
    handler = boundaries(journal, backend, gate=gate)
    looking = asyncio.create_task(handler.look(JOB))
    await eventually(lambda: backend.in_flight)
    async with gate.chat(backend, "another thread"):
        with pytest.raises(Preempted):
            await looking
        assert await closed(journal) == []
    backend.pace = None
    await handler.look(JOB)
    assert await closed(journal) == [(("t-1", "t-2", "t-3", "t-4"), "model")]


async def test_a_thread_that_was_forgotten_meanwhile_is_left_alone(journal: Journal) -> None:
    await fill(journal, 4, gap_after=2)
    await journal.delete("t1")
    await boundaries(journal).finish(JOB)
    assert await journal.threads.list_threads() == []


async def test_messages_that_come_while_the_model_thinks_stay_buffered(journal: Journal) -> None:
    await fill(journal, 4)
    backend = silent()
    backend.answer = cuts_after(4)
    looking = asyncio.create_task(boundaries(journal, backend).look(JOB))
    await eventually(lambda: backend.in_flight)
    await fill(journal, 2)
    backend.release(100)
    await looking
    assert await closed(journal) == [(("t-1", "t-2", "t-3", "t-4"), "model")]
    assert await left(journal) == 2


async def test_what_is_forgotten_while_the_model_thinks_is_not_closed(journal: Journal) -> None:
    await fill(journal, 4)
    backend = silent()
    backend.answer = cuts_after(4)
    looking = asyncio.create_task(boundaries(journal, backend).look(JOB))
    await eventually(lambda: backend.in_flight)
    await journal.delete("t1")
    backend.release(100)
    with pytest.raises(NotFound):
        await looking
    assert await closed(journal) == []


# Flush


@pytest.mark.parametrize("count", [1, 4, 9, 10, 11, 79, 80, 81, 200])
@pytest.mark.parametrize(
    "script",
    [None, waits, fails, cuts_after(3)],
    ids=["no model", "waiting model", "failing model", "cutting model"],
)
@pytest.mark.parametrize("max_turns", [5, 200])
async def test_a_flush_closes_everything(
    journal: Journal, count: int, script: Script | None, max_turns: int
) -> None:
    await fill(journal, count)
    backend = answering(script) if script else None
    await boundaries(journal, backend, BoundaryRules(max_turns=max_turns)).finish(JOB)
    assert await left(journal) == 0


@pytest.mark.parametrize("results", [9, 10, 11, 25])
async def test_a_flush_closes_a_tool_call_with_any_number_of_results(journal: Journal, results: int) -> None:
    call = NewTurn("assistant", "", START, "bot", tool_calls=[{"id": str(n)} for n in range(results)])
    answers = [NewTurn("tool", "x", START, "tool", tool_call_id=str(n)) for n in range(results)]
    await journal.threads.append(Append("default", "t1", [call, *answers]))
    await boundaries(journal).finish(JOB)
    assert await left(journal) == 0


async def test_a_model_that_always_waits_does_not_hold_the_buffer_for_ever(journal: Journal) -> None:
    await fill(journal, 400)
    rules = BoundaryRules(max_turns=100)
    await boundaries(journal, answering(waits), rules).look(JOB)
    assert await left(journal) <= 2 * rules.max_turns


async def test_every_turn_is_closed_once_and_in_order(journal: Journal) -> None:
    await fill(journal, 43, gap_after=17)
    await boundaries(journal).finish(JOB)
    held = [turn_id for turn_ids, _ in await closed(journal) for turn_id in turn_ids]
    assert held == [f"t-{number}" for number in range(1, 44)]


@pytest.mark.parametrize("verb", ["look", "finish"])
@pytest.mark.parametrize("script", [None, cuts_after(3), fails], ids=["rules", "model", "failing model"])
async def test_running_a_handler_twice_changes_nothing(
    journal: Journal, verb: str, script: Script | None
) -> None:
    await fill(journal, 5, gap_after=3)
    handler = getattr(boundaries(journal, answering(script) if script else None), verb)
    await handler(JOB)
    once = await closed(journal), await journal.coverage.coverage(space="default")
    await handler(JOB)
    assert (await closed(journal), await journal.coverage.coverage(space="default")) == once


# The verb
