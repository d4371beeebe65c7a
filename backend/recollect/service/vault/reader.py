"""Reads files of the vault, skips what cannot be read, and the interface of what follows changed files."""

import asyncio
import logging
from collections.abc import Collection, Iterable
from typing import Protocol

from recollect.domain.vault_file import FileStamp, Listing, VaultFile
from recollect.errors import StorageUnavailable
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.vault import Vault

_log = logging.getLogger("recollect.edits")


class VaultReader:
    """Remembers what is there and was not read: named in the log, counted in health."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._failed: set[str] = set()
        self._unreadable: frozenset[str] = frozenset()
        self._not_followed: frozenset[str] = frozenset()

    def reset(self) -> None:
        self._failed, self._unreadable, self._not_followed = set(), frozenset(), frozenset()

    async def look(self, path: str, limit: int | None = None) -> VaultFile | None:
        """A file as it is now; None where there is none, or it cannot be read, as `failed` tells."""
        try:
            found = await self._vault.look(path, limit)
        except StorageUnavailable as error:
            if path not in self._failed:
                _log.warning("%s is left as it is known: %s", path, error.message)
            self._failed.add(path)
            return None
        self._failed.discard(path)
        return found

    def failed(self, path: str) -> bool:
        """Whether a file could not be read when it was last looked at."""
        return path in self._failed

    async def readable(self, paths: Iterable[str]) -> list[str]:
        """Of these files all that can be read, or are gone."""
        return [path for path in paths if await self.look(path, 1) is not None or not self.failed(path)]

    async def list_all(self, folder: str = "") -> Listing:
        """All below a folder, with what of it cannot be looked at."""
        return await asyncio.to_thread(Listing.of, await self._vault.stamps(folder))

    def swept(self, listing: Listing) -> None:
        """The whole vault was listed: what is not read is what this says."""
        for path in sorted(listing.unreadable - self._unreadable):
            _log.warning("%s cannot be read, and is left as it is known", path)
        for path in sorted(listing.not_followed - self._not_followed):
            _log.warning(
                "%s is a link that leads out of its owner's folder, or in a circle: it is not read", path
            )
        self._unreadable, self._not_followed = listing.unreadable, listing.not_followed
        self._failed &= listing.stamps.keys()

    def problem(self) -> str | None:
        """What is there and not read, in words."""
        unreadable, links = len(self._failed | self._unreadable), len(self._not_followed)
        said = []
        if unreadable:
            what = "1 file or folder" if unreadable == 1 else f"{unreadable:,} files or folders"
            said.append(f"{what} of the vault cannot be read")
        if links:
            what = "1 link is" if links == 1 else f"{links:,} links are"
            said.append(f"{what} not followed, out of an owner's folder or in a circle")
        return f"{'; '.join(said)}: the log says which" if said else None


async def written_digests(store: SqlEntryFileStore | SqlPresetStore) -> dict[str, str]:
    """The files that should be in the vault, and the digests of what they held last."""
    files = await store.files()
    return {file.path: file.digest for file in files if file.is_written and file.digest is not None}


async def queue_changed(
    store: SqlEntryFileStore | SqlPresetStore,
    vault: Vault,
    paths: Iterable[str],
    limit: int,
    *,
    ignored: Collection[str] = (),
) -> dict[str, FileStamp]:
    """Queue the files that a person changed. Returns the stamps of those that need not be read again.

    A file whose digest is `ignored` is neither.
    """
    stamps: dict[str, FileStamp] = {}
    for path in paths:
        found = await vault.look(path, limit)
        if found is None or found.digest in ignored:
            continue
        file = await store.file(path)
        if file is None or found.digest not in file.digests:
            await store.queue(path)
        elif found.stamp is not None:
            stamps[path] = found.stamp
    return stamps


class FileFollower(Protocol):
    """Keeps the journal true to one more kind of file."""

    def follows(self, path: str) -> bool: ...
    async def known(self) -> dict[str, str]:
        """The files that should be there, and the digests of what they held last."""
        ...

    async def look_at(self, paths: Iterable[str]) -> dict[str, FileStamp]:
        """Take in what changed. Returns the stamps of those that need not be read again."""
        ...

    async def let_go(self, paths: Iterable[str]) -> None: ...
    async def write_anew(self, paths: Iterable[str]) -> None: ...
