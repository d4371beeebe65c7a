"""Threads: open, read, change and extend conversations, each for its owner only."""

import secrets
from dataclasses import dataclass, replace
from typing import Any

from recollect.errors import AlreadyExists, InvalidInput, NotFound
from recollect.memory.access import Caller
from recollect.memory.identity import turn_number
from recollect.memory.model import Append, NewTurn, Role, Thread, Turn
from recollect.memory.thread_place import ThreadPlace
from recollect.service.ports import Clock, PeopleStore, ThreadStore
from recollect.service.presets import require_preset

DEFAULT_USER = "me"


@dataclass(frozen=True, slots=True)
class NewThread:
    """A thread somebody wants. Without an id one is made."""

    user_id: str | None = None
    thread_id: str | None = None
    agent_id: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    preset: str | None = None
    backend: str | None = None
    incognito: bool = False


async def create_thread(
    threads: ThreadStore, clock: Clock, caller: Caller, new: NewThread, people: PeopleStore | None = None
) -> Thread:
    """Raises AlreadyExists where the user has a thread of that id, NotFound where another user has.

    With `people`, a preset that its space does not have is refused.
    """
    if people is not None:
        await require_preset(people, caller.space, new.preset)
    now = clock()
    thread = Thread(
        space=caller.space,
        thread_id=new.thread_id or f"t_{secrets.token_hex(8)}",
        user_id=caller.acting_for(new.user_id) or DEFAULT_USER,
        created=now,
        updated=now,
        agent_id=new.agent_id,
        title=new.title,
        tags=new.tags,
        preset=new.preset,
        backend=new.backend,
        incognito=new.incognito,
    )
    try:
        return await threads.create_thread(thread)
    except AlreadyExists:
        await owned_thread(threads, caller, thread.thread_id, thread.user_id)
        raise


async def owned_thread(threads: ThreadStore, caller: Caller, thread_id: str, user_id: str | None) -> Thread:
    """The thread, if the caller may see it; another's is as absent as one that never was."""
    acting = caller.acting_for(user_id)
    thread = await threads.get_thread(thread_id, space=caller.space)
    if thread is None or (acting is not None and thread.user_id != acting):
        raise NotFound(f"there is no thread {thread_id!r}")
    return thread


async def list_threads(
    threads: ThreadStore, caller: Caller, user_id: str | None, limit: int, after: str | None
) -> list[Thread]:
    acting = caller.acting_for(user_id)
    if after is not None:
        await owned_thread(threads, caller, after, acting)
    return await threads.list_threads(space=caller.space, user_id=acting, limit=limit, after=after)


async def recent_threads(
    threads: ThreadStore,
    caller: Caller,
    user_id: str | None,
    words: str | None,
    limit: int,
    after: str | None,
) -> list[Thread]:
    """Pinned ones first, then the last used first. Raises InvalidInput where `after` marks no page's end."""
    acting = caller.acting_for(user_id)
    try:
        place = ThreadPlace.from_text(after) if after is not None else None
    except ValueError as error:
        raise InvalidInput("after: must be `next` of the page before", field="after") from error
    return await threads.recent_threads(
        space=caller.space, user_id=acting, words=words, limit=limit, after=place
    )


async def get_turn(
    threads: ThreadStore, caller: Caller, thread_id: str, user_id: str | None, turn_id: str
) -> Turn:
    await owned_thread(threads, caller, thread_id, user_id)
    turn = await threads.get_turn(thread_id, turn_id, space=caller.space)
    if turn is None:
        raise NotFound(f"there is no turn {turn_id!r} in this thread")
    return turn


async def update_thread(
    threads: ThreadStore,
    caller: Caller,
    thread_id: str,
    user_id: str | None,
    changes: dict[str, Any],
    people: PeopleStore | None = None,
) -> Thread:
    """Change what is named. With `people`, a preset that the space does not have is refused."""
    await owned_thread(threads, caller, thread_id, user_id)
    if people is not None:
        await require_preset(people, caller.space, changes.get("preset"))
    return await threads.update_thread(thread_id, changes, space=caller.space)


async def get_turns(
    threads: ThreadStore,
    caller: Caller,
    thread_id: str,
    user_id: str | None,
    max_turns: int | None,
    before: str | None,
) -> list[Turn]:
    """The newest turns, oldest first."""
    await owned_thread(threads, caller, thread_id, user_id)
    return await threads.get_history(thread_id, max_turns, space=caller.space, before=before)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Turns that follow each other, oldest first, and whether the thread has others on either side."""

    turns: list[Turn]
    older: bool
    newer: bool


async def turns_around(
    threads: ThreadStore, caller: Caller, thread_id: str, user_id: str | None, turn_id: str, count: int
) -> Stretch:
    """Up to `count` turns, half of them before this one. It may be forgotten: its place stays."""
    before = count // 2
    return await _stretch(
        threads, caller, thread_id, user_id, _place(turn_id, "around"), before, count - before
    )


async def turns_after(
    threads: ThreadStore, caller: Caller, thread_id: str, user_id: str | None, turn_id: str, count: int
) -> Stretch:
    """The `count` turns that come right after this one. It may be forgotten: its place stays."""
    return await _stretch(threads, caller, thread_id, user_id, _place(turn_id, "after") + 1, 0, count)


def _place(turn_id: str, field: str) -> int:
    place = turn_number(turn_id)
    if place is None:
        raise NotFound(f"there is no turn {turn_id!r} in this thread", field=field)
    return place


async def _stretch(
    threads: ThreadStore,
    caller: Caller,
    thread_id: str,
    user_id: str | None,
    place: int,
    before: int,
    onwards: int,
) -> Stretch:
    """One more is read on either side, to see whether there is one."""
    await owned_thread(threads, caller, thread_id, user_id)
    found = await threads.turns_around(thread_id, place, before + 1, onwards + 1, space=caller.space)
    earlier = [turn for turn in found if (turn_number(turn.turn_id) or 0) < place]
    later = found[len(earlier) :]
    kept = earlier[max(0, len(earlier) - before) :] + later[:onwards]
    return Stretch(kept, older=len(earlier) > before, newer=len(later) > onwards)


async def add_turn(
    threads: ThreadStore, caller: Caller, thread_id: str, user_id: str | None, turn: NewTurn
) -> tuple[Turn, bool]:
    """Append one turn, without a model; False when its `message_id` was there already.

    A thread that does not exist is opened for the user. Without a sender it is the owner who spoke, or the role.
    Raises AlreadyExists where another message has that id, or one that was forgotten had.
    """
    acting = caller.acting_for(user_id)
    if not turn.sender_id:
        turn = replace(turn, sender_id=await _speaker(threads, caller, thread_id, acting, turn.role))
    (receipt,) = await threads.append(Append(caller.space, thread_id, (turn,), acting))
    if receipt.detail is not None:
        raise AlreadyExists(receipt.detail, field="message_id")
    assert receipt.turn_id is not None
    stored = await threads.get_turn(thread_id, receipt.turn_id, space=caller.space)
    if stored is None:
        raise NotFound("the turn was forgotten at once")
    return stored, receipt.status == "accepted"


async def _speaker(
    threads: ThreadStore, caller: Caller, thread_id: str, acting: str | None, role: Role
) -> str:
    if role != "user":
        return role
    thread = await threads.get_thread(thread_id, space=caller.space)
    return thread.user_id if thread is not None else acting or DEFAULT_USER
