"""Blocking work in worker threads, one piece at a time per lane."""

import asyncio
import logging
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

_THREADS = 4
_log = logging.getLogger("recollect.index")
T = TypeVar("T")


@dataclass(slots=True)
class _Lane:
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Lanes:
    """Work of one lane runs in the order it came. A cancelled caller leaves, its lane stays taken until it is done.

    Threads are started on first use, and again after `close`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lanes: dict[Hashable, _Lane] = {}
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, lane: Hashable, work: Callable[[], T]) -> T:
        taken = self._lanes.setdefault(lane, _Lane())
        taken.users += 1
        try:
            await taken.turn.acquire()
        except BaseException:
            self._leave(lane, taken)
            raise
        try:
            running = asyncio.get_running_loop().run_in_executor(self._open_pool(), work)
        except BaseException:
            self._finish(lane, taken)
            raise
        running.add_done_callback(lambda _: self._finish(lane, taken))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(_tell_of_failure)
            raise

    async def quiet(self, belongs: Callable[[Hashable], bool]) -> None:
        """Return when every lane that `belongs` has done what it was given before this call."""
        await asyncio.gather(*(self.run(lane, _nothing) for lane in list(self._lanes) if belongs(lane)))

    async def close(self) -> None:
        """Return when all that was begun is done."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.to_thread(pool.shutdown)

    def _open_pool(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix=self._name)
        return self._pool

    def _finish(self, lane: Hashable, taken: _Lane) -> None:
        taken.turn.release()
        self._leave(lane, taken)

    def _leave(self, lane: Hashable, taken: _Lane) -> None:
        taken.users -= 1
        if taken.users == 0:
            del self._lanes[lane]


def _nothing() -> None:
    """Only its turn matters."""


def _tell_of_failure(done: "asyncio.Future[T]") -> None:
    """Nobody waits for this any more, so the log has to know."""
    if not done.cancelled() and (error := done.exception()) is not None:
        _log.warning("work on the index failed after its caller had left: %s", error)
