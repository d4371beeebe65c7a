"""`python -m tests.dying_setup FOLDER WHEELS POINT`: a set-up of the tiny model that is killed on its way.

POINT is the name of a step, `rename:n` for the moment before the n-th rename, or `renamed:n` for the one after.
"""

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from tests.tiny_talker import make_tiny_talker


class DeadlyProgress:
    """Kills this process when its step begins."""

    def __init__(self, step: str) -> None:
        self._step = step

    def __call__(self, step: str, done: int, _total: int) -> None:
        if step == self._step or (self._step == "bytes arrived" and done):
            die()


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL returns to nobody")


def die_at_rename(number: int, *, after: bool) -> None:
    rename, seen = Path.rename, 0

    def counted(self: Path, target: str | Path) -> Path:
        nonlocal seen
        seen += 1
        if seen == number and not after:
            die()
        renamed = rename(self, target)
        if seen == number:
            die()
        return renamed

    Path.rename = counted  # type: ignore[method-assign, assignment]


def main() -> None:
    folder, wheels, point = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    moment, _, number = point.partition(":")
    if number:
        die_at_rename(int(number), after=moment == "renamed")
    make_tiny_talker(wheels).set_up(folder, DeadlyProgress(point))


if __name__ == "__main__":
    main()
