"""The vault in a folder: Markdown files that are replaced whole or not at all."""

import errno
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from recollect.domain.identity import text_digest
from recollect.domain.vault_file import NOT_FOLLOWED, UNREADABLE, FileStamp, VaultFile
from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.vault_read import (
    SUFFIX,
    bytes_below,
    copy_beside,
    discard,
    in_thread,
    leftovers,
    make_folder,
    name_for_exchange,
    name_while_written,
    persons_save,
    put_in_place,
    read_file,
    real_path,
    stamp_of,
    stamps_below,
    sync,
    unavailable,
    write_synced,
)

_LEFTOVER_SECONDS = 600
_MARKER = ".recollect-vault"
_SAVE_SECONDS = 0.1
"""A file that did not change for this long is whole: its editor has saved it."""
_LONGEST_SAVE_SECONDS = 1.0
_log = logging.getLogger("recollect.vault")


class FolderVault:
    """Paths are relative, with `/`, and made of safe components only (`domain/paths.py`).

    Links are followed as `real_path` says: nothing is read, written or removed through any other link. Every
    method that awaits runs off the event loop, and raises StorageUnavailable where the disk fails.
    """

    def __init__(self, root: Path, *, fail_points: FailPoints | None = None) -> None:
        self.root = root
        self._fail_points = fail_points or FailPoints()
        self._last_failure: str | None = None
        self.conflicts = 0
        self._opened = time.time()

    @in_thread("written")
    def open(self, *, expected: bool) -> None:
        """Create the folder. Where files are expected and the folder is missing, refuse writes until it is back.

        An unmounted disk must not be taken for an empty vault. What kills left beside files is removed, except what
        a person had saved: that is kept as a conflict file.
        """
        self._opened = time.time()
        try:
            if not self.is_there() and not expected:
                self._make()
        except OSError as error:
            _log.error("the vault %s cannot be created: %s", self.root, error)
        if not self.is_there():
            _log.error("the vault %s is missing; nothing is written to it until it is back", self.root)
            return
        try:
            self._settle_leftovers(leftovers(self.root), self._opened)
        except OSError as error:
            _log.warning("can't list leftovers of interrupted writes: %s", error)

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return str(self.root)

    @in_thread("read")
    def exists(self) -> bool:
        """Whether there is a vault to read, with our mark or without."""
        return self.root.is_dir()

    async def has_owner(self) -> bool:
        """A folder says nothing of the kind."""
        return False

    @in_thread("written")
    def recreate(self) -> None:
        """Start an empty vault: the person says that the missing one is gone for good."""
        self._make()

    @in_thread("written")
    def fill(self, folder: Path) -> None:
        """Take all files of an unpacked backup, whose folder goes, unless it is in place already."""
        if folder != self.root:
            folder.rename(self.root)

    def _make(self) -> None:
        make_folder(self.root)
        (self.root / _MARKER).touch()

    def problem(self) -> str | None:
        """What keeps the vault from being written, in words."""
        if not self.is_there():
            return "the vault is missing: bring it back, or rewrite it with 'recollect verify --repair'"
        if not os.access(self.root, os.W_OK):
            return "the vault is read-only"
        return self._last_failure

    def keeps_copies(self) -> str | None:
        """Nothing of ours."""
        return None

    def is_there(self) -> bool:
        """Whether the folder has our mark. Without it, it may be an empty mount point or a foreign folder."""
        return (self.root / _MARKER).is_file()

    async def read(self, path: str) -> str | None:
        """The text of a file, None where there is none. What is not UTF-8 is replaced by U+FFFD."""
        found = await self.look(path)
        return None if found is None else found.text

    @in_thread("read")
    def look(self, path: str, limit: int | None = None) -> VaultFile | None:
        """A file as it is now, None where there is none. With `limit`, at most that many bytes of it.

        A note is read in the encoding that its byte order mark names; all else is UTF-8.
        """
        return read_file(self.root, path, limit)

    @in_thread("read")
    def is_blocked(self, path: str) -> bool:
        """Whether nothing can be written there: a file has the name of one of its folders, or a folder its own."""
        target = self.root / path
        folders = target.parents[: path.count("/")]
        return target.is_dir() or any(each.exists() and not each.is_dir() for each in folders)

    @in_thread("read")
    def stamps(self, folder: str = "") -> dict[str, FileStamp]:
        """When each Markdown file below a folder was written, and how long it is. Hidden files are left out.

        What exists and cannot be looked at has UNREADABLE or NOT_FOLLOWED for a stamp.
        """
        return dict(stamps_below(self.root, folder))

    @in_thread("read")
    def list_files(self, folder: str = "") -> list[str]:
        """Every Markdown file below a folder that may be read, sorted."""
        stamps = stamps_below(self.root, folder, hidden=True)
        return sorted(
            path
            for path, stamp in stamps
            if path.endswith(SUFFIX) and stamp not in (UNREADABLE, NOT_FOLLOWED)
        )

    @in_thread("read")
    def bytes_below(self, folder: str) -> int:
        """Size of all files below a folder."""
        return bytes_below(self.root / folder)

    @in_thread("read")
    def sources(self) -> dict[str, Callable[[], bytes]]:
        """Every file by its path, with what reads it. Links that lead out of an owner's folder are left out."""
        found = {}
        for file in self.root.rglob("*"):
            path = file.relative_to(self.root).as_posix()
            leads_away = file.is_symlink() and self.leads_away(path)
            if file.suffix != ".tmp" and file.is_file() and not leads_away:
                found[path] = file.read_bytes
        return found

    @in_thread("read")
    def holds_transcripts(self) -> bool:
        """Whether any conversation is in the vault, whoever wrote it."""
        return any(self.root.glob(f"*/users/*/threads/*/*{SUFFIX}"))

    @in_thread("written")
    def write(self, path: str, text: str, ours: frozenset[str]) -> str | None:
        """Put `text` in place, all or nothing, durable when this returns.

        `ours` are the digests of what we may have put there before. Anything else is a person's: it is kept
        beside as a conflict file, whose path is returned.
        """
        conflict, _ = self._write(path, text, ours, insist=True)
        return conflict

    @in_thread("written")
    def write_unless_foreign(self, path: str, text: str, ours: frozenset[str]) -> VaultFile | None:
        """Put `text` in place as `write` does, unless the file is a person's version: that is returned, untouched.

        It is whole: an editor that is saving it is waited for.
        """
        while True:
            _, found = self._write(path, text, ours, insist=False)
            if found is None:
                return None
            self._wait_for_editor(self.root / path)
            if (found := read_file(self.root, path)) is not None:
                return found

    def _wait_for_editor(self, target: Path) -> None:
        deadline = time.monotonic() + _LONGEST_SAVE_SECONDS
        before, now = None, stamp_of(target)
        while before != now and time.monotonic() < deadline:
            time.sleep(_SAVE_SECONDS)
            before, now = now, stamp_of(target)

    @in_thread("written")
    def keep_copy(self, path: str, digest: str) -> str | None:
        """Keep a person's version beside as a conflict file, whose path is returned; None if it is there no longer."""
        found = read_file(self.root, path)
        if found is None or found.digest != digest:
            return None
        return self._keep_beside(self.root / path, self.root / path, digest)

    def _write(
        self, path: str, text: str, ours: frozenset[str], *, insist: bool
    ) -> tuple[str | None, VaultFile | None]:
        """Returns the conflict file that a person's version was kept as or, unless we `insist`, that version."""
        target = self.writable(path)
        beside = name_while_written(target)
        replaced = False
        try:
            make_folder(target.parent)
            self._settle_leftovers(leftovers(target.parent, below=False), time.time() - _LEFTOVER_SECONDS)
            write_synced(beside, text.encode(), self._fail_points)
            found = read_file(self.root, path)
            seen = None if found is None else found.digest
            if found is not None and found.text == text and found.is_whole:
                # A person, or an attempt that was interrupted, has put the same text there.
                discard(beside)
                sync(target)
                sync(target.parent)
                return None, None
            if found is not None and found.digest in ours:
                found = None
            if found is not None and not insist:
                discard(beside)
                return None, found
            conflict = None if found is None else self._keep_beside(target, target, found.digest)
            beside = beside.rename(name_for_exchange(target, text_digest(text), seen))
            replaced = put_in_place(beside, target)
            self._fail_points.reach("vault.renamed")
            if replaced:
                # What was saved there after we looked is a person's too.
                conflict = self._keep_foreign(beside, target, ours) or conflict
                discard(beside)
            sync(target.parent)
        except OSError as error:
            if not replaced:  # Else it is what was in the target's place, perhaps a person's.
                discard(beside)
            self._last_failure = unavailable(error, "written").message
            raise
        self._last_failure = None
        return conflict, None

    def refuse_if_missing(self) -> None:
        """Raises StorageUnavailable where the whole vault is missing."""
        if not self.is_there():
            raise StorageUnavailable(self.problem())

    def writable(self, path: str) -> Path:
        """Where a path is on the disk. Raises StorageUnavailable where nothing may be written or removed there.

        The file itself may be a link: then the link is replaced, or removed, and not what it leads to.
        """
        self.refuse_if_missing()
        folder, _, _ = path.rpartition("/")
        if self.leads_away(folder):
            _log.error("%s is behind a link that is not followed: make it a folder", folder)
            raise StorageUnavailable(
                "the vault cannot be written: a folder is a link that leads elsewhere; the log says which"
            )
        return self.root / path

    def leads_away(self, path: str) -> bool:
        """Whether a path is behind a link that is not followed. Raises OSError."""
        return real_path(self.root, path) is None

    def _keep_foreign(self, file: Path, target: Path, ours: frozenset[str]) -> str | None:
        found = read_file(self.root, file.relative_to(self.root).as_posix())
        return (
            None if found is None or found.digest in ours else self._keep_beside(file, target, found.digest)
        )

    def _keep_beside(self, file: Path, target: Path, digest: str) -> str:
        """Keep `file`, a version of `target`, as a conflict file."""
        kept = target.with_name(f"{target.stem}.conflict-{digest[:8]}{SUFFIX}")
        if not kept.exists():
            copy_beside(file, kept)
            sync(kept.parent)
            self.conflicts += 1
            _log.warning("%s was changed by hand; that version is kept as %s", target, kept.name)
        return kept.relative_to(self.root).as_posix()

    @in_thread("written")
    def remove_folder(self, path: str) -> None:
        """Remove a folder and all that is in it; one that is gone already is fine."""
        target = self.writable(path)
        if target.is_dir():
            shutil.rmtree(target)
            sync(target.parent)

    @in_thread("written")
    def remove_empty_folder(self, path: str) -> None:
        """Remove a folder that is empty; one that is not, or is gone already, is left alone."""
        target = self.writable(path)
        try:
            target.rmdir()
            sync(target.parent)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise

    @in_thread("written")
    def remove_file(self, path: str, ours: frozenset[str]) -> str | None:
        """Remove a file; one that is gone already is fine.

        A version that is not ours is kept beside as a conflict file, whose path is returned.
        """
        target = self.writable(path)
        with suppress(FileNotFoundError):
            found = read_file(self.root, path)
            seen = found.digest if found is not None and found.digest in ours else None
            beside = name_for_exchange(target, None, seen)
            # Moved before it is read: what a person saves now is a file of its own.
            target.rename(beside)
            conflict = self._keep_foreign(beside, target, ours)
            discard(beside)
            sync(target.parent)
            return conflict
        return None

    @in_thread("written")
    def remove_leftovers(self, folder: str) -> None:
        """Remove leftovers of interrupted writes below a folder.

        What this process wrote just now is left: it may be about to be put in place.
        """
        for path in leftovers(self.writable(f"{folder}/")):
            with suppress(FileNotFoundError):  # It was put in place just now.
                if path.lstat().st_ctime < max(self._opened, time.time() - _LEFTOVER_SECONDS):
                    discard(path)

    def _settle_leftovers(self, found: Iterable[Path], before: float) -> None:
        """Remove those that are older than a time; what a person had saved is kept as a conflict file."""
        for path in found:
            with suppress(FileNotFoundError):  # It was put in place just now.
                if path.lstat().st_ctime >= before:
                    continue
                if (saved := persons_save(self.root, path)) is not None:
                    target, digest = saved
                    self._keep_beside(path, target, digest)
                discard(path)
