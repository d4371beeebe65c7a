"""Closes memcells out of the buffer, also for threads that have gone quiet."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.domain import boundary
from recollect.domain.boundary import ANSWER_SCHEMA, BoundaryRules, Cut, boundary_prompt
from recollect.domain.identity import place_of
from recollect.domain.job import Job, NotYet, Unfinished
from recollect.domain.model import Append, Memcell, ThreadRef, Turn, Waiting
from recollect.errors import AmbiguousThread, ModelUnavailable, NotFound, Unavailable
from recollect.failpoints import FailPoints
from recollect.infra.journal.cells import SqlCellStore, StrategiesOf
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.coordination import BackgroundLoop, Clock
from recollect.service.models.background import BackgroundModel
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


async def what_waits(threads: SqlThreadStore, append: Append) -> Waiting | None:
    """What of a thread that was added to no memcell holds yet; None where that can't be told: the messages are stored."""
    try:
        thread = await threads.meant(append.thread_id, space=append.space, user_id=append.user_id)
        return await threads.waiting(thread)
    except (AmbiguousThread, Unavailable):
        return None


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
