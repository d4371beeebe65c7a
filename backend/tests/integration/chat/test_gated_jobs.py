"""Durable jobs that ask a model, behind the gate, with chats coming and going."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from recollect.domain.job import Job
from recollect.domain.llm import ChatCall
from recollect.domain.model import ThreadRef
from recollect.infra.journal.rows import NewJob
from recollect.service.models.backend_priority import Gate
from recollect.service.models.background import BackgroundModel
from tests.eventually import eventually
from tests.fakes import START, FakeBackend
from tests.job_bench import SOON, queue_now
from tests.job_bench import Bench as Engines
from tests.job_bench import bench as engines
from tests.standins.background import always, silent

__all__ = ["engines"]

MANY = 1000


class Bench:
    """An engine whose jobs of kind `model` ask a local backend, and whose other jobs ask nobody."""

    def __init__(self, engines: Engines) -> None:
        self.database = engines.database
        self.backend: FakeBackend = silent()
        self.gate = Gate()
        self.model = BackgroundModel(always(self.backend), self.gate)
        self.started: list[Job] = []
        self.done: list[str] = []
        self.engine = engines.engine(workers=2, max_attempts=1, stop_seconds=1)

    async def ask(self, job: Job) -> None:
        self.started.append(job)
        await self.model.ask([], thread=ThreadRef(job.space, "ann", job.lane), max_tokens=1)
        self.done.append(job.lane)

    async def write_file(self, job: Job) -> None:
        self.done.append(job.lane)

    async def queue(self, kind: str, lane: str) -> int:
        job_id = await queue_now(self.database, NewJob(kind, lane, "default", None, START), START)
        self.engine.notify(START)
        return job_id


@pytest.fixture
async def bench(engines: Engines) -> AsyncIterator[Bench]:
    bench = Bench(engines)
    await bench.engine.start([{"model": bench.ask}, {"file": bench.write_file}])
    yield bench
    bench.gate.shut()
    await bench.engine.stop()


async def test_a_chat_that_streams_on_the_same_backend_is_never_joined_by_a_job(bench: Bench) -> None:
    """Three jobs, and five chats one after another in the middle of them."""
    ids = [await bench.queue("model", f"t{number}") for number in range(3)]
    await eventually(lambda: bench.backend.in_flight == 1)
    for _ in range(5):
        async with (
            bench.gate.chat(bench.backend, "a chat"),
            aclosing(bench.backend.stream(ChatCall([{"role": "user", "content": "hi"}]))) as chat,
        ):
            await anext(chat)
            await eventually(lambda: bench.gate.state().waiting == 2)
            assert bench.backend.in_flight == 1
        await eventually(lambda: bench.backend.in_flight == 1)
    bench.backend.release(MANY)
    assert all([await bench.engine.wait_for(job_id, SOON) for job_id in ids])
    assert sorted(bench.done) == ["t0", "t1", "t2"]
    assert bench.backend.most_in_flight == 1
    assert (bench.engine.failed, bench.gate.state().preempted) == (0, 5)
    assert {(job.attempts, job.interruptions, job.error) for job in bench.started} == {(0, 0, None)}


async def test_a_stop_does_not_wait_for_those_who_wait_at_the_gate(bench: Bench) -> None:
    async with asyncio.timeout(SOON), bench.gate.chat(bench.backend, "a chat"):
        job_id = await bench.queue("model", "t1")
        await eventually(lambda: bench.gate.state().waiting == 1)
        bench.gate.shut()
        await bench.engine.stop()
    job = await bench.engine.get(job_id)
    assert job is not None
    assert (job.state, job.attempts, job.interruptions, job.error) == ("queued", 0, 0, None)
