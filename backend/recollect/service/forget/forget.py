"""Forget a thread, a message, a note or a user: what callers ask for. Purge jobs finish it in vault and index."""

import asyncio
import logging
from dataclasses import dataclass

from recollect.domain.access import Caller
from recollect.domain.entries.entry import KnownEntry
from recollect.domain.forgetting import Forgotten, Memories
from recollect.domain.model import DEFAULT_USER
from recollect.errors import NotFound, Unavailable
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.forgetting import SqlForgetting
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.coordination import BackgroundLoop, Clock
from recollect.service.threads import owned_thread
from recollect.service.vault.notes import Notes


@dataclass(frozen=True, slots=True)
class Forgetting:
    """What forgetting some turns would take along."""

    turns: int
    entries: tuple[KnownEntry, ...]
    """Memories that came from any of them, whoever's they are."""


async def what_goes_with_thread(
    threads: SqlThreadStore,
    entries: SqlEntryStore,
    caller: Caller,
    thread_id: str,
    user_id: str | None,
    memories: Memories = "all",
) -> Forgetting:
    """What `delete_thread` would forget now. Changes nothing."""
    thread = await owned_thread(threads, caller, thread_id, user_id)
    goes = () if memories == "none" else await entries.citing(thread.ref, None)
    return Forgetting(
        thread.turn_count, tuple(each for each in goes if memories == "all" or not each.is_edited)
    )


async def delete_thread(
    threads: SqlThreadStore,
    caller: Caller,
    thread_id: str,
    user_id: str | None,
    memories: Memories = "all",
) -> int:
    """Forget a thread and every turn of it, with these memories; returns how many turns that were."""
    thread = await owned_thread(threads, caller, thread_id, user_id)
    return await threads.delete(thread.ref, memories)


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
    thread = await owned_thread(threads, caller, thread_id, user_id)
    return await store.forget_turns(thread.ref, [turn_id], answers=answers)


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
    thread = (await owned_thread(threads, caller, thread_id, user_id)).ref
    turn_ids = await store.turns_to_forget(thread, [turn_id], answers=answers)
    return Forgetting(len(turn_ids), tuple(await entries.citing(thread, turn_ids)))


async def forget_note(
    notes: Notes, store: SqlForgetting, caller: Caller, user_id: str | None, name: str
) -> None:
    """By its path below `notes/`. Raises NotFound."""
    path = (await notes.get_note(caller, user_id, name)).note.path
    user_id = caller.acting_for(user_id) or DEFAULT_USER
    async with notes.follower.locks.of(path):
        if (found := await notes.follower.vault.look(path)) is None:
            raise NotFound(f"there is no note {name!r}")
        await store.forget_note(caller.space, user_id, path, found.digest)


async def forget_user(
    store: SqlForgetting, people: SqlPresetStore, caller: Caller, user_id: str
) -> Forgotten:
    """Nothing is forgotten of somebody who is not known. Raises Refused for a key of another user."""
    caller.acting_for(user_id)
    forgotten = await store.forget_user(caller.space, user_id)
    people.clear_cache()
    return forgotten


_EVERY_SECONDS = 300.0
_log = logging.getLogger("recollect.incognito")


class IncognitoEnds(BackgroundLoop):
    """Forgets what an incognito thread held, as deleting it does. Looks at every start and every few minutes."""

    def __init__(self, threads: SqlThreadStore, *, clock: Clock, idle_hours: float) -> None:
        self._threads = threads
        self._clock = clock
        self._idle_ms = int(idle_hours * 3_600_000)

    async def end_idle(self) -> int:
        """Forget incognito threads that have been idle for `idle_hours`. Returns how many."""
        ended = 0
        for thread in await self._threads.idle_incognito(self._clock() - self._idle_ms):
            try:
                await self._threads.delete(thread.ref)
                ended += 1
            except NotFound:
                continue  # Its user was faster.
        return ended

    async def _run(self) -> None:
        while True:
            try:
                await self.end_idle()
            except Unavailable as error:
                _log.warning("can't forget idle incognito threads yet, trying again: %s", error)
            await asyncio.sleep(_EVERY_SECONDS)
