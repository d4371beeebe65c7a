"""Closes memcells out of the buffer: when one is complete, when a thread goes quiet, at once where somebody asks."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from recollect.domain import boundary
from recollect.domain.access import Caller
from recollect.domain.boundary import ANSWER_SCHEMA, BoundaryRules, Cut, boundary_prompt
from recollect.domain.identity import place_of
from recollect.domain.job import Job, NotYet, Unfinished
from recollect.domain.model import JsonObject, Memcell, Thread, ThreadRef, Turn
from recollect.domain.paths import agent_folder, owner_folder
from recollect.domain.strategy import STRATEGIES, STRATEGY, causes_of, own_lane, strategies_of
from recollect.errors import ModelUnavailable, NotFound, Unavailable
from recollect.failpoints import FailPoints
from recollect.infra.job_engine import JobEngine
from recollect.infra.journal.cells import SqlCellStore, StrategiesOf
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.coordination import BackgroundLoop, Clock
from recollect.service.models.background import BackgroundModel
from recollect.service.threads import owned_thread
from recollect.settings import Settings

_log = logging.getLogger("recollect.boundaries")
_REST_MS = 30_000
"""A model that failed is left alone for so long."""
_ANSWER_TOKENS = 1024


def boundary_rules(settings: Settings) -> BoundaryRules:
    return BoundaryRules(
        gap_ms=int(settings.memorize.gap_minutes * 60_000),
        max_turns=settings.memorize.max_turns,
        max_chars=settings.memorize.max_chars,
    )


@dataclass(slots=True)
class Boundaries:
    """Decides where memcells end: by rules, or by the model where one is given; rules stand in where it fails.

    A run looks at one stretch: a long backlog takes many runs, none of which can outlive its lease. A run whose
    call to the model made way for a chat has changed nothing, and is run again.
    """

    cells: SqlCellStore
    rules: BoundaryRules
    model: BackgroundModel | None
    """None: rules alone decide."""
    fail_points: FailPoints
    clock: Clock
    strategies: StrategiesOf = lambda closed, now: ()
    most_waiting: int = 2000
    """While so many jobs wait to make memories of the thread's owner, messages stay in the buffer."""
    _model_rests_until: int = 0

    async def look(self, job: Job) -> None:
        """The handler of boundary jobs: close what is complete."""
        await self._close(_thread_of(job))

    async def finish(self, job: Job) -> None:
        """The handler of flush jobs: close all that is buffered, or that was when the job was queued."""
        rest, to = str(job.payload.get("reason", "flush")), job.payload.get("to")
        await self._close(_thread_of(job), rest=rest, to=to)

    async def _close(self, thread: ThreadRef, *, rest: str | None = None, to: int | None = None) -> None:
        """`rest`: why what is left at the end is closed, too; `to`: the number of the last turn that is looked at."""
        # A stretch of this length has been cut by its length, tool calls that wait for results included.
        window = 2 * self.rules.max_turns + 2
        turns = await self.cells.look(thread, window)
        if to is not None:
            turns = [turn for turn in turns if place_of(turn) <= to]
        if not turns:
            return
        if await self.cells.memories_wait(thread, self.most_waiting):
            raise NotYet(f"{self.most_waiting} memories of this user wait to be made")
        cuts, decided_by = await self._decide(thread, turns)
        if rest is not None and (len(turns) < window or not cuts):
            cuts = boundary.close_all(turns, cuts, rest)
        self.fail_points.reach("boundary.decided")
        if not cuts:
            return
        cells = _cells(thread, turns, cuts)
        await self.cells.close(thread, cells, decided_by, self.strategies)
        self.fail_points.reach("boundary.closed")
        if len(turns) == window:
            raise Unfinished

    async def _decide(self, thread: ThreadRef, turns: Sequence[Turn]) -> tuple[list[Cut], str]:
        if self.model is None or self.clock() < self._model_rests_until:
            return await asyncio.to_thread(boundary.cuts_by_rules, turns, self.rules), "rules"
        try:
            answer = await self.model.ask(
                boundary_prompt(turns),
                thread=thread,
                max_tokens=_ANSWER_TOKENS,
                schema=ANSWER_SCHEMA,
                check=boundary.parse_answer,
            )
            found = await asyncio.to_thread(boundary.parse_answer, answer.text)
            return boundary.cuts_by_answer(found, turns, self.rules), "model"
        except ModelUnavailable as error:
            self._model_rests_until = self.clock() + _REST_MS
            _log.warning("the model found no boundaries, rules decide for a while: %s", error)
            return await asyncio.to_thread(
                boundary.cuts_by_rules, turns, self.rules
            ), f"rules, the model failed: {error}"


def _thread_of(job: Job) -> ThreadRef:
    if job.thread is None:
        raise NotFound(f"job {job.job_id} names no thread")
    return job.thread


def _cells(thread: ThreadRef, turns: Sequence[Turn], cuts: Sequence[Cut]) -> list[Memcell]:
    cells = []
    start = 0
    for cut in cuts:
        members = turns[start : cut.end]
        start = cut.end
        cell_id = boundary.memcell_id(thread, [turn.message_id for turn in members])
        cells.append(Memcell(cell_id, tuple(turn.turn_id for turn in members), cut.reason))
    return cells


_LEAST_SECONDS, _MOST_SECONDS, _SHARE = 0.2, 5.0, 0.1
"""How often threads are looked at: after this share of the time that they have to be quiet, within these bounds."""
_AT_ONCE = 100


class QuietThreads(BackgroundLoop):
    """Has the last stretch of a thread closed once no message has come for as long as its schedule says.

    Else whoever begins a new thread for every conversation would have no memory of how any of them ended.
    """

    def __init__(self, cells: SqlCellStore, *, clock: Clock, quiet_seconds: float) -> None:
        self._cells = cells
        self._clock = clock
        self._every_seconds = min(_MOST_SECONDS, max(_LEAST_SECONDS, _SHARE * quiet_seconds))

    async def close_quiet(self) -> int:
        """Queue the closing of those whose time has come; returns how many these are."""
        return await self._cells.close_quiet(self._clock(), _AT_ONCE)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_seconds)
            try:
                await self.close_quiet()
            except Unavailable as error:
                _log.warning("can't close quiet threads yet, trying again: %s", error)


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
