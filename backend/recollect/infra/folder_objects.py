"""Objects as files below a folder that several machines share, over NFS for one."""

import fcntl
import hashlib
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.objects import Changed, Found, Listed, Objects, Refused, conflict_path
from recollect.infra.vault_read import (
    COARSEST_CLOCK_NS,
    NOTHING,
    discard,
    is_unfinished,
    leftovers,
    make_folder,
    name_for_exchange,
    name_while_written,
    read_content,
    set_aside,
    sync,
    unavailable,
    write_synced,
)

GUARD = ".recollect-shared"
"""Says that the folder is there, and not an empty mount point. Whoever writes on a condition holds a lock on it."""
_LOCK_SECONDS = 10.0
_AGAIN_SECONDS = 0.005
_LEFTOVER_SECONDS = 600
_TRIES = 5
_GONE = "the shared folder is missing: is it mounted?"
_is_of_disk = re.compile(r"\(os error (?!2\))\d+\)").search
"""What the libraries below LanceDB say of any error but that of a missing file."""
_log = logging.getLogger("recollect.vault")


class FolderObjects(Objects):
    """Nothing is read, listed, written or removed through a link.

    A file that is replaced or removed is set aside first, and then looked at: what a person saved there until that
    moment, or saves from then on, stays. That works on every disk, where files can't be exchanged, too. So for a moment
    nothing has its name: whoever finds none waits for that to end, or brings back what was left so. A lock keeps our
    processes apart, on whatever machine.
    """

    def __init__(self, url: str, below: str = "", fail_points: FailPoints | None = None) -> None:
        """Of the files below one of its folders, where one is named."""
        super().__init__(url)
        self._top = Path(unquote(urlsplit(url).path))
        self._root = self._top / below
        self._guard = self._top / GUARD
        self._fail_points = fail_points or FailPoints()
        self._opened = time.time()

    def is_made(self) -> bool:
        with suppress(OSError):
            return self._guard.is_file()
        return False

    def make(self) -> None:
        """Where it is to be must be there: else it would be made in the place of a share that is not mounted."""
        with self._told("made"):
            if not self._top.parent.is_dir():
                raise StorageUnavailable(_GONE)
            make_folder(self._top)
            self._guard.touch()
            sync(self._top)

    def _get(self, path: str, limit: int | None = None) -> Found | None:
        if _leads_out(path):
            return None
        if (found := self._read(path, limit)) is None:
            with self._told("read"), self._locked():
                self._bring_back(path)
                found = self._read(path, limit)
        return found

    def _read(self, path: str, limit: int | None = None) -> Found | None:
        """None also of a file that is set aside."""
        with self._told("read"):
            found = read_content(self._root, path, limit, follow=False)
        if found is None:
            return None
        status = found.status
        could_change_unseen = time.time_ns() - status.st_mtime_ns < COARSEST_CLOCK_NS
        modified = status.st_mtime_ns // 1_000_000
        return Found(*found[:4], _etag(status), status.st_size, modified, could_change_unseen)

    def _put(self, path: str, content: bytes, etag: str | None) -> str:
        with self._told("written"):
            target = self._target(path)
            beside = self._written_beside(target, content)
            try:
                new = _etag_of(beside)
                with self._locked():
                    old = None if etag is None else self._set_aside(path, etag, content)
                    self._put_in_place(beside, target, old)
                    return new
            finally:
                discard(beside)

    def _put_in_place(self, new: Path, target: Path, old: Path | None) -> None:
        """Where nothing is; raises Changed where something is. What was set aside goes, or is back."""
        try:
            os.link(new, target)
        except OSError as error:
            if old is not None:
                self._settle(old)
            if isinstance(error, FileExistsError):
                raise Changed(target.name) from error
            raise
        if old is not None:
            discard(old)
        sync(target.parent)

    def replace(self, path: str, content: bytes) -> None:
        with self._told("written"):
            target = self._target(path)
            beside = self._written_beside(target, content)
            try:
                beside.replace(target)
                sync(target.parent)
            finally:
                discard(beside)

    def remove(self, path: str, etag: str, emptied: Callable[[], None] = lambda: None) -> None:
        with self._told("removed"), self._locked():
            self._target(path)
            old = self._set_aside(path, etag, None)
            emptied()
            old.unlink()
            self._tidy(old.parent)

    def delete(self, paths: Sequence[str]) -> None:
        with self._told("removed"):
            self._refuse_if_gone()
            targets = [self._target(path) for path in paths]
            for target in targets:
                target.unlink(missing_ok=True)
            for folder in sorted({target.parent for target in targets}, reverse=True):
                self._tidy(folder)

    def folders(self, folder: str = "") -> list[str]:
        with self._told("listed"):
            entries = [] if folder and self._leads_away(folder) else self._entries(folder)
            found = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
            self._refuse_if_gone()
            return [
                name for name in found if next(self._walk(f"{folder}/{name}".lstrip("/")), None) is not None
            ]

    def _list(self, folder: str, without: str | None = None) -> Iterator[Listed]:
        with self._told("listed"):
            if not (folder and self._leads_away(folder)):
                yield from self._walk(folder, without)
            self._refuse_if_gone()

    def _walk(self, folder: str, without: str | None = None) -> Iterator[Listed]:
        for entry in self._entries(folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if path != without:
                    yield from self._walk(path)
            elif entry.is_file(follow_symlinks=False) and entry.name != GUARD and not _is_left(entry.name):
                with suppress(FileNotFoundError):  # It went meanwhile.
                    status = entry.stat(follow_symlinks=False)
                    yield Listed(path, _etag(status), status.st_size)

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        """Sorted; none where no folder is."""
        try:
            with os.scandir(self._root / folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def for_lance(self) -> tuple[str, dict[str, str]]:
        self._refuse_if_gone()
        return str(self._root), {}

    def is_down(self, told: str) -> bool:
        return _is_of_disk(told) is not None or not self.is_made()

    def sync(self, paths: Iterable[str]) -> None:
        """LanceDB never syncs what it writes."""
        with self._told("written"):
            for path in [*(files := [self._root / path for path in paths]), *{file.parent for file in files}]:
                with suppress(FileNotFoundError):  # A compaction removed it.
                    sync(path)

    def is_blocked(self, path: str) -> bool:
        with self._told("read"):
            target = self._root / path
            folders = target.parents[: path.count("/")]
            return target.is_dir() or any(each.exists() and not each.is_dir() for each in folders)

    def remove_leftovers(self, folder: str = "") -> None:
        """What a process that was killed had set aside is brought back, and what it was writing goes.

        Of what is being written just now nothing older than this process or ten minutes is left.
        """
        with self._told("written"):
            before = max(self._opened, time.time() - _LEFTOVER_SECONDS)
            found = [] if folder and self._leads_away(folder) else leftovers(self._root / folder)
            for left in list(found):
                with suppress(FileNotFoundError), self._locked():  # It was in use until now.
                    if set_aside(left.name):
                        self._settle(left)
                    elif left.lstat().st_ctime < before:
                        discard(left)

    def _set_aside(self, path: str, etag: str, new: bytes | None) -> Path:
        """The file that has this ETag, under the name for what is replaced or, with None, removed.

        Raises Changed; then it is where it was.
        """
        found = self._read(path)
        if found is None or found.etag != etag:
            raise Changed(path)
        target = self._root / path
        digest = None if new is None else hashlib.sha256(new).hexdigest()
        old = target.rename(name_for_exchange(target, digest, found.digest))
        self._fail_points.reach("vault.set_aside")
        moved = self._read(old.relative_to(self._root).as_posix())
        if moved is None or moved.etag != etag:
            self._settle(old)
            raise Changed(path)
        return old

    def _bring_back(self, path: str) -> None:
        """A file that a process which was killed, or a disk that failed, left aside."""
        target = self._root / path
        for left in [] if self._leads_away(path) else list(leftovers(target.parent, below=False)):
            if (named := set_aside(left.name)) and named[1] == target.name:
                self._settle(left)

    def _settle(self, old: Path) -> None:
        """Of a file that was set aside: it is back where nothing is, or goes. A person's save is kept in any case."""
        named = set_aside(old.name)
        found = self._read(old.relative_to(self._root).as_posix())
        if named is None or found is None:
            return
        target, is_persons = old.with_name(named[1]), not found.digest.startswith(named[3])
        if (is_persons or named[2] != NOTHING) and not _linked(old, target) and is_persons:
            names = [conflict_path(named[1], found.digest[:digits]) for digits in (8, 64)]
            if not any(_linked(old, old.with_name(name)) for name in names):
                return
            _log.warning("%s was changed by hand; that version is kept beside it", target)
        old.unlink()
        sync(old.parent)

    def _written_beside(self, target: Path, content: bytes) -> Path:
        """A folder that was empty a moment ago may go before the file is in it."""
        for _ in range(_TRIES):
            self._refuse_if_gone()
            beside = name_while_written(target)
            try:
                make_folder(target.parent)
                write_synced(beside, content, FailPoints())
            except FileNotFoundError:
                continue
            except BaseException:
                discard(beside)
                raise
            return beside
        raise StorageUnavailable("a folder is removed again and again at this moment")

    def _tidy(self, folder: Path) -> None:
        """Folders that are empty go, and that something went lasts."""
        while folder != self._top:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                break
            folder = folder.parent
        sync(folder)

    def _target(self, path: str) -> Path:
        """Where a path is on the disk. Raises StorageUnavailable where nothing may be written or removed."""
        target = self._root / path
        if self._leads_away(path):
            _log.error("%s is a link, or behind one: links are not followed in a shared folder", path)
            raise StorageUnavailable("a file or folder is a link, which is not followed; the log says which")
        with suppress(FileNotFoundError, NotADirectoryError):
            if not stat.S_ISREG(target.lstat().st_mode):
                raise StorageUnavailable("a folder or a device has the name of a file")
        return target

    def _leads_away(self, path: str) -> bool:
        """Whether it is a link, or behind one."""
        if _leads_out(path):
            return True
        place = self._root / path
        return any(
            each.is_symlink()
            for each in (place, *place.parents)
            if each != self._top and each.is_relative_to(self._top)
        )

    def _refuse_if_gone(self) -> None:
        if not self.is_made():
            raise StorageUnavailable(_GONE)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Over NFS, too; and, unlike `lockf`, between threads. It ends with the process that has it."""
        until = time.monotonic() + _LOCK_SECONDS
        try:
            held = os.open(self._guard, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise StorageUnavailable(_GONE) from error
        try:
            while not _has(held):
                if time.monotonic() > until:
                    raise StorageUnavailable(
                        "another process holds the lock of the shared folder for too long: if it hangs, end it"
                    )
                time.sleep(_AGAIN_SECONDS)
            yield
        finally:
            os.close(held)

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        """Errors of the disk in our words, which name no file: those are names of users and threads."""
        try:
            yield
        except OSError as error:
            told = unavailable(error, done, "the shared folder")
            if isinstance(error, PermissionError):
                raise Refused(told.message) from error
            raise told from error


def _has(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _linked(file: Path, target: Path) -> bool:
    """False where something is."""
    try:
        os.link(file, target)
    except FileExistsError:
        return False
    return True


def _is_left(name: str) -> bool:
    """Also what NFS calls a file that was removed while somebody has it open: that goes by itself."""
    return bool(is_unfinished(name) or set_aside(name) or name.startswith(".nfs"))


def _leads_out(path: str) -> bool:
    """Whether it may lead elsewhere than below the folder, or is no path."""
    return "\0" in path or not {"", ".", ".."}.isdisjoint(path.split("/"))


def _etag_of(file: Path) -> str:
    """Opened for it: else NFS may tell what it knew a while ago."""
    with file.open("rb") as opened:
        return _etag(os.fstat(opened.fileno()))


def _etag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"
