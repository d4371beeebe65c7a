"""Work on the index, in threads: one piece after another where it is about the same."""

import asyncio
import logging
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from weakref import WeakValueDictionary

_THREADS = 4
_log = logging.getLogger("recollect.index")
T = TypeVar("T")


class Lanes:
    """Work of one lane runs in the order it came. A cancelled caller leaves, its lane stays taken until it is done.

    Threads are started on first use, and again after `close`.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()
        self._pool = ThreadPoolExecutor(_THREADS, "index")

    async def run(self, lane: Hashable, work: Callable[[], T]) -> T:
        lock = self._locks.setdefault(lane, asyncio.Lock())
        await lock.acquire()
        try:
            running = asyncio.get_running_loop().run_in_executor(self._pool, work)
        except BaseException:
            lock.release()
            raise
        running.add_done_callback(lambda _: lock.release())
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(_tell_of_failure)
            raise

    async def quiet(self, belongs: Callable[[Hashable], bool]) -> None:
        """Return when every lane that `belongs` has done what it was given before this call."""
        await asyncio.gather(*(self.run(lane, lambda: None) for lane in list(self._locks) if belongs(lane)))

    async def close(self) -> None:
        """Return when all that was begun is done."""
        pool, self._pool = self._pool, ThreadPoolExecutor(_THREADS, "index")
        await asyncio.to_thread(pool.shutdown)


def _tell_of_failure(done: "asyncio.Future[T]") -> None:
    """Nobody waits for this any more, so the log has to know."""
    if not done.cancelled() and (error := done.exception()) is not None:
        _log.warning("work on the index failed after its caller had left: %s", error)
