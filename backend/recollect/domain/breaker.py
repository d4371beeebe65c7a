"""A circuit breaker: after repeated failures, calls fail at once for a while."""

from collections.abc import Callable, Sequence


class Breaker:
    """Closed while all is well; open for a while after failures in a row; then a single trial decides.

    While the trial runs, no other call is made. One without a report is followed by another after a while.
    """

    def __init__(self, clock: Callable[[], float], pauses: Sequence[float] = (0, 0, 30)) -> None:
        """`clock` counts seconds; `pauses` are for the first failure in a row, the second, and each further one."""
        self._clock = clock
        self._pauses = pauses
        self._failures = 0
        self._begun = self._until = float("-inf")
        """Of the last pause, or of the time that a trial has."""
        self.cause = ""
        """Of the last failure; empty after a success."""

    def seconds_left(self) -> float:
        """For how long no call is to be made; 0: one is to be made now, and its outcome reported."""
        now = self._clock()
        # A clock that was set back ends a pause too early rather than too late.
        if self._begun <= now < self._until:
            return self._until - now
        if self._until > self._begun:
            self._begun, self._until = now, now + next(filter(None, self._pauses))
        return 0.0

    def refuses(self) -> str | None:
        """Why a call is not to be made now; None: it is to be made, and its outcome reported."""
        if not self.seconds_left():
            return None
        return f"it failed {self._failures} times in a row and is left alone for a while; last: {self.cause}"

    def failed(self, cause: str, began: float | None = None, least: float = 0.0) -> float:
        """Returns how many seconds the pause now takes, `least` at least.

        A call that `began` before the last failure counts as part of it: concurrent failures are not consecutive ones.
        """
        now = self._clock()
        self.cause = cause
        if began is None or began >= self._begun:
            self._failures += 1
        pause = max(self._pauses[min(self._failures, len(self._pauses)) - 1], least)
        self._begun, self._until = now, now + pause
        return pause

    def succeeded(self) -> None:
        self._failures, self.cause = 0, ""
        self._begun = self._until = float("-inf")
