"""Forget a message: it goes from journal, index and transcript, with all that came from it."""

from dataclasses import dataclass

from recollect.failpoints import FailPoints
from recollect.memory.access import Caller
from recollect.memory.forgetting import Forgotten
from recollect.memory.job import Job
from recollect.memory.transcript_state import StoredPart
from recollect.memory.vault_paths import thread_folder, transcript_path
from recollect.service.forget import Forgetting, write_tombstones
from recollect.service.forget_ports import (
    ForgetImages,
    ForgettingIndex,
    ForgettingStore,
    LeftoverRemover,
    no_leftovers,
)
from recollect.service.ports import EntryStore, ThreadStore, TranscriptStore, Vault
from recollect.service.threads import owned_thread
from recollect.service.transcribe import Transcriber


async def forget_turn(
    threads: ThreadStore,
    store: ForgettingStore,
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
    threads: ThreadStore,
    store: ForgettingStore,
    entries: EntryStore,
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

    store: TranscriptStore
    vault: Vault
    transcriber: Transcriber
    index: ForgettingIndex
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
