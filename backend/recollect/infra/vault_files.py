"""Reading files of the vault, and telling without reading which ones may have changed."""

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from recollect.memory.vault_file import FileStamp, VaultFile
from recollect.memory.vault_paths import is_markdown

SUFFIX = ".md"
"""Of the files that we write."""
_COARSEST_CLOCK_NS = 2_000_000_000
"""Disks tell times of writing this coarsely, at worst."""


def read_file(file: Path, limit: int | None = None) -> VaultFile | None:
    """A file as it is now, None where there is none. With `limit`, no more than so many bytes of it."""
    try:
        with file.open("rb") as opened:
            status = os.fstat(opened.fileno())
            content = opened.read(-1 if limit is None else limit + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    taken = content if limit is None else content[:limit]
    text = taken.decode("utf-8", errors="replace")
    could_change_unseen = time.time_ns() - status.st_mtime_ns < _COARSEST_CLOCK_NS
    return VaultFile(
        text=text,
        digest=hashlib.sha256(taken).hexdigest(),
        modified=status.st_mtime_ns // 1_000_000,
        stamp=None if could_change_unseen else FileStamp(status.st_mtime_ns, status.st_size),
        is_whole=len(taken) == len(content) and text.encode() == taken,
    )


def stamp_of(file: Path) -> FileStamp | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return FileStamp(status.st_mtime_ns, status.st_size)


def stamps_below(folder: Path, name: str) -> Iterator[tuple[str, FileStamp]]:
    """The Markdown files below a folder that goes by `name`, with their stamps. Hidden ones are left out."""
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        path = f"{name}/{entry.name}" if name else entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from stamps_below(folder / entry.name, path)
        elif is_markdown(entry.name):
            with suppress(FileNotFoundError):  # It went after the folder was read.
                status = entry.stat()
                yield path, FileStamp(status.st_mtime_ns, status.st_size)
