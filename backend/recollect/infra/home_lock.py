"""One process per home: a lock that the operating system drops when its holder dies. And limits on its memory."""

import ctypes
import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from recollect.errors import HomeInUse, HomeUnusable

LOCK_NAME = "recollect.lock"
_TRIES = 5
_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Holder:
    """Who owns a home, and how the command line reaches it."""

    pid: int
    address: str | None
    token: str
    """Lets the command line of the same person act as the operator; the file is theirs alone to read."""


class HomeLock:
    """Held from `acquire` to `release`, or until the process ends in any way."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._path = home / LOCK_NAME
        self._descriptor: int | None = None
        self._times = 0
        self.token = secrets.token_urlsafe(32)

    def acquire(self) -> None:
        """May be done again: then it takes as many releases."""
        if self._descriptor is not None:
            self._times += 1
            return
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise HomeUnusable(f"the home {self._home} cannot be used: {error.strerror}") from error
        try:
            _lock(descriptor)
        except BlockingIOError as error:
            os.close(descriptor)
            holder = current_holder(self._home)
            who = f"process {holder.pid}" if holder else "another process"
            raise HomeInUse(
                f"{who} is using {self._home}; stop it first, or choose another RECOLLECT_HOME"
            ) from error
        self._descriptor, self._times = descriptor, 1
        self.announce(None)

    def announce(self, address: str | None) -> None:
        """Tell the command line where the server listens."""
        assert self._descriptor is not None
        text = json.dumps(asdict(Holder(os.getpid(), address, self.token))).encode()
        os.pwrite(self._descriptor, text, 0)
        os.ftruncate(self._descriptor, len(text))

    def release(self) -> None:
        self._times -= 1
        if self._descriptor is not None and self._times <= 0:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None


def _lock(descriptor: int) -> None:
    """At once, but for the moment in which somebody asks who the holder is."""
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_PAUSE_SECONDS)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def current_holder(home: Path) -> Holder | None:
    """Who holds the lock now; None when nobody does."""
    path = home / LOCK_NAME
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_holder(descriptor)
    finally:
        os.close(descriptor)
    return None


def _read_holder(descriptor: int) -> Holder | None:
    try:
        return Holder(**json.loads(os.pread(descriptor, 65536, 0)))
    except (ValueError, TypeError):
        return None


_M_ARENA_MAX = -8


def return_free_memory() -> None:
    """Give freed memory back to the system: a bulk read takes several times what stays of it."""
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def limit_arenas() -> None:
    """Let all threads share few heaps; by default each takes one of its own and keeps what it freed.

    Arrow's own allocator keeps even more: it is told to use these heaps, unless somebody chose another.
    Holds for heaps made later, so it is called before threads are started and Arrow is loaded.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    set_option: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None and hasattr(ctypes.CDLL(None), "malloc_trim"):
        set_option(_M_ARENA_MAX, 2)
