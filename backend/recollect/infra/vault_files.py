"""Reading files of the vault, and telling without reading which ones may have changed."""

import codecs
import errno
import hashlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from recollect.infra.vault_links import VaultLinks
from recollect.memory.vault_file import FileStamp, VaultFile
from recollect.memory.vault_marks import NOT_FOLLOWED, UNREADABLE
from recollect.memory.vault_paths import is_markdown, is_note

SUFFIX = ".md"
"""Of the files that we write."""
_COARSEST_CLOCK_NS = 2_000_000_000
"""Disks tell times of writing this coarsely, at worst."""
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Not blocking: a pipe that nobody writes to would be waited for without end."""
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # Before UTF-16, whose mark it begins with.
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_file(root: Path, path: str, limit: int | None = None) -> VaultFile | None:
    """A file as it is now, None where none is. With `limit`, no more than so many bytes of it.

    There is no file, either, where a link leads elsewhere (`VaultLinks`), or where a folder, a pipe or a device is.
    """
    try:
        descriptor = _open_followed(root, path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.EOPNOTSUPP):  # A socket, or a device that is not there.
            return None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as opened:
        content = opened.read(-1 if limit is None else limit + 1)
    taken = content if limit is None else content[:limit]
    text, is_text = _decoded(taken, any_encoding=is_note(path))
    could_change_unseen = time.time_ns() - status.st_mtime_ns < _COARSEST_CLOCK_NS
    return VaultFile(
        text=text,
        digest=hashlib.sha256(taken).hexdigest(),
        modified=status.st_mtime_ns // 1_000_000,
        stamp=None if could_change_unseen else FileStamp(status.st_mtime_ns, status.st_size),
        is_whole=len(taken) == len(content) and is_text,
    )


def _open_followed(root: Path, path: str) -> int:
    try:
        return _open(root, path)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
    # A link is on the way. Where it is followed, what it leads to is opened by its own name.
    real = VaultLinks(root).real_path(path)
    if real is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return _open(root, real)


def _open(root: Path, path: str) -> int:
    """Folder by folder, through no link: one that is put in the way in this very moment leads nowhere."""
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


def _decoded(content: bytes, *, any_encoding: bool) -> tuple[str, bool]:
    """The text, and whether all of it is one: what is none has marks in its place.

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
    links = VaultLinks(root)
    if links.real_path(folder) is None:
        yield folder, NOT_FOLLOWED
    else:
        yield from _below(root, folder, links, hidden=hidden)


def _below(root: Path, folder: str, links: VaultLinks, *, hidden: bool) -> Iterator[tuple[str, FileStamp]]:
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
            if entry.is_symlink() and links.real_path(path) is None:
                if is_markdown(entry.name) or entry.is_dir():
                    yield path, NOT_FOLLOWED
            elif entry.is_dir():
                yield from _below(root, path, links, hidden=hidden)
            elif is_markdown(entry.name) and stat.S_ISREG((status := entry.stat()).st_mode):
                yield path, FileStamp(status.st_mtime_ns, status.st_size)
        except FileNotFoundError:
            continue  # It went after the folder was read, or is a link to nothing.
        except OSError:
            yield path, UNREADABLE
