"""Builds the objects of a home. What starts and stops them is the App."""

import time
from dataclasses import dataclass
from functools import partial

from recollect.domain.breaker import Breaker
from recollect.domain.entries.entry import EntryChange
from recollect.domain.job import JobSpec
from recollect.domain.model import ThreadRef
from recollect.domain.vault_file import Listing
from recollect.failpoints import FailPoints
from recollect.infra.addresses import Addresses, is_loopback
from recollect.infra.backends.configured import Backends
from recollect.infra.backends.local_model import SMOLLM2, LocalModel
from recollect.infra.embedders.onnx import OnnxEmbedder
from recollect.infra.embedders.openai import OpenAiEmbedder
from recollect.infra.embedders.port import embedder_of, former_embedder
from recollect.infra.files import files_of
from recollect.infra.home_lock import HomeLock
from recollect.infra.index.bucket import index_place
from recollect.infra.index.store import LanceIndex
from recollect.infra.job_engine import JobEngine
from recollect.infra.journal.cells import SqlCellStore, SqlCellTexts, SqlModelAnswers
from recollect.infra.journal.chats import SqlChatStore
from recollect.infra.journal.connector import Leader
from recollect.infra.journal.coverage import SqlCoverage
from recollect.infra.journal.database import Database, journal_connector
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SqlEntryFileStore, SqlSkillFiles
from recollect.infra.journal.files import SqlNoteStore, SqlTranscriptStore
from recollect.infra.journal.forgetting import SqlForgetting
from recollect.infra.journal.history_matching import SqlHistoryMatching
from recollect.infra.journal.identity import home_id
from recollect.infra.journal.importer import SqlLedgerOutbox
from recollect.infra.journal.index import SqlIndexLedger
from recollect.infra.journal.jobs import Schedule, SqlJobStore
from recollect.infra.journal.keys import SqlKeyStore
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.ledger import Ledger
from recollect.infra.metrics import Metrics
from recollect.infra.vault import Images as ImageStore
from recollect.service.access.audit import audit_log
from recollect.service.access.keys import KeyUses
from recollect.service.access.quotas import DiskUse, Quotas
from recollect.service.chat.always_on_memories import AlwaysOnMemories, QuerySimilarity
from recollect.service.chat.answer import Patience
from recollect.service.chat.context import RecallSource
from recollect.service.chat.context_builder import PromptMaker
from recollect.service.chat.rewrite import Rewriter
from recollect.service.chat.sources import Sources
from recollect.service.chat.stream import LiveTurns
from recollect.service.chat.turn import Chat
from recollect.service.coordination import Clock, OwnerLocks, now_ms
from recollect.service.entries import Entries
from recollect.service.forget.forget import IncognitoEnds
from recollect.service.forget.purge import IndexForgetter, write_tombstones_again
from recollect.service.models.backend_priority import QUIET_SECONDS, Gate
from recollect.service.models.background import BackgroundModel, background_seconds
from recollect.service.models.choice import ThreadModels
from recollect.service.models.llama_slots import LlamaSlots
from recollect.service.recall.corpus_cache import CorpusCache
from recollect.service.recall.embedding import MeaningIndexer
from recollect.service.recall.indexer import Indexer
from recollect.service.recall.reindex import Reindexer
from recollect.service.recall.search import Recall
from recollect.service.recall.verify import IndexVerifier
from recollect.service.recall.words import WordIndexer
from recollect.service.remember.boundaries import QuietThreads, boundary_rules
from recollect.service.remember.extract import PromptTexts
from recollect.service.remember.reprocess import Reprocessor
from recollect.service.remember.strategies import LiveTuning
from recollect.service.skills.files import SkillDeletions, SkillShelf
from recollect.service.skills.view import SkillEntries
from recollect.service.vault.entry_edits import EntryTaker
from recollect.service.vault.entry_files import EntryDeletions, EntryFiles
from recollect.service.vault.images import Images
from recollect.service.vault.index_notes import IndexNotes
from recollect.service.vault.notes import Notes
from recollect.service.vault.people_files import PeopleFiles
from recollect.service.vault.reader import EditReports
from recollect.service.vault.sweep import VaultSweep
from recollect.service.vault.transcripts import Transcriber
from recollect.service.verify import Verifier, entry_problems
from recollect.service.webhooks import Webhooks, patience
from recollect.settings import Settings


@dataclass(frozen=True, slots=True)
class Search:
    """The parts of an App that keep the index and search it."""

    embedder: OnnxEmbedder | OpenAiEmbedder | None
    corpus_cache: CorpusCache
    indexer: Indexer
    verifier: IndexVerifier
    recall: Recall
    reindexer: Reindexer
    forgetter: IndexForgetter

    @property
    def model(self) -> str | None:
        """The embedding model that is configured; None where search goes by words alone."""
        return None if self.embedder is None else self.embedder.name


@dataclass(frozen=True, slots=True)
class Talking:
    """The parts of an App that ask models."""

    backends: Backends
    gate: Gate
    slots: LlamaSlots
    recall: RecallSource
    rewriter: Rewriter
    chat: Chat
    models: ThreadModels
    background: BackgroundModel
    """To be asked while `backends.has_model`."""


class Assembly:
    """The objects of one home, built and not started."""

    def __init__(self, settings: Settings, clock: Clock = now_ms, *, leads_others: bool = False) -> None:
        self.settings = settings
        self.clock = clock
        self.fail_points = FailPoints(settings.fail_point)
        self.lock = HomeLock(settings.home)
        address = settings.member_url if leads_others else None
        leader = None if address is None else Leader(address.rstrip("/"), self.lock.token)
        self.database = Database(journal_connector(settings, self.fail_points, leader))
        self.jobs = JobEngine(
            SqlJobStore(self.database),
            clock=clock,
            workers=settings.jobs.workers,
            lease_seconds=settings.jobs.lease_seconds,
            max_attempts=settings.jobs.max_attempts,
            stop_seconds=settings.jobs.stop_seconds,
            fail_points=self.fail_points,
            patience=patience(settings.webhooks),
        )
        self.metrics = Metrics()
        files = files_of(settings, self.fail_points, partial(home_id, self.database))
        self.vault, self.watcher = files.vault, files.watcher
        self._build_stores(files.ledger)
        self._build_access()
        self._build_vault(files.images)
        self.index = LanceIndex(index_place(settings), fail_points=self.fail_points)
        self.ledger = SqlIndexLedger(self.database)
        self.search: Search = self.build_search()
        self.talking: Talking = self.build_talking()

    def _build_stores(self, ledger: Ledger) -> None:
        """What reads and writes the journal."""
        settings, clock = self.settings, self.clock
        schedule = Schedule(
            boundary_every=settings.memorize.boundary_every,
            boundary_delay_ms=settings.memorize.delay_ms,
            pause_ms=int(settings.memorize.pause_seconds * 1000),
            transcript_delay_ms=settings.transcript_delay_ms,
            quiet_ms=int(settings.memorize.quiet_seconds * 1000),
            gap_ms=boundary_rules(settings).gap_ms,
        )
        self.THREADS = SqlThreadStore(
            self.database,
            clock=clock,
            schedule=schedule,
            on_due=self.jobs.notify,
            on_change=self._thread_changed,
            on_forget=self._thread_goes,
        )
        self.chats = SqlChatStore(
            self.database,
            clock=clock,
            schedule=schedule,
            on_due=self.jobs.notify,
            on_change=self._thread_changed,
        )
        self.forgetting = SqlForgetting(
            self.database,
            clock=clock,
            on_due=self.jobs.notify,
            on_change=self._thread_changed,
            on_forget=self._thread_goes,
        )
        self.incognito = IncognitoEnds(self.THREADS, clock=clock, idle_hours=settings.chat.incognito_hours)
        self.small_model = LocalModel(settings.local_model(SMOLLM2.name))
        self.histories = SqlHistoryMatching(self.database)
        self.people = SqlPresetStore(self.database, clock=clock, on_due=self.jobs.notify)
        self.tuning = LiveTuning(settings)
        self.cells = SqlCellStore(self.database, clock=clock, schedule=schedule, on_due=self.jobs.notify)
        self.quiet_threads = QuietThreads(
            self.cells, clock=clock, quiet_seconds=settings.memorize.quiet_seconds
        )
        self.cell_texts = SqlCellTexts(self.database)
        self.entry_store = SqlEntryStore(
            self.database, clock=clock, on_due=self.jobs.notify, on_entries=self._entries_changed
        )
        self.entry_file_store = SqlEntryFileStore(
            self.database, clock=clock, on_due=self.jobs.notify, on_entries=self._entries_changed
        )
        self.model_answers = SqlModelAnswers(self.database, clock=clock)
        self.skill_files = SqlSkillFiles(self.database, clock=clock, on_due=self.jobs.notify)
        self.transcripts = SqlTranscriptStore(self.database, clock=clock, on_due=self.jobs.notify)
        self.coverage = SqlCoverage(self.database, lambda: self.search.indexer.live.name)
        self.notes = SqlNoteStore(self.database)
        self.ledger_outbox = SqlLedgerOutbox(self.database, ledger)

    def _build_access(self) -> None:
        """Who may do what, and how much of it."""
        settings = self.settings
        self.keys = SqlKeyStore(self.database)
        self.key_uses = KeyUses(self.keys)
        self.audit = audit_log(settings, self.database, self.clock)
        self.quotas = Quotas(settings.quotas, self.metrics, on_loopback=is_loopback(settings.host))
        self.disk_use = DiskUse(self.quotas, self.vault)
        self.webhooks = Webhooks(self.database, settings.webhooks, self.clock, self.fail_points)

    def _build_vault(self, images: ImageStore) -> None:
        """What keeps the vault's files and the journal alike."""
        settings, clock = self.settings, self.clock
        self.prompt_texts = PromptTexts(self.vault)
        self.transcriber = Transcriber(
            self.transcripts,
            self.vault,
            self.fail_points,
            on_revised=self._thread_changed,
            reports=EditReports(clock=clock),
        )
        self.images = Images(
            images,
            self.THREADS,
            self.transcripts,
            self.vault,
            Addresses(allow_private=settings.chat.allow_private_images, schemes="https: or data:"),
            self.transcriber.reports,
        )
        stores = self.THREADS, self.transcripts, self.coverage
        self.verifier = Verifier(*stores, self.vault, self.transcriber, index_problems=self._derived_problems)
        self.index_notes = IndexNotes(self.notes, self.skill_files, self.vault)
        self.people_files = PeopleFiles(self.people, self.vault, self.transcriber.reports)
        self.memory_locks = locks = OwnerLocks()
        reports, changed = self.transcriber.reports, self.index_notes.changed
        taker = EntryTaker(
            self.entry_file_store,
            self.entry_store,
            self.vault,
            reports,
            clock,
            self._after_a_person,
            locks,
        )
        self.entry_files = EntryFiles(
            self.entry_file_store, self.vault, reports, taker, self.notes, self._entry_files_changed
        )
        self.entries = Entries(
            self.entry_store, self.THREADS, self.transcripts, clock, self._after_a_person, locks
        )
        self.reprocessor = Reprocessor(
            self.THREADS, self.cell_texts, self.model_answers, self.entry_store, self.tuning
        )
        self.shelf = SkillShelf(
            self.skill_files,
            self.vault,
            reports,
            SkillDeletions(self.entry_store),
            self.forgetting.queue_overwriting,
            self.fail_points,
            locks,
            changed,
        )
        self.vault_sweep = VaultSweep(
            self.notes,
            self.vault,
            self.watcher,
            reports,
            clock=clock,
            sweep_seconds=settings.vault.sweep_seconds,
            on_notes_changed=self._notes_changed,
            on_swept=self._swept,
            followers=[self.transcriber, self.people_files, self.entry_files, self.shelf],
        )
        self.user_notes = Notes(self.vault_sweep.notes, self.vault_sweep.look_at)
        self.skills = SkillEntries(self.entry_store, self.THREADS, self.transcripts, self.shelf)

    def build_search(self) -> Search:
        """Called at every start: a closed embedder can't be used again."""
        embedder = embedder_of(self.settings)
        locks = OwnerLocks()
        corpus_cache = CorpusCache(
            self.index,
            self.ledger,
            self.transcripts,
            self.entry_store,
            locks,
            budget_bytes=self.settings.index.cache_mb * 1024 * 1024,
            on_damage=self._owner_damaged,
        )
        stores = self.index, self.ledger, self.transcripts, self.entry_store, self.entry_file_store
        words = WordIndexer(*stores, self.vault, locks, corpus_cache, self.fail_points)
        indexer = Indexer(
            MeaningIndexer(words, embedder),
            delay_seconds=self.settings.index.delay_ms / 1000,
            most_behind=self.settings.limits.unsearched,
        )
        verifier = IndexVerifier(words, self.THREADS, self.coverage, self.notes)
        embed_seconds = self.settings.embedding.query_seconds
        former = partial(former_embedder, self.settings)
        recall = Recall(indexer, self.THREADS, clock=self.clock, embed_seconds=embed_seconds, former=former)
        reindexer = Reindexer(indexer, verifier.problems)
        return Search(embedder, corpus_cache, indexer, verifier, recall, reindexer, IndexForgetter(indexer))

    def build_talking(self) -> Talking:
        """Called at every start: closed connections can't be used again."""
        settings, search = self.settings, self.search
        backends = Backends(settings, self.small_model.address)
        gate, slots = Gate(quiet_seconds=QUIET_SECONDS), LlamaSlots()
        new_breaker = partial(Breaker, clock=time.monotonic)
        rewriter = Rewriter(
            clock=time.monotonic, new_breaker=new_breaker, deadline_seconds=settings.chat.rewrite_seconds
        )
        recall = RecallSource(
            search.recall,
            QuerySimilarity(search.corpus_cache),
            AlwaysOnMemories(self.entry_store, self.THREADS),
            new_breaker=new_breaker,
            clock=time.monotonic,
            deadline_seconds=settings.chat.recall_seconds,
        )
        sources = Sources(settings.sources, self.THREADS, self.people, backends)
        chat = Chat(
            self.chats,
            self.THREADS,
            self.people,
            backends,
            PromptMaker(rewriter, recall, self.skills.offered, sources),
            gate,
            slots,
            LiveTurns(),
            self.images,
            clock=self.clock,
            max_turns=settings.chat.max_turns,
            patience=Patience(settings.chat.answer_seconds, settings.chat.orphan_seconds),
            on_answer=self.metrics.observe_answer,
        )
        models = ThreadModels(backends, self.chats, self.THREADS, self.people)
        answering, waiting = background_seconds(
            settings.memorize.model_timeout_seconds, settings.jobs.lease_seconds
        )
        background = BackgroundModel(
            models.of,
            gate,
            answer_seconds=answering,
            patience_seconds=waiting,
            on_own_prompt=slots.disturbed,
            admit=lambda thread: self.quotas.model_call(thread.space, thread.user_id),
            rest_clock=lambda: self.clock() / 1000,
        )
        return Talking(backends, gate, slots, recall, rewriter, chat, models, background)

    async def _derived_problems(self) -> list[str]:
        """Where entries and index differ from the journal and the vault, in words."""
        of_entries = await entry_problems(self.entry_file_store, self.vault)
        return of_entries + await self.search.verifier.problems(self.search.indexer.live.name)

    async def _swept(self, went_back: bool, listing: Listing) -> None:
        """After each sweep; `went_back`: an old copy of the vault was put back a moment ago."""
        await self.images.drop_old_copies()
        if went_back and not await self.transcripts.is_purging():
            await EntryDeletions(self.entry_store, self.vault).write_again()
            users = await self.transcripts.users_with_tombstones()
            await write_tombstones_again(self.forgetting, self.vault, users)
        self.index_notes.swept(listing.stamps)

    def _owner_damaged(self, owner: str, space: str, user_id: str) -> None:
        self.search.indexer.owner_damaged(owner, space, user_id)

    def _entries_changed(self, owner: str, ids: set[str]) -> None:
        self.search.indexer.entries_changed(owner, ids)

    def _entry_files_changed(self, owners: set[str]) -> None:
        for owner in owners:
            self._entries_changed(owner, set())
        self.index_notes.changed(owners)

    def _notes_changed(self, owners: set[str]) -> None:
        self.search.indexer.notes_changed(owners)
        self.index_notes.changed(owners)

    def _thread_goes(self, thread: ThreadRef) -> None:
        self.talking.chat.forget(thread)

    def _thread_changed(self, thread: ThreadRef) -> None:
        self.search.indexer.thread_changed(thread)

    def _after_a_person(self, change: EntryChange, kinds: frozenset[str]) -> list[JobSpec]:
        return self.tuning().after_person(kinds, change.space, change.owner, self.clock())
