"""A folder that is a copy of a vault elsewhere, for a person who edits: pull brings it up to date, push takes back edits."""

import hashlib
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from recollect.domain.vault_file import loss_in_words
from recollect.errors import Conflict, InvalidInput
from recollect.infra.objects import Changed, Found, Objects, conflict_path
from recollect.infra.vault_objects import MARKER
from recollect.service.coordination import Progress, no_progress

RECORD = ".recollect-copy.json"
"""Beside the files: where they came from, and what each was when it came or went."""
_AT_ONCE = 8
_control = re.compile(r"[\x00-\x1f\x7f]").search


class Known(NamedTuple):
    """A file as it is on both sides."""

    etag: str
    digest: str


@dataclass(slots=True)
class CopyReport:
    """Paths of what a pull or push did."""

    brought: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    """Removed here by a pull, there by a push."""
    conflicts: list[str] = field(default_factory=list)
    """Files that hold a version of this folder, which had been changed there, too: that version has the file's name."""
    waiting: list[str] = field(default_factory=list)
    """Changed or removed here, and not pushed yet."""
    left_out: list[str] = field(default_factory=list)
    """Could not be brought or sent, and why."""


class FolderCopy:
    """Neither side's words are ever lost: where both changed a file, this folder's version is kept as a conflict file."""

    def __init__(self, objects: Objects, folder: Path, progress: Progress = no_progress) -> None:
        self._objects, self._progress = objects, progress
        self._folder = folder.expanduser().resolve()
        self._known = self._recorded()
        self.report = CopyReport()

    def pull(self) -> CopyReport:
        """Bring the folder up to date. What was changed here stays, for a push."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._recording():
            return self._pulled()

    def _pulled(self) -> CopyReport:
        there = {each.path: each.etag for each in self._objects.list() if not _is_hidden(each.path)}
        here = self._digests()
        new = [
            path for path in sorted(there) if path not in self._known or self._known[path].etag != there[path]
        ]
        for path, found in self._fetched(self._without_mixed(new, here)):
            if found is not None:
                with self._going_on(path):
                    self._bring(path, found)
        for path in sorted(self._known.keys() - there.keys()):
            with self._going_on(path):
                if self._digest(path) == self._known[path].digest:
                    (self._folder / path).unlink()
                    self.report.removed.append(path)
                del self._known[path]
        known = {path: known.digest for path, known in self._known.items()}
        here = self._digests()
        self.report.waiting = sorted(path for path in {*known, *here} if known.get(path) != here.get(path))
        return self.report

    def push(self, *, force: bool = False) -> CopyReport:
        """Send what was changed here. Raises Conflict where a fifth of the files is gone here, unless with `force`."""
        if not self._folder.is_dir():
            raise InvalidInput(f"there is no folder {self._folder}")
        if not self._known:
            self._objects.make()  # A new vault. Else what is missing may be not mounted.
        here = self._digests()
        gone = sorted(self._known.keys() - here.keys())
        if not force and loss_in_words(0, len(self._known), 0, len(gone)) is not None:
            raise Conflict(
                f"{len(gone):,} of {len(self._known):,} files are gone from {self._folder}; nothing was pushed."
                " Bring them back with 'recollect vault pull', or remove them there, too, with --force"
            )
        changed = [
            path
            for path, digest in sorted(here.items())
            if path not in self._known or self._known[path].digest != digest
        ]
        for path in [path for path in changed if _control(path)]:
            changed.remove(path)
            self.report.left_out.append(f"{path!r}: such a name cannot be listed everywhere; rename it")
        with self._recording():
            for done, (path, work) in enumerate(
                [*((path, self._send) for path in changed), *((path, self._remove) for path in gone)], 1
            ):
                with self._going_on(path):
                    work(path)
                self._progress(done, len(changed) + len(gone))
            with suppress(Changed):
                self._objects.put(MARKER, b"", None)  # A new vault: the next home that comes takes it.
        return self.report

    def _without_mixed(self, new: Sequence[str], here: Iterable[str]) -> list[str]:
        """Without paths that a disk which ignores case, or writes letters its own way, takes for others."""
        names: dict[str, str] = {}
        for path in [*sorted(self._known), *sorted(here)]:
            _mixed_up(path, names)
        found = []
        for path in new:
            other = None if path in self._known else _mixed_up(path, names)
            if other is None:
                found.append(path)
            else:
                self.report.left_out.append(f"{path}: some disks take it for {other}; rename one of the two")
        return found

    @contextmanager
    def _going_on(self, path: str) -> Iterator[None]:
        """One file that the disk refuses does not keep the others waiting."""
        try:
            yield
        except OSError as error:
            self.report.left_out.append(f"{path}: {error.strerror or error}")

    def _bring(self, path: str, found: Found) -> None:
        """The file is read just before it is replaced: it may have been changed while others came."""
        known, here = self._known.get(path), self._digest(path)
        if here is not None and here != found.digest and (known is None or known.digest != here):
            self._set_aside(path, here)
        if here != found.digest:
            self._put(path, found.content)
            self.report.brought.append(path)
        self._known[path] = Known(found.etag, found.digest)

    def _send(self, path: str) -> None:
        content = (self._folder / path).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        known = self._known.get(path)
        try:
            etag = self._objects.put(path, content, None if known is None else known.etag)
        except Changed:
            found = self._objects.get(path)
            if found is None:  # Removed there: what was changed since is a new file.
                del self._known[path]
                self._send(path)
                return
            if found.digest != digest:
                kept = self._set_aside(path, digest)
                self._put(path, found.content)
                self._send(kept)
            self._known[path] = Known(found.etag, found.digest)
            return
        self._known[path] = Known(etag, digest)
        self.report.sent.append(path)

    def _remove(self, path: str) -> None:
        try:
            self._objects.remove(path, self._known[path].etag)
        except Changed:
            if (found := self._objects.get(path)) is not None:
                self._bring(path, found)  # Changed there: it is back.
                return
        del self._known[path]
        self.report.removed.append(path)

    def _set_aside(self, path: str, digest: str) -> str:
        kept = conflict_path(path, digest[:8])
        (self._folder / path).replace(self._folder / kept)
        self.report.conflicts.append(kept)
        return kept

    def _fetched(self, paths: Sequence[str]) -> Iterator[tuple[str, Found | None]]:
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for begin in range(0, len(paths), _AT_ONCE):
                some = paths[begin : begin + _AT_ONCE]
                yield from zip(some, threads.map(self._objects.get, some), strict=True)
                self._progress(begin + len(some), len(paths))

    def _digests(self) -> dict[str, str]:
        """Of all files that are neither hidden nor links."""
        found = {}
        for at, folders, names in os.walk(self._folder):
            folders[:] = [
                name for name in folders if not name.startswith(".") and not Path(at, name).is_symlink()
            ]
            for name in names:
                file = Path(at, name)
                if not name.startswith(".") and not file.is_symlink() and file.is_file():
                    path = file.relative_to(self._folder).as_posix()
                    found[path] = hashlib.sha256(file.read_bytes()).hexdigest()
        return found

    def _digest(self, path: str) -> str | None:
        try:
            return hashlib.sha256((self._folder / path).read_bytes()).hexdigest()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _put(self, path: str, content: bytes) -> None:
        """Beside first, then in its place: a file is there as a whole or as it was."""
        file = self._folder / path
        if not file.parent.resolve().is_relative_to(self._folder):
            raise InvalidInput(f"{file.parent} is a link that leads elsewhere: make it a folder")
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f".{file.name[:200]}.{os.getpid()}.tmp")
        beside.write_bytes(content)
        beside.replace(file)

    def _recorded(self) -> dict[str, Known]:
        try:
            found = json.loads((self._folder / RECORD).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except ValueError as error:
            raise InvalidInput(f"{self._folder / RECORD} cannot be read; pull into a new folder") from error
        if found["url"] != self._objects.url:
            raise InvalidInput(f"{self._folder} is a copy of {found['url']}, and not of {self._objects.url}")
        return {path: Known(*known) for path, known in found["files"].items()}

    @contextmanager
    def _recording(self) -> Iterator[None]:
        """What was done is recorded, however it ends."""
        try:
            yield
        finally:
            self._record()

    def _record(self) -> None:
        files = {path: list(known) for path, known in sorted(self._known.items())}
        content = json.dumps({"url": self._objects.url, "files": files}, ensure_ascii=False, indent=0)
        self._put(RECORD, content.encode())


def _mixed_up(path: str, names: dict[str, str]) -> str | None:
    """Of its folders and itself, the first that folds to another name than the one known. Those that don't are known."""
    at = ""
    for part in path.split("/"):
        at = f"{at}/{part}" if at else part
        other = names.setdefault(unicodedata.normalize("NFC", at).casefold(), at)
        if other != at:
            return other
    return None


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))
