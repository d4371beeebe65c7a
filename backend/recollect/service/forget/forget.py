"""Forget a thread, a message, a note or a user: the vault and the index follow the journal."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from recollect.domain.access import Caller
from recollect.domain.entries.entry import KnownEntry
from recollect.domain.forgetting import Forgotten, TombstoneFile, render_tombstones, task_of
from recollect.domain.identity import text_digest, thread_key
from recollect.domain.job import Job
from recollect.domain.paths import forgotten_path, owner_folder, thread_folder, transcript_path
from recollect.domain.vault_file import StoredPart
from recollect.errors import NotFound
from recollect.failpoints import FailPoints
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.journal.files import SqlNoteStore, SqlTranscriptStore
from recollect.infra.journal.forgetting import SqlForgetting
from recollect.infra.journal.people import SqlPeopleStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.vault import Vault
from recollect.service.forget.purge import IndexForgetter, LeftoverRemover, Settler, no_leftovers
from recollect.service.threads import DEFAULT_USER, owned_thread
from recollect.service.vault.notes import Notes
from recollect.service.vault.transcripts import Transcriber

Handler = Callable[[Job], Awaitable[None]]
ForgetImages = Callable[[str, str], Awaitable[None]]
"""Removes those of a space's user that nothing refers to any more."""


async def _not_indexed(space: str, user_id: str, thread_id: str) -> None:
    """For a home without an index."""


async def _no_images(space: str, user_id: str) -> None:
    """For a home without images."""


@dataclass(frozen=True, slots=True)
class Purger:
    """The index, tombstones and then the transcript, images, then the log of the journal."""

    store: SqlTranscriptStore
    vault: Vault
    fail_points: FailPoints
    forget_index: Callable[[str, str, str], Awaitable[None]] = _not_indexed
    """Removes what the index holds of a space's user's thread."""
    forget_images: ForgetImages = _no_images

    async def handle(self, job: Job) -> None:
        """The handler of jobs that purge a thread."""
        user_id, thread_id = str(job.payload["user_id"]), str(job.thread_id)
        try:
            await self.forget_index(job.space, user_id, thread_id)
        finally:
            # Neither waits for the other: whichever cannot be written now is tried again, and so is this.
            await self._bury(job.space, user_id, thread_id)
        await self.forget_images(job.space, user_id)
        await self.store.forget_parts(job.space, user_id, thread_id)
        await self.store.fold_log()

    async def _bury(self, space: str, user_id: str, thread_id: str) -> None:
        await write_tombstones(self.store, self.vault, space, user_id, thread_id)
        self.fail_points.reach("forget.tombstones_written")
        await self.vault.remove_folder(thread_folder(space, user_id, thread_id))
        self.fail_points.reach("forget.folder_removed")


@dataclass(frozen=True, slots=True)
class PurgeSteps:
    """The handler of all purge jobs: a thread's, unless the job names turns or a step."""

    thread: Handler
    turns: Handler
    steps: Mapping[str, Handler] = field(default_factory=dict)

    async def handle(self, job: Job) -> None:
        step = job.payload.get("step")
        if step is not None:
            await self.steps[str(step)](job)
        elif job.payload.get("turns") is not None:
            await self.turns(job)
        else:
            await self.thread(job)


async def write_tombstones(
    store: SqlTranscriptStore, vault: Vault, space: str, user_id: str, thread_id: str
) -> None:
    """The file that says what was forgotten of a thread, if anything was."""
    key = thread_key(space, thread_id)
    buried = await store.tombstones(space, user_id, key)
    if buried:
        await put_tombstones(vault, TombstoneFile(space, user_id, key, tuple(buried)))


async def put_tombstones(vault: Vault, file: TombstoneFile) -> None:
    text, path = render_tombstones(file), forgotten_path(file.space, file.user_id, file.thread_key)
    earlier = await vault.read(path)
    await vault.write(path, text, frozenset({text_digest(earlier)} if earlier else ()))


@dataclass(frozen=True, slots=True)
class Forgetting:
    """What forgetting some turns would take along."""

    turns: int
    entries: tuple[KnownEntry, ...]
    """Memories that came from any of them, whoever's they are."""


async def what_goes_with_thread(
    threads: SqlThreadStore, entries: SqlEntryStore, caller: Caller, thread_id: str, user_id: str | None
) -> Forgetting:
    """What `delete_thread` would forget now. Changes nothing."""
    thread = await owned_thread(threads, caller, thread_id, user_id)
    return Forgetting(thread.turn_count, tuple(await entries.citing(caller.space, thread_id, None)))


async def delete_thread(threads: SqlThreadStore, caller: Caller, thread_id: str, user_id: str | None) -> int:
    """Forget a thread and every turn of it; returns how many turns that were."""
    await owned_thread(threads, caller, thread_id, user_id)
    return await threads.delete_thread(thread_id, space=caller.space)


async def forget_turn(
    threads: SqlThreadStore,
    store: SqlForgetting,
    caller: Caller,
    thread_id: str,
    turn_id: str,
    user_id: str | None,
    *,
    answers: bool = False,
) -> Forgotten:
    """Forget one turn of a thread, with `answers` what was answered to it too.

    Raises NotFound for a turn that is not the caller's to see, Conflict for one that is still being written.
    """
    await owned_thread(threads, caller, thread_id, user_id)
    return await store.forget_turns(caller.space, thread_id, [turn_id], answers=answers)


async def what_goes_with_turn(
    threads: SqlThreadStore,
    store: SqlForgetting,
    entries: SqlEntryStore,
    caller: Caller,
    thread_id: str,
    turn_id: str,
    user_id: str | None,
    *,
    answers: bool = False,
) -> Forgetting:
    """What `forget_turn` would forget now, and raises what that would raise. Changes nothing."""
    await owned_thread(threads, caller, thread_id, user_id)
    turn_ids = await store.turns_to_forget(caller.space, thread_id, [turn_id], answers=answers)
    return Forgetting(len(turn_ids), tuple(await entries.citing(caller.space, thread_id, turn_ids)))


@dataclass(frozen=True, slots=True)
class TurnPurger:
    """The index, the tombstones, then the transcript: its parts are rendered anew without what is forgotten."""

    store: SqlTranscriptStore
    vault: Vault
    transcriber: Transcriber
    index: IndexForgetter
    fail_points: FailPoints
    forget_images: ForgetImages
    remove_leftovers: LeftoverRemover = no_leftovers

    async def handle(self, job: Job) -> None:
        """For purge jobs that name turns."""
        space, user_id, thread_id = job.space, str(job.payload["user_id"]), str(job.thread_id)
        numbers = [int(number) for number in job.payload["turns"]]
        try:
            await self.index.forget_turns(space, user_id, thread_id, numbers)
        finally:
            # Neither waits for the other: whichever cannot be written now is tried again, and so is this.
            await write_tombstones(self.store, self.vault, space, user_id, thread_id)
            self.fail_points.reach("forget.tombstones_written")
            await self._rewrite(space, user_id, thread_id, frozenset(numbers))
        self.fail_points.reach("forget.transcript_rewritten")
        await self.forget_images(space, user_id)
        await self.store.fold_log()

    async def _rewrite(self, space: str, user_id: str, thread_id: str, numbers: frozenset[int]) -> None:
        for part in await self.store.parts(space, thread_id):
            state = await self.store.state(space, thread_id)
            if state is None or state.thread.user_id != user_id or state.thread.incognito:
                return
            if any(part.first_position <= number <= part.last_position for number in numbers):
                await self.transcriber.rewrite(state, part)
        await self.transcriber.transcribe(space, thread_id)
        await self._remove_copies(space, user_id, thread_id, await self.store.parts(space, thread_id))

    async def _remove_copies(self, space: str, user_id: str, thread_id: str, parts: list[StoredPart]) -> None:
        """Versions that were kept beside may hold the words in any place: they go whole."""
        folder = thread_folder(space, user_id, thread_id)
        ours = {transcript_path(space, user_id, thread_id, part.part) for part in parts}
        for path in await self.vault.list_files(folder):
            if path not in ours and (found := await self.vault.look(path)) is not None:
                await self.vault.remove_file(path, frozenset([found.digest]))
        await self.remove_leftovers(folder)


async def forget_note(
    notes: Notes, store: SqlForgetting, caller: Caller, user_id: str | None, name: str
) -> None:
    """By its path below `notes/`. Raises NotFound."""
    path = (await notes.get_note(caller, user_id, name)).note.path
    found = await notes.vault.look(path)
    if found is None:
        raise NotFound(f"there is no note {name!r}")
    user_id = caller.acting_for(user_id) or DEFAULT_USER
    await store.forget_note(caller.space, user_id, path, found.digest)


@dataclass(frozen=True, slots=True)
class NotePurger:
    """The file, then the index; the prompts once more, when whoever had read the note has ended."""

    store: SqlForgetting
    vault: Vault
    notes: SqlNoteStore
    index: IndexForgetter
    settler: Settler
    transcripts: SqlTranscriptStore

    async def handle(self, job: Job) -> None:
        """For purge jobs of the step `note`: the second of them waits for whoever still worked for the user."""
        task, path = task_of(job), str(job.payload["path"])
        if job.payload.get("waits"):
            await self.settler.wait(task)
        else:
            await self._remove(path, str(job.payload["digest"]))
        await self.index.forget_note(owner_folder(task.space, task.user_id), path)
        await self.store.forget_quotes(task.space, task.user_id, path)
        if job.payload.get("waits"):
            await self.store.queue_overwriting(task.space)
        await self.transcripts.fold_log()

    async def _remove(self, path: str, digest: str) -> None:
        """Another text that was put there since is another note."""
        found = await self.vault.look(path)
        if found is not None and found.digest == digest:
            await self.vault.remove_file(path, frozenset([digest]))
        if await self.vault.look(path, 1) is None:
            await self.notes.gone([path])


async def forget_user(
    store: SqlForgetting, people: SqlPeopleStore, caller: Caller, user_id: str
) -> Forgotten:
    """Nothing is forgotten of somebody who is not known. Raises NotFound for a key of another user."""
    caller.acting_for(user_id)
    forgotten = await store.forget_user(caller.space, user_id)
    await people.forget_user(caller.space, user_id)
    return forgotten


@dataclass(frozen=True, slots=True)
class UserPurger:
    """The index, then the user's folder whole; their tombstones are written anew.

    What the user said since they were forgotten is kept: it is written and indexed again.
    """

    store: SqlForgetting
    threads: SqlThreadStore
    transcripts: SqlTranscriptStore
    transcriber: Transcriber
    entry_files: SqlEntryFileStore
    people: SqlPeopleStore
    vault: Vault
    index: IndexForgetter
    settler: Settler
    fail_points: FailPoints

    async def handle(self, job: Job) -> None:
        """For purge jobs of the step `user`: the second of them waits for whoever still worked for the user."""
        task = task_of(job)
        if job.payload.get("waits"):
            await self.settler.wait(task)
        await self.store.forget_owner(task.space, task.user_id)
        await self.people.forget_user(task.space, task.user_id)
        await self.index.forget_user(task.space, task.user_id)
        await self._empty_folder(task.space, task.user_id)
        await self._write_again(task.space, task.user_id)
        if job.payload.get("waits"):
            await self.settler.forget_entries(task)
            await self.settler.rework.queue_all(task.space, task.derived)
            await self.store.queue_overwriting(task.space)
        await self.transcripts.fold_log()

    async def _empty_folder(self, space: str, user_id: str) -> None:
        await self.vault.remove_folder(owner_folder(space, user_id))
        self.fail_points.reach("forget.folder_removed")
        for key, messages in (await self.store.tombstones_of(space, user_id)).items():
            await put_tombstones(self.vault, TombstoneFile(space, user_id, key, tuple(messages)))
        self.fail_points.reach("forget.tombstones_written")

    async def _write_again(self, space: str, user_id: str) -> None:
        for thread in await self.threads.list_threads(space=space, user_id=user_id):
            await self.transcripts.forget_parts(space, user_id, thread.thread_id)
            await self.transcriber.transcribe(space, thread.thread_id)
        owner = owner_folder(space, user_id)
        for file in await self.entry_files.files():
            if file.owner == owner:
                await self.entry_files.write_anew(file.path)
