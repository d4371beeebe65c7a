"""What the capabilities share: background loops, with or without retries, locks per owner, and the clock."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from weakref import WeakValueDictionary

from recollect.errors import RecollectError

Clock = Callable[[], int]
"""Now, in UTC milliseconds."""
Progress = Callable[[int, int], None]
"""Called with how much is done and the total."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_LONGEST_IMPATIENT_PAUSE = 5.0
_log = logging.getLogger("recollect.index")


def now_ms() -> int:
    """The real clock."""
    return time.time_ns() // 1_000_000


def no_progress(done: int, total: int) -> None:
    """Ignore progress."""


class BackgroundLoop:
    """A task that runs from `start` to `stop`."""

    _task: asyncio.Task[None] | None = None

    def start(self, name: str) -> None:
        self._task = asyncio.create_task(self._run(), name=name)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        raise NotImplementedError


class RetryLoop(BackgroundLoop):
    """Runs `step` once per burst of `wake`, with retries. `problem` holds the last error until a run succeeds."""

    def __init__(
        self,
        step: Callable[[], Awaitable[None]],
        *,
        delay_seconds: float,
        patient: bool,
        on_change: Callable[[], None],
    ) -> None:
        """After a failure, a `patient` loop backs off for up to 30 s, and only `restart` ends the pause: its step
        may call another server. Any other loop backs off for up to 5 s, and `wake` ends the pause.

        `on_change` is called after every run.
        """
        self._step = step
        self._delay = delay_seconds
        self._patient = patient
        self._on_change = on_change
        self._woken = asyncio.Event()
        self._restarted = asyncio.Event()
        self.working = False
        self.problem: str | None = None

    def wake(self) -> None:
        self._woken.set()

    def restart(self) -> None:
        """The cause of the failure was fixed: clear `problem` and retry now."""
        self.problem = None
        self._restarted.set()
        self.wake()

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            await self._take_burst()
            self.working = True
            await self._until_it_succeeds()
            self.working = False
            self._on_change()

    async def _take_burst(self) -> None:
        await asyncio.sleep(self._delay)  # Debounce: one run for the whole burst.
        self._woken.clear()

    async def _until_it_succeeds(self) -> None:
        pause = _FIRST_PAUSE
        longest = _LONGEST_PAUSE if self._patient else _LONGEST_IMPATIENT_PAUSE
        while True:
            self._restarted.clear()
            try:
                await self._step()
                self.problem = None
                return
            except Exception as error:  # noqa: BLE001 - shown in health and retried
                self._report(error)
            await self._pause(pause)
            pause = min(longest, pause * 2)

    def _report(self, error: Exception) -> None:
        if self.problem is None:
            expected = isinstance(error, RecollectError)
            _log.warning("the index waits: %s", error, exc_info=None if expected else error)
        self.problem = str(error) or type(error).__name__
        self._on_change()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await (self._restarted if self._patient else self._woken).wait()
                await self._take_burst()


class OwnerLocks:
    """One lock per owner, made on demand and dropped when nobody uses it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, owner: str) -> asyncio.Lock:
        lock = self._locks.get(owner)
        if lock is None:
            lock = self._locks[owner] = asyncio.Lock()
        return lock
