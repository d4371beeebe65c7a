"""A server that looks for a model at one address alone: `python -m tests.browser.found_server`."""

import asyncio
import os

from recollect.app import open_app
from recollect.entrypoints.http.server import serve
from recollect.infra.backends.configured import Backends
from recollect.settings import Settings

LOOKED_FOR_AT = "LOOKED_FOR_AT"
"""The variable that says where."""
PLENTY = 10.0
"""However busy the machine is."""


def main() -> None:
    usual = Backends.__init__.__kwdefaults__
    assert usual is not None
    usual |= {"addresses": (os.environ[LOOKED_FOR_AT],), "probe_seconds": PLENTY}
    asyncio.run(serve(open_app(Settings())))


if __name__ == "__main__":
    main()
