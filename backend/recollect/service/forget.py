"""Forget: what the journal has forgotten goes from the vault too, and a text-free tombstone stays."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from recollect.failpoints import FailPoints
from recollect.memory.access import Caller
from recollect.memory.identity import text_digest, thread_key
from recollect.memory.job import Job
from recollect.memory.known_entry import KnownEntry
from recollect.memory.tombstones import TombstoneFile, render_tombstones
from recollect.memory.vault_paths import forgotten_path, thread_folder
from recollect.service.ports import EntryStore, ThreadStore, TranscriptStore, Vault
from recollect.service.threads import owned_thread

Handler = Callable[[Job], Awaitable[None]]


async def _not_indexed(space: str, user_id: str, thread_id: str) -> None:
    """For a home without an index."""


async def _no_images(space: str, user_id: str) -> None:
    """For a home without images."""


@dataclass(frozen=True, slots=True)
class Purger:
    """The index, tombstones and then the transcript, images, then the log of the journal."""

    store: TranscriptStore
    vault: Vault
    fail_points: FailPoints
    forget_index: Callable[[str, str, str], Awaitable[None]] = _not_indexed
    """Removes what the index holds of a space's user's thread."""
    forget_images: Callable[[str, str], Awaitable[None]] = _no_images
    """Removes those of a space's user that nothing refers to any more."""

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
    store: TranscriptStore, vault: Vault, space: str, user_id: str, thread_id: str
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
    threads: ThreadStore, entries: EntryStore, caller: Caller, thread_id: str, user_id: str | None
) -> Forgetting:
    """What `delete_thread` would forget now. Changes nothing."""
    thread = await owned_thread(threads, caller, thread_id, user_id)
    return Forgetting(thread.turn_count, tuple(await entries.citing(caller.space, thread_id, None)))


async def delete_thread(threads: ThreadStore, caller: Caller, thread_id: str, user_id: str | None) -> int:
    """Forget a thread and every turn of it; returns how many turns that were."""
    await owned_thread(threads, caller, thread_id, user_id)
    return await threads.delete_thread(thread_id, space=caller.space)
