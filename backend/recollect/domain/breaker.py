"""A circuit breaker: after repeated failures, calls fail at once for a while."""

from collections.abc import Callable
from typing import Literal

State = Literal["closed", "open", "trial"]


class Breaker:
    """Closed while all is well; open for a while after failures in a row; then a single trial decides.

    A trial without a report is followed by another after the same time.
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
        """Of the last failure; empty after a success."""
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
        """A call that `began` before the last failure counts as part of it: concurrent failures are not consecutive ones."""
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
