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
from recollect.infra.embedding.onnx import OnnxEmbedder
from recollect.infra.embedding.openai import OpenAiEmbedder
from recollect.infra.home_lock import HomeLock
from recollect.infra.job_engine import JobEngine
from recollect.infra.lance.index import LanceIndex
from recollect.infra.metrics import Metrics
from recollect.infra.sql.append import Schedule
from recollect.infra.sql.cell_store import SqlCellStore
from recollect.infra.sql.coverage import SqlCoverage
from recollect.infra.sql.database import Database
from recollect.infra.sql.importer import SqlCopier, SqlImporter
from recollect.infra.sql.index_ledger import SqlIndexLedger
from recollect.infra.sql.job_store import SqlJobStore
from recollect.infra.sql.key_store import SqlKeyStore
from recollect.infra.sql.note_store import SqlNoteStore
from recollect.infra.sql.thread_store import SqlThreadStore
from recollect.infra.sql.transcript_store import SqlTranscriptStore
from recollect.infra.vault import Vault
from recollect.infra.vault_watcher import VaultWatcher
from recollect.memory.access import ApiKey
from recollect.memory.boundary import BoundaryRules
from recollect.memory.job import BOUNDARY, FLUSH, PURGE, TAKE_IN, TRANSCRIBE
from recollect.service.boundaries import Boundaries
from recollect.service.corpora import Corpora
from recollect.service.forget import Purger
from recollect.service.hand_edits import HandEdits
from recollect.service.index_meaning import MeaningIndexer
from recollect.service.index_words import WordIndexer
from recollect.service.indexer import Indexer
from recollect.service.owner_locks import OwnerLocks
from recollect.service.ports import Progress, no_progress
from recollect.service.rebuild import RebuildReport, rebuild
from recollect.service.recall import Recall
from recollect.service.reindex import Reindexer
from recollect.service.transcribe import Transcriber
from recollect.service.verify import Verification, Verifier
from recollect.service.verify_index import IndexVerifier
from recollect.settings import MODELS, TOML_NAME, Settings

Clock = Callable[[], int]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Search:
    """The parts of an App that keep the index and search it."""

    embedder: OnnxEmbedder | OpenAiEmbedder | None
    corpora: Corpora
    indexer: Indexer
    verifier: IndexVerifier
    recall: Recall
    reindexer: Reindexer

    @property
    def embedded_texts(self) -> int:
        """Since the start."""
        return self.reindexer.meaning.embedded


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
        self.search: Search = self._build_search()
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
            self.search = self._build_search()
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

    def _build_search(self) -> "Search":
        """Everything that finds. A new embedder for every start: one that was closed stays closed."""
        embedder = embedder_of(self.settings)
        locks = OwnerLocks()
        corpora = Corpora(
            self.index,
            self.ledger,
            self.transcripts,
            locks,
            budget_bytes=self.settings.index.cache_mb * 1024 * 1024,
            on_damage=self._owner_damaged,
        )
        words = WordIndexer(
            self.index,
            self.ledger,
            self.transcripts,
            self.notes,
            self.vault,
            locks,
            corpora,
            self.fail_points,
        )
        meaning = MeaningIndexer(
            self.index, self.ledger, self.transcripts, words, locks, corpora, embedder, self.fail_points
        )
        indexer = Indexer(
            self.index,
            self.ledger,
            words,
            meaning,
            corpora,
            embedder,
            delay_seconds=self.settings.index.delay_ms / 1000,
        )
        verifier = IndexVerifier(
            self.index, self.ledger, self.transcripts, self.THREADS, self.coverage, self.notes, self.vault
        )
        recall = Recall(
            indexer,
            corpora,
            self.ledger,
            self.THREADS,
            self.transcripts,
            embedder,
            clock=self.clock,
            embed_seconds=self.settings.embedding.query_seconds,
        )
        reindexer = Reindexer(
            indexer, self.index, self.ledger, words, meaning, embedder, verifier.problems, self.fail_points
        )
        return Search(embedder, corpora, indexer, verifier, recall, reindexer)

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


def embedder_of(settings: Settings) -> OnnxEmbedder | OpenAiEmbedder | None:
    """The embedder that is configured; its model is loaded when it is first used."""
    chosen = settings.embedding
    if chosen.kind == "openai":
        assert chosen.base_url is not None
        assert chosen.model is not None
        return OpenAiEmbedder(
            base_url=chosen.base_url,
            model=chosen.model,
            api_key=chosen.api_key.get_secret_value() if chosen.api_key else None,
            timeout=chosen.timeout_seconds,
            dimensions=chosen.dimensions,
            batch=chosen.batch or 64,
        )
    if chosen.kind == "onnx":
        return OnnxEmbedder(settings.model_folder, threads=chosen.threads, batch=chosen.batch or 16)
    return None


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
    async with open_app(settings) as app, app.jobs.paused():
        await app.search.indexer.settled()
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
                        await app.transcriber.catch_up(space, thread.thread_id)
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
    """Unpack a backup into a home that does not exist yet or holds nothing but models, and prove it."""
    home = settings.home
    if settings.journal_path.exists():
        raise HomeUnusable(f"there is a journal at {settings.journal_path} already; move it away first")
    if home.exists() and any(path.name != MODELS for path in home.iterdir()):
        raise HomeUnusable(f"{home} is not empty; move it away, or choose another RECOLLECT_HOME")
    beside = home.with_name(home.name + ".restoring")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        await TarArchiver().unpack(archive, beside, progress)
        FailPoints(settings.fail_point).reach("restore.unpacked")
        if home.exists():
            if (home / MODELS).exists():
                (home / MODELS).replace(beside / MODELS)
            home.rmdir()
        beside.replace(home)
        if settings.database_url is not None:
            settings.journal_path.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(home / "journal.db", settings.journal_path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    async with open_app(settings) as app:
        return await app.verifier.verify()
