"""Purge jobs: what the journal forgot goes from the vault and the index, and from its own free space."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from recollect.domain.forgetting import (
    NOTE,
    OVERWRITE,
    SETTLE,
    USER,
    Derived,
    Task,
    TombstoneFile,
    render_tombstones,
    task_of,
)
from recollect.domain.identity import key_within_user, text_digest
from recollect.domain.job import Job, JobSpec, NotYet
from recollect.domain.model import ThreadRef
from recollect.domain.paths import (
    copied_path,
    forgotten_path,
    is_note,
    owner_folder,
    thread_folder,
    transcript_path,
)
from recollect.domain.recall.rows import TURN, IndexRow
from recollect.domain.strategy import ClosedCell, Tuning, skills_job
from recollect.errors import IndexUnavailable, IndexUnreachable
from recollect.failpoints import FailPoints
from recollect.infra.journal.cells import SqlCellTexts
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.journal.files import SqlTranscriptStore
from recollect.infra.journal.forgetting import SqlForgetting
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.vault import Vault
from recollect.service.coordination import Clock
from recollect.service.recall.indexer import Indexer
from recollect.service.recall.words import WordIndexer
from recollect.service.vault.index_notes import IndexNotes
from recollect.service.vault.notes import NoteFollower
from recollect.service.vault.transcripts import Transcriber


@dataclass(frozen=True, slots=True)
class IndexForgetter:
    """Leaves no byte of what is forgotten in any generation of the index, old versions of its tables included.

    Every step can be cut short and run again: a table is compacted even where no row of it has to go.
    """

    indexer: Indexer

    @property
    def words(self) -> WordIndexer:
        return self.indexer.words

    async def forget_thread(self, thread: ThreadRef) -> None:
        """If the thread's id is in use again, its new turns are indexed again."""
        await self._forget_rows(
            owner_folder(thread.space, thread.user_id),
            lambda row: row.type == TURN and row.thread_id == thread.thread_id,
            thread=thread,
        )
        self.indexer.thread_changed(thread)

    async def forget_turns(self, thread: ThreadRef, numbers: Sequence[int]) -> None:
        """The rest of the thread stays indexed as it is."""
        gone = frozenset(numbers)
        await self._forget_rows(
            owner_folder(thread.space, thread.user_id),
            lambda row: row.type == TURN and row.thread_id == thread.thread_id and row.position in gone,
        )
        self.indexer.thread_changed(thread)

    async def forget_entries(self, owner: str, entry_ids: Sequence[str]) -> None:
        """Their files no longer hold them; what else is in these files is looked at again."""
        wanted = frozenset(entry_ids)
        await self._forget_rows(owner, lambda row: row.type != TURN and row.row_id in wanted)
        self.indexer.notes_changed([owner])

    async def forget_note(self, owner: str, path: str) -> None:
        """Remove all rows of the file. What it holds now is indexed again."""
        await self._forget_rows(owner, lambda row: row.type != TURN and row.path == path)
        self.indexer.notes_changed([owner])

    async def forget_user(self, space: str, user_id: str) -> None:
        """Reset their index tables, whatever they hold."""
        await self.indexer.ensure_live()
        owner = owner_folder(space, user_id)
        async with self.words.locks.of(owner):
            for generation in self.indexer.generations.in_use():
                await self.words.start_over(generation, owner, space, user_id)
            self.words.corpus_cache.drop(owner)
        self.indexer.notes_changed([owner])
        self.indexer.catch_up()

    async def _forget_rows(
        self, owner: str, is_gone: Callable[[IndexRow], bool], *, thread: ThreadRef | None = None
    ) -> None:
        """With `thread`, nothing of that thread counts as indexed any more."""
        await self.indexer.ensure_live()
        words = self.words
        async with words.locks.of(owner):
            for generation in self.indexer.generations.in_use():
                try:
                    stored = await words.store.load(generation, owner, patient=True)
                except IndexUnreachable:
                    raise
                except IndexUnavailable:
                    await self._start_over(generation, owner)
                    continue
                gone = [row for row in stored.rows if is_gone(row)]
                paths = list(dict.fromkeys(row.path for row in gone if row.type != TURN))
                # In this order: rows that nobody knows of are put again; rows that are not there would be missed.
                await words.ledger.record_notes(generation, owner, [], paths)
                if ids := [row.row_id for row in gone]:
                    await words.store.remove(generation, owner, ids)
                    words.fail_points.reach("index.removed")
                await words.store.compact(generation, owner)
                if generation == self.indexer.live.name:
                    cached = words.corpus_cache.ids(owner, is_gone)
                    await words.corpus_cache.extend(owner, [], [], {*ids, *cached})
                if thread is not None and (seen := await words.ledger.progress(generation, thread)):
                    await words.ledger.reset_thread(generation, seen.thread_pk)
                    words.corpus_cache.drop(owner)

    async def _start_over(self, generation: str, owner: str) -> None:
        """All of an owner's rows go where they cannot be read; they are put again from journal and vault."""
        known = await self.words.ledger.owners(generation)
        space, user_id = known.get(owner, ("", ""))
        await self.words.start_over(generation, owner, space, user_id)
        self.words.corpus_cache.drop(owner)
        self.indexer.catch_up()


_PATIENCE_MS = 300


@dataclass(frozen=True, slots=True)
class Rework:
    """Queues the extraction of what is left of cells that lost a turn, and of entries that lost a source."""

    cells: SqlCellTexts
    entries: SqlEntryStore
    tuning: Callable[[], Tuning]
    clock: Clock

    async def queue_all(self, space: str, derived: Derived) -> None:
        for ref, memcell in derived.cells:
            stored = await self.cells.cell(ref, memcell)
            if stored is None or not stored.turns:
                continue
            thread, has_tools = stored.thread, any(turn.tool_calls for turn in stored.turns)
            closed = ClosedCell(space, thread.user_id, thread.agent_id, memcell, has_tools)
            jobs = self.tuning().after_cell(closed)
            await self.entries.queue(space, ref, [_now(job) for job in jobs])
        for owner in derived.owners:
            await self.entries.queue(space, None, self._of_owner(space, owner))

    def _of_owner(self, space: str, owner: str) -> list[JobSpec]:
        if "/agents/" in owner:
            return [skills_job(owner)]
        return [_now(job) for job in self.tuning().after("facts changed", space, owner, self.clock())]


def _now(job: JobSpec) -> JobSpec:
    return replace(job, delay_ms=0, restart=False, every=1)


@dataclass(frozen=True, slots=True)
class ThreadPurger:
    """The index, tombstones and then the transcript, images, then the log of the journal."""

    store: SqlTranscriptStore
    vault: Vault
    fail_points: FailPoints
    forget_index: Callable[[ThreadRef], Awaitable[None]]
    """Removes what the index holds of a thread."""
    forget_images: Callable[..., Awaitable[None]]
    """`Images.forget_unused`."""

    async def handle(self, job: Job) -> None:
        """For purge jobs of a whole thread."""
        thread = task_of(job).thread
        try:
            await self.forget_index(thread)
        finally:
            # Neither waits for the other: whichever cannot be written now is tried again, and so is this.
            await _write_tombstones(self.store, self.vault, thread)
            self.fail_points.reach("forget.tombstones_written")
            await self.vault.remove_folder(thread_folder(*thread))
            self.fail_points.reach("forget.folder_removed")
        await self.forget_images(thread.space, thread.user_id)
        await self.store.forget_parts(thread)
        await self.store.fold_log()


async def _write_tombstones(store: SqlTranscriptStore, vault: Vault, thread: ThreadRef) -> None:
    """The file that says what was forgotten of a thread, if anything was."""
    whose = thread.space, thread.user_id, key_within_user(thread.space, thread.thread_id)
    found = await store.tombstones(*whose)
    if found:
        await _put_tombstones(vault, TombstoneFile(*whose, tuple(found)))


async def write_tombstones_again(
    store: SqlForgetting, vault: Vault, users: Iterable[tuple[str, str]]
) -> None:
    """Their files that the vault lacks, or has an old copy of."""
    for space, user_id in users:
        for key, messages in (await store.tombstones_of(space, user_id)).items():
            await _put_tombstones(vault, TombstoneFile(space, user_id, key, tuple(messages)))


async def _put_tombstones(vault: Vault, file: TombstoneFile) -> None:
    text, path = render_tombstones(file), forgotten_path(file.space, file.user_id, file.thread_key)
    earlier = await vault.read(path)
    if earlier != text:
        await vault.write(path, text, frozenset({text_digest(earlier)} if earlier else ()))


@dataclass(frozen=True, slots=True)
class Purges:
    """The handler of all purge jobs: of a thread, unless the job names turns or a step.

    Every step can be cut short and run again.
    """

    threads: ThreadPurger
    store: SqlForgetting
    thread_store: SqlThreadStore
    transcriber: Transcriber
    entry_files: SqlEntryFileStore
    people: SqlPresetStore
    notes: NoteFollower
    index: IndexForgetter
    rework: Rework
    forget_copies: Callable[[str], Awaitable[None]]
    """Removes the files of a space that an upgrade kept."""
    index_notes: IndexNotes

    async def handle(self, job: Job) -> None:
        steps = {
            SETTLE: self._settle,
            USER: self._purge_user,
            NOTE: self._purge_note,
            OVERWRITE: self._overwrite,
        }
        step = job.payload.get("step")
        if step is not None:
            await steps[str(step)](job)
        elif job.payload.get("turns") is not None:
            await self._purge_turns(job)
        else:
            await self.threads.handle(job)

    async def _purge_turns(self, job: Job) -> None:
        """The index, the tombstones, then the transcript: its parts are rendered without what is forgotten."""
        thread = task_of(job).thread
        numbers = [int(number) for number in job.payload["turns"]]
        try:
            await self.index.forget_turns(thread, numbers)
        finally:
            # Neither waits for the other: whichever cannot be written now is tried again, and so is this.
            await _write_tombstones(self.threads.store, self.threads.vault, thread)
            self.threads.fail_points.reach("forget.tombstones_written")
            await self._rewrite(thread, frozenset(numbers))
        self.threads.fail_points.reach("forget.transcript_rewritten")
        await self.threads.forget_images(thread.space, thread.user_id)
        await self.threads.store.fold_log()

    async def _rewrite(self, thread: ThreadRef, numbers: frozenset[int]) -> None:
        for part in await self.threads.store.parts(thread):
            state = await self.threads.store.state(thread)
            if state is None or state.thread.incognito:
                return
            if any(part.first_position <= number <= part.last_position for number in numbers):
                await self.transcriber.rewrite(state, part)
        await self.transcriber.transcribe(thread)
        await self._remove_copies(thread)

    async def _remove_copies(self, thread: ThreadRef) -> None:
        """Versions that were kept beside may hold the words in any place: they go whole."""
        folder = thread_folder(*thread)
        parts = await self.threads.store.parts(thread)
        ours = {transcript_path(*thread, part.part) for part in parts}
        for path in await self.threads.vault.list_files(folder):
            if path not in ours and (found := await self.threads.vault.look(path)) is not None:
                await self.threads.vault.remove_file(path, frozenset([found.digest]))
        await self.threads.vault.remove_leftovers(folder)

    async def _purge_note(self, job: Job) -> None:
        """The file, then the index. A second job waits for whoever still worked for the user, then purges prompts."""
        task, path = task_of(job), str(job.payload["path"])
        if job.payload.get("waits"):
            await self._wait(task)
        else:
            await self._remove_note(path, str(job.payload["digest"]))
        await self.index.forget_note(owner_folder(task.space, task.user_id), path)
        await self.store.forget_quotes(task.space, task.user_id, path)
        if job.payload.get("waits"):
            await self.store.queue_overwriting(task.space)
        await self.threads.store.fold_log()

    async def _remove_note(self, path: str, digest: str) -> None:
        """And its conflict copies, which may hold the words. What was put there since, or put there again, stays."""
        for beside in await self.threads.vault.list_files(path.rpartition("/")[0]):
            if copied_path(beside) == path and (copy := await self.threads.vault.look(beside)) is not None:
                await self.threads.vault.remove_file(beside, frozenset([copy.digest]))
        async with self.notes.locks.of(path):  # What is put there again waits until this one is gone.
            found = await self.threads.vault.look(path)
            is_same = found is not None and found.digest == digest
            if is_same and await self.notes.store.is_deleted(path, digest):
                await self.threads.vault.remove_file(path, frozenset([digest]))
            if await self.threads.vault.look(path, 1) is None:
                await self.notes.store.gone([path])

    async def _purge_user(self, job: Job) -> None:
        """The index, then the user's folder whole. A second job waits for whoever still worked for the user.

        What the user said or chose since they were forgotten is kept: it is written and indexed again.
        """
        task = task_of(job)
        if job.payload.get("waits"):
            await self._wait(task)
        await self.store.forget_owner(task.space, task.user_id)
        await self.index.forget_user(task.space, task.user_id)
        await self.threads.forget_images(task.space, task.user_id, ask_files=False)
        await self._empty_folder(task.space, task.user_id)
        await self._write_again(task.space, task.user_id)
        if job.payload.get("waits"):
            await self._forget_entries(task)
            await self.rework.queue_all(task.space, task.derived)
            await self.store.queue_overwriting(task.space)
        await self.threads.store.fold_log()

    async def _empty_folder(self, space: str, user_id: str) -> None:
        async with self.index_notes.turn:  # Else the note of a user who is gone could be written.
            await self.threads.vault.remove_folder(owner_folder(space, user_id))
        self.threads.fail_points.reach("forget.folder_removed")
        await write_tombstones_again(self.store, self.threads.vault, [(space, user_id)])
        self.threads.fail_points.reach("forget.tombstones_written")

    async def _write_again(self, space: str, user_id: str) -> None:
        for thread in await self.thread_store.list_threads(space=space, user_id=user_id):
            await self.threads.store.forget_parts(thread.ref)
            await self.transcriber.transcribe(thread.ref)
        owner = owner_folder(space, user_id)
        for store in (self.entry_files, self.people):
            for file in await store.files():
                if file.owner == owner:
                    await store.write_again(file.path)

    async def _settle(self, job: Job) -> None:
        """Wait for jobs and chats that had read the words before they went, then forget what came of it."""
        task = task_of(job)
        await self._wait(task)
        await self.store.forget_late(task)
        self.threads.fail_points.reach("forget.late_ones_gone")
        await self._forget_entries(task)
        await self.rework.queue_all(task.space, task.derived)
        await self.store.queue_overwriting(task.space)
        self.threads.fail_points.reach("forget.settled")

    async def _wait(self, task: Task) -> None:
        """Raises NotYet while anybody may still write down what they read before."""
        if (reason := await self.store.waits_for(task)) is not None:
            raise NotYet(reason, _PATIENCE_MS)

    async def _forget_entries(self, task: Task) -> None:
        """Entries whose sections are gone from their files go from the index, and from versions kept beside."""
        gone = [path for path in task.derived.paths if await self.threads.vault.look(path, 1) is None]
        await self.notes.store.gone(gone)
        for owner, ids in task.derived.entries.items():
            await self.index.forget_entries(owner, ids)
            await self._remove_copies_of_entries(owner, ids)
            await self.threads.vault.remove_leftovers(owner)

    async def _remove_copies_of_entries(self, owner: str, ids: tuple[str, ...]) -> None:
        for path in await self.threads.vault.list_files(owner):
            is_copy = ".conflict-" in path.rpartition("/")[2] or copied_path(path) is not None
            if is_note(path) or "/threads/" in path or not is_copy:
                continue  # A transcript has links to entries, not their words.
            found = await self.threads.vault.look(path)
            if found is not None and any(entry_id in found.text for entry_id in ids):
                await self.threads.vault.remove_file(path, frozenset([found.digest]))

    async def _overwrite(self, job: Job) -> None:
        """The last step: links in index notes, files of before an upgrade, the journal's free space, and its log."""
        if await self.store.skills_are_waiting():
            raise NotYet("skills are being made again", _PATIENCE_MS)
        await self.index_notes.forget(job.space)
        await self.forget_copies(job.space)
        await self.store.overwrite()
        self.threads.fail_points.reach("forget.overwritten")
        await self.threads.store.fold_log()
