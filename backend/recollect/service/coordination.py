"""Shared by the capabilities: a retry loop, a circuit breaker, locks per owner, and what a clock is."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal
from weakref import WeakValueDictionary

from recollect.errors import RecollectError

Clock = Callable[[], int]
"""Now, in UTC milliseconds."""
Progress = Callable[[int, int], None]
"""Called with how much is done and how much there is."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_LONGEST_IMPATIENT_PAUSE = 5.0
_log = logging.getLogger("recollect.index")


def no_progress(done: int, total: int) -> None:
    """For callers that do not watch."""


class PersistentLoop:
    """Runs `step` once for every burst of `wake`. What befalls it is `problem` until it succeeds again."""

    def __init__(
        self,
        step: Callable[[], Awaitable[None]],
        *,
        delay_seconds: float,
        patient: bool,
        on_change: Callable[[], None],
    ) -> None:
        """A `patient` one is woken from the pause after a failure by `begin_anew` alone, and pauses for longer: what it
        asks may be somebody else's. Any other goes on within seconds of room on a disk that was full.

        `on_change` is told of every outcome.
        """
        self._step = step
        self._delay = delay_seconds
        self._patient = patient
        self._on_change = on_change
        self._woken = asyncio.Event()
        self._begun_anew = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.working = False
        self.problem: str | None = None

    def start(self, name: str) -> None:
        self._task = asyncio.create_task(self._run(), name=name)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def wake(self) -> None:
        self._woken.set()

    def begin_anew(self) -> None:
        """What it failed at is put right: that is no problem any more, and the next try is now."""
        self.problem = None
        self._begun_anew.set()
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
        await asyncio.sleep(self._delay)  # For the rest of it: one write for all.
        self._woken.clear()

    async def _until_it_succeeds(self) -> None:
        pause = _FIRST_PAUSE
        longest = _LONGEST_PAUSE if self._patient else min(_LONGEST_PAUSE, _LONGEST_IMPATIENT_PAUSE)
        while True:
            self._begun_anew.clear()
            try:
                await self._step()
                self.problem = None
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, it is shown in health and tried again
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
                await (self._begun_anew if self._patient else self._woken).wait()
                await self._take_burst()


State = Literal["closed", "open", "trial"]


class Breaker:
    """Closed while all is well; open for a while after failures in a row; then a single trial decides.

    A trial that nobody reports on is followed by another after the same while.
    """

    def __init__(self, clock: Callable[[], float], *, failures: int = 3, seconds: float = 30.0) -> None:
        """`clock` counts seconds and never goes back."""
        self._clock = clock
        self._allowed = failures
        self._seconds = seconds
        self._failures = 0
        self._last_failure = float("-inf")
        self._open_until = 0.0
        self._on_trial = False
        self._cause = ""

    @property
    def state(self) -> State:
        if self._failures < self._allowed:
            return "closed"
        if self._clock() < self._open_until:
            return "trial" if self._on_trial else "open"
        return "trial"

    @property
    def cause(self) -> str:
        """Of the last failure; empty while there is none."""
        return self._cause

    def refuses(self) -> str | None:
        """Why a call is not to be made now; None: it is to be made, and its outcome reported."""
        if self._failures < self._allowed:
            return None
        if self._clock() < self._open_until:
            return f"it failed {self._failures} times in a row and is left alone for a while; last: {self._cause}"
        self._on_trial = True
        self._open_until = self._clock() + self._seconds
        return None

    def failed(self, cause: str, began: float | None = None) -> None:
        """A call that `began` before the last failure was known is part of it: many at once are not many in a row."""
        self._cause = cause
        if began is not None and began < self._last_failure:
            return
        self._last_failure = self._clock()
        self._failures += 1
        self._on_trial = False
        self._open_until = self._clock() + self._seconds

    def succeeded(self) -> None:
        self._failures = 0
        self._cause = ""
        self._on_trial = False


class OwnerLocks:
    """What is written to an owner's index, and what of it is in memory, change together or not at all."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, owner: str) -> asyncio.Lock:
        lock = self._locks.get(owner)
        if lock is None:
            lock = self._locks[owner] = asyncio.Lock()
        return lock
