"""A circuit breaker: spares a server that is down, and those who would wait for it."""

from collections.abc import Callable

from recollect.errors import EmbedderUnavailable


class Breaker:
    """Open after so many failures in a row, for so many seconds; then the next call decides."""

    def __init__(self, clock: Callable[[], float], *, failures: int = 3, seconds: float = 5.0) -> None:
        """`clock` counts seconds and never goes back."""
        self._clock = clock
        self._allowed = failures
        self._seconds = seconds
        self._failures = 0
        self._open_until = 0.0
        self._cause = ""

    def check(self) -> None:
        """Raises EmbedderUnavailable, with the last cause, while it is open."""
        if self._failures >= self._allowed and self._clock() < self._open_until:
            raise EmbedderUnavailable(
                f"the embedding server failed {self._failures} times in a row; it is asked again within "
                f"{self._seconds:g} s. Last: {self._cause}"
            )

    def problem(self) -> str | None:
        """Why the last call failed; None when it went well."""
        return self._cause if self._failures else None

    def failed(self, cause: str) -> None:
        self._failures += 1
        self._cause = cause
        self._open_until = self._clock() + self._seconds

    def succeeded(self) -> None:
        self._failures = 0
