"""Forget: what the journal has forgotten goes from the vault too, and a text-free tombstone stays."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from recollect.failpoints import FailPoints
from recollect.memory.access import Caller
from recollect.memory.identity import text_digest, thread_key
from recollect.memory.job import Job
from recollect.memory.tombstones import TombstoneFile, render_tombstones
from recollect.memory.vault_paths import forgotten_path, thread_folder
from recollect.service.ports import ThreadStore, TranscriptStore, Vault
from recollect.service.threads import owned_thread


async def _not_indexed(space: str, user_id: str, thread_id: str) -> None:
    """For a home without an index."""


async def _no_images(space: str, user_id: str) -> None:
    """For a home without images."""


@dataclass(frozen=True, slots=True)
class Purger:
    """The index, tombstones and then the transcript, images, then the free space of the journal."""

    store: TranscriptStore
    vault: Vault
    fail_points: FailPoints
    forget_index: Callable[[str, str, str], Awaitable[None]] = _not_indexed
    """Removes what the index holds of a space's user's thread."""
    forget_images: Callable[[str, str], Awaitable[None]] = _no_images
    """Removes those of a space's user that nothing refers to any more."""

    async def handle(self, job: Job) -> None:
        """The handler of purge jobs."""
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
        key = thread_key(space, thread_id)
        buried = await self.store.tombstones(space, user_id, key)
        if buried:
            text = render_tombstones(TombstoneFile(space, user_id, key, tuple(buried)))
            path = forgotten_path(space, user_id, key)
            earlier = await self.vault.read(path)
            await self.vault.write(path, text, frozenset({text_digest(earlier)} if earlier else ()))
        self.fail_points.reach("forget.tombstones_written")
        await self.vault.remove_folder(thread_folder(space, user_id, thread_id))
        self.fail_points.reach("forget.folder_removed")


async def delete_thread(threads: ThreadStore, caller: Caller, thread_id: str, user_id: str | None) -> int:
    """Forget a thread and every turn of it; returns how many turns that were."""
    await owned_thread(threads, caller, thread_id, user_id)
    return await threads.delete_thread(thread_id, space=caller.space)
