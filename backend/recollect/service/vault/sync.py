"""Keeps files of the vault and the journal alike: writes what the journal has, imports what a person wrote."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from recollect.domain.identity import text_digest
from recollect.domain.job import Job, Unfinished
from recollect.domain.vault_file import EMPTY, FileStamp, KnownFile, VaultFile
from recollect.infra.journal.vault_files import SqlVaultFiles
from recollect.infra.vault import Vault
from recollect.service.vault.reader import EditReports, Look, drop_old_copy, without_copies

_MOST_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a file should hold."""

    text: str | None
    """None: the file has to go."""
    parts: Any = None
    """What the store of its kind keeps of what it is made of."""


class FileSync:
    """The files of one kind. Each has a lane of its own, so that nothing else works on it meanwhile.

    A file is announced, written beside and put in place, and recorded: a kill between any two of these is made good
    by the next run. What a person wrote there meanwhile is never overwritten: it is imported, or kept as a conflict
    file. An old copy of a file is no edit: it is replaced, or removed if the file was deleted.
    """

    store: SqlVaultFiles
    vault: Vault
    reports: EditReports
    limit: int | None
    """Of the bytes that are read."""
    ignores_empty = False
    """Whether an emptied file is left to the sweep, which judges it together with missing files."""
    not_imported = "was changed by hand too"
    """Why a person's version is kept as a conflict file."""

    def follows(self, path: str) -> bool:
        """Whether it is the path of a file of this kind."""
        raise NotImplementedError

    async def render(self, file: KnownFile, found: VaultFile | None, *, is_old: bool) -> Rendered:
        """What a file should hold. `found` is replaced; with `is_old` it is an old copy."""
        raise NotImplementedError

    async def import_edits(
        self, path: str, file: KnownFile | None, found: VaultFile, *, confirmed: bool
    ) -> bool:
        """Import a person's version. Returns False if the journal's own has to be written over it.

        `confirmed`: what it lacks was missing at the last look, too.
        """
        raise NotImplementedError

    async def remove_contents(self, path: str) -> None:
        """A person removed this file."""
        raise NotImplementedError

    def announced(self, path: str) -> None:
        """Called before a file is written."""

    async def written(self, path: str, text: str, digest: str) -> None:
        """Called before it is recorded that a file was written."""

    async def removed(self, path: str) -> None:
        """Called after a file is gone."""
        self.changed(path)

    def changed(self, path: str) -> None:
        """Called when a file was written and recorded, or imported, or is gone."""

    async def handle(self, job: Job) -> None:
        """The handler of jobs of this kind."""
        path = str(job.payload["path"])
        if job.payload.get("gone") and await self._look(path) is None:
            await self.let_go_now([path])
            self.changed(path)
        else:
            await self.settle(path, vanished=job.payload.get("vanished"))

    async def settle(self, path: str, *, vanished: str | None = None) -> None:
        """Import what a person wrote; else write what the journal has and the file lacks.

        `vanished` is the digest of a version that lacked something at the last look.
        """
        if not self.follows(path):
            raise ValueError(f"{path} is no file of {self.store.kind}")
        file, found = await self.store.file(path), await self._look(path)
        if found is not None and self._is_foreign(file, found):
            if await (self.store.is_deleted if file is None else self.store.is_old_copy)(
                path, *found.digests
            ):
                await self._replace_old_copy(path, file, found)
                return
            is_imported = await self.import_edits(path, file, found, confirmed=found.digest == vanished)
            if not is_imported and file is not None and not file.is_written:
                await self._write(file, None, over_theirs=True)
        elif file is not None and not file.is_written:
            await self._write(file, found)

    async def settle_all(self) -> None:
        """Settle every file that exists or should."""
        paths = {file.path for file in await self.store.files()}
        listed, _ = await without_copies(self.store, await self.vault.list_files())
        for path in sorted(paths | set(filter(self.follows, listed))):
            for _ in range(_MOST_ROUNDS):
                try:
                    await self.settle(path)
                except Unfinished:
                    continue
                file = await self.store.file(path)
                if file is None or file.is_written:
                    break

    async def put(
        self,
        file: KnownFile,
        text: str,
        ours: frozenset[str],
        parts: Any = None,
        *,
        over_theirs: bool = False,
    ) -> VaultFile | None:
        """Announce, write and record. If the file is none of `ours`, it is a person's and returned, untouched.

        With `over_theirs` it is kept as a conflict file, and replaced.
        """
        digest = text_digest(text)
        await self.store.announce(file, digest, parts)
        self.announced(file.path)
        if over_theirs:
            self._tell_conflict(file.path, await self.vault.write(file.path, text, ours | {digest}))
        elif (theirs := await self.vault.write_unless_foreign(file.path, text, ours | {digest})) is not None:
            return theirs
        await self.written(file.path, text, digest)
        await self.store.record(file, digest, parts)
        self.changed(file.path)
        return None

    async def _write(
        self,
        file: KnownFile,
        found: VaultFile | None,
        *,
        over_theirs: bool = False,
        is_old: bool = False,
    ) -> None:
        rendered = await self.render(file, found, is_old=is_old)
        # What comes back meanwhile, as git moves files, was not rendered from: it may hold a person's words.
        ours = frozenset() if found is None else frozenset([found.digest])
        if rendered.text is not None:
            if await self.put(file, rendered.text, ours, rendered.parts, over_theirs=over_theirs) is not None:
                raise Unfinished
            return
        conflict = await self.vault.remove_file(file.path, ours)
        await self.store.removed(file.path)
        await self.removed(file.path)
        self._tell_conflict(file.path, conflict)

    async def _replace_old_copy(self, path: str, file: KnownFile | None, found: VaultFile) -> None:
        """Bring the file back to what the journal has. Raises Unfinished where it was written meanwhile."""
        seen = await self._look(path)
        if seen is None or seen.digest != found.digest or file != await self.store.file(path):
            raise Unfinished  # It was being written: another version is the current one now.
        if file is not None:
            await self._write(file, found, is_old=True)
            self.reports.old_copy_replaced(path)
        elif await drop_old_copy(self.store, self.vault, self.reports, path, found):
            await self.removed(path)

    def _is_foreign(self, file: KnownFile | None, found: VaultFile) -> bool:
        """Whether it is a person's version."""
        if self.ignores_empty and found.digest == EMPTY:
            return False
        return file is None or found.digest not in file.digests

    def _tell_conflict(self, path: str, conflict: str | None) -> None:
        if conflict is not None:
            self.reports.tell(path, f"{self.not_imported}; that version is kept as {conflict}")

    async def _look(self, path: str) -> VaultFile | None:
        self.vault.refuse_if_missing()
        return await self.vault.look(path, self.limit)

    async def known(self) -> dict[str, str]:
        """The files that should be in the vault, with the digests of their last known content."""
        return await self.store.held()

    async def look_at(self, paths: Iterable[str], look: Look | None = None) -> dict[str, FileStamp]:
        """Queue the files that a person changed. Returns the stamps of those that need not be read again."""
        stamps: dict[str, FileStamp] = {}
        for path in paths:
            # Known before it is read: else what we write in between would be taken for an old copy.
            file = await self.store.file(path)
            found = await (look or self.vault.look)(path, self.limit)
            if found is None or (self.ignores_empty and found.digest == EMPTY):
                continue
            if self._is_foreign(file, found):
                await self.see_edits(path, file, found)
            elif found.stamp is not None:
                stamps[path] = found.stamp
        return stamps

    async def see_edits(self, path: str, file: KnownFile | None, found: VaultFile) -> None:
        """A person changed the file, or an old copy is in its place: it is settled by a job."""
        if await self.store.is_old_copy(path, *found.digests) and await self._is_there_still(path, found):
            self.reports.see_old_copy()
        await self.store.queue(path)

    async def _is_there_still(self, path: str, found: VaultFile) -> bool:
        """False where a version of ours was replaced by the next one while it was looked at."""
        if not self._is_foreign(await self.store.file(path), found):
            return False
        seen = await self.vault.look(path, self.limit)
        return seen is not None and seen.digest == found.digest

    async def let_go(self, paths: Iterable[str]) -> None:
        """A person removed, moved or emptied these files."""
        await self.let_go_now(paths)

    async def let_go_now(self, paths: Iterable[str]) -> None:
        """Remove what these files held; if the vault went back in time, restore them."""
        if self.reports.goes_back():
            await self.write_again(paths)
            return
        for path in paths:
            if await self._look(path) is None:
                await self.remove_contents(path)

    async def write_again(self, paths: Iterable[str]) -> None:
        """Restore these files, which nobody meant to remove."""
        for path in paths:
            await self.store.write_again(path)
            self.reports.file_restored(path)
