"""What the vault does to the disk: follow links by one rule, read, write durably, replace without losing an edit."""

import asyncio
import codecs
import ctypes
import errno
import functools
import logging
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from recollect.domain.paths import is_markdown, is_note
from recollect.domain.vault_file import NOT_FOLLOWED, UNREADABLE, FileDigests, FileStamp, VaultFile
from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints

P = ParamSpec("P")
R = TypeVar("R")
_log = logging.getLogger("recollect.vault")


def in_thread(
    done: str, what: str = "the vault"
) -> Callable[[Callable[P, R]], Callable[P, Coroutine[Any, Any, R]]]:
    """Run a method off the event loop; an OSError becomes StorageUnavailable: `what` cannot be `done`."""

    def decorated(method: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
        @functools.wraps(method)
        async def off_loop(*args: P.args, **named: P.kwargs) -> R:
            try:
                return await asyncio.to_thread(method, *args, **named)
            except OSError as error:
                raise unavailable(error, done, what) from error

        return off_loop

    return decorated


def unavailable(error: OSError, done: str, what: str = "the vault") -> StorageUnavailable:
    """Names no path: paths hold the names of users and threads, and health shows this to anybody."""
    reason = {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EROFS: "the disk is read-only",
        errno.EACCES: "permission is denied",
        errno.EPERM: "permission is denied",
    }.get(error.errno or 0, error.strerror or str(error))
    return StorageUnavailable(f"{what} cannot be {done}: {reason}")


def real_path(root: Path, path: str) -> str | None:
    """Where a path of the vault really is; None where a link on the way is not followed.

    A link is followed where its target is in the same owner's folder. What has no owner, as presets, stays in its own
    folder of the space; those folders themselves must not be links. At most one folder on a path may be a link, and it
    must not lead to a folder that contains it: so every walk ends. Raises OSError where that cannot be told.
    """
    top = os.path.realpath(root)
    real = os.path.realpath(f"{top}/{path}")
    if not path or real == f"{top}/{path}":
        return path
    if not _is_inside(real, f"{top}/{_walls(path)}") or not _ends(top, path):
        return None
    return real.removeprefix(f"{top}/")


def _walls(path: str) -> str:
    """The folder that nothing on this path may lead out of."""
    parts = path.split("/")
    depth = 3 if len(parts) > 1 and parts[1] in ("users", "agents") else 2
    return "/".join(parts[:depth])


def _ends(root: str, path: str) -> bool:
    places = [Path(root, path), *Path(root, path).parents]
    folders = [place for place in places if place.is_symlink() and place.is_dir()]
    return len(folders) < 2 and not any(
        _is_inside(os.path.realpath(link.parent), os.path.realpath(link)) for link in folders
    )


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


SUFFIX = ".md"
"""Of the files that we write."""
_AT_ONCE = 1_000_000
COARSEST_CLOCK_NS = 2_000_000_000
"""The coarsest resolution of modification times on common file systems."""
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Not blocking: a pipe that nobody writes to would be waited for without end."""
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # Before UTF-16, whose mark it begins with.
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


class FileContent(NamedTuple):
    """What was read of a file, the digests of all of it as `VaultFile` has them, and its status."""

    content: bytes
    digest: str
    lf_digest: str
    is_whole: bool
    status: os.stat_result


def read_content(
    root: Path, path: str, limit: int | None = None, *, follow: bool = True
) -> FileContent | None:
    """The bytes of a file, `limit` at most; None where no file is.

    There is no file, either, where a link leads elsewhere (`real_path`), or any link unless we `follow`, or where a
    folder, a pipe or a device is. It never waits for whoever holds the other end of a pipe.
    """
    try:
        descriptor = _open_followed(root, path) if follow else _open(root, path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.EOPNOTSUPP) or (error.errno == errno.ELOOP and not follow):
            return None  # A socket, or a device that is not there; or a link.
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as opened:
        content = opened.read(-1 if limit is None else limit)
        digests, is_whole = FileDigests(content), True
        while more := opened.read(_AT_ONCE):
            digests.update(more)
            is_whole = False
        return FileContent(content, *digests.ended(), is_whole, status)


def read_file(root: Path, path: str, limit: int | None = None) -> VaultFile | None:
    """A file as it is now, None where `read_content` finds none. With `limit`, at most that many bytes of it."""
    if (found := read_content(root, path, limit)) is None:
        return None
    status = found.status
    text, is_text = decoded(found.content, any_encoding=is_note(path))
    could_change_unseen = time.time_ns() - status.st_mtime_ns < COARSEST_CLOCK_NS
    return VaultFile(
        text=text,
        digest=found.digest,
        lf_digest=found.lf_digest,
        modified=status.st_mtime_ns // 1_000_000,
        stamp=None if could_change_unseen else FileStamp(status.st_mtime_ns, status.st_size),
        is_whole=found.is_whole and is_text,
    )


def _open_followed(root: Path, path: str) -> int:
    try:
        return _open(root, path)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
    # A link is on the way. Where it is followed, what it leads to is opened by its own name.
    real = real_path(root, path)
    if real is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return _open(root, real)


def _open(root: Path, path: str) -> int:
    """Open folder by folder without following links, so that a link created meanwhile can't redirect it."""
    *folders, name = path.split("/")
    at = os.open(root, _FOLDER)
    try:
        for folder in folders:
            below = os.open(folder, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        return os.open(name, _FILE, dir_fd=at)
    finally:
        os.close(at)


def decoded(content: bytes, *, any_encoding: bool) -> tuple[str, bool]:
    """The decoded text, and whether every byte could be decoded. U+FFFD replaces what could not.

    Where `any_encoding` is welcome, its byte order mark says which it is; else it is UTF-8.
    """
    marked = [name for mark, name in _BYTE_ORDER_MARKS.items() if content.startswith(mark)]
    encoding = marked[0] if any_encoding and marked else "utf-8"
    try:
        return content.decode(encoding), True
    except UnicodeDecodeError:
        return content.decode(encoding, errors="replace"), False


def stamp_of(file: Path) -> FileStamp | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return FileStamp(status.st_mtime_ns, status.st_size)


def stamps_below(root: Path, folder: str, *, hidden: bool = False) -> Iterator[tuple[str, FileStamp]]:
    """The Markdown files below a folder of the vault, with their stamps, or with marks where these cannot be told.

    Hidden ones are left out unless asked for, and so is what is no file.
    """
    if real_path(root, folder) is None:
        yield folder, NOT_FOLLOWED
    else:
        yield from _below(root, folder, hidden=hidden)


def _below(root: Path, folder: str, *, hidden: bool) -> Iterator[tuple[str, FileStamp]]:
    try:
        entries = list(os.scandir(root / folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError:
        if not folder:
            raise
        yield folder, UNREADABLE
        return
    for entry in entries:
        if entry.name.startswith(".") and not hidden:
            continue
        path = f"{folder}/{entry.name}" if folder else entry.name
        try:
            if entry.is_symlink() and real_path(root, path) is None:
                if is_markdown(entry.name) or entry.is_dir():
                    yield path, NOT_FOLLOWED
            elif entry.is_dir():
                yield from _below(root, path, hidden=hidden)
            elif is_markdown(entry.name) and stat.S_ISREG((status := entry.stat()).st_mode):
                yield path, FileStamp(status.st_mtime_ns, status.st_size)
        except FileNotFoundError:
            continue  # It went after the folder was read, or is a link to nothing.
        except OSError:
            yield path, UNREADABLE


def bytes_below(folder: Path) -> int:
    """Size of all files below the folder. Links and unreadable files count nothing."""
    total, folders = 0, [str(folder)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    with suppress(OSError):
                        total += entry.stat(follow_symlinks=False).st_size
    return total


def make_folder(folder: Path) -> None:
    """With its parents, durable when this returns."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(exist_ok=True)
        sync(new.parent)


def write_synced(file: Path, content: bytes, fail_points: FailPoints) -> None:
    with file.open("wb") as opened:
        opened.write(content)
        fail_points.reach("vault.written_beside")
        opened.flush()
        os.fsync(opened.fileno())
    fail_points.reach("vault.synced")


def sync(path: Path) -> None:
    """Make a file durable, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy_beside(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Not every disk has hard links. One that fills up midway must not leave half of it in its place.
        beside = name_while_written(target)
        try:
            shutil.copyfile(source, beside)
            sync(beside)
            beside.rename(target)
        except OSError:
            discard(beside)
            raise


def discard(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("could not remove %s: %s; a later write to its folder removes it", path, error)


BESIDE = ".tmp"
NOTHING = "0" * 8
_RANDOM = "[0-9a-f]{8}"
is_unfinished = re.compile(rf".+\.{_RANDOM}{re.escape(BESIDE)}").fullmatch
set_aside = re.compile(rf"(.+)\.([0-9a-f]{{8}})-([0-9a-f]{{8}})-{_RANDOM}{re.escape(BESIDE)}").fullmatch


def name_while_written(target: Path) -> Path:
    """Used once, so that no attempt disturbs another."""
    return target.with_name(f"{target.name}.{secrets.token_hex(4)}{BESIDE}")


def name_for_exchange(target: Path, new: str | None, old: str | None) -> Path:
    """For the digests of our text and of what we saw in its place."""
    marks = "-".join([(new or NOTHING)[:8], (old or NOTHING)[:8], secrets.token_hex(4)])
    return target.with_name(f"{target.name}.{marks}{BESIDE}")


def leftovers(folder: Path, *, below: bool = True) -> Iterator[Path]:
    """Files with names that only our own writes give: a person may have files that end like ours."""
    found = folder.rglob(f"*{BESIDE}") if below else folder.glob(f"*{BESIDE}")
    return (path for path in found if is_unfinished(path.name) or set_aside(path.name))


def persons_save(root: Path, path: Path) -> tuple[Path, str] | None:
    """The target and the digest of what a person saved there, if a leftover is that; else None. Raises OSError."""
    found = set_aside(path.name)
    saved = None if path.is_symlink() else read_content(root, path.relative_to(root).as_posix())
    if found is None or saved is None:
        return None
    digest = saved.digest
    return None if digest[:8] in found.groups()[1:] else (path.with_name(found[1]), digest)


_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_NOT_POSSIBLE_HERE = frozenset([errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM])

_renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def put_in_place(new: Path, target: Path) -> bool:
    """Put `new` in the place of `target`, atomically. True: the old file is at `new` now, whoever wrote it.

    False: there was no old file, or the disk can't exchange two files; then nothing is left at `new`.
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
    """Put `new` at `target`. False if a file has appeared there meanwhile."""
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
