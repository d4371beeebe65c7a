"""The vault on disk: Markdown files that are replaced whole or not at all."""

import asyncio
import errno
import glob
import hashlib
import logging
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints

_SUFFIX = ".md"
_BESIDE = ".tmp"
_LEFTOVER_SECONDS = 600
_MARKER = ".recollect-vault"
_log = logging.getLogger("recollect.vault")


class Vault:
    """Paths are relative, with `/`, and made of safe components only (`memory/file_names.py`)."""

    def __init__(self, root: Path, *, fail_points: FailPoints | None = None) -> None:
        self.root = root
        self._fail_points = fail_points or FailPoints()
        self._last_failure: str | None = None
        self.conflicts = 0

    async def open(self, *, expected: bool) -> None:
        """Make the folder; where files are expected in it and it is missing, refuse to write until it is back.

        An unmounted disk must not be taken for an empty vault.
        """
        await asyncio.to_thread(self._open, expected)

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
        try:
            return (self.root / path).read_bytes().decode("utf-8", errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unavailable(error) from error

    async def write(self, path: str, text: str, ours: frozenset[str]) -> str | None:
        """Put `text` in place, all or nothing, durable when this returns.

        `ours` are the digests of what we may have put there before. Anything else is a person's: it is kept
        beside as a conflict file, whose path is returned.
        """
        return await asyncio.to_thread(self._write, path, text, ours)

    def _write(self, path: str, text: str, ours: frozenset[str]) -> str | None:
        self._refuse_if_missing()
        target = self.root / path
        beside = target.with_name(f"{target.name}.{secrets.token_hex(4)}{_BESIDE}")
        try:
            self._make_folder(target.parent)
            _discard_leftovers(target)
            with beside.open("wb") as file:
                file.write(text.encode())
                self._fail_points.reach("vault.written_beside")
                file.flush()
                os.fsync(file.fileno())
            self._fail_points.reach("vault.synced")
            conflict = self._keep_foreign(target, ours)
            beside.replace(target)
            self._fail_points.reach("vault.renamed")
            _sync_folder(target.parent)
        except OSError as error:
            _discard(beside)
            failure = _unavailable(error)
            self._last_failure = failure.message
            raise failure from error
        self._last_failure = None
        return conflict

    def _refuse_if_missing(self) -> None:
        if not self.is_there():
            raise StorageUnavailable(self.problem())

    def _keep_foreign(self, target: Path, ours: frozenset[str]) -> str | None:
        try:
            content = target.read_bytes()
        except FileNotFoundError:
            return None
        digest = hashlib.sha256(content).hexdigest()
        if digest in ours:
            return None
        kept = target.with_name(f"{target.stem}.conflict-{digest[:8]}{_SUFFIX}")
        if not kept.exists():
            _duplicate(target, kept)
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
        target = self.root / path
        try:
            if target.is_dir():
                shutil.rmtree(target)
                _sync_folder(target.parent)
        except OSError as error:
            raise _unavailable(error) from error

    async def holds_transcripts(self) -> bool:
        """Whether any conversation lies here, whoever wrote it."""
        return await asyncio.to_thread(lambda: any(self.root.glob(f"*/users/*/threads/*/*{_SUFFIX}")))

    async def list_files(self, folder: str = "") -> list[str]:
        """Every Markdown file below a folder, sorted."""
        return await asyncio.to_thread(lambda: sorted(self._walk(folder)))

    def _walk(self, folder: str) -> Iterator[str]:
        for path in (self.root / folder).rglob(f"*{_SUFFIX}"):
            if path.is_file():
                yield path.relative_to(self.root).as_posix()

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
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _duplicate(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        # Not every disk has hard links.
        shutil.copyfile(source, target)


def _discard_leftovers(target: Path) -> None:
    """What attempts left beside that were cut short long ago. A name is used once, so that none disturbs another."""
    for path in target.parent.glob(f"{glob.escape(target.name)}.*{_BESIDE}"):
        with suppress(FileNotFoundError):  # Another attempt has just been put in place.
            if time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:
                _discard(path)


def _discard(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("%s could not be removed: %s; it goes when the file is next written", path, error)


def _unavailable(error: OSError) -> StorageUnavailable:
    """Names no path: those hold the names of users and threads, and health shows this to anybody."""
    reason = {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EROFS: "the disk is read-only",
        errno.EACCES: "permission is denied",
        errno.EPERM: "permission is denied",
    }.get(error.errno or 0, error.strerror or str(error))
    return StorageUnavailable(f"the vault cannot be written: {reason}")
