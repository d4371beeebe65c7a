"""Reads files of the vault and skips what can't be read. Defines followers, which handle changed files."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from recollect.domain.paths import copied_path, is_note
from recollect.domain.vault_file import FileStamp, Listing, VaultFile
from recollect.errors import StorageUnavailable
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.journal.file_versions import FileVersions
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.vault import Vault
from recollect.service.vault.transcripts import EditReports

_log = logging.getLogger("recollect.edits")


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

    async def drop_old_copy(
        self, store: FileVersions, reports: EditReports, path: str, found: VaultFile
    ) -> bool:
        """Remove a file if it is a version of one that was deleted or forgotten. Returns whether it was removed."""
        if not await store.is_deleted(path, *found.digests) or await store.is_purging():
            return False
        await self._vault.remove_file(path, frozenset([found.digest]))
        await self._vault.remove_empty_folder(path.rpartition("/")[0])
        reports.old_copy_removed(path)
        return True

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

    async def readable(self, paths: Iterable[str]) -> list[str]:
        """Those of the files that can be read or are gone."""
        return [path for path in paths if await self.look(path, 1) is not None or not self.failed(path)]

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


async def written_digests(store: SqlEntryFileStore | SqlPresetStore) -> dict[str, str]:
    """The files that should be in the vault, with the digests of their last known content."""
    files = await store.files()
    return {file.path: file.digest for file in files if file.is_written and file.digest is not None}


async def queue_changed(
    store: SqlEntryFileStore | SqlPresetStore,
    vault: Vault,
    paths: Iterable[str],
    limit: int,
    reports: EditReports,
    *,
    ignored: Collection[str] = (),
) -> dict[str, FileStamp]:
    """Queue the files that a person changed. Returns the stamps of those that need not be read again.

    A file whose digest is `ignored` is skipped.
    """
    stamps: dict[str, FileStamp] = {}
    for path in paths:
        found = await vault.look(path, limit)
        if found is None or found.digest in ignored:
            continue
        file = await store.file(path)
        if file is None or found.digest not in file.digests:
            if await store.is_old_copy(path, *found.digests):
                reports.see_old_copy()
            await store.queue(path)
        elif found.stamp is not None:
            stamps[path] = found.stamp
    return stamps


class FileFollower(Protocol):
    """Brings the journal up to date with one kind of file."""

    def follows(self, path: str) -> bool: ...
    async def known(self) -> dict[str, str]:
        """The files that should be there, with the digests of their last known content."""
        ...

    async def look_at(self, paths: Iterable[str]) -> dict[str, FileStamp]:
        """Import or queue what changed. Returns the stamps of files that need not be read again."""
        ...

    async def let_go(self, paths: Iterable[str]) -> None: ...
    async def write_again(self, paths: Iterable[str]) -> None: ...
