"""Incognito threads end: deleted by their user, or by themselves when nobody has used them for a while."""

import asyncio
import logging

from recollect.errors import NotFound, Unavailable
from recollect.service.ports import Clock, ThreadStore

_EVERY_SECONDS = 300.0
_log = logging.getLogger("recollect.incognito")


class IncognitoEnds:
    """Forgets what an incognito thread held, as deleting it does. Looks at every start and every few minutes."""

    def __init__(self, threads: ThreadStore, *, clock: Clock, idle_hours: float) -> None:
        self._threads = threads
        self._clock = clock
        self._idle_ms = int(idle_hours * 3_600_000)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._look_regularly(), name="incognito-ends")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def end_idle(self) -> int:
        """Forget those that nobody has written to for so long; returns how many these were."""
        ended = 0
        for thread in await self._threads.idle_incognito(self._clock() - self._idle_ms):
            try:
                await self._threads.delete_thread(thread.thread_id, space=thread.space)
                ended += 1
            except NotFound:
                continue  # Its user was faster.
        return ended

    async def _look_regularly(self) -> None:
        while True:
            try:
                await self.end_idle()
            except Unavailable as error:
                _log.warning("incognito threads that are over cannot be forgotten yet: %s", error)
            await asyncio.sleep(_EVERY_SECONDS)
