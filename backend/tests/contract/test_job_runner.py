"""What the engine promises of durable jobs. The clock stands still."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from recollect.domain.job import Job, NotYet, Preempted
from recollect.domain.model import ThreadRef
from recollect.errors import NotFound, OverQuota, StorageUnavailable
from recollect.infra.job_engine import JobEngine
from recollect.infra.journal.database import Database
from recollect.infra.journal.rows import NewJob
from tests.eventually import eventually
from tests.fakes import START
from tests.job_bench import SOON, queue_now
from tests.job_bench import Bench as Engines
from tests.job_bench import bench as engines

__all__ = ["engines"]


@dataclass
class Bench:
    """A runner, a way to queue jobs for it, and what its handlers saw. Kinds: a, b, c."""

    database: Database
    runner: JobEngine
    seen: list[str] = field(default_factory=list)
    failures: dict[str, Exception] = field(default_factory=dict)
    first_failures: dict[str, Exception] = field(default_factory=dict)
    """What a handler raises the first time alone."""
    started: list[Job] = field(default_factory=list)

    async def queue(
        self,
        name: str,
        *,
        kind: str | None = None,
        lane: str | None = None,
        space: str = "default",
        due: int = 0,
        owner: str | None = None,
    ) -> int:
        """A job that the handler sees by its name, in a lane of its own unless one is given."""
        thread = ThreadRef(space, owner or name, name)
        job = NewJob(kind or "a", lane or name, space, thread, START + due)
        job_id = await queue_now(self.database, job, START)
        self.runner.notify(job.run_at)
        return job_id

    async def put_back(self, name: str) -> Job:
        """Queue a job whose handler raises; the job once it waits for its next try."""
        job_id = await self.queue(name)

        async def has_run() -> bool:
            job = await self.runner.get(job_id)
            return job is not None and job.claims == 1 and job.state == "queued"

        await eventually(has_run)
        job = await self.runner.get(job_id)
        assert job is not None
        return job

    async def handle(self, job: Job) -> None:
        assert job.state == "running"
        self.seen.append(str(job.thread_id))
        self.started.append(job)
        if (error := self.first_failures.pop(str(job.thread_id), None)) is not None:
            raise error
        if (error := self.failures.get(str(job.thread_id))) is not None:
            raise error


@pytest.fixture
async def bench(engines: Engines) -> AsyncIterator[Bench]:
    engine = engines.engine(workers=2, max_attempts=1, stop_seconds=1)
    bench = Bench(engines.database, engine)
    await engine.start([dict.fromkeys("abc", bench.handle)])
    yield bench
    await engine.stop()


async def test_a_job_that_is_not_due_waits(bench: Bench) -> None:
    job_id = await bench.queue("later", due=60_000)
    assert not await bench.runner.wait_for(job_id, 0)
    job = await bench.runner.get(job_id)
    assert job is not None
    assert (job.state, job.run_at, bench.seen) == ("queued", START + 60_000, [])


async def test_a_job_behind_one_that_is_not_due_waits_with_it(bench: Bench) -> None:
    await bench.queue("later", kind="a", lane="shared", due=60_000)
    behind = await bench.queue("now", kind="b", lane="shared")
    assert await bench.runner.wait_for(await bench.queue("elsewhere"), SOON)
    assert not await bench.runner.wait_for(behind, 0.1)


async def test_a_job_does_not_wait_behind_a_dead_one(bench: Bench) -> None:
    bench.failures["bad"] = ValueError("broken")
    await bench.runner.wait_for(await bench.queue("bad", kind="a", lane="shared"), SOON)
    assert await bench.runner.wait_for(await bench.queue("good", kind="b", lane="shared"), SOON)
    assert bench.seen == ["bad", "good"]


async def test_twins_that_wait_are_one_job_at_the_earlier_time(bench: Bench) -> None:
    first = await bench.queue("one", due=60_000)
    assert await bench.queue("one", due=30_000) == first
    assert await bench.queue("one", due=90_000) == first
    job = await bench.runner.get(first)
    assert job is not None
    assert job.run_at == START + 30_000


async def test_only_a_dead_job_can_be_retried(bench: Bench) -> None:
    waiting = await bench.queue("later", due=60_000)
    for job_id in (waiting, 99):
        with pytest.raises(NotFound):
            await bench.runner.retry(job_id)


async def test_a_job_whose_time_has_not_come_waits_as_long_as_it_says(bench: Bench) -> None:
    bench.failures["early"] = NotYet("its file is not written", delay_ms=70_000)
    job = await bench.put_back("early")
    assert (job.state, job.attempts, job.error, job.run_at) == ("queued", 0, None, START + 70_000)


async def test_a_job_over_a_quota_waits_as_long_as_that_says_and_tells_why(bench: Bench) -> None:
    bench.failures["heavy"] = OverQuota("5 calls a day are allowed", retry_after=70)
    job = await bench.put_back("heavy")
    assert (job.state, job.attempts, job.error) == ("queued", 0, "OverQuota: 5 calls a day are allowed")
    assert job.run_at >= START + 70_000


async def test_a_job_that_made_way_keeps_its_place_in_its_lane(bench: Bench) -> None:
    bench.first_failures["first"] = Preempted()
    async with bench.runner.paused():
        first = await bench.queue("first", kind="b", lane="shared")
        second = await bench.queue("second", kind="a", lane="shared")
    assert await bench.runner.wait_for(first, SOON)
    assert await bench.runner.wait_for(second, SOON)
    assert bench.seen == ["first", "first", "second"]


async def test_jobs_are_listed_oldest_first_by_space_and_state(bench: Bench) -> None:
    bench.failures["bad"] = ValueError("broken")
    bad = await bench.queue("bad")
    await bench.runner.wait_for(bad, SOON)
    one, two = [await bench.queue(name, due=60_000) for name in ("one", "two")]
    other = await bench.queue("three", space="other", due=60_000)

    async def listed(**choice: object) -> list[int]:
        return [job.job_id for job in await bench.runner.list_jobs(**choice)]  # type: ignore[arg-type]

    assert await listed(space=None) == [bad, one, two, other]
    assert await listed(space="default") == [bad, one, two]
    assert await listed(space="other") == [other]
    assert await listed(space="default", state="dead") == [bad]
    assert await listed(space="default", limit=1, after=bad) == [one]
    assert await listed(space=None, lane="two") == [two]


async def test_jobs_are_counted_by_state_and_those_that_wait_after_an_error_are_in_trouble(
    bench: Bench,
) -> None:
    bench.failures |= {"bad": ValueError("broken"), "unlucky": StorageUnavailable("the disk is full")}
    await bench.runner.wait_for(await bench.queue("bad"), SOON)
    await bench.queue("later", due=60_000)
    assert await bench.runner.in_trouble() == 0
    await bench.put_back("unlucky")
    assert (await bench.runner.counts(), await bench.runner.in_trouble()) == ({"dead": 1, "queued": 2}, 1)


async def test_how_long_the_oldest_due_job_has_waited_is_told(bench: Bench) -> None:
    async with bench.runner.paused():
        await bench.queue("later", due=60_000)
        assert await bench.runner.oldest_wait_ms() == 0
        await bench.queue("one", due=-5000)
        await bench.queue("two", due=-2000)
        assert await bench.runner.oldest_wait_ms() == 5000


async def test_a_job_that_is_hastened_runs_now_with_those_before_it_in_its_lane(bench: Bench) -> None:
    first = await bench.queue("first", lane="one", due=60_000)
    wanted = await bench.queue("wanted", lane="one", kind="b", due=90_000)
    behind = await bench.queue("behind", lane="one", kind="c", due=60_000)
    other = await bench.queue("other", due=60_000)
    await bench.runner.hasten([wanted, 999])
    assert await bench.runner.wait_for(wanted, SOON)
    assert bench.seen == ["first", "wanted"]
    assert await bench.runner.get(first) is None
    for job_id in (behind, other):
        waiting = await bench.runner.get(job_id)
        assert waiting is not None
        assert waiting.run_at == START + 60_000


async def test_what_failed_is_not_hastened(bench: Bench) -> None:
    bench.failures["down"] = StorageUnavailable("the disk is full")
    before = await bench.put_back("down")
    assert before.error is not None
    await bench.runner.hasten([before.job_id])
    assert await bench.runner.get(before.job_id) == before


async def test_users_take_turns_within_a_kind_however_much_one_of_them_has_queued(bench: Bench) -> None:
    async with bench.runner.paused():
        for number in range(20):
            await bench.queue(f"ann{number}", due=-60_000 + number, owner="ann")
        await bench.queue("bob0", due=-9, owner="bob")
        last = await bench.queue("bob1", due=-8, owner="bob")
    assert await bench.runner.wait_for(last, SOON)
    await bench.runner.stop()
    assert {"bob0", "bob1"} <= set(bench.seen[:5])
    assert [name for name in bench.seen if name[:3] == "ann"][:2] == ["ann0", "ann1"]
