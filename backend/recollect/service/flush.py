"""Flush: close a thread's buffer into memcells, and wait for what is made of them."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from recollect.memory.access import Caller
from recollect.memory.job import Job
from recollect.memory.model import JsonObject, Memcell, Thread
from recollect.memory.strategy import STRATEGIES, STRATEGY, causes_of, own_lane
from recollect.memory.vault_paths import agent_folder, owner_folder
from recollect.service.ports import CellStore, JobRunner, ThreadStore
from recollect.service.threads import owned_thread

_MOST_JOBS = 10_000
_ROUNDS = 2
"""What works on memcells sets off what works on facts and cases, and that sets off nothing."""


@dataclass(frozen=True, slots=True)
class StrategyState:
    """Where the work of one strategy on one memcell stands."""

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
    threads: ThreadStore,
    cells: CellStore,
    jobs: JobRunner,
    caller: Caller,
    thread_id: str,
    user_id: str | None,
    seconds: float,
) -> Flushed:
    """Close the buffer, have all made of it now that can be, and wait for that, at most so many seconds."""
    thread = await owned_thread(threads, caller, thread_id, user_id)
    until = time.monotonic() + seconds
    before = {cell.memcell_id for cell, _ in await cells.list_cells(thread.space, thread_id)}
    job_id = await cells.request_flush(thread.space, thread_id)
    closed = await jobs.wait_for(job_id, seconds)
    dead = await jobs.get(job_id) if closed else None
    made = [
        item for item in await cells.list_cells(thread.space, thread_id) if item[0].memcell_id not in before
    ]
    left = await cells.count_buffered(thread.space, thread_id)
    waited = closed and await _strategies_end(jobs, thread, until)
    states = await _states(cells, jobs, thread, {cell.memcell_id for cell, _ in made})
    error = dead.error if dead else _failure(states)
    return Flushed(waited and error is None, made, left, error, states)


def _failure(states: Mapping[str, list[StrategyState]]) -> str | None:
    """In words, where a strategy has failed for good: whoever waits for a flush must not take that for success."""
    failed = sorted({each.strategy for told in states.values() for each in told if each.state == "failed"})
    return f"failed and set aside: {', '.join(failed)}" if failed else None


async def _strategies_end(jobs: JobRunner, thread: Thread, until: float) -> bool:
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
    cells: CellStore, jobs: JobRunner, thread: Thread, memcells: set[str]
) -> dict[str, list[StrategyState]]:
    states: dict[str, list[StrategyState]] = {memcell: [] for memcell in memcells}
    for memcell, stages in (await cells.receipts(thread.space, thread.thread_id, sorted(memcells))).items():
        for stage, detail in stages.items():
            if "state" in detail:
                rest = {name: value for name, value in detail.items() if name != "state"}
                states[memcell].append(StrategyState(stage, str(detail["state"]), rest))
    for job in await _strategy_jobs(jobs, thread):
        about = {str(job.payload.get("cell")), *(cause.cell for cause in causes_of(job.payload))}
        for memcell in sorted(about & memcells):
            detail = {"error": job.error} if job.error else {}
            if job.state != "dead":
                detail["next_try"] = job.run_at
            state = "failed" if job.state == "dead" else "waiting"
            states[memcell].append(StrategyState(str(job.payload["strategy"]), state, detail))
    return states


async def _strategy_jobs(jobs: JobRunner, thread: Thread) -> list[Job]:
    """The thread's own, and those of its owner that follow from them, whichever thread set them off first."""
    space = thread.space
    found = await jobs.list_jobs(space=space, thread_id=thread.thread_id, limit=_MOST_JOBS)
    owners = {
        "chat": owner_folder(space, thread.user_id),
        "agent": agent_folder(space, thread.agent_id),
    }
    for strategy in STRATEGIES:
        if strategy.on != "memcell closed":
            lane = own_lane(strategy.name, owners[strategy.for_mode])
            found += await jobs.list_jobs(space=space, lane=lane, limit=_MOST_JOBS)
    return list({job.job_id: job for job in found if job.kind == STRATEGY}.values())
