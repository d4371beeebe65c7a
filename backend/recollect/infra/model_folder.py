"""A model's folder appears complete or not at all, whenever its making is cut short; it describes itself."""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

DESCRIPTION_FILE = "recollect.json"


class SetupProgress(Protocol):
    """Is told what is being done."""

    def step(self, name: str) -> None:
        """A new step begins: downloading, checking, and so on."""
        ...

    def downloaded(self, done: int, total: int) -> None:
        """So many bytes of so many have come."""
        ...


def describe(folder: Path) -> dict[str, Any]:
    """What `recollect.json` says of the model; nothing where there is none or it is no JSON object."""
    try:
        description = json.loads((folder / DESCRIPTION_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return description if isinstance(description, dict) else {}


def holds_something_else(folder: Path) -> bool:
    """Whether the folder has content that no set-up has made."""
    return folder.exists() and any(folder.iterdir()) and "source" not in describe(folder)


@contextmanager
def alone_with(folder: Path) -> Iterator[None]:
    """Waits for another set-up beside this folder to end, and clears away what a killed one has left.

    The system lets go of the lock when its holder dies.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for left in folder.parent.glob(_workshop_prefix(folder) + "*"):
            # An orphaned pip may still be writing there: then the next one removes it.
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def workshop_beside(folder: Path) -> Iterator[Path]:
    """On the same disk, so that a rename puts the model in place."""
    workshop = Path(tempfile.mkdtemp(prefix=_workshop_prefix(folder), dir=folder.parent))
    try:
        yield workshop
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def put_in_place(made: Path, folder: Path, workshop: Path) -> None:
    sync_file(made)
    if folder.exists():
        folder.rename(workshop / "replaced")
    made.rename(folder)
    sync_file(folder.parent)


def write_durably(file: Path, content: bytes) -> None:
    with file.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())


def sync_file(file: Path) -> None:
    """Works on folders, too."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _workshop_prefix(folder: Path) -> str:
    return f".{folder.name}-"
