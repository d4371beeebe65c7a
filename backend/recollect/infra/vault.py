"""The vault on disk: Markdown files that are replaced whole or not at all."""

import asyncio
import errno
import logging
import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from recollect.domain.identity import text_digest
from recollect.domain.vault_file import NOT_FOLLOWED, UNREADABLE, FileStamp, VaultFile
from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.vault_read import (
    SUFFIX,
    VaultLinks,
    leftovers_below,
    leftovers_in,
    name_for_exchange,
    name_while_written,
    persons_save,
    put_in_place,
    read_file,
    stamp_of,
    stamps_below,
)

_LEFTOVER_SECONDS = 600
_MARKER = ".recollect-vault"
_SAVE_SECONDS = 0.1
"""A file that did not change for this long is whole: its editor has saved it."""
_LONGEST_SAVE_SECONDS = 1.0
_REMEMBERED = 10_000
_log = logging.getLogger("recollect.vault")


class Vault:
    """Paths are relative, with `/`, and made of safe components only (`memory/file_names.py`).

    Links are followed as `VaultLinks` says: nothing is read, written or removed through another one.
    """

    def __init__(self, root: Path, *, fail_points: FailPoints | None = None) -> None:
        self.root = root
        self._fail_points = fail_points or FailPoints()
        self._last_failure: str | None = None
        self._own: OrderedDict[str, str] = OrderedDict()
        """Digests of what we put in place, by path; the newest."""
        self._looking = threading.Lock()
        self._looked_through: OrderedDict[str, float] = OrderedDict()
        """When folders were last looked through for leftovers; the newest."""
        self.conflicts = 0
        self._opened = time.time()

    async def open(self, *, expected: bool) -> None:
        """Make the folder; where files are expected in it and it is missing, refuse to write until it is back.

        An unmounted disk must not be taken for an empty vault. What kills left beside files is removed, but for what
        a person had saved: that is kept as a conflict file.
        """
        self._opened = time.time()
        await asyncio.to_thread(self._open, expected)
        if self.is_there():
            try:
                await asyncio.to_thread(self._settle_leftovers, leftovers_below(self.root), self._opened)
            except OSError as error:
                _log.warning("what was left beside files could not be looked for: %s", error)

    def _open(self, expected: bool) -> None:
        if self.is_there():
            return
        if not expected:
            try:
                self.root.mkdir(parents=True, exist_ok=True)
                (self.root / _MARKER).touch()
            except OSError as error:
                _log.error("the vault %s cannot be made: %s", self.root, error)
        else:
            _log.error("the vault %s is missing; nothing is written to it until it is back", self.root)

    def problem(self) -> str | None:
        """What keeps the vault from being written, in words."""
        if not self.is_there():
            return "the vault is missing: bring it back, or write it anew with 'recollect verify --repair'"
        if not os.access(self.root, os.W_OK):
            return "the vault is read-only"
        return self._last_failure

    def is_there(self) -> bool:
        """A folder without our mark is an empty mount point, or somebody else's."""
        return (self.root / _MARKER).is_file()

    async def read(self, path: str) -> str | None:
        """The text of a file, None where there is none. What is not UTF-8 comes out with marks in its place."""
        return await asyncio.to_thread(self._read, path)

    def _read(self, path: str) -> str | None:
        found = self._look(path)
        return None if found is None else found.text

    async def look(self, path: str, limit: int | None = None) -> VaultFile | None:
        """A file as it is now, None where there is none. With `limit`, no more than so many bytes of it.

        A note is read in the encoding that its byte order mark names; all else is UTF-8.
        """
        return await asyncio.to_thread(self._look, path, limit)

    def _look(self, path: str, limit: int | None = None) -> VaultFile | None:
        try:
            return read_file(self.root, path, limit)
        except OSError as error:
            raise _unavailable(error, "read") from error

    async def stamps(self, folder: str = "") -> dict[str, FileStamp]:
        """When each Markdown file below a folder was written, and how long it is. Hidden files are left out.

        What is there and cannot be told has a mark (`memory/vault_marks.py`) in the place of its stamp.
        """
        try:
            return await asyncio.to_thread(lambda: dict(stamps_below(self.root, folder)))
        except OSError as error:
            raise _unavailable(error, "read") from error

    def is_own(self, path: str, digest: str) -> bool:
        """Whether this is what we put there last, since the start and as far as it is remembered."""
        return self._own.get(path) == digest

    async def write(self, path: str, text: str, ours: frozenset[str]) -> str | None:
        """Put `text` in place, all or nothing, durable when this returns.

        `ours` are the digests of what we may have put there before. Anything else is a person's: it is kept
        beside as a conflict file, whose path is returned.
        """
        conflict, _ = await asyncio.to_thread(self._write, path, text, ours, insist=True)
        return conflict

    async def write_unless_foreign(self, path: str, text: str, ours: frozenset[str]) -> VaultFile | None:
        """Put `text` in place as `write` does, unless a person's version stands there: that is returned, untouched.

        It is whole: an editor that is saving it is waited for.
        """
        return await asyncio.to_thread(self._write_unless_foreign, path, text, ours)

    def _write_unless_foreign(self, path: str, text: str, ours: frozenset[str]) -> VaultFile | None:
        while True:
            _, found = self._write(path, text, ours, insist=False)
            if found is None:
                return None
            self._wait_for_editor(self.root / path)
            if (found := self._look(path)) is not None:
                return found

    def _wait_for_editor(self, target: Path) -> None:
        deadline = time.monotonic() + _LONGEST_SAVE_SECONDS
        before, now = None, stamp_of(target)
        while before != now and time.monotonic() < deadline:
            time.sleep(_SAVE_SECONDS)
            before, now = now, stamp_of(target)

    async def keep_copy(self, path: str, digest: str) -> str | None:
        """Keep a person's version beside as a conflict file, whose path is returned; None if it is there no longer."""

        def keep() -> str | None:
            found = self._look(path)
            if found is None or found.digest != digest:
                return None
            try:
                return self._keep_beside(self.root / path, self.root / path, digest)
            except OSError as error:
                raise _unavailable(error) from error

        return await asyncio.to_thread(keep)

    def _write(
        self, path: str, text: str, ours: frozenset[str], *, insist: bool
    ) -> tuple[str | None, VaultFile | None]:
        """Returns the conflict file that a person's version was kept as or, unless we `insist`, that version."""
        self._refuse_if_missing()
        self.refuse_if_led_away(path)
        target = self.root / path
        beside = name_while_written(target)
        replaced = False
        try:
            self._make_folder(target.parent)
            self._settle_old_leftovers(target.parent)
            self._write_beside(beside, text)
            found = read_file(self.root, path)
            seen = None if found is None else found.digest
            if found is not None and found.digest in ours:
                found = None
            if found is not None and found.text == text and found.is_whole:
                self._leave(path, beside, text)
                return None, None
            if found is not None and not insist:
                _discard(beside)
                return None, found
            conflict = None if found is None else self._keep_beside(target, target, found.digest)
            beside = beside.rename(name_for_exchange(target, text_digest(text), seen))
            replaced = put_in_place(beside, target)
            self._remember(path, text)
            self._fail_points.reach("vault.renamed")
            if replaced:
                # What came to stand there after we looked is a person's too.
                conflict = self._keep_foreign(beside, target, ours) or conflict
                _discard(beside)
            _sync_folder(target.parent)
        except OSError as error:
            if not replaced:  # Else it is what stood there, perhaps a person's.
                _discard(beside)
            failure = _unavailable(error)
            self._last_failure = failure.message
            raise failure from error
        self._last_failure = None
        return conflict, None

    def _write_beside(self, beside: Path, text: str) -> None:
        with beside.open("wb") as file:
            file.write(text.encode())
            self._fail_points.reach("vault.written_beside")
            file.flush()
            os.fsync(file.fileno())
        self._fail_points.reach("vault.synced")

    def _leave(self, path: str, beside: Path, text: str) -> None:
        """What is to be written stands there already: a person, or an attempt that was cut short, put it there."""
        _discard(beside)
        _sync(self.root / path, os.O_RDONLY)
        _sync_folder((self.root / path).parent)
        self._remember(path, text)

    def _refuse_if_missing(self) -> None:
        if not self.is_there():
            raise StorageUnavailable(self.problem())

    def leads_away(self, path: str) -> bool:
        """Whether what stands at a path lies behind a link that is not followed. Raises OSError."""
        return VaultLinks(self.root).real_path(path) is None

    def refuse_if_led_away(self, path: str) -> None:
        """The file itself may be a link: that is replaced, or removed, and not what it leads to."""
        folder, _, _ = path.rpartition("/")
        try:
            is_elsewhere = self.leads_away(folder)
        except OSError as error:
            raise _unavailable(error) from error
        if is_elsewhere:
            _log.error("%s lies behind a link that is not followed: make it a folder", folder)
            raise StorageUnavailable(
                "the vault cannot be written: a folder is a link that leads elsewhere; the log says which"
            )

    def _remember(self, path: str, text: str) -> None:
        self._own[path] = text_digest(text)
        self._own.move_to_end(path)
        while len(self._own) > _REMEMBERED:
            self._own.popitem(last=False)

    def _keep_foreign(self, file: Path, target: Path, ours: frozenset[str]) -> str | None:
        found = read_file(self.root, file.relative_to(self.root).as_posix())
        return (
            None if found is None or found.digest in ours else self._keep_beside(file, target, found.digest)
        )

    def _keep_beside(self, file: Path, target: Path, digest: str) -> str:
        """Keep `file`, a version of `target`, as a conflict file."""
        kept = target.with_name(f"{target.stem}.conflict-{digest[:8]}{SUFFIX}")
        if not kept.exists():
            _duplicate(file, kept)
            _sync_folder(kept.parent)
            self.conflicts += 1
            _log.warning("%s was changed by hand; that version is kept as %s", target, kept.name)
        return kept.relative_to(self.root).as_posix()

    def _make_folder(self, folder: Path) -> None:
        missing = []
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for new in reversed(missing):
            new.mkdir(exist_ok=True)
            _sync_folder(new.parent)

    async def remove_folder(self, path: str) -> None:
        """Remove a folder and all that is in it; one that is gone already is fine."""
        await asyncio.to_thread(self._remove_folder, path)

    def _remove_folder(self, path: str) -> None:
        self._refuse_if_missing()
        self.refuse_if_led_away(path)
        target = self.root / path
        try:
            if target.is_dir():
                shutil.rmtree(target)
                _sync_folder(target.parent)
        except OSError as error:
            raise _unavailable(error) from error

    async def remove_empty_folder(self, path: str) -> None:
        """Remove a folder in which nothing is; one that holds anything, or is gone already, is left alone."""
        await asyncio.to_thread(self._remove_empty_folder, path)

    def _remove_empty_folder(self, path: str) -> None:
        self._refuse_if_missing()
        self.refuse_if_led_away(path)
        target = self.root / path
        try:
            target.rmdir()
            _sync_folder(target.parent)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise _unavailable(error) from error

    async def remove_file(self, path: str, ours: frozenset[str]) -> str | None:
        """Remove a file; one that is gone already is fine.

        A version that is not ours is kept beside as a conflict file, whose path is returned.
        """
        return await asyncio.to_thread(self._remove_file, path, ours)

    def _remove_file(self, path: str, ours: frozenset[str]) -> str | None:
        self._refuse_if_missing()
        self.refuse_if_led_away(path)
        target = self.root / path
        try:
            found = read_file(self.root, path)
            seen = found.digest if found is not None and found.digest in ours else None
            beside = name_for_exchange(target, None, seen)
            # Moved before it is read: what a person saves now is a file of its own.
            target.rename(beside)
            conflict = self._keep_foreign(beside, target, ours)
            _discard(beside)
            _sync_folder(target.parent)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unavailable(error) from error
        return conflict

    async def remove_leftovers(self, folder: str) -> None:
        """Remove what writes left below a folder, whoever wrote it: kills cut them short, or a disk kept it.

        What this process wrote just now may be on its way into its place.
        """

        def remove() -> None:
            self._refuse_if_missing()
            self.refuse_if_led_away(f"{folder}/")
            for path in leftovers_below(self.root / folder):
                with suppress(FileNotFoundError):  # It was put in place in this moment.
                    if path.lstat().st_ctime < max(self._opened, time.time() - _LEFTOVER_SECONDS):
                        _discard(path)

        try:
            await asyncio.to_thread(remove)
        except OSError as error:
            raise _unavailable(error) from error

    def _settle_old_leftovers(self, folder: Path) -> None:
        """Of other processes that were killed meanwhile. Seldom: a folder may hold a file for every day of years."""
        before = time.time() - _LEFTOVER_SECONDS
        with self._looking:
            if self._looked_through.get(str(folder), 0.0) >= before:
                return
            self._looked_through.pop(str(folder), None)
            self._looked_through[str(folder)] = time.time()
            if len(self._looked_through) > _REMEMBERED:
                self._looked_through.popitem(last=False)
        self._settle_leftovers(leftovers_in(folder), before)

    def _settle_leftovers(self, leftovers: Iterable[Path], before: float) -> None:
        """Remove those that kills left before a time; what of them a person had saved is kept as a conflict file."""
        for path in leftovers:
            with suppress(FileNotFoundError):  # It was put in place in this moment.
                if path.lstat().st_ctime >= before:
                    continue
                if (saved := persons_save(path)) is not None:
                    target, digest = saved
                    self._keep_beside(path, target, digest)
                _discard(path)

    async def holds_transcripts(self) -> bool:
        """Whether any conversation lies here, whoever wrote it."""
        return await asyncio.to_thread(lambda: any(self.root.glob(f"*/users/*/threads/*/*{SUFFIX}")))

    async def list_files(self, folder: str = "") -> list[str]:
        """Every Markdown file below a folder that may be read, sorted."""
        try:
            return await asyncio.to_thread(lambda: sorted(self._walk(folder)))
        except OSError as error:
            raise _unavailable(error, "read") from error

    def _walk(self, folder: str) -> Iterator[str]:
        for path, stamp in stamps_below(self.root, folder, hidden=True):
            if path.endswith(SUFFIX) and stamp not in (UNREADABLE, NOT_FOLLOWED):
                yield path

    async def make_anew(self) -> None:
        """The person says that the missing vault is gone for good: start an empty one."""

        def make() -> None:
            try:
                self._make_folder(self.root)
                (self.root / _MARKER).touch()
            except OSError as error:
                raise _unavailable(error) from error

        await asyncio.to_thread(make)


def _sync_folder(folder: Path) -> None:
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _duplicate(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Not every disk has hard links. One that fills up midway must not leave half of it in its place.
        beside = name_while_written(target)
        try:
            shutil.copyfile(source, beside)
            _sync(beside, os.O_RDONLY)
            beside.rename(target)
        except OSError:
            _discard(beside)
            raise


def _discard(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("%s could not be removed: %s; it goes with a later write into its folder", path, error)


def _unavailable(error: OSError, done: str = "written") -> StorageUnavailable:
    """Names no path: those hold the names of users and threads, and health shows this to anybody."""
    reason = {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EROFS: "the disk is read-only",
        errno.EACCES: "permission is denied",
        errno.EPERM: "permission is denied",
    }.get(error.errno or 0, error.strerror or str(error))
    return StorageUnavailable(f"the vault cannot be {done}: {reason}")
