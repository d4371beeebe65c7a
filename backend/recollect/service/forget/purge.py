"""Finishes a forgetting: index rows, late leftovers, memories to make again, incognito threads that ended."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from recollect.domain.entries.entry import EntryJob
from recollect.domain.forgetting import Derived, Task, task_of
from recollect.domain.job import Job, NotYet
from recollect.domain.paths import owner_folder
from recollect.domain.recall.rows import TURN, IndexRow
from recollect.domain.strategy import STRATEGY, ClosedCell, Tuning
from recollect.errors import IndexUnavailable, NotFound, Unavailable
from recollect.failpoints import FailPoints
from recollect.infra.journal.cells import SqlCellTexts
from recollect.infra.journal.entry_rows import SqlJobQueue
from recollect.infra.journal.files import SqlNoteStore, SqlTranscriptStore
from recollect.infra.journal.forgetting import SqlForgetting
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.vault import Vault
from recollect.service.coordination import Clock
from recollect.service.recall.indexer import Indexer
from recollect.service.recall.words import WordIndexer

LeftoverRemover = Callable[[str], Awaitable[None]]
"""Removes what killed writes of an earlier process left in a folder of the vault."""


async def no_leftovers(folder: str) -> None:
    """For vaults that no write is killed in."""


@dataclass(frozen=True, slots=True)
class IndexForgetter:
    """Leaves no byte of what is forgotten in any generation of the index, old versions of its tables included.

    Every step can be cut short and run again: a table is compacted even where no row of it has to go.
    """

    words: WordIndexer
    indexer: Indexer
    generations: Callable[[], Sequence[str]]
    """Those that are in use."""

    async def forget_turns(self, space: str, user_id: str, thread_id: str, numbers: Sequence[int]) -> None:
        """No byte of these turns is left when this returns; the rest of the thread stays indexed as it is."""
        await self.indexer.ensure_live()
        owner, gone = owner_folder(space, user_id), frozenset(numbers)
        try:
            async with self.words.locks.of(owner):
                for generation in self.generations():
                    stored = await self.words.store.load(generation, owner)
                    ids = [
                        row.row_id
                        for row in stored.rows
                        if row.type == TURN and row.thread_id == thread_id and row.position in gone
                    ]
                    await self._remove(generation, owner, ids)
        except IndexUnavailable:
            await self.indexer.forget_thread(space, user_id, thread_id)
        self.indexer.thread_changed(space, thread_id)

    async def forget_entries(self, owner: str, entry_ids: Sequence[str]) -> None:
        """Their files no longer hold them; what else is in these files is looked at again."""
        wanted = frozenset(entry_ids)
        await self._forget_rows(owner, lambda row: row.row_id in wanted)

    async def forget_note(self, owner: str, path: str) -> None:
        """All that stood in the file. What stands there now is looked at again."""
        await self._forget_rows(owner, lambda row: row.path == path)

    async def forget_user(self, space: str, user_id: str) -> None:
        """Their tables go, whatever is in them."""
        await self.indexer.ensure_live()
        owner = owner_folder(space, user_id)
        async with self.words.locks.of(owner):
            for generation in self.generations():
                await self.words.start_over(generation, owner, space, user_id)
            self.words.corpora.drop(owner)
        self.indexer.notes_changed([owner])
        self.indexer.catch_up()

    async def _forget_rows(self, owner: str, is_gone: Callable[[IndexRow], bool]) -> None:
        """Of notes and files of entries."""
        await self.indexer.ensure_live()
        async with self.words.locks.of(owner):
            for generation in self.generations():
                try:
                    stored = await self.words.store.load(generation, owner)
                except IndexUnavailable:
                    await self._start_over(generation, owner)
                    continue
                gone = [row for row in stored.rows if row.type != TURN and is_gone(row)]
                paths = list(dict.fromkeys(row.path for row in gone))
                # In this order: rows that nobody knows of are put again; rows that are not there would be missed.
                await self.words.ledger.record_notes(generation, owner, [], paths)
                await self._remove(generation, owner, [row.row_id for row in gone])
        self.indexer.notes_changed([owner])

    async def _remove(self, generation: str, owner: str, ids: Sequence[str]) -> None:
        if ids:
            await self.words.store.remove(generation, owner, ids)
            self.words.fail_points.reach("index.removed")
        await self.words.store.compact(generation, owner)
        if generation == self.indexer.live.name:
            await self.words.corpora.extend(owner, [], [], ids)

    async def _start_over(self, generation: str, owner: str) -> None:
        """All of an owner's rows go where they cannot be read; they are put again from journal and vault."""
        known = await self.words.ledger.owners(generation)
        space, user_id = known.get(owner, ("", ""))
        await self.words.start_over(generation, owner, space, user_id)
        self.words.corpora.drop(owner)
        self.indexer.catch_up()


_PATIENCE_MS = 300


@dataclass(frozen=True, slots=True)
class Rework:
    """Has derived anew what is left of cells that lost a turn, and of entries that lost a source."""

    cells: SqlCellTexts
    queue: SqlJobQueue
    tuning: Callable[[], Tuning]
    clock: Clock

    async def queue_all(self, space: str, derived: Derived) -> None:
        for thread_id, memcell in derived.cells:
            stored = await self.cells.cell(space, thread_id, memcell)
            if stored is None or not stored.turns:
                continue
            thread, has_tools = stored.thread, any(turn.tool_calls for turn in stored.turns)
            closed = ClosedCell(space, thread.user_id, thread.agent_id, memcell, has_tools)
            jobs = self.tuning().after_cell(closed, self.clock())
            await self.queue.queue(space, thread_id, [_now(job) for job in jobs])
        for owner in derived.owners:
            await self.queue.queue(space, None, self._of_owner(space, owner))

    def _of_owner(self, space: str, owner: str) -> list[EntryJob]:
        """A skill holds the words of its cases in a file of its own: it is made anew even where skills are off."""
        if "/agents/" in owner:
            payload = {"strategy": "skill", "owner": owner, "asked": True}
            return [EntryJob(STRATEGY, f"skill:{owner}", payload, "skill")]
        return [_now(job) for job in self.tuning().after("facts changed", space, owner, self.clock())]


def _now(job: EntryJob) -> EntryJob:
    return replace(job, delay_ms=0, restart=False, every=1)


@dataclass(frozen=True, slots=True)
class Settler:
    """Waits for jobs and chats that had read the words before they went, then makes sure that nothing came of it."""

    store: SqlForgetting
    vault: Vault
    notes: SqlNoteStore
    index: IndexForgetter
    rework: Rework
    fail_points: FailPoints
    remove_leftovers: LeftoverRemover = no_leftovers

    async def handle(self, job: Job) -> None:
        """For purge jobs of the step `settle`."""
        task = task_of(job)
        await self.wait(task)
        await self.store.forget_late(task)
        self.fail_points.reach("forget.late_ones_gone")
        await self.forget_entries(task)
        await self.rework.queue_all(task.space, task.derived)
        await self.store.queue_overwriting(task.space)
        self.fail_points.reach("forget.settled")

    async def wait(self, task: Task) -> None:
        """Raises NotYet while anybody may still write down what they read before."""
        if (reason := await self.store.waits_for(task)) is not None:
            raise NotYet(reason, _PATIENCE_MS)

    async def forget_entries(self, task: Task) -> None:
        """Entries whose sections are gone from their files go from the index, and from versions kept beside."""
        gone = [path for path in task.derived.paths if await self.vault.look(path, 1) is None]
        await self.notes.gone(gone)
        for owner, ids in task.derived.entries.items():
            await self.index.forget_entries(owner, ids)
            await self._remove_copies(owner, ids)
            await self.remove_leftovers(owner)

    async def _remove_copies(self, owner: str, ids: tuple[str, ...]) -> None:
        for path in await self.vault.list_files(owner):
            if ".conflict-" not in path.rpartition("/")[2]:
                continue
            found = await self.vault.look(path)
            if found is not None and any(entry_id in found.text for entry_id in ids):
                await self.vault.remove_file(path, frozenset([found.digest]))


@dataclass(frozen=True, slots=True)
class Overwriter:
    """The last step: the journal's free space, and its log."""

    store: SqlForgetting
    transcripts: SqlTranscriptStore
    fail_points: FailPoints

    async def handle(self, job: Job) -> None:
        """For purge jobs of the step `overwrite`."""
        if await self.store.skills_are_waiting():
            raise NotYet("skills are being made anew", _PATIENCE_MS)
        await self.store.overwrite()
        self.fail_points.reach("forget.overwritten")
        await self.transcripts.fold_log()


_EVERY_SECONDS = 300.0
_log = logging.getLogger("recollect.incognito")


class IncognitoEnds:
    """Forgets what an incognito thread held, as deleting it does. Looks at every start and every few minutes."""

    def __init__(self, threads: SqlThreadStore, *, clock: Clock, idle_hours: float) -> None:
        self._threads = threads
        self._clock = clock
        self._idle_ms = int(idle_hours * 3_600_000)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._look_regularly(), name="incognito-ends")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def end_idle(self) -> int:
        """Forget those that nobody has written to for so long; returns how many these were."""
        ended = 0
        for thread in await self._threads.idle_incognito(self._clock() - self._idle_ms):
            try:
                await self._threads.delete_thread(thread.thread_id, space=thread.space)
                ended += 1
            except NotFound:
                continue  # Its user was faster.
        return ended

    async def _look_regularly(self) -> None:
        while True:
            try:
                await self.end_idle()
            except Unavailable as error:
                _log.warning("incognito threads that are over cannot be forgotten yet: %s", error)
            await asyncio.sleep(_EVERY_SECONDS)
