"""Threads: open, read, change and extend conversations, each for its owner only."""

import json
import secrets
from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from typing import Any, Literal

from recollect.domain.access import Caller
from recollect.domain.identity import place_of, turn_number
from recollect.domain.model import (
    DEFAULT_USER,
    Append,
    Coverage,
    NewTurn,
    Receipt,
    Thread,
    ThreadCursor,
    ThreadRef,
    Turn,
    Waiting,
)
from recollect.errors import (
    AlreadyExists,
    AmbiguousThread,
    InvalidInput,
    NotFound,
    TooMuchQueued,
    Unavailable,
)
from recollect.infra.job_engine import JobEngine
from recollect.infra.journal.coverage import SqlCoverage
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.metrics import Metrics
from recollect.service.access.quotas import Quotas
from recollect.service.coordination import Clock
from recollect.service.people import require_preset


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
    threads: SqlThreadStore,
    clock: Clock,
    caller: Caller,
    new: NewThread,
    people: SqlPresetStore,
) -> Thread:
    """Raises AlreadyExists where the user has a thread of that id. A preset that its space does not have is refused."""
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
    return await threads.create_thread(thread)


async def owned_thread(
    threads: SqlThreadStore, caller: Caller, thread_id: str, user_id: str | None
) -> Thread:
    """The thread, if the caller may see it; another's is as absent as one that never was.

    Raises AmbiguousThread where an operator names no user and several have one of that id.
    """
    thread = await threads.get_thread(thread_id, space=caller.space, user_id=caller.acting_for(user_id))
    if thread is None:
        raise NotFound(f"there is no thread {thread_id!r}")
    return thread


async def list_threads(
    threads: SqlThreadStore,
    caller: Caller,
    user_id: str | None,
    limit: int,
    after: str | None,
    one_shot: bool | None = None,
) -> list[Thread]:
    """The oldest first; `after` is the mark of the last thread of the page before, or its id."""
    acting = caller.acting_for(user_id)
    last = None
    if after is not None:
        owner, thread_id = _marked(after) or (acting, after)
        last = (await owned_thread(threads, caller, thread_id, acting or owner)).ref
    return await threads.list_threads(
        space=caller.space, user_id=acting, one_shot=one_shot, limit=limit, after=last
    )


def page_mark(thread: Thread) -> str:
    """For `next` of a page of threads, the oldest first: two users may have the same id."""
    return json.dumps([thread.user_id, thread.thread_id], ensure_ascii=False, separators=(",", ":"))


def _marked(after: str) -> tuple[str, str] | None:
    """User and thread of a mark; None for what `page_mark` did not make."""
    try:
        told = json.loads(after)
    except (ValueError, RecursionError):
        return None
    match told:
        case [str(user_id), str(thread_id)]:
            return user_id, thread_id
    return None


async def recent_threads(
    threads: SqlThreadStore,
    caller: Caller,
    user_id: str | None,
    words: str | None,
    limit: int,
    after: str | None,
    archived: bool | None = None,
    one_shot: bool | None = None,
) -> list[Thread]:
    """Pinned ones first, then the last used first. Raises InvalidInput where `after` marks no page's end."""
    acting = caller.acting_for(user_id)
    try:
        place = ThreadCursor.from_text(after) if after is not None else None
    except ValueError as error:
        raise InvalidInput("after: must be `next` of the page before", field="after") from error
    return await threads.recent_threads(
        space=caller.space,
        user_id=acting,
        words=words,
        archived=archived,
        one_shot=one_shot,
        limit=limit,
        after=place,
    )


async def get_turn(
    threads: SqlThreadStore, caller: Caller, thread_id: str, user_id: str | None, turn_id: str
) -> Turn:
    thread = await owned_thread(threads, caller, thread_id, user_id)
    turn = await threads.turn(thread.ref, turn_id)
    if turn is None:
        raise NotFound(f"there is no turn {turn_id!r} in this thread")
    return turn


async def update_thread(
    threads: SqlThreadStore,
    caller: Caller,
    thread_id: str,
    user_id: str | None,
    changes: dict[str, Any],
    people: SqlPresetStore,
) -> Thread:
    """Change what is named. A preset that the space does not have is refused."""
    thread = await owned_thread(threads, caller, thread_id, user_id)
    await require_preset(people, caller.space, changes.get("preset"))
    return await threads.update(thread.ref, changes)


@dataclass(frozen=True, slots=True)
class TurnPage:
    """Turns that follow each other, oldest first, and whether the thread has others on either side."""

    turns: list[Turn]
    older: bool
    newer: bool


async def turns_near(
    threads: SqlThreadStore, thread: ThreadRef, turn_id: str, count: int, where: Literal["around", "after"]
) -> TurnPage:
    """Up to `count` turns, half of them before this one, or all right after it. It may be forgotten: its place stays."""
    place = turn_number(turn_id)
    if place is None:
        raise NotFound(f"there is no turn {turn_id!r} in this thread", field=where)
    place, before = (place, count // 2) if where == "around" else (place + 1, 0)
    onwards = count - before
    # One more on either side, to see whether there is one.
    found = await threads.turns_around(thread, place, before + 1, onwards + 1)
    earlier = [turn for turn in found if (turn_number(turn.turn_id) or 0) < place]
    later = found[len(earlier) :]
    kept = earlier[max(0, len(earlier) - before) :] + later[:onwards]
    return TurnPage(kept, older=len(earlier) > before, newer=len(later) > onwards)


async def turns_of_path(
    threads: SqlThreadStore, thread: ThreadRef, start: int | None, count: int, *, backwards: bool
) -> list[Turn]:
    """Up to `count` turns that lead to the thread's last one, from the place `start` on, or from the first or last."""
    found: list[Turn] = []
    spans = await threads.path(thread)
    for first, last in spans[::-1] if backwards else spans:
        begin, end = first, last
        if start is not None:
            begin, end = (first, min(last, start)) if backwards else (max(first, start), last)
        left = count - len(found)
        if left <= 0 or begin > end:
            continue
        place, before, onwards = (end + 1, left, 0) if backwards else (begin, 0, left)
        near = await threads.turns_around(thread, place, before, onwards)
        within = [turn for turn in near if begin <= place_of(turn) <= end]
        found += reversed(within) if backwards else within
    return found


async def add_turn(threads: SqlThreadStore, thread: ThreadRef, turn: NewTurn) -> tuple[Turn, bool]:
    """Append one turn, without a model; False when its `message_id` was there already.

    A thread that does not exist is opened for the user. Without a sender it is the owner who spoke, or the role.
    Raises AlreadyExists where another message has that id, or one that was forgotten had.
    """
    if not turn.sender_id:
        turn = replace(turn, sender_id=thread.user_id if turn.role == "user" else turn.role)
    (receipt,) = await threads.append(Append(thread.space, thread.thread_id, (turn,), thread.user_id))
    if receipt.detail is not None:
        raise AlreadyExists(receipt.detail, field="message_id")
    assert receipt.turn_id is not None
    stored = await threads.turn(thread, receipt.turn_id)
    if stored is None:
        raise NotFound("the turn was forgotten at once")
    return stored, receipt.status == "accepted"


async def memorize(threads: SqlThreadStore, append: Append) -> list[Receipt]:
    """Store messages in order and say what happened to each.

    Turns, buffer rows and the jobs that follow commit together; the same `message_id` again is a duplicate.
    Raises AmbiguousThread where no user is named and several have a thread of that id.
    """
    return await threads.append(append)


@dataclass(frozen=True, slots=True)
class Ingest:
    """Takes messages in, unless too many of their owner's wait already."""

    threads: SqlThreadStore
    jobs: JobEngine
    quotas: Quotas
    metrics: Metrics
    overtaken: Callable[[], Set[tuple[str, str]]]
    """Users of whose messages search can't find enough yet."""
    most_jobs: int

    async def memorize(self, append: Append, size: int) -> list[Receipt]:
        """As the function `memorize`; raises what `admit` raises too."""
        await self.admit(append, size)
        receipts = await memorize(self.threads, append)
        self.metrics.observe_messages(receipt.status for receipt in receipts)
        return receipts

    async def admit(self, append: Append, size: int = 0) -> None:
        """Raises TooMuchQueued where `most_jobs` jobs of the thread's owner are due and wait, or search is overtaken.

        Raises DiskQuotaUsed where the owner's space is used up; `size` is that of the request in bytes.
        """
        behind, overtaken = await self.jobs.owners_behind(self.most_jobs), self.overtaken()
        if not behind and not overtaken and not self.quotas.disk_mb:
            return
        thread = await self.threads.meant(append.thread_id, space=append.space, user_id=append.user_id)
        owner = thread.space, thread.user_id
        self.quotas.count_disk(*owner, size)
        if owner in behind:
            limit = self.most_jobs
            raise TooMuchQueued(f"{limit} or more jobs of this user wait; send the messages again in a while")
        if owner in overtaken:
            raise TooMuchQueued(
                "search is too far behind the messages of this user; send these again in a while"
            )

    async def waiting(self, append: Append) -> Waiting | None:
        """What of the thread no memcell holds yet; None where that can't be told: the messages are stored."""
        try:
            return await self.threads.waiting(append.thread_id, space=append.space, user_id=append.user_id)
        except (AmbiguousThread, Unavailable):
            return None


async def get_coverage(
    threads: SqlThreadStore, counts: SqlCoverage, caller: Caller, thread_id: str | None, user_id: str | None
) -> Coverage:
    """Of one session, or of all that the caller may see. An unknown session has no messages.

    Raises AmbiguousThread where an operator names no user and several have a session of that id.
    """
    acting = caller.acting_for(user_id)
    if thread_id is not None and acting is None:
        thread = await threads.get_thread(thread_id, space=caller.space)
        acting = None if thread is None else thread.user_id
    return await counts.coverage(space=caller.space, thread_id=thread_id, user_id=acting)
