"""The only place that builds objects: joins the verbs of `service` with the engines of `infra`."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from recollect.errors import HomeUnusable
from recollect.failpoints import FailPoints
from recollect.infra.archive import TarArchiver
from recollect.infra.home_lock import HomeLock
from recollect.infra.image_files import ImageFiles
from recollect.infra.job_engine import Handler, JobEngine
from recollect.infra.lance.index import LanceIndex
from recollect.infra.local_model.child import LocalModel
from recollect.infra.metrics import Metrics
from recollect.infra.sql.append import Schedule
from recollect.infra.sql.cell_store import SqlCellStore
from recollect.infra.sql.chain_store import SqlChainStore
from recollect.infra.sql.chat_store import SqlChatStore
from recollect.infra.sql.coverage import SqlCoverage
from recollect.infra.sql.database import Database
from recollect.infra.sql.image_references import SqlImageReferences
from recollect.infra.sql.importer import SqlCopier
from recollect.infra.sql.index_ledger import SqlIndexLedger
from recollect.infra.sql.job_store import SqlJobStore
from recollect.infra.sql.key_store import SqlKeyStore
from recollect.infra.sql.note_store import SqlNoteStore
from recollect.infra.sql.people_store import SqlPeopleStore
from recollect.infra.sql.thread_store import SqlThreadStore
from recollect.infra.sql.transcript_store import SqlTranscriptStore
from recollect.infra.vault import Vault
from recollect.infra.vault_watcher import VaultWatcher
from recollect.memory.identity import thread_key
from recollect.memory.job import (
    BOUNDARY,
    FLUSH,
    PEOPLE,
    PURGE,
    SKILLS,
    SUMMARY,
    TAKE_IN,
    TITLE,
    TRANSCRIBE,
)
from recollect.service.boundaries import Boundaries
from recollect.service.chat import Chat
from recollect.service.follow_up import SkillWork
from recollect.service.forget import Purger
from recollect.service.hand_edits import HandEdits
from recollect.service.images import Images
from recollect.service.incognito import IncognitoEnds
from recollect.service.people_files import PeopleFiles
from recollect.service.recognise import ResentChat
from recollect.service.summaries import Summariser
from recollect.service.titles import Titles
from recollect.service.transcribe import Transcriber
from recollect.service.verify import Verifier
from recollect.settings import MODELS, TOML_NAME, Settings
from recollect.wiring.backends import Backends
from recollect.wiring.chat import Talking, build_talking
from recollect.wiring.models import boundary_rules
from recollect.wiring.prefixes import LivePrefixes
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
            on_forget=self._thread_goes,
        )
        self.chats = SqlChatStore(
            self.database,
            clock=clock,
            schedule=schedule,
            on_due=self.jobs.notify,
            on_change=self._thread_changed,
        )
        self.incognito = IncognitoEnds(self.THREADS, clock=clock, idle_hours=settings.chat.incognito_hours)
        self.small_model = LocalModel(settings.home / MODELS)
        self.chains = SqlChainStore(self.database)
        self.people = SqlPeopleStore(self.database, clock=clock, on_due=self.jobs.notify)
        self.cells = SqlCellStore(self.database, clock=clock, schedule=schedule, on_due=self.jobs.notify)
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
            index_problems=self._index_problems,
        )
        self.people_files = PeopleFiles(self.people, self.vault, self.transcriber.reports)
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
            followers=[self.people_files],
        )
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
        prefixes = LivePrefixes(self.talking.backends, self.chats, self.THREADS, self.images)
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
        skills: dict[str, Handler] = {SKILLS: SkillWork((), self.chats.record_receipt).handle}
        writing: dict[str, Handler] = {
            TRANSCRIBE: self.transcriber.handle,
            PURGE: purger.handle,
            TAKE_IN: self.transcriber.handle_take_in,
            PEOPLE: self.people_files.handle,
        }
        return [asking, soon, skills, writing]

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

    async def _index_problems(self) -> list[str]:
        return await self.search.verifier.problems(self.search.indexer.live.name)

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
