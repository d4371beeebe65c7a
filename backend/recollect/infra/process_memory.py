"""What the C library is told about this process' memory. Where it is not glibc, nothing is changed."""

import ctypes
import os
from collections.abc import Callable

_M_ARENA_MAX = -8


def return_free_memory() -> None:
    """Give freed memory back to the system: a bulk read takes several times what stays of it."""
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def limit_arenas(count: int = 2) -> None:
    """Let all threads share few heaps; by default each takes one of its own and keeps what it freed.

    Arrow's own allocator keeps even more: it is told to use these heaps, unless somebody chose another.
    Holds for heaps made later, so it is called before threads are started and Arrow is loaded.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    set_option: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None and hasattr(ctypes.CDLL(None), "malloc_trim"):
        set_option(_M_ARENA_MAX, count)
