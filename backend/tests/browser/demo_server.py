"""A server whose clock is set by a file: `python -m tests.browser.demo_server`.

The file `clock` beside the home holds a time in UTC milliseconds; the clock goes on from there until it is set again.
"""

import asyncio
import time
from pathlib import Path

from recollect.app import open_app
from recollect.entrypoints.http.server import serve
from recollect.settings import Settings

CLOCK = "clock"


class SetClock:
    """Now, as the file says, and as much later as has passed since it said so."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._told = ""
        self._since = 0.0

    def __call__(self) -> int:
        told = self._file.read_text()
        if told != self._told:
            self._told, self._since = told, time.monotonic()
        return int(told) + int((time.monotonic() - self._since) * 1000)


def main() -> None:
    settings = Settings()
    asyncio.run(serve(open_app(settings, clock=SetClock(settings.home.parent / CLOCK))))


if __name__ == "__main__":
    main()
