"""Settling a forgetting: what those left who still worked with the words goes too, and the rest is derived again."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from recollect.failpoints import FailPoints
from recollect.memory.forgetting import Derived, Task, task_of
from recollect.memory.job import Job, NotYet
from recollect.memory.known_entry import EntryJob
from recollect.memory.strategy import STRATEGY, ClosedCell, Tuning
from recollect.service.forget_ports import (
    ForgettingIndex,
    ForgettingStore,
    LeftoverRemover,
    no_leftovers,
)
from recollect.service.ports import CellTexts, Clock, JobQueue, NoteStore, TranscriptStore, Vault

_PATIENCE_MS = 300


@dataclass(frozen=True, slots=True)
class Rework:
    """Has derived anew what is left of cells that lost a turn, and of entries that lost a source."""

    cells: CellTexts
    queue: JobQueue
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

    store: ForgettingStore
    vault: Vault
    notes: NoteStore
    index: ForgettingIndex
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

    store: ForgettingStore
    transcripts: TranscriptStore
    fail_points: FailPoints

    async def handle(self, job: Job) -> None:
        """For purge jobs of the step `overwrite`."""
        if await self.store.skills_are_waiting():
            raise NotYet("skills are being made anew", _PATIENCE_MS)
        await self.store.overwrite()
        self.fail_points.reach("forget.overwritten")
        await self.transcripts.fold_log()
