"""Threads: open, read, change and extend conversations, each for its owner only."""

import json
import secrets
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from recollect.domain.access import Caller
from recollect.domain.identity import place_of, turn_number
from recollect.domain.job import Job
from recollect.domain.model import (
    DEFAULT_USER,
    Append,
    Coverage,
    JsonObject,
    Memcell,
    NewTurn,
    Receipt,
    Thread,
    ThreadCursor,
    ThreadRef,
    Turn,
)
from recollect.domain.paths import agent_folder, owner_folder
from recollect.domain.strategy import STRATEGIES, STRATEGY, causes_of, own_lane, strategies_of
from recollect.errors import AlreadyExists, InvalidInput, NotFound, TooMuchQueued
from recollect.infra.job_engine import JobEngine
from recollect.infra.journal.cells import SqlCellStore
from recollect.infra.journal.coverage import SqlCoverage
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.journal.threads import SqlThreadStore
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


async def refuse_backlog(
    threads: SqlThreadStore,
    jobs: JobEngine,
    overtaken: Set[tuple[str, str]],
    quotas: Quotas,
    append: Append,
    size: int,
    limit: int,
) -> None:
    """Raises TooMuchQueued where `limit` jobs or more of the thread's owner are due and wait, or search is overtaken:
    it can't find enough of their messages yet. Raises DiskQuotaUsed where the owner's space is used up; `size` is that
    of the request in bytes.
    """
    behind = await jobs.owners_behind(limit)
    if not behind and not overtaken and not quotas.disk_mb:
        return
    thread = await threads.meant(append.thread_id, space=append.space, user_id=append.user_id)
    quotas.count_disk(thread.space, thread.user_id, size)
    if (thread.space, thread.user_id) in behind:
        raise TooMuchQueued(f"{limit} or more jobs of this user wait; send the messages again in a while")
    if (thread.space, thread.user_id) in overtaken:
        raise TooMuchQueued("search is too far behind the messages of this user; send these again in a while")


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


_MOST_JOBS = 10_000
_ROUNDS = 2
"""Strategies on memcells start those on facts and cases, and these start none."""


@dataclass(frozen=True, slots=True)
class StrategyState:
    """The state of one strategy's work on one memcell."""

    strategy: str
    state: str
    """`extracted`, `nothing worth keeping`, `off`, `waiting` or `failed`."""
    detail: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flushed:
    """What a flush did. `done` is False when the time was up before everything was made, or something failed."""

    done: bool
    memcells: list[tuple[Memcell, tuple[str, ...]]]
    buffered: int
    error: str | None = None
    strategies: Mapping[str, list[StrategyState]] = field(default_factory=dict)
    """By memcell."""


async def flush_thread(
    threads: SqlThreadStore,
    cells: SqlCellStore,
    jobs: JobEngine,
    caller: Caller,
    thread_id: str,
    user_id: str | None,
    seconds: float,
) -> Flushed:
    """Close the buffer, run its extraction now, and wait for it, at most `seconds`."""
    thread = await owned_thread(threads, caller, thread_id, user_id)
    until = time.monotonic() + seconds
    before = {cell.memcell_id for cell, _ in await cells.list_cells(thread.ref)}
    job_id = await cells.request_flush(thread.ref)
    closed = await jobs.wait_for(job_id, seconds)
    dead = await jobs.get(job_id) if closed else None
    made = [item for item in await cells.list_cells(thread.ref) if item[0].memcell_id not in before]
    left = await cells.count_buffered(thread.ref)
    waited = closed and await _strategies_end(jobs, thread, until)
    states = await _states(cells, jobs, thread, {cell.memcell_id for cell, _ in made})
    error = dead.error if dead else _failure(states)
    return Flushed(waited and error is None, made, left, error, states)


def _failure(states: Mapping[str, list[StrategyState]]) -> str | None:
    """The error of a strategy that failed for good, so that a flush does not report success."""
    failed = sorted({each.strategy for told in states.values() for each in told if each.state == "failed"})
    return f"failed and set aside: {', '.join(failed)}" if failed else None


async def _strategies_end(jobs: JobEngine, thread: Thread, until: float) -> bool:
    """Whether all that is made of the thread was made, well or not, by that time: nothing waits for more events, for
    a pause or for its time of day, when somebody waits for it.
    """
    for _ in range(_ROUNDS):
        waiting = [job for job in await _strategy_jobs(jobs, thread) if job.state != "dead"]
        await jobs.hasten([job.job_id for job in waiting])
        for job in waiting:
            if not await jobs.wait_for(job.job_id, max(0.0, until - time.monotonic())):
                return False
    return True


async def _states(
    cells: SqlCellStore, jobs: JobEngine, thread: Thread, memcells: set[str]
) -> dict[str, list[StrategyState]]:
    states: dict[str, list[StrategyState]] = {memcell: [] for memcell in memcells}
    for memcell, stages in (await cells.receipts(thread.ref, sorted(memcells))).items():
        for stage, detail in stages.items():
            if "state" in detail:
                rest = {name: value for name, value in detail.items() if name != "state"}
                states[memcell].append(StrategyState(stage, str(detail["state"]), rest))
    for job in await _strategy_jobs(jobs, thread):
        about = {str(job.payload.get("cell")), *(cause.cell for cause in causes_of(job))}
        for memcell in sorted(about & memcells):
            detail = {"error": job.error} if job.error else {}
            if job.state != "dead":
                detail["next_try"] = job.run_at
            state = "failed" if job.state == "dead" else "waiting"
            # What was given up is told already, by its receipts.
            told = {each.strategy for each in states[memcell] if job.state == "dead" and "why" in each.detail}
            names = [name for name in strategies_of(job) if name not in told]
            states[memcell] += [StrategyState(name, state, detail) for name in names]
    return states


async def _strategy_jobs(jobs: JobEngine, thread: Thread) -> list[Job]:
    """The thread's own, and those of its owner that follow from them, whichever thread set them off first."""
    space = thread.space
    found = await jobs.list_jobs(
        space=space, user_id=thread.user_id, thread_id=thread.thread_id, limit=_MOST_JOBS
    )
    owners = {
        "chat": owner_folder(space, thread.user_id),
        "agent": agent_folder(space, thread.agent_id),
    }
    for strategy in STRATEGIES:
        if strategy.on != "memcell closed":
            lane = own_lane(strategy.name, owners[strategy.for_mode])
            found += await jobs.list_jobs(space=space, lane=lane, limit=_MOST_JOBS)
    return list({job.job_id: job for job in found if job.kind == STRATEGY}.values())
