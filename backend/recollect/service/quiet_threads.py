"""Conversations that have gone quiet: what they left in the buffer is closed, though no further message comes."""

import asyncio
import logging
from typing import Protocol

from recollect.errors import Unavailable
from recollect.service.ports import Clock

_EVERY_SECONDS = 60.0
_AT_ONCE = 100
_log = logging.getLogger("recollect.boundaries")


class Buffers(Protocol):
    """`CellStore`, as far as it is used here."""

    async def quiet_threads(self, before: int, limit: int) -> list[tuple[str, str]]: ...
    async def request_flush(self, space: str, thread_id: str, *, reason: str) -> int: ...


class QuietThreads:
    """Has the last stretch of a thread closed once no message has come for as long as a gap between two closes one.

    Else whoever begins a new thread for every conversation would have no memory of how any of them ended.
    """

    def __init__(self, buffers: Buffers, *, clock: Clock, gap_ms: int) -> None:
        self._buffers = buffers
        self._clock = clock
        self._gap_ms = gap_ms
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._look_regularly(), name="quiet-threads")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def close_quiet(self) -> int:
        """Queue the closing of those that are quiet by now, the longest ones first; returns how many these are."""
        quiet = await self._buffers.quiet_threads(self._clock() - self._gap_ms, _AT_ONCE)
        for space, thread_id in quiet:
            await self._buffers.request_flush(space, thread_id, reason="gap")
        return len(quiet)

    async def _look_regularly(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_SECONDS)
            try:
                await self.close_quiet()
            except Unavailable as error:
                _log.warning("conversations that are over cannot be closed yet: %s", error)
