"""Forget a user: every thread, memory, note, image and preference of theirs, and what agents learned from them."""

from dataclasses import dataclass

from recollect.failpoints import FailPoints
from recollect.memory.access import Caller
from recollect.memory.forgetting import Forgotten, task_of
from recollect.memory.job import Job
from recollect.memory.tombstones import TombstoneFile
from recollect.memory.vault_paths import owner_folder
from recollect.service.forget import put_tombstones
from recollect.service.forget_ports import ForgettingIndex, ForgettingStore
from recollect.service.forget_settle import Settler
from recollect.service.ports import EntryFileStore, PeopleStore, ThreadStore, TranscriptStore, Vault
from recollect.service.transcribe import Transcriber


async def forget_user(store: ForgettingStore, people: PeopleStore, caller: Caller, user_id: str) -> Forgotten:
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

    store: ForgettingStore
    threads: ThreadStore
    transcripts: TranscriptStore
    transcriber: Transcriber
    entry_files: EntryFileStore
    people: PeopleStore
    vault: Vault
    index: ForgettingIndex
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
