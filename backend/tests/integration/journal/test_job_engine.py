"""The job engine on a real file: order, bounds, retries, leases, deaths and stops."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from recollect.domain.job import Job, NotYet, Preempted
from recollect.domain.model import ThreadRef
from recollect.errors import OverQuota, StorageUnavailable
from recollect.infra.job_engine import JobEngine
from recollect.infra.journal.database import Database
from recollect.infra.journal.jobs import MAX_INTERRUPTIONS, SqlJobStore
from recollect.infra.journal.sqlite import SqliteConnector
from tests.eventually import eventually
from tests.job_bench import SOON, Bench, Hanging, Noting, bench, done

__all__ = ["bench"]


# Order and bounds


async def test_jobs_of_one_lane_never_overlap_and_keep_their_order(bench: Bench) -> None:
    steps: list[str] = []

    async def slow(job: Job) -> None:
        steps.append(f"{job.kind} begins")
        await bench.database.read("SELECT 1")
        steps.append(f"{job.kind} ends")

    async with bench.running({"a": slow, "b": slow, "c": slow}) as engine:
        ids = [await bench.queue(None, kind, lane="shared") for kind in ("b", "c", "a")]
        engine.notify(0)
        assert all([await engine.wait_for(job_id, SOON) for job_id in ids])
    assert steps == ["b begins", "b ends", "c begins", "c ends", "a begins", "a ends"]


async def test_a_failed_job_keeps_its_place_in_its_lane(bench: Bench) -> None:
    order: list[str] = []

    async def fails_once(job: Job) -> None:
        order.append(job.kind)
        if order == ["a"]:
            raise ValueError("no")

    async with bench.running({"a": fails_once, "b": fails_once}) as engine:
        first = await bench.queue(None, "a", lane="shared")
        second = await bench.queue(engine, "b", lane="shared")
        await bench.settled(first, claims=1)
        bench.let_time_pass(engine, 10_000)
        assert await engine.wait_for(second, SOON)
    assert order == ["a", "a", "b"]


async def test_no_more_jobs_run_at_once_than_there_are_workers(bench: Bench) -> None:
    handler = Hanging(times=5)
    async with bench.running({"a": handler}, workers=2) as engine:
        ids = [await bench.queue(engine, "a", lane=f"lane {number}") for number in range(5)]
        await eventually(lambda: handler.active == 2)
        handler.release.set()
        assert all([await engine.wait_for(job_id, SOON) for job_id in ids])
    assert handler.most_active == 2


async def test_a_pool_whose_workers_are_all_busy_does_not_delay_another(bench: Bench) -> None:
    slow = Hanging(times=4)
    async with bench.running({"slow": slow}, {"quick": done}, workers=2) as engine:
        for number in range(4):
            await bench.queue(engine, "slow", lane=f"lane {number}")
        await eventually(lambda: slow.active == 2)
        assert await engine.wait_for(await bench.queue(engine, "quick"), SOON)


async def test_a_job_waits_until_it_is_due_and_those_behind_it_in_its_lane_wait_with_it(bench: Bench) -> None:
    handler = Noting()
    async with bench.running(handler.pool) as engine:
        await bench.queue(engine, "a", lane="shared", due=60_000)
        behind = await bench.queue(engine, "b", lane="shared")
        assert await engine.wait_for(await bench.queue(engine, "c"), SOON)
        assert not await engine.wait_for(behind, 0.1)
    assert handler.seen == ["c"]


async def test_twins_that_wait_are_one_job_at_the_earlier_time(bench: Bench) -> None:
    first = await bench.queue(None, "a", due=60_000)
    assert [await bench.queue(None, "a", due=due) for due in (30_000, 90_000)] == [first, first]
    assert (await bench.job(first)).run_at == bench.clock() + 30_000


async def test_a_job_that_is_hastened_runs_now_with_those_before_it_in_its_lane(bench: Bench) -> None:
    handler = Noting()
    async with bench.running(handler.pool) as engine:
        await bench.queue(engine, "a", lane="one", due=60_000)
        wanted = await bench.queue(engine, "b", lane="one", due=90_000)
        others = [await bench.queue(engine, "c", lane=lane, due=60_000) for lane in ("one", "two")]
        await engine.hasten([wanted, 999])
        assert await engine.wait_for(wanted, SOON)
        assert {(await bench.job(job_id)).run_at for job_id in others} == {bench.clock() + 60_000}
    assert handler.seen == ["a", "b"]


async def test_users_take_turns_within_a_kind_however_much_one_of_them_has_queued(bench: Bench) -> None:
    seen: list[str] = []

    async def note(job: Job) -> None:
        seen.append(job.lane)

    async def queue(engine: JobEngine, user: str, number: int, due: int) -> int:
        thread = ThreadRef("default", user, f"{user}{number}")
        return await bench.queue(engine, "a", lane=thread.thread_id, thread=thread, due=due)

    async with bench.running({"a": note}, workers=2) as engine:
        async with engine.paused():
            for number in range(20):
                await queue(engine, "ann", number, number - 60_000)
            last = [await queue(engine, "bob", number, number - 9) for number in range(2)][-1]
        assert await engine.wait_for(last, SOON)
    assert {"bob0", "bob1"} <= set(seen[:5])
    assert [name for name in seen if name[:3] == "ann"][:2] == ["ann0", "ann1"]


async def test_jobs_are_listed_oldest_first_by_space_and_state_and_counted(bench: Bench) -> None:
    handler = Noting(bad=ValueError("broken"), unlucky=StorageUnavailable("the disk is full"))
    async with bench.running(handler.pool, max_attempts=1) as engine:
        bad = await bench.queue(engine, "bad")
        await engine.wait_for(bad, SOON)
        async with engine.paused():
            assert await engine.oldest_wait_ms() == 0
            one, two = [await bench.queue(engine, kind, due=60_000) for kind in "ab"]
            other = await bench.queue(engine, "c", due=-5000, thread=ThreadRef("other", "ann", "t"))
            assert await engine.oldest_wait_ms() == 5000

            async def listed(**choice: object) -> list[int]:
                return [job.job_id for job in await engine.list_jobs(**choice)]  # type: ignore[arg-type]

            assert await listed(space=None) == [bad, one, two, other]
            assert await listed(space="other") == [other]
            assert await listed(space="default", state="dead") == [bad]
            assert await listed(space="default", limit=1, after=bad) == [one]
            assert await listed(space=None, lane="b") == [two]
            assert (await engine.counts(), await engine.in_trouble()) == ({"dead": 1, "queued": 3}, 0)
        unlucky = await bench.queue(engine, "unlucky")
        before = await bench.settled(unlucky, claims=1)
        assert await engine.in_trouble() == 1
        await engine.hasten([unlucky])
        assert await engine.get(unlucky) == before, "what failed is not hastened"


async def test_a_job_that_becomes_due_runs_without_being_told(bench: Bench) -> None:
    bench.clock.now = 0
    job_id = await bench.queue(None, "a", due=50)
    async with bench.running({"a": done}) as engine:
        bench.clock.advance(50)
        assert await engine.wait_for(job_id, SOON)


# Failures


@pytest.mark.parametrize(("jitter", "factor"), [(0.0, 0.75), (0.5, 1.0), (1.0, 1.25)])
async def test_a_failed_job_waits_twice_as_long_each_time_give_or_take_a_quarter(
    bench: Bench, jitter: float, factor: float
) -> None:
    async def fail(_: Job) -> None:
        raise ValueError("no")

    waits = []
    async with bench.running({"a": fail}, max_attempts=10, jitter=lambda: jitter) as engine:
        job_id = await bench.queue(engine, "a")
        for attempt in range(1, 9):
            job = await bench.settled(job_id, claims=attempt)
            waits.append(job.run_at - bench.clock())
            bench.let_time_pass(engine, waits[-1])
    assert waits == [int(factor * wait) for wait in (1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000)]


async def test_a_job_is_dead_after_its_last_attempt_with_its_last_error(bench: Bench) -> None:
    async def fail(job: Job) -> None:
        raise ValueError(f"failure {job.attempts + 1}")

    async with bench.running({"a": fail}, max_attempts=3) as engine:
        job_id = await bench.queue(engine, "a")
        for attempt in (1, 2):
            await bench.settled(job_id, claims=attempt)
            bench.let_time_pass(engine, 60_000)
        assert await engine.wait_for(job_id, SOON)
        job = await bench.job(job_id)
    assert (job.state, job.attempts, job.error) == ("dead", 3, "ValueError: failure 3")


async def test_a_dead_job_stays_dead_over_a_restart_and_a_retry_revives_it(bench: Bench) -> None:
    broken = True

    async def handler(_: Job) -> None:
        if broken:
            raise ValueError("no")

    async with bench.running({"a": handler}, max_attempts=1) as engine:
        job_id = await bench.queue(engine, "a")
        assert await engine.wait_for(job_id, SOON)
    broken = False
    async with bench.running({"a": handler}, max_attempts=1) as engine:
        assert (await bench.job(job_id)).state == "dead"
        await engine.retry(job_id)
        assert await engine.wait_for(job_id, SOON)
        assert await engine.get(job_id) is None


async def test_an_outage_is_not_counted_and_never_kills_a_job(bench: Bench) -> None:
    outages = 20

    async def unlucky(_: Job) -> None:
        nonlocal outages
        if outages:
            outages -= 1
            raise StorageUnavailable("the disk is full")

    async with bench.running({"a": unlucky}, max_attempts=1) as engine:
        job_id = await bench.queue(engine, "a")
        for number in range(1, 21):
            job = await bench.settled(job_id, claims=number)
            assert (job.state, job.attempts, job.error) == (
                "queued",
                0,
                "StorageUnavailable: the disk is full",
            )
            assert 0 < job.run_at - bench.clock() <= 5000
            bench.let_time_pass(engine, job.run_at - bench.clock())
        assert await engine.wait_for(job_id, SOON)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NotYet("its file is not written", delay_ms=70_000), None),
        (OverQuota("5 calls a day are allowed", retry_after=70), "OverQuota: 5 calls a day are allowed"),
    ],
)
async def test_a_job_waits_as_long_as_its_error_says_and_no_attempt_is_counted(
    bench: Bench, error: Exception, told: str | None
) -> None:
    async with bench.running(Noting(early=error).pool, max_attempts=1) as engine:
        job = await bench.settled(await bench.queue(engine, "early"), claims=1)
    assert (job.state, job.attempts, job.error) == ("queued", 0, told)
    assert job.run_at >= bench.clock() + 70_000


async def test_a_dead_job_holds_its_lane_up_no_longer_and_one_that_made_way_keeps_its_place(
    bench: Bench,
) -> None:
    handler = Noting(bad=ValueError("broken"), first=Preempted())
    async with bench.running(handler.pool, max_attempts=1) as engine:
        await bench.queue(engine, "bad", lane="shared")
        assert await engine.wait_for(await bench.queue(engine, "a", lane="shared"), SOON)
        async with engine.paused():
            first = await bench.queue(engine, "first", lane="other")
            second = await bench.queue(engine, "b", lane="other")
        await eventually(lambda: "first" in handler.seen)
        handler.errors.clear()
        assert await engine.wait_for(first, SOON)
        assert await engine.wait_for(second, SOON)
    assert (handler.seen[:2], handler.seen[-2:]) == (["bad", "a"], ["first", "b"])


async def test_a_job_queued_again_while_it_runs_runs_again(bench: Bench) -> None:
    handler = Hanging()
    async with bench.running({"a": handler}) as engine:
        await bench.queue(engine, "a")
        await handler.started.wait()
        again = await bench.queue(engine, "a")
        handler.release.set()
        assert await engine.wait_for(again, SOON)
    assert len(handler.seen) == 2


async def test_who_waits_for_a_job_that_its_twin_takes_over_is_told_when_the_twin_is_done(
    bench: Bench,
) -> None:
    """Two people flush at once; the first job fails, and the second does for both."""
    handler = Hanging()
    broken = True

    async def fails_first(job: Job) -> None:
        await handler(job)
        if broken:
            raise StorageUnavailable("the disk is full")

    async with bench.running({"a": fails_first}) as engine:
        first = await bench.queue(engine, "a")
        await handler.started.wait()
        waiting = asyncio.create_task(engine.wait_for(first, SOON))
        await bench.queue(engine, "a")
        handler.release.set()
        await eventually(lambda: _has_error(bench))
        finished_early, _ = await asyncio.wait({waiting}, timeout=0.2)
        broken = False
        bench.let_time_pass(engine, 60_000)
        assert await waiting
    assert not finished_early


async def _has_error(bench: Bench) -> bool:
    found = await bench.database.read("SELECT 1 FROM jobs WHERE error IS NOT NULL")
    return bool(found)


# Leases


@pytest.mark.parametrize("stubborn", [False, True], ids=["cancellable", "ignores cancellation"])
async def test_a_hung_handler_is_given_up_at_its_lease_and_its_job_runs_again(
    bench: Bench, stubborn: bool
) -> None:
    handler = Hanging(stubborn=stubborn)
    async with bench.running({"a": handler}, lease_seconds=0.05) as engine:
        job_id = await bench.queue(engine, "a")
        job = await bench.settled(job_id, claims=1)
        assert "hung" in (job.error or "")
        bench.let_time_pass(engine, 60_000)
        assert await engine.wait_for(job_id, SOON)
    handler.release.set()
    assert len(handler.seen) == 2


async def test_a_hung_handler_does_not_keep_its_worker(bench: Bench) -> None:
    handler = Hanging(stubborn=True)
    async with bench.running({"a": handler, "b": done}, workers=1, lease_seconds=0.05) as engine:
        await bench.queue(engine, "a")
        await handler.started.wait()
        assert await engine.wait_for(await bench.queue(engine, "b"), SOON)
    handler.release.set()


async def test_a_running_job_is_not_started_again_when_the_clock_jumps(bench: Bench) -> None:
    """The machine slept: the wall clock is past the lease, and the handler is in the middle of its work."""
    handler = Hanging()
    async with bench.running({"a": handler}, lease_seconds=60) as engine:
        job_id = await bench.queue(engine, "a")
        await handler.started.wait()
        bench.let_time_pass(engine, 3_600_000)
        assert not await engine.wait_for(job_id, 0.2)
        assert len(handler.seen) == 1
        handler.release.set()
        assert await engine.wait_for(job_id, SOON)
    assert (len(handler.seen), handler.most_active) == (1, 1)


# Deaths and stops


async def test_a_job_that_ran_when_the_process_died_runs_again_at_once(bench: Bench, tmp_path: Path) -> None:
    """The first engine is never stopped: its file is opened again as the next process would. Its one worker hangs."""
    lost, handler = Hanging(), Hanging(times=0)
    died = bench.engine(workers=1)
    await died.start([{"a": lost}])
    job_id = await bench.queue(died, "a")
    await lost.started.wait()
    again = Database(SqliteConnector(tmp_path / "journal.db"))
    await again.open()
    async with Bench(again, bench.clock).running({"a": handler}) as engine:
        assert await engine.wait_for(job_id, SOON)
    await again.close()
    assert [(job.attempts, job.interruptions) for job in handler.seen] == [(0, 1)]
    await died.stop()


async def test_a_job_that_kills_the_process_again_and_again_is_set_aside(bench: Bench) -> None:
    job_id = await bench.queue(None, "a")
    for _ in range(MAX_INTERRUPTIONS + 1):
        await bench.store.claim(bench.clock(), bench.clock(), [(["a"], 1)])
        await bench.store.recover()
    job = await bench.job(job_id)
    assert (job.state, job.attempts) == ("dead", 0)
    assert f"died {MAX_INTERRUPTIONS + 1} times" in (job.error or "")


async def test_a_stop_puts_running_jobs_back_unpunished(bench: Bench) -> None:
    handler = Hanging()
    async with bench.running({"a": handler}) as engine:
        job_id = await bench.queue(engine, "a")
        await handler.started.wait()
    job = await bench.job(job_id)
    assert (job.state, job.attempts, job.interruptions, job.error) == ("queued", 0, 0, None)
    async with bench.running({"a": handler}) as engine:
        assert await engine.wait_for(job_id, SOON)


async def test_a_stop_lets_a_running_job_finish_in_time(bench: Bench) -> None:
    handler = Hanging()
    engine = bench.engine(stop_seconds=SOON)
    await engine.start([{"a": handler}])
    job_id = await bench.queue(engine, "a")
    await handler.started.wait()
    stopping = asyncio.create_task(engine.stop())
    handler.release.set()
    await stopping
    assert await bench.store.get(job_id) is None
    assert len(handler.seen) == 1


async def test_who_waits_for_a_job_that_is_taken_away_before_it_runs_does_not_wait_for_ever(
    bench: Bench,
) -> None:
    """Somebody deletes its thread, or a flush does its work."""
    handler = Hanging()
    async with bench.running({"a": handler, "b": handler}) as engine:
        await bench.queue(engine, "a", lane="shared")
        await handler.started.wait()
        behind = await bench.queue(engine, "b", lane="shared")
        waiting = asyncio.create_task(engine.wait_for(behind, SOON))
        await eventually(lambda: behind in engine._waiting)
        await bench.database.write(
            lambda connection: connection.run("DELETE FROM jobs WHERE pk = ?", (behind,))
        )
        async with asyncio.timeout(SOON / 2):
            assert await waiting
        handler.release.set()


async def test_a_stop_does_not_wait_for_a_handler_that_ignores_cancellation(bench: Bench) -> None:
    handler = Hanging(stubborn=True)
    engine = bench.engine()
    await engine.start([{"a": handler}])
    await bench.queue(engine, "a")
    await handler.started.wait()
    stopping = asyncio.create_task(engine.stop())
    ended, _ = await asyncio.wait({stopping}, timeout=20)
    handler.release.set()
    await stopping
    assert ended


async def test_nothing_starts_after_a_stop(bench: Bench) -> None:
    handler = Hanging(times=0)
    async with bench.running({"a": handler}) as engine:
        pass
    await bench.queue(engine, "a")
    assert not await engine.wait_for(1, 0.1)
    assert handler.seen == []


async def test_a_pause_that_begins_while_jobs_are_being_started_holds(bench: Bench) -> None:
    claiming, go_on = asyncio.Event(), asyncio.Event()

    class SlowStore(SqlJobStore):
        async def claim(
            self, now: int, leased_until: int, free: Sequence[tuple[Sequence[str], int]]
        ) -> tuple[list[Job], int | None]:
            claimed = await super().claim(now, leased_until, free)
            if claimed[0]:
                claiming.set()
                await go_on.wait()
            return claimed

    handler = Hanging(times=0)
    running_while_paused: list[int] = []

    async def pause() -> None:
        async with engine.paused():
            running_while_paused.append(handler.active)
            before = len(handler.seen)
            await bench.database.read("SELECT 1")
            running_while_paused.append(len(handler.seen) - before)

    async with bench.running({"a": handler}, store=SlowStore(bench.database)) as engine:
        job_id = await bench.queue(engine, "a")
        await claiming.wait()
        pausing = asyncio.create_task(pause())
        await asyncio.sleep(0)
        go_on.set()
        await pausing
        assert await engine.wait_for(job_id, SOON)
    assert running_while_paused == [0, 0]


async def test_pausing_some_kinds_leaves_the_others_running(bench: Bench) -> None:
    hanging, quick = Hanging(), asyncio.Event()

    async def handler(_job: Job) -> None:
        quick.set()

    async with bench.running({"slow": hanging}, {"quick": handler}) as engine:
        await bench.queue(engine, "slow")
        await asyncio.wait_for(hanging.started.wait(), SOON)
        async with asyncio.timeout(SOON), engine.paused(["quick"]):
            await bench.queue(engine, "quick")
            assert not quick.is_set()
        await asyncio.wait_for(quick.wait(), SOON)
        hanging.release.set()
