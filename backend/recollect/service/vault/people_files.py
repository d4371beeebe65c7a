"""Files of presets and preferences: what they hold, and what a person's version of one changes."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from recollect.domain.job import Unfinished
from recollect.domain.paths import is_people_file
from recollect.domain.people import (
    PEOPLE_BYTES,
    Preferences,
    Preset,
    read_people_file,
    render_people_file,
)
from recollect.domain.vault_file import FileStamp, KnownFile, VaultFile
from recollect.errors import StorageUnavailable
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.vault import Vault
from recollect.service.vault.reader import EditReports, Look
from recollect.service.vault.sync import FileSync, Rendered

_OF_A_USER = "a user's preferences.md: the log says which"
_MOST_TOLD = 5


@dataclass(frozen=True, slots=True)
class PeopleFiles(FileSync):
    """What a person wrote is in force once it is imported, and their file stays as they wrote it.

    If the journal has a change that is not written yet, that change wins, and their version is kept as a conflict
    file. A file that can't be read is reported and left alone; what was in force before stays in force.
    """

    store: SqlPresetStore
    vault: Vault
    reports: EditReports
    limit = PEOPLE_BYTES
    _not_applied: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By path, a file's digest and what health says of it: nothing that a person wrote."""

    def problem(self) -> str | None:
        """Which files are not applied, and what to do; None if all are. Names presets only: other paths name a user."""
        told = sorted({said for _, said in self._not_applied.values()})
        more = f"; and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
        return f"not applied, mend or remove it: {'; '.join(told[:_MOST_TOLD])}{more}" if told else None

    def follows(self, path: str) -> bool:
        return is_people_file(path)

    async def render(self, file: KnownFile, found: VaultFile | None, *, is_old: bool) -> Rendered:
        self._not_applied.pop(file.path, None)
        holds = await self.store.holds(file.path)
        if holds is not None and found is not None and found.digest == file.digest:
            await self._keep_what_is_beside(file.path, found)
        return Rendered(None if holds is None else render_people_file(holds))

    async def _keep_what_is_beside(self, path: str, found: VaultFile) -> None:
        """A person's own properties can't be rendered again: their version is kept."""
        try:
            _, beside = read_people_file(path, found.text)
        except ValueError:
            beside = ("what can't be read any longer",)
        if beside:
            await self.vault.keep_copy(path, found.digest)

    async def import_edits(
        self, path: str, file: KnownFile | None, found: VaultFile, *, confirmed: bool
    ) -> bool:
        if file is not None and not file.is_written:
            return False
        try:
            holds = await self._read(path, found)
        except ValueError as error:
            why = f"not applied, and what was in force before stays so: {error}"
            self.reports.not_read_once(path, found.digest, why)
            said = "the log says why" if found.is_whole else str(error)
            said = f"{path}: {said}" if path.split("/")[1] == "presets" else _OF_A_USER
            self._not_applied[path] = found.digest, said
            return False
        self._not_applied.pop(path, None)
        revision = 0 if file is None else file.revision
        if not await self.store.apply_file(path, holds, found.digest, revision=revision):
            if await self.store.is_leaving(path):
                return False
            raise Unfinished  # It was changed through the API meanwhile.
        self.reports.tell(path, "was written by hand and is in force")
        return True

    async def remove_contents(self, path: str) -> None:
        """A preset is no longer there, preferences are the defaults again."""
        if await self.store.let_go(path):
            self.reports.tell(path, "was removed by hand, and is in force no longer")

    async def _read(self, path: str, found: VaultFile) -> Preset | Preferences:
        """Raises ValueError, in words, where it can't be read or another file holds the same."""
        if not found.is_whole:
            raise ValueError(f"the file is not UTF-8 text, or longer than {PEOPLE_BYTES:,} bytes")
        holds, _ = read_people_file(path, found.text)
        other = await self.store.path_of(holds)
        if other not in (None, path) and await self.vault.look(str(other), 1) is not None:
            raise ValueError(f"{other} has the same name")
        return holds

    async def look_at(self, paths: Iterable[str], look: Look | None = None) -> dict[str, FileStamp]:
        for path, (digest, _) in tuple(self._not_applied.items()):
            with suppress(StorageUnavailable):  # The sweep reports it.
                found = await self.vault.look(path, PEOPLE_BYTES)
                if found is None or found.digest != digest:
                    self._not_applied.pop(path, None)
        return await FileSync.look_at(self, paths, look)
