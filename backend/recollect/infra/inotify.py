"""Linux tells what happens in single folders: a thin skin over its inotify calls."""

import ctypes
import os
import select
import struct
from typing import NamedTuple, Self

MODIFIED, ATTRIBUTES = 0x2, 0x4
MOVED_AWAY, MOVED_HERE = 0x40, 0x80
CREATED, DELETED = 0x100, 0x200
UNMOUNTED, OVERFLOW, ENDED = 0x2000, 0x4000, 0x8000
IS_FOLDER = 0x40000000
_ONLY_FOLDERS = 0x01000000
_ALL = MODIFIED | ATTRIBUTES | MOVED_AWAY | MOVED_HERE | CREATED | DELETED
_HEADER = struct.Struct("iIII")
_READ_BYTES = 64 * 1024


class Event(NamedTuple):
    """Something happened to what goes by `name` in a watched folder, or to that folder itself."""

    watch: int
    what: int
    name: str


class Inotify:
    """Watches folders one by one, not what is below them. A folder that is added twice has one watch."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._checked(self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    @staticmethod
    def is_available() -> bool:
        return hasattr(ctypes.CDLL(None), "inotify_init1")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def add(self, folder: str) -> int:
        """Raises OSError: no folder, no permission, or (ENOSPC) the system's limit of watches."""
        name = os.fsencode(folder)
        return self._checked(
            self._library.inotify_add_watch(self._descriptor, name, ctypes.c_uint32(_ALL | _ONLY_FOLDERS))
        )

    def remove(self, watch: int) -> None:
        """One that ended by itself is fine."""
        self._library.inotify_rm_watch(self._descriptor, watch)

    def read(self, seconds: float) -> list[Event]:
        """What happened, in order; waits for the first of it, no longer than so many seconds."""
        readable, _, _ = select.select([self._descriptor], [], [], seconds)
        if not readable:
            return []
        events, content, at = [], os.read(self._descriptor, _READ_BYTES), 0
        while at < len(content):
            watch, what, _, length = _HEADER.unpack_from(content, at)
            at += _HEADER.size
            events.append(Event(watch, what, os.fsdecode(content[at : at + length].rstrip(b"\0"))))
            at += length
        return events

    def _checked(self, result: int) -> int:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result
