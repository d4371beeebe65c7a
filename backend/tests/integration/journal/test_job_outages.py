"""The job engine when jobs make way, the disk is full, or the clock goes back."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from recollect.domain.job import Job, Preempted, Unfinished
from recollect.domain.strategy import CAUSES
from recollect.errors import StorageUnavailable
from recollect.infra.job_engine import Handler
from recollect.infra.journal.database import Database
from recollect.infra.journal.jobs import DUE, MAX_INTERRUPTIONS, NEXT_DUE, SqlJobStore
from recollect.infra.journal.rows import NewJob
from tests.eventually import eventually
from tests.job_bench import SOON, Bench, Hanging, bench, done, queue_now

__all__ = ["bench"]


async def test_a_handler_with_more_to_do_runs_again_at_once_and_unpunished(bench: Bench) -> None:
    seen: list[int] = []

    async def in_five_steps(job: Job) -> None:
        seen.append(job.attempts)
        if len(seen) < 5:
            raise Unfinished

    async with bench.running({"steps": in_five_steps}, max_attempts=2) as engine:
        job_id = await bench.queue(engine, "steps")
        assert await engine.wait_for(job_id, SOON)
    assert seen == [0, 0, 0, 0, 0]


async def test_a_job_that_failed_before_it_made_way_keeps_its_attempts_and_its_error(bench: Bench) -> None:
    errors: list[Exception] = [ValueError("broken"), Preempted()]
    seen: list[Job] = []

    async def fails_and_makes_way(job: Job) -> None:
        seen.append(job)
        if errors:
            raise errors.pop(0)

    async with bench.running({"a": fails_and_makes_way}) as engine:
        job_id = await bench.queue(engine, "a")
        await bench.settled(job_id, claims=1)
        bench.let_time_pass(engine, 10_000)
        assert await engine.wait_for(job_id, SOON)
    assert [(job.attempts, job.error) for job in seen] == [
        (0, None),
        (1, "ValueError: broken"),
        (1, "ValueError: broken"),
    ]


async def test_a_job_that_made_way_and_stands_at_the_gate_again_is_told_to_have_waited_since_it_was_due(
    bench: Bench,
) -> None:
    at_the_gate = asyncio.Event()

    async def makes_way_and_waits(job: Job) -> None:
        if job.claims == 1:
            raise Preempted
        at_the_gate.set()
        await asyncio.Event().wait()

    async with bench.running({"a": makes_way_and_waits}) as engine:
        await bench.queue(engine, "a")
        await at_the_gate.wait()
        bench.clock.advance(90_000)
        assert await engine.oldest_wait_ms() == 90_000


async def test_a_job_nobody_could_put_back_does_not_wait_for_its_lease(bench: Bench) -> None:
    """As when the disk was full in that moment: the row says running, and nothing runs."""
    done = asyncio.Event()

    async def handler(_job: Job) -> None:
        done.set()

    async with bench.running({"lost": handler}, lease_seconds=3600) as engine:
        await bench.queue(None, "lost")
        await bench.store.claim(bench.clock(), bench.clock() + 3_600_000, [(["lost"], 1)])
        bench.let_time_pass(engine, 6000)
        assert await asyncio.wait_for(done.wait(), SOON)


async def test_a_job_that_nobody_told_of_is_found_within_seconds(bench: Bench) -> None:
    """As when whoever queued it was cancelled in the very moment of its commit."""
    async with bench.running({"a": done}) as engine:
        assert await engine.wait_for(await bench.queue(engine, "a"), SOON)
        untold = await bench.queue(None, "a", due=1000)
        bench.clock.advance(6000)
        await bench.queue(engine, "a", lane="another", due=3_600_000)
        assert await engine.wait_for(untold, SOON)


class FullDisk(SqlJobStore):
    """Refuses to put a job back while the disk is full."""

    is_full = True
    has_refused = False

    def __init__(self, database: Database, handler: Handler = done) -> None:
        super().__init__(database)
        self._handler = handler
        self.found_nothing = asyncio.Event()
        """Jobs were looked for after it refused, and none was due."""

    async def handle(self, job: Job) -> None:
        """A handler that meets the full disk at its end."""
        await self._handler(job)
        if self.is_full:
            raise StorageUnavailable("the disk is full")

    async def put_back(self, job: Job, run_at: int, *, attempts: int, error: str | None) -> int | None:
        if self.is_full:
            self.has_refused = True
            raise StorageUnavailable("the disk is full")
        return await super().put_back(job, run_at, attempts=attempts, error=error)

    async def claim(
        self, now: int, leased_until: int, free: Sequence[tuple[Sequence[str], int]]
    ) -> tuple[list[Job], int | None]:
        had_refused = self.has_refused
        jobs, due = await super().claim(now, leased_until, free)
        if had_refused and not jobs and due is None:
            self.found_nothing.set()
        return jobs, due


async def test_the_twin_of_a_job_nobody_could_put_back_runs_though_nothing_else_goes_on(bench: Bench) -> None:
    """It stood behind that one in its lane, so nobody knows yet that it is due."""
    handler = Hanging()
    store = FullDisk(bench.database, handler)

    async with bench.running({"a": store.handle}, store=store) as engine:
        await bench.queue(engine, "a")
        await handler.started.wait()
        twin = await bench.queue(engine, "a")
        handler.release.set()
        await asyncio.wait_for(store.found_nothing.wait(), SOON)
        store.is_full = False
        bench.clock.advance(6000)
        await bench.queue(engine, "a", lane="another", due=3_600_000)
        assert await engine.wait_for(twin, SOON)
    assert len(handler.seen) == 2


async def test_who_waits_for_a_job_nobody_could_put_back_is_told_when_its_twin_is_done(bench: Bench) -> None:
    handler = Hanging(times=2)
    store = FullDisk(bench.database, handler)

    async with bench.running({"a": store.handle}, store=store) as engine:
        first = await bench.queue(engine, "a")
        await handler.started.wait()
        waiting = asyncio.create_task(engine.wait_for(first, SOON))
        await bench.queue(engine, "a")
        handler.release.set()
        await asyncio.wait_for(store.found_nothing.wait(), SOON)
        store.is_full = False
        handler.release.clear()
        handler.started.clear()
        bench.let_time_pass(engine, 6000)
        await asyncio.wait_for(handler.started.wait(), SOON)
        finished_early, _ = await asyncio.wait({waiting}, timeout=1)
        handler.release.set()
        assert await waiting
    assert not finished_early


async def test_a_job_nobody_could_put_back_leaves_its_causes_to_its_twin(bench: Bench) -> None:
    causes = [{"thread": "t", "cell": f"mc_{number}", "entries": []} for number in range(2)]
    for cause in causes:
        payload = json.dumps({CAUSES: [cause]})
        job = NewJob("a", "a", "default", None, bench.clock(), payload)
        await queue_now(bench.database, job, bench.clock())
        if cause is causes[0]:
            await bench.store.claim(bench.clock(), bench.clock() + 60_000, [(["a"], 1)])
    assert await bench.store.recover() == (0, {1: 2})
    assert (await bench.job(2)).payload[CAUSES] == [causes[1], causes[0]]


async def test_a_full_disk_is_no_interruption_however_often_it_loses_a_job(bench: Bench) -> None:
    handler = Hanging(times=0)
    store = FullDisk(bench.database, handler)
    async with bench.running({"a": store.handle}, store=store) as engine:
        job_id = await bench.queue(engine, "a")
        for number in range(1, MAX_INTERRUPTIONS + 2):
            await eventually(lambda number=number: len(handler.seen) == number)  # type: ignore[misc]
            await asyncio.wait_for(store.found_nothing.wait(), SOON)
            store.found_nothing.clear()
            bench.let_time_pass(engine, 6000)
        store.is_full = False
        bench.let_time_pass(engine, 6000)
        assert await engine.wait_for(job_id, SOON)
        assert await bench.store.get(job_id) is None


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_clock_that_goes_back_strands_no_job(bench: Bench, restarted: bool) -> None:
    done = asyncio.Event()

    async def handler(_job: Job) -> None:
        done.set()

    async with bench.running({"late": handler}) as engine:
        job_id = await bench.queue(None if restarted else engine, "late", due=500)
        if not restarted:
            bench.let_time_pass(engine, -3_600_000)

            async def is_shifted() -> bool:
                return (await bench.job(job_id)).run_at <= bench.clock() + 500

            await eventually(is_shifted)
            bench.let_time_pass(engine, 1000)
            assert await asyncio.wait_for(done.wait(), SOON)
    if restarted:
        bench.clock.advance(-3_600_000)
        async with bench.running({"late": handler}) as engine:
            bench.let_time_pass(engine, 1000)
            assert await asyncio.wait_for(done.wait(), SOON)


@pytest.mark.parametrize("sql", [DUE, NEXT_DUE])
async def test_finding_due_jobs_scans_neither_those_that_are_not_nor_other_kinds(
    bench: Bench, sql: str
) -> None:
    bound: Any = ("x",) if sql is NEXT_DUE else ("x", 1)
    plan = await bench.database.read(f"EXPLAIN QUERY PLAN {sql}", bound)
    steps = " ".join(row["detail"] for row in plan)
    assert "jobs_due (kind=?" in steps
    assert "SCAN" not in steps
    assert "TEMP B-TREE" not in steps


async def test_a_journal_that_cannot_be_written_for_a_while_does_not_end_the_engine(bench: Bench) -> None:
    class Moody(SqlJobStore):
        failures = 2

        async def claim(
            self, now: int, leased_until: int, free: Sequence[tuple[Sequence[str], int]]
        ) -> tuple[list[Job], int | None]:
            if self.failures:
                self.failures -= 1
                raise StorageUnavailable("the disk is full")
            return await super().claim(now, leased_until, free)

    store = Moody(bench.database)
    async with bench.running({"a": done}, store=store) as engine:
        job_id = await bench.queue(engine, "a")
        while store.failures:
            bench.let_time_pass(engine, 1000)
            await bench.database.read("SELECT 1")
        bench.let_time_pass(engine, 1000)
        assert await engine.wait_for(job_id, SOON)
