"""Replacing a file without losing what somebody puts there in the same moment."""

import ctypes
import errno
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NOT_POSSIBLE_HERE = frozenset([errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM])

_renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def put_in_place(new: Path, target: Path) -> bool:
    """Put `new` where `target` is, in one step. True: what stood there stands at `new` now, whoever wrote it.

    False: nothing stood there, or the disk can't exchange two files; then nothing is left at `new`.
    """
    while True:
        try:
            _exchange(new, target)
            return True
        except FileNotFoundError:
            if _put_where_nothing_is(new, target):
                return False
        except OSError as error:
            if error.errno not in _NOT_POSSIBLE_HERE:
                raise
            new.replace(target)
            return False


def _exchange(one: Path, other: Path) -> None:
    if _renameat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    names = os.fsencode(one), os.fsencode(other)
    if _renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), str(other))


def _put_where_nothing_is(new: Path, target: Path) -> bool:
    """False where something has come to stand there meanwhile."""
    try:
        os.link(new, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NOT_POSSIBLE_HERE and error.errno != errno.EMLINK:
            raise
        new.replace(target)  # Not every disk has hard links.
        return True
    new.unlink()
    return True
