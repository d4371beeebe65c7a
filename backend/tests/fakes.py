"""A clock for tests."""

START = 1_778_248_980_000
"""2026-05-08T14:03:00Z"""


class FakeClock:
    """Stands still until it is told to move."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, milliseconds: int) -> None:
        self.now += milliseconds
