"""The same journal twice: in memory, and in a real SQLite file."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from recollect.domain.boundary import memcell_id
from recollect.domain.entries.entry import EntryJob
from recollect.domain.job import Job
from recollect.domain.model import Append, Memcell, NewTurn, Receipt, Turn
from recollect.infra.journal.cells import SqlCellStore
from recollect.infra.journal.coverage import SqlCoverage
from recollect.infra.journal.database import Database
from recollect.infra.journal.entry_rows import SqlJobQueue
from recollect.infra.journal.files import SqlTranscriptStore
from recollect.infra.journal.importer import SqlImporter
from recollect.infra.journal.jobs import SqlJobStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.journal.turns import Schedule
from recollect.service.ports import CellStore, CoverageStore, ThreadStore, TranscriptStore
from recollect.service.rebuild import JournalBuilder
from tests.fakes import START, FakeClock, FakeJournal

BOUNDARY_EVERY = 4
BOUNDARY_DELAY_MS = 700
PAUSE_MS = 30_000
TRANSCRIPT_DELAY_MS = 400


@dataclass(frozen=True)
class Journal:
    """The ports of one journal, and what a test needs to see what they did."""

    threads: ThreadStore
    cells: CellStore
    transcripts: TranscriptStore
    coverage: CoverageStore
    builder: JournalBuilder
    clock: FakeClock
    jobs: Callable[[], Awaitable[list[Job]]]
    """What waits in the default space, oldest first."""
    queue: Callable[[str, EntryJob], Awaitable[None]]
    """Queues work about a thread of the default space."""

    async def add(
        self, thread_id: str, *texts: str, space: str = "default", user_id: str | None = None
    ) -> list[Receipt]:
        """Append these texts, without message ids."""
        return await self.threads.append(Append(space, thread_id, [said(text) for text in texts], user_id))

    async def texts(self, thread_id: str, *, space: str = "default") -> list[str]:
        return [turn.content for turn in await self.threads.get_history(thread_id, space=space)]


def said(text: str, message_id: str | None = None, *, timestamp: int = START) -> NewTurn:
    return NewTurn("user", text, timestamp, "ann", message_id)


def cell_of(*turns: Turn, space: str = "default", thread_id: str = "t1", reason: str = "gap") -> Memcell:
    ids = [turn.message_id for turn in turns]
    return Memcell(memcell_id(space, thread_id, ids), tuple(turn.turn_id for turn in turns), reason)


def fake_journal() -> Journal:
    journal = FakeJournal(
        boundary_every=BOUNDARY_EVERY,
        boundary_delay_ms=BOUNDARY_DELAY_MS,
        pause_ms=PAUSE_MS,
        transcript_delay_ms=TRANSCRIPT_DELAY_MS,
    )
    return Journal(
        journal.threads,
        journal.cells,
        journal.transcripts,
        journal.coverage,
        journal.builder,
        journal.clock,
        lambda: journal.jobs.list_jobs(space="default"),
        partial(_queue_in_fake, journal),
    )


async def _queue_in_fake(journal: FakeJournal, thread_id: str, job: EntryJob) -> None:
    journal.jobs.queue(job.kind, job.lane, "default", thread_id, journal.clock(), job.payload, job.dedupe)


@asynccontextmanager
async def sqlite_journal(path: Path) -> AsyncIterator[Journal]:
    clock = FakeClock()
    database = Database(path)
    await database.open()
    schedule = Schedule(
        boundary_every=BOUNDARY_EVERY,
        boundary_delay_ms=BOUNDARY_DELAY_MS,
        pause_ms=PAUSE_MS,
        transcript_delay_ms=TRANSCRIPT_DELAY_MS,
    )
    jobs, queue = SqlJobStore(database), SqlJobQueue(database, clock=clock, on_due=lambda due: None)
    try:
        yield Journal(
            SqlThreadStore(database, clock=clock, schedule=schedule),
            SqlCellStore(database, clock=clock, schedule=schedule),
            SqlTranscriptStore(database),
            SqlCoverage(database),
            SqlImporter(database, clock=clock),
            clock,
            lambda: jobs.list_jobs(space="default", user_id=None, state=None, limit=100, after=0),
            lambda thread_id, job: queue.queue("default", thread_id, [job]),
        )
    finally:
        await database.close()
