"""`recollect serve`, in a process that notes which fail points it reaches and dies at the one that a file names.

The file holds `name:n` and may be written while the process runs. Beside it, `.log` has a line for each point that was
reached.
"""

import os
import signal
import threading
from collections import Counter
from pathlib import Path

from recollect.entrypoints.cli.operate import serve
from recollect.failpoints import FailPoints

VARIABLE = "DIE_AT"
"""The environment's name for the file."""


def obey(order: Path) -> None:
    log = os.open(order.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    reached: Counter[str] = Counter()
    counting = threading.Lock()

    def reach(points: FailPoints, name: str) -> None:
        with counting:
            os.write(log, f"{name}\n".encode())
            given = order.read_text(encoding="utf-8")
            step, _colon, count = given.partition(":")
            reached[given] += name == step
            if name == step and reached[given] == int(count.split()[0]):
                os.kill(os.getpid(), signal.SIGKILL)

    setattr(FailPoints, "reach", reach)  # noqa: B010 - mypy knows no such assignment


if __name__ == "__main__":
    obey(Path(os.environ[VARIABLE]))
    os.umask(0o077)
    serve(port=0)
