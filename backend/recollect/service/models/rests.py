"""Rests: after a failure that may pass, background calls leave a backend alone for a while."""

from collections.abc import Callable
from dataclasses import dataclass

PAUSES = (5.0, 60.0, 300.0)
"""Seconds, after the first failure in a row, the second, and each further one."""
LONGEST_SECONDS = 600.0
"""A server that asks for a longer rest gets this one."""


@dataclass(slots=True)
class _Rest:
    failures: int
    """In a row."""
    begun: float
    until: float


class Rests:
    """By the name of a backend. A rest ends with one call on trial: while it runs, the others wait."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` counts seconds."""
        self._clock = clock
        self._resting: dict[str, _Rest] = {}

    def now(self) -> float:
        return self._clock()

    def wait_before_call(self, backend: str) -> float:
        """For how many seconds no call is to be made; 0: the caller makes one now."""
        rest, now = self._resting.get(backend), self._clock()
        if rest is None:
            return 0.0
        # A clock that was set back ends a rest too early rather than too late.
        if rest.begun <= now < rest.until:
            return rest.until - now
        rest.begun, rest.until = now, now + PAUSES[0]
        return 0.0

    def failed(self, backend: str, began: float, asked_for: float | None) -> float:
        """A call that `began` then has failed. Returns for how many seconds the backend rests now.

        Calls that ran at the same time fail for the same cause: they count once.
        """
        rest, now = self._resting.get(backend), self._clock()
        if rest is None:
            rest = _Rest(0, began, began)
        failures = rest.failures if began < rest.begun else rest.failures + 1
        pause = max(PAUSES[min(failures, len(PAUSES)) - 1], min(asked_for or 0.0, LONGEST_SECONDS))
        self._resting[backend] = _Rest(failures, now, now + pause)
        return pause

    def answered(self, backend: str) -> None:
        self._resting.pop(backend, None)

    def end_all(self) -> None:
        """Somebody wants a call now."""
        self._resting.clear()
