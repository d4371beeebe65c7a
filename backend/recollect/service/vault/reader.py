"""Reads files of the vault, skips what can't be read, and reports what became of edits."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from recollect.domain.markdown.revision import Revision
from recollect.domain.paths import copied_path, is_note
from recollect.domain.vault_file import Listing, VaultFile
from recollect.errors import StorageUnavailable
from recollect.infra.journal.vault_files import FileVersions
from recollect.infra.vault import Vault
from recollect.service.coordination import Clock, now_ms

_log = logging.getLogger("recollect.edits")
GOING_BACK_MS = 600_000
"""How long after an old copy was found missing files are restored: the copy lacked them. For notes, before it, too."""
_TOLD_MS = 86_400_000
_SHOWN = 5


@dataclass(slots=True)
class EditReports:
    """What became of hand edits since the start."""

    revisions: int = 0
    """Turns whose words a person changed."""
    restored: int = 0
    """Turns and files of transcripts that were removed by hand, and are back."""
    unreadable: int = 0
    """Files that held something that could not be imported or read."""
    old_copies: deque[str] = field(default_factory=lambda: deque(maxlen=100))
    """Paths of the last files that had an old copy in their place, which is replaced or removed."""
    clock: Clock = now_ms
    _went_back_at: int | None = None
    _reverted_at: int | None = None
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=100))
    """The last of them in words, with their paths."""
    _reported: set[tuple[str, str]] = field(default_factory=set)
    """Paths and digests of versions that `not_read_once` reported."""

    def tell(self, path: str, what: str, *, level: int = logging.INFO) -> None:
        self.recent.append(f"{path}: {what}")
        _log.log(level, "%s: %s", path, what)

    def file_restored(self, path: str) -> None:
        self.restored += 1
        self.tell(path, "was removed by hand and is restored", level=logging.WARNING)

    def see_old_copy(self) -> None:
        """A file is a version that it had before: the vault, or a part of it, went back in time."""
        self._went_back_at = self.clock()

    def goes_back(self) -> bool:
        """Whether an old copy was found a moment ago. If so, missing files were not removed by a person."""
        return self._within(GOING_BACK_MS)

    def reverts(self) -> bool:
        """As `goes_back`, for an old copy of a file that was not removed. What vanished just before it is missing, too."""
        return self._reverted_at is not None and self.clock() - self._reverted_at < GOING_BACK_MS

    def old_copy_replaced(self, path: str, what: str = "is replaced by the current version") -> None:
        self._reverted_at = self.clock()
        self._old_copy(path, what)

    def old_copy_removed(self, path: str, of: str = "a removed file") -> None:
        self._old_copy(path, f"of {of} is removed")

    def _old_copy(self, path: str, what: str) -> None:
        self.see_old_copy()
        self.old_copies.append(path)
        self.tell(path, f"an old copy {what}", level=logging.WARNING)

    def problem(self) -> str | None:
        """A warning for a day after an old copy of the vault was found; else None. Names no file."""
        if not self.old_copies or not self._within(_TOLD_MS):
            return None
        number = len(self.old_copies)
        copies = "1 old copy" if number == 1 else f"{number} old copies"
        return (
            f"{copies} of files came into the vault and went: the current versions are kept, but notes that you "
            "wrote by hand have none: look at them. Does a sync tool, a backup or git write there? 'recollect verify' lists the files"
        )

    def _within(self, milliseconds: int) -> bool:
        return self._went_back_at is not None and self.clock() - self._went_back_at < milliseconds

    def not_read(self, path: str, why: str) -> None:
        self.unreadable += 1
        self.tell(path, why, level=logging.WARNING)

    def not_read_once(self, path: str, digest: str, why: str) -> None:
        """As `not_read`, unless this version of the file was reported already."""
        if (path, digest) not in self._reported:
            self._reported.add((path, digest))
            self.not_read(path, why)

    def refused(self, path: str, problems: list[str]) -> None:
        self.not_read(path, f"not applied: {_some(problems)}")

    def applied(self, path: str, revision: Revision, revised: int) -> None:
        self.revisions += revised
        if revised:
            self.tell(
                path, f"{revised} turns were edited by hand: {_some([t.turn_id for t in revision.turns])}"
            )
        if revision.header:
            self.tell(path, f"{' and '.join(revision.header)} edited by hand")
        if revision.removed:
            self.restored += len(revision.removed)
            self.tell(
                path, f"turns removed by hand are back: {_some(revision.removed)}", level=logging.WARNING
            )
        if revision.refused:
            self.refused(path, revision.refused)


def _some(items: list[str]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return "; ".join(items[:_SHOWN]) + more


async def without_copies(
    store: FileVersions, paths: Iterable[str], *, ours: Callable[[str], bool] = lambda path: False
) -> tuple[list[str], list[str]]:
    """The paths that are no conflict copies of sync tools, and those that are.

    A file is a conflict copy only if we wrote the file that its name refers to, or that one is `ours`, and if we did
    not write this one. That of a note is one if the note is there, too.
    """
    listed = list(paths)
    copied = {path: target for path in listed if (target := copied_path(path)) is not None}
    known = await store.were_ours({*copied, *copied.values()}) if copied else set()
    notes = {target for target in copied.values() if is_note(target)}
    there = (notes & set(listed)) | (await store.are_notes(notes) if notes else set())
    copies = {
        path
        for path, target in copied.items()
        if target in there or (path not in known and (target in known or ours(target)))
    }
    return [path for path in listed if path not in copies], sorted(copies)


async def drop_old_copy(
    store: FileVersions, vault: Vault, reports: EditReports, path: str, found: VaultFile
) -> bool:
    """Remove a file if it is a version of one that was deleted or forgotten. Returns whether it was removed."""
    if not await store.is_deleted(path, *found.digests) or await store.is_purging():
        return False
    await vault.remove_file(path, frozenset([found.digest]))
    await vault.remove_empty_folder(path.rpartition("/")[0])
    reports.old_copy_removed(path)
    return True


class VaultReader:
    """Reads files, and remembers those that can't be read: the log names them, health counts them."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._failed: set[str] = set()
        self._unreadable: frozenset[str] = frozenset()
        self._not_followed: frozenset[str] = frozenset()
        self._copies: set[str] = set()

    def reset(self) -> None:
        self._failed, self._unreadable, self._not_followed = set(), frozenset(), frozenset()
        self._copies = set()

    async def without_copies(self, store: FileVersions, paths: Iterable[str]) -> list[str]:
        """The paths without conflict copies of sync tools, which are logged once."""
        listed, copies = await without_copies(store, paths)
        for path in sorted(set(copies) - self._copies):
            _log.warning("%s is a conflict copy of a sync tool: it is not read", path)
        self._copies.update(copies)
        return listed

    async def look(self, path: str, limit: int | None = None) -> VaultFile | None:
        """The current file. None if it does not exist or can't be read; `failed` tells them apart."""
        try:
            found = await self._vault.look(path, limit)
        except StorageUnavailable as error:
            if path not in self._failed:
                _log.warning("%s can't be read, so changes in it are not seen: %s", path, error.message)
            self._failed.add(path)
            return None
        self._failed.discard(path)
        return found

    def failed(self, path: str) -> bool:
        """Whether a file could not be read when it was last looked at."""
        return path in self._failed

    async def list_all(self, folder: str = "") -> Listing:
        """All files below a folder, and what below it can't be read."""
        return await asyncio.to_thread(Listing.of, await self._vault.stamps(folder))

    def swept(self, listing: Listing) -> None:
        """Replace what is known to be unreadable by a listing of the whole vault, and log what is new."""
        for path in sorted(listing.unreadable - self._unreadable):
            _log.warning("%s can't be read, so changes in it are not seen", path)
        for path in sorted(listing.not_followed - self._not_followed):
            _log.warning(
                "%s is a link that leads out of its owner's folder, or in a circle: it is not read", path
            )
        self._unreadable, self._not_followed = listing.unreadable, listing.not_followed
        self._failed &= listing.stamps.keys()
        self._copies &= listing.stamps.keys()

    def problem(self) -> str | None:
        """What exists and is not read, in words; None if nothing."""
        unreadable, links = len(self._failed | self._unreadable), len(self._not_followed)
        said = []
        if unreadable:
            what = "1 file or folder" if unreadable == 1 else f"{unreadable:,} files or folders"
            said.append(f"{what} of the vault cannot be read")
        if links:
            what = "1 link is" if links == 1 else f"{links:,} links are"
            said.append(f"{what} not followed, out of an owner's folder or in a circle")
        if copies := len(self._copies):
            what = "1 conflict copy is" if copies == 1 else f"{copies:,} conflict copies of sync tools are"
            said.append(f"{what} not read ('recollect verify' lists them)")
        return f"{'; '.join(said)}: the log says which" if said else None


Look = Callable[[str, int | None], Awaitable[VaultFile | None]]
"""Reads a file, as `VaultReader.look` does."""
