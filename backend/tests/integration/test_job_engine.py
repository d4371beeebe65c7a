"""The job engine on a real file: order, bounds, retries, leases, deaths and stops; and every real handler twice."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from recollect.app import App, open_app
from recollect.domain.identity import thread_key
from recollect.domain.job import (
    BOUNDARY,
    FLUSH,
    PURGE,
    TRANSCRIBE,
    Job,
    Preempted,
    Unfinished,
    cells_lane,
    vault_lane,
)
from recollect.domain.model import Append, NewTurn
from recollect.domain.strategy import CAUSES
from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.job_engine import Handler, JobEngine
from recollect.infra.journal.database import Database
from recollect.infra.journal.jobs import CLAIM, MAX_INTERRUPTIONS, NEXT_DUE, SqlJobStore
from recollect.infra.journal.rows import NewJob, queue_jobs, queued_job_id
from recollect.settings import JobSettings, MemorizeSettings, Settings
from tests.eventually import eventually
from tests.fakes import START, FakeClock

SOON = 10.0
"""More than any of this takes; waited for only where something is wrong."""


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(tmp_path / "journal.db")
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


class Bench:
    """Engines on one file, a settable clock, and jobs that are their kind's name in a lane of their own."""

    def __init__(self, database: Database, clock: FakeClock) -> None:
        self.database = database
        self.clock = clock
        self.store = SqlJobStore(database)

    @asynccontextmanager
    async def running(
        self, *pools: dict[str, Handler], store: SqlJobStore | None = None, **choices: Any
    ) -> AsyncIterator[JobEngine]:
        """An engine, stopped at the end."""
        engine = self.engine(store=store, **choices)
        await engine.start(pools)
        try:
            yield engine
        finally:
            await engine.stop()

    def engine(self, *, store: SqlJobStore | None = None, **choices: Any) -> JobEngine:
        settings: dict[str, Any] = {
            "workers": 4,
            "lease_seconds": 60,
            "max_attempts": 3,
            "stop_seconds": 0,
            "jitter": lambda: 0.5,
        }
        return JobEngine(
            store or self.store, clock=self.clock, fail_points=FailPoints(), **{**settings, **choices}
        )

    async def queue(
        self, engine: JobEngine | None, kind: str, *, lane: str | None = None, dedupe: str = "", due: int = 0
    ) -> int:
        job = NewJob(kind, lane or kind, "default", None, self.clock() + due, dedupe=dedupe)
        job_id = await queue_now(self.database, job, self.clock())
        if engine is not None:
            engine.notify(job.run_at)
        return job_id

    async def job(self, job_id: int) -> Job:
        job = await self.store.get(job_id)
        assert job is not None
        return job

    async def settled(self, job_id: int, claims: int) -> Job:
        """The job once it has been started so often and runs no longer."""

        async def is_settled() -> bool:
            job = await self.job(job_id)
            return job.claims == claims and job.state != "running"

        await eventually(is_settled)
        return await self.job(job_id)

    def let_time_pass(self, engine: JobEngine, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        engine.notify(0)


async def queue_now(database: Database, job: NewJob, now: int) -> int:
    def insert(connection: sqlite3.Connection) -> int:
        queue_jobs(connection, [job], now)
        return queued_job_id(connection, job)

    return await database.write(insert)


@pytest.fixture
def bench(database: Database, clock: FakeClock) -> Bench:
    return Bench(database, clock)


class Hanging:
    """A handler that hangs the first times it is called. `stubborn`: it does not react to being cancelled."""

    def __init__(self, *, times: int = 1, stubborn: bool = False) -> None:
        self.seen: list[Job] = []
        self.active = 0
        self.most_active = 0
        self.started = asyncio.Event()
        self.release = asyncio.Event()
        self._times = times
        self._stubborn = stubborn

    async def __call__(self, job: Job) -> None:
        self.seen.append(job)
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        self.started.set()
        try:
            if len(self.seen) <= self._times:
                await self._hang()
        finally:
            self.active -= 1

    async def _hang(self) -> None:
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                if not self._stubborn:
                    raise


async def done(_: Job) -> None:
    """A handler with nothing to do."""


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


async def test_jobs_of_different_lanes_run_side_by_side(bench: Bench) -> None:
    together = asyncio.Barrier(3)

    async def meet(_: Job) -> None:
        await together.wait()

    async with bench.running({"a": meet}) as engine:
        ids = [await bench.queue(engine, "a", lane=f"lane {number}") for number in range(3)]
        assert all([await engine.wait_for(job_id, SOON) for job_id in ids])


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
    """The first engine is never stopped: its file is opened again as the next process would."""
    lost, handler = Hanging(), Hanging(times=0)
    died = bench.engine()
    await died.start([{"a": lost}])
    job_id = await bench.queue(died, "a")
    await lost.started.wait()
    again = Database(tmp_path / "journal.db")
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
            lambda connection: connection.execute("DELETE FROM jobs WHERE pk = ?", (behind,)).rowcount
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
    ended, _ = await asyncio.wait({stopping}, timeout=2)
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


# The real handlers, on a real home


def home_settings(home: Path) -> Settings:
    return Settings(
        home=home,
        transcript_delay_ms=0,
        memorize=MemorizeSettings(delay_ms=0, pause_seconds=0),
        jobs=JobSettings(stop_seconds=1),
    )


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with open_app(home_settings(tmp_path / "home")) as app:
        yield app


async def say(app: App, *texts: str, thread_id: str = "t1", tags: tuple[str, ...] = ()) -> None:
    """Messages an hour apart, each with its text as its id."""
    turns = [
        NewTurn("user", text, START + number * 3_600_000, "ann", text) for number, text in enumerate(texts)
    ]
    await app.THREADS.append(Append("default", thread_id, turns, tags=tags))


async def at_rest(app: App) -> None:
    await eventually(lambda: _no_jobs(app))


async def _no_jobs(app: App) -> bool:
    return await app.jobs.counts() == {}


async def everything(app: App) -> dict[str, object]:
    """All of the home but its jobs: every row, and every file of the vault."""
    tables = [
        row["name"] for row in await app.database.read("SELECT name FROM sqlite_master WHERE type = 'table'")
    ]
    found: dict[str, object] = {
        table: await app.database.read(f"SELECT * FROM {table}")
        for table in tables
        if table not in ("jobs", "sqlite_sequence")
    }
    root = app.settings.vault_path
    files = {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {**found, "files": files}


@pytest.mark.parametrize("kind", [BOUNDARY, FLUSH, TRANSCRIBE, PURGE])
async def test_every_handler_run_twice_leaves_the_same_state(app: App, kind: str) -> None:
    await say(app, "a", "b", "c", "d")
    await at_rest(app)
    if kind == FLUSH:
        assert await app.jobs.wait_for(await app.cells.request_flush("default", "t1"), SOON)
    if kind == PURGE:
        await app.THREADS.delete_thread("t1")
    await at_rest(app)
    once = await everything(app)
    lane = (cells_lane if kind in (BOUNDARY, FLUSH) else vault_lane)(thread_key("default", "t1"))
    job = NewJob(kind, lane, "default", "t1", 0, '{"user_id": "me"}')
    if kind == FLUSH:
        job_id = await app.cells.request_flush("default", "t1")
    else:
        job_id = await queue_now(app.database, job, app.clock())
        app.jobs.notify(0)
    assert await app.jobs.wait_for(job_id, SOON)
    await at_rest(app)
    assert await everything(app) == once


async def test_a_flush_leaves_nothing_buffered_and_the_cells_in_the_vault(app: App) -> None:
    await say(app, "a", "b")
    assert await app.jobs.wait_for(await app.cells.request_flush("default", "t1"), SOON)
    await at_rest(app)
    found = await app.verifier.verify()
    assert (found.ok, found.pending, found.coverage["default"].celled) == (True, 0, 2)


async def test_tags_that_come_with_duplicates_reach_the_vault(app: App) -> None:
    await say(app, "a")
    await at_rest(app)
    await say(app, "a", tags=("trip",))
    await at_rest(app)
    assert "trip" in (await app.vault.read("default/users/me/threads/t1/0001.md") or "")


async def test_a_forgotten_word_is_nowhere_under_the_home(app: App) -> None:
    await say(app, "hippopotamus", "rhinoceros")
    assert await app.jobs.wait_for(await app.cells.request_flush("default", "t1"), SOON)
    await at_rest(app)
    await app.THREADS.delete_thread("t1")
    await at_rest(app)
    holding = [
        path.name
        for path in app.settings.home.rglob("*")
        if path.is_file() and (b"hippopotamus" in path.read_bytes() or b"rhinoceros" in path.read_bytes())
    ]
    assert holding == []


async def test_an_app_starts_and_stops_again_and_again_in_one_loop(tmp_path: Path) -> None:
    app = open_app(home_settings(tmp_path / "home"))
    for number in range(3):
        async with app:
            await say(app, f"message {number}")
            await at_rest(app)
    async with app:
        turns = await app.THREADS.get_history("t1")
        assert [turn.content for turn in turns] == ["message 0", "message 1", "message 2"]
        assert (await app.verifier.verify()).ok


def test_an_app_starts_and_stops_in_one_event_loop_after_another(tmp_path: Path) -> None:
    app = open_app(home_settings(tmp_path / "home"))

    async def use(number: int) -> int:
        async with app:
            await say(app, f"message {number}")
            await at_rest(app)
            return len(await app.THREADS.get_history("t1"))

    assert [asyncio.run(use(number)) for number in range(3)] == [1, 2, 3]


async def test_two_apps_with_two_homes_live_side_by_side(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        one, two = [
            await stack.enter_async_context(open_app(home_settings(tmp_path / name)))
            for name in ("one", "two")
        ]
        await say(one, "a")
        await say(two, "b", "c")
        await at_rest(one)
        await at_rest(two)
        assert len(await one.THREADS.get_history("t1")) == 1
        assert len(await two.THREADS.get_history("t1")) == 2


async def test_what_was_queued_at_a_stop_is_done_after_the_next_start(tmp_path: Path) -> None:
    app = open_app(home_settings(tmp_path / "home"))
    async with app, app.jobs.paused():
        await say(app, "a")
    async with app:
        await at_rest(app)
        found = await app.verifier.verify()
    assert (found.ok, found.pending, found.parts) == (True, 0, 1)


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


async def test_making_way_again_and_again_is_counted_and_held_against_no_job(bench: Bench) -> None:
    seen: list[Job] = []

    async def makes_way(job: Job) -> None:
        seen.append(job)
        if len(seen) <= 20:
            raise Preempted

    async with bench.running({"a": makes_way}, max_attempts=2) as engine:
        assert await engine.wait_for(await bench.queue(engine, "a"), SOON)
        assert (engine.preempted, engine.failed, engine.finished) == (20, 0, 1)
    assert {(job.attempts, job.interruptions, job.error) for job in seen} == {(0, 0, None)}


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


async def test_jobs_that_all_wait_at_the_gate_keep_no_other_pool_waiting(bench: Bench) -> None:
    at_the_gate = Hanging(times=3)
    async with bench.running({"model": at_the_gate}, {"file": done}, workers=2) as engine:
        for number in range(3):
            await bench.queue(engine, "model", lane=f"model {number}")
        await at_the_gate.started.wait()
        assert await engine.wait_for(await bench.queue(engine, "file"), SOON)
        at_the_gate.release.set()


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

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.found_nothing = asyncio.Event()
        """Jobs were looked for after it refused, and none was due."""

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
    store = FullDisk(bench.database)
    handler = Hanging()

    async def meets_a_full_disk(job: Job) -> None:
        await handler(job)
        if store.is_full:
            raise StorageUnavailable("the disk is full")

    async with bench.running({"a": meets_a_full_disk}, store=store) as engine:
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
    store = FullDisk(bench.database)
    handler = Hanging(times=2)

    async def meets_a_full_disk(job: Job) -> None:
        await handler(job)
        if store.is_full:
            raise StorageUnavailable("the disk is full")

    async with bench.running({"a": meets_a_full_disk}, store=store) as engine:
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
    store = FullDisk(bench.database)
    tries = 0

    async def meets_a_full_disk(_job: Job) -> None:
        nonlocal tries
        tries += 1
        if store.is_full:
            raise StorageUnavailable("the disk is full")

    async with bench.running({"a": meets_a_full_disk}, store=store) as engine:
        job_id = await bench.queue(engine, "a")
        for number in range(1, MAX_INTERRUPTIONS + 2):
            await eventually(lambda number=number: tries == number)  # type: ignore[misc]
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


@pytest.mark.parametrize("sql", [CLAIM, NEXT_DUE])
async def test_finding_due_jobs_scans_neither_those_that_are_not_nor_other_kinds(
    database: Database, sql: str
) -> None:
    bound: Any = ("x",) if sql is NEXT_DUE else {"now": 1, "leased_until": 1, "limit": 1, "kind": "x"}
    plan = await database.read(f"EXPLAIN QUERY PLAN {sql}", bound)
    steps = " ".join(row["detail"] for row in plan)
    assert "jobs_due (kind=?" in steps
    assert "SCAN" not in steps
    assert "TEMP B-TREE" not in steps


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
