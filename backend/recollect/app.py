"""The only place that builds objects: joins the verbs of `service` with the engines of `infra`."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from recollect.errors import HomeUnusable
from recollect.failpoints import FailPoints
from recollect.infra.archive import TarArchiver
from recollect.infra.boundary_model import BoundaryModel
from recollect.infra.home_lock import HomeLock
from recollect.infra.job_engine import JobEngine
from recollect.infra.lance.index import LanceIndex
from recollect.infra.metrics import Metrics
from recollect.infra.sql.append import Schedule
from recollect.infra.sql.cell_store import SqlCellStore
from recollect.infra.sql.coverage import SqlCoverage
from recollect.infra.sql.database import Database
from recollect.infra.sql.importer import SqlCopier
from recollect.infra.sql.index_ledger import SqlIndexLedger
from recollect.infra.sql.job_store import SqlJobStore
from recollect.infra.sql.key_store import SqlKeyStore
from recollect.infra.sql.note_store import SqlNoteStore
from recollect.infra.sql.thread_store import SqlThreadStore
from recollect.infra.sql.transcript_store import SqlTranscriptStore
from recollect.infra.vault import Vault
from recollect.infra.vault_watcher import VaultWatcher
from recollect.memory.job import BOUNDARY, FLUSH, PURGE, TAKE_IN, TRANSCRIBE
from recollect.service.boundaries import Boundaries
from recollect.service.forget import Purger
from recollect.service.hand_edits import HandEdits
from recollect.service.transcribe import Transcriber
from recollect.service.verify import Verifier
from recollect.settings import TOML_NAME, Settings
from recollect.wiring.models import boundary_model, boundary_rules
from recollect.wiring.search import Engines, Search, build_search

Clock = Callable[[], int]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class App:
    """One home, opened. Starts and stops any number of times; `async with` does both."""

    def __init__(self, settings: Settings, clock: Clock = now_ms) -> None:
        self.settings = settings
        self.clock = clock
        self.fail_points = FailPoints(settings.fail_point)
        self.lock = HomeLock(settings.home)
        self.database = Database(
            settings.journal_path, synchronous=settings.synchronous, fail_points=self.fail_points
        )
        self.jobs = JobEngine(
            SqlJobStore(self.database),
            clock=clock,
            workers=settings.jobs.workers,
            lease_seconds=settings.jobs.lease_seconds,
            max_attempts=settings.jobs.max_attempts,
            stop_seconds=settings.jobs.stop_seconds,
            fail_points=self.fail_points,
        )
        schedule = Schedule(
            boundary_every=settings.memorize.boundary_every,
            boundary_delay_ms=settings.memorize.delay_ms,
            pause_ms=int(settings.memorize.pause_seconds * 1000),
            transcript_delay_ms=settings.transcript_delay_ms,
        )
        self.THREADS = SqlThreadStore(
            self.database,
            clock=clock,
            schedule=schedule,
            on_due=self.jobs.notify,
            on_change=self._thread_changed,
        )
        self.cells = SqlCellStore(self.database, clock=clock, schedule=schedule, on_due=self.jobs.notify)
        self.transcripts = SqlTranscriptStore(self.database)
        self.coverage = SqlCoverage(self.database, lambda: self.search.indexer.live.name)
        self.keys = SqlKeyStore(self.database)
        self.vault = Vault(settings.vault_path, fail_points=self.fail_points)
        self.transcriber = Transcriber(
            self.transcripts, self.vault, self.fail_points, on_revised=self._thread_changed
        )
        self.verifier = Verifier(
            self.THREADS,
            self.transcripts,
            self.coverage,
            self.vault,
            self.transcriber,
            index_problems=self._index_problems,
        )
        self.notes = SqlNoteStore(self.database)
        self.watcher = VaultWatcher(settings.vault_path)
        self.hand_edits = HandEdits(
            self.transcripts,
            self.notes,
            self.vault,
            self.watcher,
            self.transcriber.reports,
            clock=clock,
            sweep_seconds=settings.vault.sweep_seconds,
            on_notes_changed=self._notes_changed,
            on_due=self.jobs.notify,
        )
        self.index = LanceIndex(settings.index_path, fail_points=self.fail_points)
        self.ledger = SqlIndexLedger(self.database)
        self.search: Search = self._search()
        self.copier = SqlCopier(self.database)
        self.archiver = TarArchiver()
        self.metrics = Metrics()
        self._model: BoundaryModel | None = None

    async def start(self) -> None:
        """Take the home, bring its journal up to date, and run the jobs that wait."""
        self.lock.acquire()
        try:
            await self._refuse_orphaned_vault()
            await self.database.open()
            await self.vault.open(expected=await self.transcripts.any_parts())
            await self.keys.load()
            self._model = boundary_model(self.settings)
            boundaries = Boundaries(
                self.cells, boundary_rules(self.settings), self._model, self.fail_points, self.clock
            )
            self.search = self._search()
            await self.search.indexer.start()
            purger = Purger(self.transcripts, self.vault, self.fail_points, self.search.indexer.forget_thread)
            await self.jobs.start(
                [
                    {BOUNDARY: boundaries.look, FLUSH: boundaries.finish},
                    {
                        TRANSCRIBE: self.transcriber.handle,
                        PURGE: purger.handle,
                        TAKE_IN: self.transcriber.handle_take_in,
                    },
                ]
            )
            await self.hand_edits.start()
        except BaseException:
            await self._close()
            raise

    async def warm_up(self) -> None:
        """Load what takes a second to load, so that the first message is found as soon as any other."""
        await self.index.load(self.search.indexer.live.name, "")

    def _search(self) -> Search:
        engines = Engines(
            index=self.index,
            ledger=self.ledger,
            threads=self.THREADS,
            transcripts=self.transcripts,
            coverage=self.coverage,
            notes=self.notes,
            vault=self.vault,
            fail_points=self.fail_points,
            clock=self.clock,
        )
        return build_search(self.settings, engines, self._owner_damaged)

    async def _index_problems(self) -> list[str]:
        return await self.search.verifier.problems(self.search.indexer.live.name)

    def _owner_damaged(self, owner: str, space: str, user_id: str) -> None:
        self.search.indexer.owner_damaged(owner, space, user_id)

    def _notes_changed(self, owners: set[str]) -> None:
        self.search.indexer.notes_changed(owners)

    def _thread_changed(self, space: str, thread_id: str) -> None:
        self.search.indexer.thread_changed(space, thread_id)

    async def _refuse_orphaned_vault(self) -> None:
        """A vault whose journal is gone must not be written over: threads would begin anew with the same names."""
        if not self.settings.journal_path.exists() and await self.vault.holds_transcripts():
            raise HomeUnusable(
                f"the vault {self.vault.root} holds conversations, and the journal {self.settings.journal_path} is "
                "missing. Run 'recollect rebuild' to bring it back from the vault."
            )

    async def stop(self) -> None:
        """Let running jobs end, put the rest back, and let go of the home."""
        try:
            await self.hand_edits.stop()
            await self.jobs.stop()
            await self.search.indexer.stop()
        finally:
            await self._close()

    async def _close(self) -> None:
        if self._model is not None:
            await self._model.aclose()
            self._model = None
        if self.search.embedder is not None:
            await self.search.embedder.aclose()
        await self.search.recall.close()
        await self.index.close()
        await self.database.close()
        self.lock.release()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def files_to_back_up(self) -> dict[str, Path]:
        """Everything a backup holds besides the journal, by its place in the home."""
        home = self.settings.home
        files = [path for path in (home / "vault").rglob("*") if path.is_file() and path.suffix != ".tmp"]
        toml = home / TOML_NAME
        return {
            path.relative_to(home).as_posix(): path for path in [*files, *([toml] if toml.is_file() else [])]
        }


def open_app(settings: Settings, *, clock: Clock = now_ms) -> App:
    """An App for this home; `start` it, or use it with `async with`."""
    return App(settings, clock)
