"""A server for which it is always the same day: `python -m tests.browser.demo_server`.

Its clock begins at 2026-05-08T14:03Z and goes on from there.
"""

import asyncio
import time

from recollect.app import open_app
from recollect.entrypoints.http.server import serve
from recollect.settings import Settings

NOW = 1_778_248_980_000
"""2026-05-08T14:03:00Z"""


def main() -> None:
    began = time.monotonic()
    asyncio.run(serve(open_app(Settings(), clock=lambda: NOW + int((time.monotonic() - began) * 1000))))


if __name__ == "__main__":
    main()
