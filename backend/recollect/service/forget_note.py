"""Forget a note: it goes from the vault and the index, with the prompts that quoted it."""

from dataclasses import dataclass

from recollect.errors import NotFound
from recollect.memory.access import Caller
from recollect.memory.forgetting import task_of
from recollect.memory.job import Job
from recollect.memory.vault_paths import owner_folder
from recollect.service.forget_ports import ForgettingIndex, ForgettingStore
from recollect.service.forget_settle import Settler
from recollect.service.import_note import Notes
from recollect.service.ports import NoteStore, TranscriptStore, Vault
from recollect.service.threads import DEFAULT_USER


async def forget_note(
    notes: Notes, store: ForgettingStore, caller: Caller, user_id: str | None, name: str
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

    store: ForgettingStore
    vault: Vault
    notes: NoteStore
    index: ForgettingIndex
    settler: Settler
    transcripts: TranscriptStore

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
