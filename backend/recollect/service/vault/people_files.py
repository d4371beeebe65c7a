"""Files of presets and preferences: written to the vault, and imported when a person changes them."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from recollect.domain.identity import text_digest
from recollect.domain.job import Job
from recollect.domain.paths import is_people_file
from recollect.domain.people import (
    PEOPLE_BYTES,
    PeopleFile,
    Preferences,
    Preset,
    read_people_file,
    render_people_file,
)
from recollect.domain.vault_file import FileStamp, VaultFile
from recollect.errors import StorageUnavailable
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.vault import Vault
from recollect.service.vault.reader import queue_changed, without_copies, written_digests
from recollect.service.vault.transcripts import EditReports

_OF_A_USER = "a user's preferences.md: the log says which"
_MOST_TOLD = 5


@dataclass(frozen=True, slots=True)
class PeopleFiles:
    """Synchronises each file with the journal, in a lane of its own.

    What a person wrote is in force once it is imported, and their file stays as they wrote it. If the journal has a
    change that is not written yet, that change wins, and their version is kept as a conflict file. A file that can't
    be read is reported and left alone; what was in force before stays in force.
    """

    store: SqlPresetStore
    vault: Vault
    reports: EditReports
    _not_applied: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By path, a file's digest and what health says of it: nothing that a person wrote."""

    def problem(self) -> str | None:
        """Which files are not applied, and what to do; None if all are. Names presets only: other paths name a user."""
        told = sorted({said for _, said in self._not_applied.values()})
        more = f"; and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
        return f"not applied, mend or remove it: {'; '.join(told[:_MOST_TOLD])}{more}" if told else None

    async def handle(self, job: Job) -> None:
        """The handler of jobs for people's files."""
        await self.settle(str(job.payload["path"]))

    async def settle(self, path: str) -> None:
        """Write what is in force and not in its file yet; else import what a person wrote."""
        self.vault.refuse_if_missing()
        known = await self.store.file(path)
        if known is not None and not known.is_written:
            await self._write(known)
            return
        found = await self.vault.look(path, PEOPLE_BYTES)
        if found is None or (known is not None and found.digest in known.digests):
            return
        if not await (self.store.is_deleted if known is None else self.store.is_old_copy)(
            path, *found.digests
        ):
            await self._apply_edits(path, found)
            return
        if known is None:
            await self.vault.remove_file(path, frozenset([found.digest]))
            self.reports.old_copy_removed(path)
        else:
            await self._write(known, frozenset([found.digest]))
            self.reports.old_copy_replaced(path)

    async def settle_all(self) -> None:
        """Settle every file that exists or should."""
        paths = {file.path for file in await self.store.files()}
        listed, _ = await without_copies(self.store, await self.vault.list_files())
        for path in sorted(paths | set(filter(is_people_file, listed))):
            await self.settle(path)

    async def _write(self, known: PeopleFile, old: frozenset[str] = frozenset()) -> None:
        """`old` are digests of versions that the file had before."""
        self._not_applied.pop(known.path, None)
        path, ours = known.path, known.digests | old
        if known.holds is None:
            conflict = await self.vault.remove_file(path, ours)
            await self.store.removed(path)
        else:
            text = render_people_file(known.holds)
            digest = text_digest(text)
            await self.store.announce(path, known.announcing(digest))
            await self._keep_what_is_beside(known)
            conflict = await self.vault.write(path, text, ours | {digest})
            await self.store.record(path, known.revision, digest)
        if conflict is not None:
            self.reports.tell(path, f"was changed by hand too; that version is kept as {conflict}")

    async def _keep_what_is_beside(self, known: PeopleFile) -> None:
        """A person's own properties can't be rendered again: their version is kept."""
        found = await self.vault.look(known.path, PEOPLE_BYTES)
        if found is None or found.digest != known.digest:
            return
        try:
            _, beside = read_people_file(known.path, found.text)
        except ValueError:
            beside = ("what can't be read any longer",)
        if beside:
            await self.vault.keep_copy(known.path, found.digest)

    async def _apply_edits(self, path: str, found: VaultFile) -> None:
        try:
            holds = await self._read(path, found)
        except ValueError as error:
            why = f"not applied, and what was in force before stays so: {error}"
            self.reports.not_read_once(path, found.digest, why)
            said = "the log says why" if found.is_whole else str(error)
            said = f"{path}: {said}" if path.split("/")[1] == "presets" else _OF_A_USER
            self._not_applied[path] = found.digest, said
            return
        self._not_applied.pop(path, None)
        await self.store.apply_file(path, holds, found.digest)
        self.reports.tell(path, "was written by hand and is in force")

    async def _read(self, path: str, found: VaultFile) -> Preset | Preferences:
        """Raises ValueError, in words, where it can't be read or another file holds the same."""
        if not found.is_whole:
            raise ValueError(f"the file is not UTF-8 text, or longer than {PEOPLE_BYTES:,} bytes")
        holds, _ = read_people_file(path, found.text)
        other = await self.store.path_of(holds)
        if other not in (None, path) and await self.vault.look(str(other), 1) is not None:
            raise ValueError(f"{other} has the same name")
        return holds

    def follows(self, path: str) -> bool:
        return is_people_file(path)

    async def known(self) -> dict[str, str]:
        return await written_digests(self.store)

    async def look_at(self, paths: Iterable[str]) -> dict[str, FileStamp]:
        for path, (digest, _) in tuple(self._not_applied.items()):
            with suppress(StorageUnavailable):  # The sweep reports it.
                found = await self.vault.look(path, PEOPLE_BYTES)
                if found is None or found.digest != digest:
                    self._not_applied.pop(path, None)
        return await queue_changed(self.store, self.vault, paths, PEOPLE_BYTES, self.reports)

    async def let_go(self, paths: Iterable[str]) -> None:
        """A person removed these: a preset is no longer there, preferences are the defaults again."""
        if self.reports.goes_back():
            await self.write_again(paths)
            return
        for path in paths:
            if await self.store.let_go(path):
                self.reports.tell(path, "was removed by hand, and is in force no longer")

    async def write_again(self, paths: Iterable[str]) -> None:
        """Restore these files, which nobody meant to remove."""
        for path in paths:
            await self.store.write_again(path)
            self.reports.file_restored(path)
