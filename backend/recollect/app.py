"""The only place that builds objects: joins the verbs of `service` with the engines of `infra`."""

import shutil
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from recollect.errors import HomeUnusable, RecollectError
from recollect.failpoints import FailPoints
from recollect.infra.archive import TarArchiver
from recollect.infra.boundary_model import BoundaryModel
from recollect.infra.home_lock import HomeLock
from recollect.infra.job_engine import JobEngine
from recollect.infra.metrics import Metrics
from recollect.infra.sql.append import Schedule
from recollect.infra.sql.cell_store import SqlCellStore
from recollect.infra.sql.coverage import SqlCoverage
from recollect.infra.sql.database import Database
from recollect.infra.sql.importer import SqlCopier, SqlImporter
from recollect.infra.sql.job_store import SqlJobStore
from recollect.infra.sql.key_store import SqlKeyStore
from recollect.infra.sql.thread_store import SqlThreadStore
from recollect.infra.sql.transcript_store import SqlTranscriptStore
from recollect.infra.vault import Vault
from recollect.memory.access import ApiKey
from recollect.memory.boundary import BoundaryRules
from recollect.memory.job import BOUNDARY, FLUSH, PURGE, TRANSCRIBE
from recollect.service.boundaries import Boundaries
from recollect.service.forget import Purger
from recollect.service.ports import Progress, no_progress
from recollect.service.rebuild import RebuildReport, rebuild
from recollect.service.transcribe import Transcriber
from recollect.service.verify import Verification, Verifier
from recollect.settings import TOML_NAME, Settings

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
        self.THREADS = SqlThreadStore(self.database, clock=clock, schedule=schedule, on_due=self.jobs.notify)
        self.cells = SqlCellStore(self.database, clock=clock, schedule=schedule, on_due=self.jobs.notify)
        self.transcripts = SqlTranscriptStore(self.database)
        self.coverage = SqlCoverage(self.database)
        self.keys = SqlKeyStore(self.database)
        self.vault = Vault(settings.vault_path, fail_points=self.fail_points)
        self.transcriber = Transcriber(self.transcripts, self.vault, self.fail_points)
        self.verifier = Verifier(self.THREADS, self.transcripts, self.coverage, self.vault, self.transcriber)
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
            purger = Purger(self.transcripts, self.vault, self.fail_points)
            await self.jobs.start(
                [
                    {BOUNDARY: boundaries.look, FLUSH: boundaries.finish},
                    {TRANSCRIBE: self.transcriber.handle, PURGE: purger.handle},
                ]
            )
        except BaseException:
            await self._close()
            raise

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
            await self.jobs.stop()
        finally:
            await self._close()

    async def _close(self) -> None:
        if self._model is not None:
            await self._model.aclose()
            self._model = None
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


def boundary_rules(settings: Settings) -> BoundaryRules:
    return BoundaryRules(
        gap_ms=int(settings.memorize.gap_minutes * 60_000),
        max_turns=settings.memorize.max_turns,
        max_chars=settings.memorize.max_chars,
    )


def boundary_model(settings: Settings) -> BoundaryModel | None:
    """The model for background work, if one is configured: its own backend, else the chat's."""
    tasks, chat = settings.tasks, settings.llm
    base_url = tasks.base_url or chat.base_url
    if base_url is None:
        return None
    own = tasks.base_url is not None
    key = tasks.api_key or (None if own else chat.api_key)
    return BoundaryModel(
        base_url=base_url,
        model=tasks.model or (None if own else chat.model),
        api_key=key.get_secret_value() if key else None,
        timeout=settings.memorize.model_timeout_seconds,
    )


async def rebuild_home(
    settings: Settings, progress: Progress = no_progress
) -> tuple[RebuildReport, Verification]:
    """Bring the journal back from the vault. Over a healthy journal, first write what is still to be written.

    Raises HomeUnusable, and changes nothing, where the vault is missing or holds less than a healthy journal.
    """
    if not settings.vault_path.is_dir():
        raise HomeUnusable(f"there is no vault at {settings.vault_path} to rebuild from; bring it back first")
    old = await _settle_old_journal(settings) if settings.journal_path.exists() else _OldJournal()
    lock = HomeLock(settings.home)
    lock.acquire()
    try:
        fail_points = FailPoints(settings.fail_point)
        new_path = settings.journal_path.with_name(settings.journal_path.name + ".rebuilding")
        _remove_journal(new_path)
        database = Database(new_path)
        await database.open()
        vault = Vault(settings.vault_path)
        await vault.open(expected=False)
        importer = SqlImporter(database, clock=now_ms)
        report = await rebuild(vault, importer, fail_points, progress)
        await importer.add_keys(old.keys)
        await database.close()
        if report.turns < old.turns:
            raise HomeUnusable(
                f"the vault holds {report.turns} turns and the journal {old.turns}: nothing was changed. "
                "Bring the missing files back, or write them anew with 'recollect verify --repair'."
            )
        _swap_journal(new_path, settings.journal_path)
        fail_points.reach("rebuild.swapped")
    finally:
        lock.release()
    report.lost = old.lost
    async with open_app(settings) as app:
        return report, await app.verifier.verify()


@dataclass(slots=True)
class _OldJournal:
    """What is carried over from the journal that a rebuild replaces, and what is not."""

    keys: list[tuple[ApiKey, str]] = field(default_factory=list)
    turns: int = 0
    lost: list[str] = field(default_factory=lambda: ["jobs", "receipts", "incognito threads", "API keys"])


async def _settle_old_journal(settings: Settings) -> _OldJournal:
    """Write to the vault what only the journal has, and save the keys. A damaged journal is set aside."""
    old = _OldJournal()
    try:
        async with open_app(settings) as app:
            async with app.jobs.paused():
                for space in await app.coverage.spaces():
                    for thread in await app.THREADS.list_threads(space=space):
                        await app.transcriber.transcribe(space, thread.thread_id)
                        old.turns += 0 if thread.incognito else thread.turn_count
            old.keys = await app.keys.list_with_hashes()
            old.lost.remove("API keys")
    except RecollectError as error:
        if not _is_damage(error):
            raise
        aside = settings.journal_path.with_name(f"journal.damaged-{now_ms()}.db")
        settings.journal_path.replace(aside)
        _remove_journal(settings.journal_path)
        old.lost.append(
            f"messages that were not yet in the vault (the damaged journal is kept as {aside.name})"
        )
    return old


def _is_damage(error: RecollectError) -> bool:
    return isinstance(error.__cause__, sqlite3.DatabaseError) or "damaged" in str(error)


def _swap_journal(new: Path, journal: Path) -> None:
    _remove_journal(journal, keep_main=True)
    new.replace(journal)
    _remove_journal(new)


def _remove_journal(path: Path, *, keep_main: bool = False) -> None:
    for suffix in ("-wal", "-shm") if keep_main else ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


async def restore_home(archive: Path, settings: Settings, progress: Progress = no_progress) -> Verification:
    """Unpack a backup into a home that does not exist yet or is empty, and prove it."""
    home = settings.home
    if settings.journal_path.exists():
        raise HomeUnusable(f"there is a journal at {settings.journal_path} already; move it away first")
    if home.exists() and any(home.iterdir()):
        raise HomeUnusable(f"{home} is not empty; move it away, or choose another RECOLLECT_HOME")
    beside = home.with_name(home.name + ".restoring")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        await TarArchiver().unpack(archive, beside, progress)
        FailPoints(settings.fail_point).reach("restore.unpacked")
        if home.exists():
            home.rmdir()
        beside.replace(home)
        if settings.database_url is not None:
            settings.journal_path.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(home / "journal.db", settings.journal_path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    async with open_app(settings) as app:
        return await app.verifier.verify()
