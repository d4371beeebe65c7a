"""An engine on a real file with a settable clock, and handlers that hang or do nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.job import Job
from recollect.domain.model import ThreadRef
from recollect.failpoints import FailPoints
from recollect.infra.job_engine import Handler, JobEngine
from recollect.infra.journal.connector import Connection
from recollect.infra.journal.database import Database
from recollect.infra.journal.jobs import SqlJobStore
from recollect.infra.journal.rows import NewJob, queue_jobs, queued_job_id
from recollect.infra.journal.sqlite import SqliteConnector
from tests.eventually import eventually
from tests.fakes import FakeClock

SOON = 30.0
"""More than any of this takes; waited for only where something is wrong."""


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
        self,
        engine: JobEngine | None,
        kind: str,
        *,
        lane: str | None = None,
        thread: ThreadRef | None = None,
        dedupe: str = "",
        due: int = 0,
    ) -> int:
        space = "default" if thread is None else thread.space
        job = NewJob(kind, lane or kind, space, thread, self.clock() + due, dedupe=dedupe)
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


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    database = Database(SqliteConnector(tmp_path / "journal.db"))
    await database.open()
    yield Bench(database, FakeClock())
    await database.close()


async def queue_now(database: Database, job: NewJob, now: int) -> int:
    def insert(connection: Connection) -> int:
        queue_jobs(connection, [job], now)
        return queued_job_id(connection, job)

    return await database.write(insert)


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


class Noting:
    """A handler that notes the kinds it was given, and raises what `errors` has for one."""

    def __init__(self, **errors: Exception) -> None:
        self.seen: list[str] = []
        self.errors = errors

    async def __call__(self, job: Job) -> None:
        self.seen.append(job.kind)
        if (error := self.errors.get(job.kind)) is not None:
            raise error

    @property
    def pool(self) -> dict[str, Handler]:
        return dict.fromkeys(("a", "b", "c", *self.errors), self)
