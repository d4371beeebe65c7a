"""The only place that builds objects: joins the verbs of `service` with the engines of `infra`."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from recollect.assembly import (
    Engines,
    MemoryParts,
    Search,
    Talking,
    boundary_rules,
    build_memory,
    build_search,
    build_talking,
)
from recollect.domain.entries.entry import CASES, FACTS, EntryChange, EntryJob
from recollect.domain.forgetting import NOTE, OVERWRITE, SETTLE, USER
from recollect.domain.identity import thread_key
from recollect.domain.job import (
    BOUNDARY,
    ENTRIES,
    FLUSH,
    GRAVES,
    PEOPLE,
    PURGE,
    SKILLS,
    SUMMARY,
    TITLE,
    TRANSCRIBE,
    TRANSCRIPT_EDITS,
)
from recollect.domain.strategy import STRATEGY, ClosedCell, Event
from recollect.errors import HomeUnusable
from recollect.failpoints import FailPoints
from recollect.infra.archive import TarArchiver
from recollect.infra.backends.configured import Backends
from recollect.infra.backends.local_model import LocalModel
from recollect.infra.home_lock import HomeLock
from recollect.infra.image_files import ImageFiles
from recollect.infra.index.store import LanceIndex, TableVersions
from recollect.infra.job_engine import Handler, JobEngine
from recollect.infra.journal.cells import SqlCellStore, SqlCellTexts, SqlModelAnswers
from recollect.infra.journal.chats import SqlChatStore
from recollect.infra.journal.coverage import SqlCoverage
from recollect.infra.journal.database import Database
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SqlEntryFileStore, SqlSkillFiles
from recollect.infra.journal.entry_rows import SqlJobQueue
from recollect.infra.journal.files import SqlImageReferences, SqlNoteStore, SqlTranscriptStore
from recollect.infra.journal.forget_proof import SqlForgottenProof
from recollect.infra.journal.forgetting import SqlForgetting
from recollect.infra.journal.history_matching import SqlChainStore
from recollect.infra.journal.importer import SqlCopier
from recollect.infra.journal.index import SqlIndexLedger
from recollect.infra.journal.jobs import SqlJobStore
from recollect.infra.journal.people import SqlKeyStore, SqlPeopleStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.journal.turns import Schedule
from recollect.infra.metrics import Metrics
from recollect.infra.vault import Vault
from recollect.infra.watcher import VaultWatcher
from recollect.service.chat.cached_prefix import LivePrefixes
from recollect.service.chat.followups import Summariser, Titles
from recollect.service.chat.history_matching import ResentChat
from recollect.service.chat.post_turn_jobs import SkillWork
from recollect.service.chat.turn import Chat
from recollect.service.coordination import OwnerLocks
from recollect.service.entries import Entries
from recollect.service.forget.forget import NotePurger, Purger, PurgeSteps, TurnPurger, UserPurger
from recollect.service.forget.proof import ForgottenVerifier
from recollect.service.forget.purge import IncognitoEnds, Overwriter, Rework, Settler
from recollect.service.remember.boundaries import Boundaries, QuietThreads
from recollect.service.remember.reprocess import Reprocessor
from recollect.service.remember.strategies import LiveTuning
from recollect.service.skills.files import SkillFollower, SkillGraves, SkillShelf
from recollect.service.skills.view import SkillEntries, SkillView
from recollect.service.vault.entry_files import EntryFiles
from recollect.service.vault.entry_import import Graves
from recollect.service.vault.images import Images
from recollect.service.vault.notes import Notes
from recollect.service.vault.people_files import PeopleFiles
from recollect.service.vault.sweep import VaultSweep
from recollect.service.vault.transcripts import Transcriber
from recollect.service.verify import Verifier, entry_problems
from recollect.settings import MODELS, TOML_NAME, Settings

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
        self.small_model = LocalModel(settings.home / MODELS)
        self.chains = SqlChainStore(self.database)
        self.people = SqlPeopleStore(self.database, clock=clock, on_due=self.jobs.notify)
        self.tuning = LiveTuning(settings)
        self.cells = SqlCellStore(
            self.database,
            clock=clock,
            schedule=schedule,
            on_due=self.jobs.notify,
            strategies=self._after_a_cell,
        )
        self.quiet_threads = QuietThreads(self.cells, clock=clock, gap_ms=boundary_rules(settings).gap_ms)
        self.cell_texts = SqlCellTexts(self.database)
        self.entry_store = SqlEntryStore(self.database, clock=clock, on_due=self.jobs.notify)
        self.entry_file_store = SqlEntryFileStore(self.database, clock=clock, on_due=self.jobs.notify)
        self.model_answers = SqlModelAnswers(self.database, clock=clock)
        self.skill_files = SqlSkillFiles(self.database, clock=clock)
        self.transcripts = SqlTranscriptStore(self.database)
        self.coverage = SqlCoverage(self.database, lambda: self.search.indexer.live.name)
        self.keys = SqlKeyStore(self.database)
        self.vault = Vault(settings.vault_path, fail_points=self.fail_points)
        self.images = Images(
            ImageFiles(self.vault, fail_points=self.fail_points),
            SqlImageReferences(self.database),
            self.vault,
        )
        self.transcriber = Transcriber(
            self.transcripts, self.vault, self.fail_points, on_revised=self._thread_changed
        )
        self.verifier = Verifier(
            self.THREADS,
            self.transcripts,
            self.coverage,
            self.vault,
            self.transcriber,
            index_problems=self._derived_problems,
        )
        self.notes = SqlNoteStore(self.database)
        self.people_files = PeopleFiles(self.people, self.vault, self.transcriber.reports)
        self._memory_locks = OwnerLocks()
        self.entry_files = EntryFiles(
            self.entry_file_store,
            self.entry_store,
            self.vault,
            self.notes,
            self.transcriber.reports,
            on_changed=self._notes_changed,
            follow_up=self._after_a_person,
            locks=self._memory_locks,
        )
        self.entries = Entries(
            self.entry_store, self.THREADS, self.transcripts, self._after_a_person, self._memory_locks
        )
        self.job_queue = SqlJobQueue(self.database, clock=clock, on_due=self.jobs.notify)
        self.reprocessor = Reprocessor(
            self.THREADS, self.cell_texts, self.model_answers, self.job_queue, self.tuning
        )
        self.shelf = SkillShelf(
            self.vault, self.skill_files, self.transcriber.reports, self.fail_points, self._memory_locks
        )
        skill_graves, forget_words = SkillGraves(self.entry_store), self.forgetting.queue_overwriting
        self.watcher = VaultWatcher(settings.vault_path)
        self.hand_edits = VaultSweep(
            self.transcripts,
            self.notes,
            self.vault,
            self.watcher,
            self.transcriber.reports,
            clock=clock,
            sweep_seconds=settings.vault.sweep_seconds,
            on_notes_changed=self._notes_changed,
            on_due=self.jobs.notify,
            followers=[
                self.people_files,
                self.entry_files,
                SkillFollower(self.shelf, skill_graves, self.entry_file_store, forget_words),
            ],
        )
        self.user_notes = Notes(self.notes, self.vault, self.hand_edits.look_at)
        self.skills = SkillView(
            self.entry_store, self.THREADS, self.transcripts, self.vault, self.skill_files
        )
        self.skill_entries = SkillEntries(self.skills, self.shelf, skill_graves, forget_words)
        self.index = LanceIndex(settings.index_path, fail_points=self.fail_points)
        self.ledger = SqlIndexLedger(self.database)
        self.search: Search = self._search()
        self.copier = SqlCopier(self.database)
        self.archiver = TarArchiver()
        self.metrics = Metrics()
        self.talking: Talking = self._talking()

    async def start(self) -> None:
        """Take the home, bring its journal up to date, and run the jobs that wait."""
        self.lock.acquire()
        try:
            await self._refuse_orphaned_vault()
            await self.database.open()
            await self.vault.open(expected=await self.transcripts.any_parts())
            await self.keys.load()
            self.people.start_anew()
            self.search = self._search()
            await self.search.indexer.start()
            self.talking = self._talking()
            await self.chat.start()
            await self.jobs.start(self._handlers())
            await self.hand_edits.start()
            self.incognito.start()
            self.quiet_threads.start()
        except BaseException:
            await self._close()
            raise

    @property
    def chat(self) -> Chat:
        return self.talking.chat

    @property
    def resent(self) -> ResentChat:
        """Chats of clients that resend their history."""
        return ResentChat(self.chat, self.chains, self.THREADS)

    def _handlers(self) -> list[dict[str, Handler]]:
        """In pools of their own: what waits at the gate keeps no other kind of work waiting."""
        model = self.talking.background
        prefixes = LivePrefixes(
            self.talking.backends, self.talking.models, self.chats, self.THREADS, self.images
        )
        boundaries = Boundaries(
            self.cells, boundary_rules(self.settings), model, self.fail_points, self.clock
        )
        purger = Purger(
            self.transcripts, self.vault, self.fail_points, self._forget_thread, self.images.forget_unused
        )
        asking: dict[str, Handler] = {
            BOUNDARY: boundaries.look,
            FLUSH: boundaries.finish,
        }
        soon: dict[str, Handler] = {
            TITLE: Titles(self.THREADS, model).handle,
            SUMMARY: Summariser(self.transcripts, self.chats, model, prefixes.of_epoch).handle,
        }
        memory = build_memory(self._memory_parts(), model, self.search.embedder, prefixes.holding)
        making: dict[str, Handler] = {
            STRATEGY: memory.strategies.handle,
            SKILLS: SkillWork((memory.case_of_turns,), self.chats.record_receipt).handle,
        }
        writing: dict[str, Handler] = {
            TRANSCRIBE: self.transcriber.handle,
            PURGE: self._purge_steps(purger).handle,
            TRANSCRIPT_EDITS: self.transcriber.handle_edits,
            PEOPLE: self.people_files.handle,
            ENTRIES: self.entry_files.handle,
            GRAVES: Graves(self.entry_store, self.vault).handle,
        }
        return [asking, soon, making, writing]

    def _purge_steps(self, purger: Purger) -> PurgeSteps:
        index, leftovers = self.search.forgetter, self.vault.remove_leftovers
        turns = TurnPurger(
            self.transcripts,
            self.vault,
            self.transcriber,
            index,
            self.fail_points,
            self.images.forget_unused,
            leftovers,
        )
        rework = Rework(self.cell_texts, self.job_queue, self.tuning, self.clock)
        settler = Settler(self.forgetting, self.vault, self.notes, index, rework, self.fail_points, leftovers)
        user = UserPurger(
            self.forgetting,
            self.THREADS,
            self.transcripts,
            self.transcriber,
            self.entry_file_store,
            self.people,
            self.vault,
            index,
            settler,
            self.fail_points,
        )
        overwriter = Overwriter(self.forgetting, self.transcripts, self.fail_points)
        note = NotePurger(self.forgetting, self.vault, self.notes, index, settler, self.transcripts)
        steps = {
            SETTLE: settler.handle, USER: user.handle, NOTE: note.handle, OVERWRITE: overwriter.handle
        }  # fmt: skip
        return PurgeSteps(purger.handle, turns.handle, steps)

    @property
    def forgotten_verifier(self) -> ForgottenVerifier:
        return ForgottenVerifier(
            SqlForgottenProof(self.database),
            TableVersions(self.settings.index_path, self.index),
            self.vault,
            self.jobs,
            self.earlier_copies,
        )

    def earlier_copies(self) -> list[str]:
        """Journals that were set aside, and backups: they hold what was there when they were made."""
        home = self.settings.home
        kept = list(home.glob("journal.damaged-*.db"))
        kept += (home / "backups").glob("*")
        return sorted(path.relative_to(home).as_posix() for path in kept)

    def _memory_parts(self) -> MemoryParts:
        return MemoryParts(
            cells=self.cell_texts,
            entries=self.entry_store,
            answers=self.model_answers,
            shelf=self.shelf,
            people=self.people,
            vault=self.vault,
            tuning=self.tuning,
            clock=self.clock,
            fail_points=self.fail_points,
            locks=self._memory_locks,
        )

    def _after_a_cell(self, closed: ClosedCell, now: int) -> list[EntryJob]:
        return self.tuning().after_cell(closed, now)

    def _after_a_person(self, change: EntryChange, kinds: frozenset[str]) -> list[EntryJob]:
        """What a person's change of entries sets off."""
        events: dict[str, Event] = {FACTS: "facts changed", CASES: "case written"}
        return [
            job
            for kind, event in events.items()
            if kind in kinds
            for job in self.tuning().after(event, change.space, change.owner, self.clock())
        ]

    async def _forget_thread(self, space: str, user_id: str, thread_id: str) -> None:
        self.talking.slots.release(thread_key(space, thread_id))
        await self.search.indexer.forget_thread(space, user_id, thread_id)

    def _talking(self) -> Talking:
        """New backends for every start: connections that were closed stay closed."""
        return build_talking(
            self.settings,
            Backends(self.settings, self.small_model.address),
            self.chats,
            self.THREADS,
            self.people,
            self.search,
            self.images,
            self.entry_store,
            clock=self.clock,
            on_answer=self.metrics.observe_answer,
        )

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

    async def _derived_problems(self) -> list[str]:
        """What of the entries and of the index is not as journal and vault have it."""
        of_entries = await entry_problems(self.entry_file_store, self.vault)
        return of_entries + await self.search.verifier.problems(self.search.indexer.live.name)

    def _owner_damaged(self, owner: str, space: str, user_id: str) -> None:
        self.search.indexer.owner_damaged(owner, space, user_id)

    def _notes_changed(self, owners: set[str]) -> None:
        self.search.indexer.notes_changed(owners)

    def _thread_goes(self, space: str, thread_id: str) -> None:
        self.chat.forget(space, thread_id)

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
            await self.incognito.stop()
            await self.quiet_threads.stop()
            await self.hand_edits.stop()
            await self.chat.stop()
            self.talking.gate.shut()
            await self.jobs.stop()
            await self.search.indexer.stop()
        finally:
            await self._close()

    async def _close(self) -> None:
        await self.talking.recall.close()
        await self.talking.backends.aclose()
        await self.small_model.aclose()
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
        """Everything a backup holds besides the journal, by its place in the home. Links out of an owner's folder are
        left out, as they are everywhere.
        """
        home = self.settings.home
        files = [
            path
            for path in (home / "vault").rglob("*")
            if path.suffix != ".tmp" and self._is_in_the_vault(path)
        ]
        toml = home / TOML_NAME
        return {
            path.relative_to(home).as_posix(): path for path in [*files, *([toml] if toml.is_file() else [])]
        }

    def _is_in_the_vault(self, path: Path) -> bool:
        if not path.is_file():
            return False
        return not path.is_symlink() or not self.vault.leads_away(
            path.relative_to(self.vault.root).as_posix()
        )


def open_app(settings: Settings, *, clock: Clock = now_ms) -> App:
    """An App for this home; `start` it, or use it with `async with`."""
    return App(settings, clock)
