"""Flush: close a thread's buffer into memcells, and wait for what is made of them."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from recollect.memory.access import Caller
from recollect.memory.job import Job
from recollect.memory.model import JsonObject, Memcell
from recollect.memory.strategy import HELD, STRATEGY
from recollect.service.ports import CellStore, JobRunner, ThreadStore
from recollect.service.threads import owned_thread

_MOST_JOBS = 10_000


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
    """Close the buffer and wait for it and for its strategies, at most so many seconds."""
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
    waited = closed and await _strategies_end(jobs, thread.space, thread_id, until)
    states = await _states(cells, jobs, thread.space, thread_id, {cell.memcell_id for cell, _ in made})
    error = dead.error if dead else _failure(states)
    return Flushed(waited and error is None, made, left, error, states)


def _failure(states: Mapping[str, list[StrategyState]]) -> str | None:
    """In words, where a strategy has failed for good: whoever waits for a flush must not take that for success."""
    failed = sorted({each.strategy for told in states.values() for each in told if each.state == "failed"})
    return f"failed and set aside: {', '.join(failed)}" if failed else None


async def _strategies_end(jobs: JobRunner, space: str, thread_id: str, until: float) -> bool:
    """Whether all of the thread's strategies have ended, well or not, by that time. What waits for more events won't."""
    waiting = [job for job in await _strategy_jobs(jobs, space, thread_id) if job.state != "dead"]
    held = [job for job in waiting if job.run_at == HELD]
    for job in waiting:
        if job not in held and not await jobs.wait_for(job.job_id, max(0.0, until - time.monotonic())):
            return False
    return not held


async def _states(
    cells: CellStore, jobs: JobRunner, space: str, thread_id: str, memcells: set[str]
) -> dict[str, list[StrategyState]]:
    states: dict[str, list[StrategyState]] = {memcell: [] for memcell in memcells}
    for memcell, stages in (await cells.receipts(space, thread_id, sorted(memcells))).items():
        for stage, detail in stages.items():
            if "state" in detail:
                rest = {name: value for name, value in detail.items() if name != "state"}
                states[memcell].append(StrategyState(stage, str(detail["state"]), rest))
    for job in await _strategy_jobs(jobs, space, thread_id):
        if (memcell := str(job.payload.get("cell"))) in states:
            detail = {"error": job.error} if job.error else {}
            if job.run_at == HELD:
                detail["waits_for"] = "more memcells"
            elif job.state != "dead":
                detail["next_try"] = job.run_at
            state = "failed" if job.state == "dead" else "waiting"
            states[memcell].append(StrategyState(str(job.payload["strategy"]), state, detail))
    return states


async def _strategy_jobs(jobs: JobRunner, space: str, thread_id: str) -> list[Job]:
    found = await jobs.list_jobs(space=space, thread_id=thread_id, limit=_MOST_JOBS)
    return [job for job in found if job.kind == STRATEGY]
