"""One home, opened: what starts and stops, in which order, and which job is whose."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cached_property, partial
from typing import Self

from recollect.assembly import Assembly
from recollect.domain.access import Caller
from recollect.domain.identity import thread_key
from recollect.domain.job import (
    BOUNDARY,
    DELETIONS,
    DELIVERY,
    ENTRIES,
    FLUSH,
    PEOPLE,
    PURGE,
    SKILLS,
    SUMMARY,
    TITLE,
    TRANSCRIBE,
    TRANSCRIPT_EDITS,
    Job,
)
from recollect.domain.model import ThreadRef
from recollect.domain.strategy import STRATEGY
from recollect.errors import HomeUnusable, IndexUnavailable, StorageUnavailable, Unavailable
from recollect.infra.job_engine import Handler
from recollect.infra.journal.audit_lines import SqlAuditLines
from recollect.infra.journal.forgotten_proof import SqlForgottenProof
from recollect.infra.journal.identity import home_id
from recollect.infra.upgrade_copies import UpgradeCopies
from recollect.service.chat.followups import LivePrefixes, SkillWork, Summariser, Titles
from recollect.service.chat.history_matching import HistoryMatching
from recollect.service.chat.turn import Chat
from recollect.service.coordination import Clock, now_ms
from recollect.service.forget.proof import ForgottenVerifier
from recollect.service.forget.purge import Purges, Rework, ThreadPurger
from recollect.service.graph import KnowledgeGraph
from recollect.service.imports.importer import Importer
from recollect.service.memory_tool import MemoryTool
from recollect.service.models.background import BackgroundModel
from recollect.service.models.cached_model_calls import CachedModelCalls
from recollect.service.models.choice import Connected, connect_model
from recollect.service.rebuild import OpenedHome
from recollect.service.remember.boundaries import Boundaries, boundary_rules
from recollect.service.remember.consolidate import Cases, Remembering
from recollect.service.remember.extract import Extractor, LivePrefix
from recollect.service.remember.profile import Profiles
from recollect.service.remember.strategies import StrategyWork
from recollect.service.skills.skills import Skills
from recollect.service.threads import Ingest
from recollect.service.vault.entry_files import EntryDeletions
from recollect.service.vault.upgrade import Upgrader
from recollect.settings import Settings

_log = logging.getLogger("recollect.app")


class App(Assembly):
    """One home, opened. Starts and stops any number of times; `async with` does both."""

    async def start(self) -> None:
        """Take the home, bring its journal up to date, and run the jobs that wait."""
        self.lock.acquire()
        try:
            await self._refuse_orphaned_vault()
            await self.database.open()
            await self.vault.open(expected=await self.transcripts.any_parts())
            await self.bring_ledger_up()
            await self.keys.load()
            await self.webhooks.store.load()
            self.people.clear_cache()
            self.search = self.build_search()
            await self.search.indexer.start()
            self.search.reindexer.start()
            self.talking = self.build_talking()
            await self.chat.start()
            await self.jobs.start(self._handlers())
            await self.vault_sweep.start()
            self.incognito.start("incognito-ends")
            self.quiet_threads.start("quiet-threads")
            self.key_uses.start("key-uses")
            self.disk_use.start("disk-use")
            self.index_notes.start("index-notes")
        except BaseException:
            # What may run already; a member starts again.
            with suppress(Unavailable):
                await self.jobs.stop()
            await self.search.reindexer.stop()
            await self.search.indexer.stop()
            await self._close()
            raise

    @property
    def chat(self) -> Chat:
        return self.talking.chat

    @property
    def history_matching(self) -> HistoryMatching:
        """Chats of clients that resend their history."""
        return HistoryMatching(self.chat, self.histories, self.THREADS, self.chats)

    def _handlers(self) -> list[dict[str, Handler]]:
        """One mapping per pool of workers: work that waits for a model delays no other pool."""
        prefixes = LivePrefixes(
            self.talking.backends, self.talking.models, self.chats, self.THREADS, self.images
        )
        masks = self.settings.mask_secrets

        def soon(model: BackgroundModel | None) -> dict[str, Handler]:
            return {
                TITLE: Titles(self.THREADS, model, masks).handle,
                SUMMARY: Summariser(self.transcripts, self.chats, model, prefixes.of_epoch, masks).handle,
            }

        writing: dict[str, Handler] = {
            TRANSCRIBE: self.transcriber.handle,
            PURGE: self._in_ledger(self._purges().handle),
            TRANSCRIPT_EDITS: self.transcriber.handle_edits,
            PEOPLE: self._in_ledger(self.people_files.handle),
            ENTRIES: self.entry_files.handle,
            DELETIONS: self._in_ledger(EntryDeletions(self.entry_store, self.vault).handle),
        }
        by_model = self._with_or_without_model
        asks_for_boundaries = self.settings.memorize.boundary == "model"
        return [
            by_model(self._boundary_handlers) if asks_for_boundaries else self._boundary_handlers(None),
            by_model(soon),
            by_model(partial(self._memory_handlers, prefixes.holding)),
            writing,
            {DELIVERY: self.webhooks.handle},
        ]

    def _with_or_without_model(
        self, handlers: Callable[[BackgroundModel | None], dict[str, Handler]]
    ) -> dict[str, Handler]:
        """A job asks the model that there is when it runs: one on this machine may come and go."""
        asking, alone = handlers(self.talking.background), handlers(None)

        async def handle(job: Job) -> None:
            has_model = await self.talking.backends.has_model()
            await (asking if has_model else alone)[job.kind](job)

        return dict.fromkeys(asking, handle)

    def _boundary_handlers(self, model: BackgroundModel | None) -> dict[str, Handler]:
        boundaries = Boundaries(
            self.cells,
            boundary_rules(self.settings),
            model,
            self.fail_points,
            self.clock,
            strategies=lambda closed, now: self.tuning().after_cell(closed),
            most_waiting=self.settings.limits.backlog,
        )
        return {BOUNDARY: boundaries.look, FLUSH: boundaries.finish}

    def _in_ledger(self, handler: Handler) -> Handler:
        """The handler, run after the ledger has the deletions that the job finishes."""

        async def handle(job: Job) -> None:
            await self.ledger_outbox.drain()
            await handler(job)

        return handle

    async def bring_ledger_up(self) -> None:
        """Write what the ledger still lacks. If it can't be written now, the log says so, and it is tried again."""
        try:
            await self.ledger_outbox.drain()
        except StorageUnavailable as error:
            _log.error("%s; deletions are written to the ledger later", error.message)

    def _memory_handlers(self, live_prefix: LivePrefix, model: BackgroundModel | None) -> dict[str, Handler]:
        """Without a model, only episodes are made."""
        model_calls = None if model is None else CachedModelCalls(model, self.model_answers, self.fail_points)
        prompts = self.prompt_texts
        language = self.settings.memorize.language or ""
        extractor = Extractor(model_calls, prompts, live_prefix, self.settings.mask_secrets, language)
        remembering = Remembering(
            self.cell_texts,
            self.entry_store,
            extractor,
            self.people,
            self.tuning,
            self.clock,
            self.memory_locks,
            self.fail_points,
            self.search.recall.facts_like,
        )
        cases = Cases(self.cell_texts, self.people, extractor, remembering)
        skills = Skills(self.entry_store, self.model_answers, self.shelf, model_calls, prompts)
        work = StrategyWork(
            remembering.handle,
            {
                "profile": Profiles(self.entry_store, self.memory_locks, self.clock, prompts, model).handle,
                "skill": skills.handle,
            },
            self.tuning,
            self.entry_store,
        )
        turns = SkillWork(cases.from_turns, self.chats)
        return {STRATEGY: work.handle, SKILLS: turns.handle}

    def _purges(self) -> Purges:
        threads = ThreadPurger(
            self.transcripts, self.vault, self.fail_points, self._forget_thread, self.images.forget_unused
        )
        return Purges(
            threads,
            self.forgetting,
            self.THREADS,
            self.transcriber,
            self.entry_file_store,
            self.people,
            self.vault_sweep.notes,
            self.search.forgetter,
            Rework(self.cell_texts, self.entry_store, self.tuning, self.clock),
            self._upgrade_copies.forget,
            self.index_notes,
        )

    @cached_property
    def graph(self) -> KnowledgeGraph:
        return KnowledgeGraph(self.user_notes, self.forgetting, self.clock)

    @cached_property
    def memory_tool(self) -> MemoryTool:
        return MemoryTool(self.user_notes, self.forgetting)

    @cached_property
    def ingest(self) -> Ingest:
        return Ingest(
            self.THREADS,
            self.jobs,
            self.quotas,
            self.metrics,
            lambda: self.search.indexer.overtaken,
            self.settings.limits.backlog,
        )

    @cached_property
    def importer(self) -> Importer:
        return Importer(
            self.THREADS,
            self.user_notes,
            self.graph,
            self.clock,
            self.ingest,
            lambda: self.search.indexer,
            self.fail_points,
        )

    @property
    def _upgrade_copies(self) -> UpgradeCopies:
        return UpgradeCopies(self.settings.home, self.fail_points)

    @property
    def upgrader(self) -> Upgrader:
        return Upgrader(self.transcriber, self.entry_files, self._upgrade_copies)

    @property
    def forgotten_verifier(self) -> ForgottenVerifier:
        return ForgottenVerifier(
            SqlForgottenProof(self.database),
            self.index,
            self.vault,
            self.jobs,
            self.settings.home,
        )

    async def _forget_thread(self, thread: ThreadRef) -> None:
        self.talking.slots.release(thread_key(thread))
        await self.search.forgetter.forget_thread(thread)

    async def connect_model(
        self, caller: Caller, base_url: str, api_key: str | None, model: str | None
    ) -> Connected:
        """Use another default model from now on, after it has answered. Chats that run are not disturbed."""
        async with self.talking.backends.changing:
            self.settings, connected = await connect_model(caller, self.settings, base_url, api_key, model)
            self.talking.backends.use(self.settings)
        return connected

    async def warm_up(self) -> None:
        """Load what takes a second to load, so that the first message is found as soon as any other."""
        with suppress(IndexUnavailable):  # Health says it.
            await self.index.load(self.search.indexer.live.name, "")

    async def _refuse_orphaned_vault(self) -> None:
        """A vault whose journal is gone must not be written over: threads would begin again with the same names."""
        connector = self.database.connector
        if not await connector.exists() and await self.vault.holds_transcripts():
            if await self.vault.has_owner():
                raise HomeUnusable(
                    f"{self.vault.place} belongs to a home whose journal is not {connector.name}. If that home lives,"
                    " give this one a place of its own in RECOLLECT_FILES_URL. If its journal is lost for good,"
                    " 'recollect rebuild --take' brings it back from these files"
                )
            raise HomeUnusable(
                f"the vault {self.vault.place} holds conversations, and the journal {connector.name} is "
                "missing. Run 'recollect rebuild' to bring it back from the vault."
            )

    async def stop(self) -> None:
        """Let running jobs end, put the rest back, and release the home."""
        try:
            await self.incognito.stop()
            await self.quiet_threads.stop()
            await self.key_uses.stop()
            await self.disk_use.stop()
            await self.vault_sweep.stop()
            await self.chat.stop()
            self.talking.gate.shut()
            await self.jobs.stop()
            await self.index_notes.stop()
            await self.search.reindexer.stop()
            await self.search.indexer.stop()
        finally:
            await self._close()

    async def _close(self) -> None:
        await self.talking.recall.close()
        await self.talking.backends.aclose()
        await self.small_model.aclose()
        await self.webhooks.sender.aclose()
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


def open_app(settings: Settings, *, clock: Clock = now_ms, leads_others: bool = False) -> App:
    """An App for this home; `start` it, or use it with `async with`.

    `leads_others`: other servers on its journal are told where this one is reached, as soon as it is started.
    """
    return App(settings, clock, leads_others=leads_others)


@asynccontextmanager
async def open_home(settings: Settings) -> AsyncIterator[OpenedHome]:
    """What rebuilding and restoring need of an App."""
    async with open_app(settings) as app:
        yield OpenedHome(
            app.jobs,
            app.coverage,
            app.THREADS,
            app.keys,
            app.webhooks.store,
            app.ledger_outbox,
            SqlAuditLines(app.database),
            app.vault_sweep,
            app.transcriber,
            app.people_files,
            app.entry_files,
            app.verifier,
            app.search.indexer,
            partial(home_id, app.database),
        )
