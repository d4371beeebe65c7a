"""A journal in a real SQLite file, with a clock that stands still and jobs that run when they are told to."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from recollect.domain.boundary import memcell_id
from recollect.domain.job import Job, JobSpec
from recollect.domain.model import Append, Memcell, NewTurn, Receipt, Thread, ThreadRef, Turn
from recollect.domain.paths import owner_folder, transcript_path
from recollect.domain.vault_file import TRANSCRIPTS, KnownFile, StoredPart
from recollect.failpoints import FailPoints
from recollect.infra.job_engine import Handler, JobEngine
from recollect.infra.journal.cells import SqlCellStore
from recollect.infra.journal.chats import SqlChatStore
from recollect.infra.journal.connector import Connector
from recollect.infra.journal.coverage import SqlCoverage
from recollect.infra.journal.database import Database
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.journal.files import PartParts, SqlNoteStore, SqlTranscriptStore
from recollect.infra.journal.history_matching import SqlHistoryMatching
from recollect.infra.journal.importer import SqlImporter
from recollect.infra.journal.jobs import Schedule, SqlJobStore
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.journal.sqlite import SqliteConnector
from recollect.infra.journal.threads import SqlThreadStore
from tests.fakes import START, FakeClock

CONNECTOR: Callable[[Path], Connector] = SqliteConnector
"""What the stores run on: `--deployment`."""

BOUNDARY_EVERY = 4
BOUNDARY_DELAY_MS = 700
PAUSE_MS = 30_000
TRANSCRIPT_DELAY_MS = 400


class Jobs(JobEngine):
    """The real engine, without its dispatcher: what is due runs when a test says so, or waits for a job."""

    def __init__(self, database: Database, clock: FakeClock) -> None:
        super().__init__(
            SqlJobStore(database),
            clock=clock,
            workers=1,
            lease_seconds=60,
            max_attempts=8,
            stop_seconds=1,
            fail_points=FailPoints(),
            jitter=lambda: 0.5,
        )
        self.handlers: dict[str, Handler] = {}

    async def run_due(self) -> int:
        """Run jobs until none is due; returns how many were done."""
        before = self.finished
        self._pools = [self.handlers]
        while True:
            self._due = self._clock()
            await self._start_due_jobs()
            if not self._running:
                return self.finished - before
            await asyncio.wait({task for _, task in self._running.values()})
            await asyncio.sleep(0)  # Whoever is called when a task ends is called now.

    async def wait_for(self, job_id: int, seconds: float) -> bool:
        """The clock stands still: what is due runs now, and the rest would not be done in time."""
        await self.run_due()
        job = await self.get(job_id)
        return job is None or job.state == "dead"


class Journal:
    """The stores of one journal, open while the `async with` block runs, and what a test needs to see what they did."""

    def __init__(self, path: Path, *, transcript_delay_ms: int = TRANSCRIPT_DELAY_MS) -> None:
        self.file = path
        self.clock = clock = FakeClock()
        self.database = database = Database(CONNECTOR(path))
        self.schedule = schedule = Schedule(
            boundary_every=BOUNDARY_EVERY,
            boundary_delay_ms=BOUNDARY_DELAY_MS,
            pause_ms=PAUSE_MS,
            transcript_delay_ms=transcript_delay_ms,
        )
        self.jobs = Jobs(database, clock)
        self.threads = SqlThreadStore(database, clock=clock, schedule=schedule)
        self.cells = SqlCellStore(database, clock=clock, schedule=schedule)
        self.chats = SqlChatStore(database, clock=clock, schedule=schedule)
        self.chains = SqlHistoryMatching(database)
        self.transcripts = SqlTranscriptStore(database, clock=clock)
        self.coverage = SqlCoverage(database)
        self.builder = SqlImporter(database, clock=clock)
        self.notes = SqlNoteStore(database)
        self.on_entries: Callable[[str, set[str]], None] = lambda owner, ids: None
        """Told the owner and the ids of entries that changed."""
        self.entries = SqlEntryStore(database, clock=clock, on_entries=self._entries_changed)
        self.entry_files = SqlEntryFileStore(database, clock=clock)
        self.people = SqlPresetStore(database, clock=clock)

    def _entries_changed(self, owner: str, ids: set[str]) -> None:
        self.on_entries(owner, ids)

    async def __aenter__(self) -> Self:
        await self.database.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.database.close()

    async def waiting(self) -> list[Job]:
        """The jobs of the default space, oldest first."""
        return await self.jobs.list_jobs(space="default")

    async def queue(self, thread_id: str, job: JobSpec) -> None:
        """Queue work about a thread of the default space."""
        await self.entries.queue("default", ThreadRef("default", "me", thread_id), [job])

    async def execute(self, sql: str, *values: Any) -> None:
        """Change rows past the stores."""
        await self.database.write(lambda connection: connection.run(sql, values))

    async def add(
        self, thread_id: str, *texts: str, space: str = "default", user_id: str | None = None
    ) -> list[Receipt]:
        """Append these texts, without message ids."""
        return await self.threads.append(Append(space, thread_id, [said(text) for text in texts], user_id))

    async def history(self, thread_id: str, max_turns: int | None = None, **whose: str) -> list[Turn]:
        """As `THREADS.get_history`, by `space` and `user_id`."""
        return await self.threads.get_history(await self.threads.meant(thread_id, **whose), max_turns)

    async def texts(self, thread_id: str, *, space: str = "default") -> list[str]:
        return [turn.content for turn in await self.history(thread_id, space=space)]

    async def update(self, thread_id: str, changes: dict[str, Any]) -> Thread:
        return await self.threads.update(await self.threads.meant(thread_id), changes)

    async def delete(self, thread_id: str, **whose: str) -> int:
        return await self.threads.delete(await self.threads.meant(thread_id, **whose))


def said(text: str, message_id: str | None = None, *, timestamp: int = START) -> NewTurn:
    return NewTurn("user", text, timestamp, "ann", message_id)


async def announce_part(
    transcripts: SqlTranscriptStore, thread: ThreadRef, part: StoredPart, digest: str
) -> None:
    await transcripts.announce(_file_of(thread, part), digest, PartParts(thread, part))


async def record_part(
    transcripts: SqlTranscriptStore,
    thread: ThreadRef,
    part: StoredPart,
    digest: str,
    cells: Sequence[Memcell] = (),
) -> None:
    await transcripts.record(_file_of(thread, part), digest, PartParts(thread, part, cells))


def _file_of(thread: ThreadRef, part: StoredPart) -> KnownFile:
    path, owner = transcript_path(*thread, part.part), owner_folder(thread.space, thread.user_id)
    return KnownFile(path, TRANSCRIPTS, thread.space, owner, digest=part.digest, announced=part.announced)


def cell_of(*turns: Turn, space: str = "default", thread_id: str = "t1", reason: str = "gap") -> Memcell:
    ids = [turn.message_id for turn in turns]
    return Memcell(
        memcell_id(ThreadRef(space, "ann", thread_id), ids), tuple(turn.turn_id for turn in turns), reason
    )
