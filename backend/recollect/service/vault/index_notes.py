"""Index notes: keeps each user's `index.md`, with links to their other files, up to date."""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from recollect.domain.markdown.index_note import is_own_index, render_index
from recollect.domain.markdown.transcript import is_transcript
from recollect.domain.paths import index_path, is_index_path, owner_of_path
from recollect.domain.vault_file import FileStamp, Listing
from recollect.errors import RecollectError, StorageUnavailable
from recollect.infra.journal.entry_files import SqlSkillFiles
from recollect.infra.journal.files import SqlNoteStore
from recollect.infra.vault import Vault
from recollect.service.coordination import BackgroundLoop

_DELAY_SECONDS = 0.3
_log = logging.getLogger("recollect.vault")
_State = tuple[list[str], list[str], FileStamp | None]


class IndexNotes(BackgroundLoop):
    """Writes a note when the files it links to come or go. A note that a person changed or put there is left alone.

    It links only to files that the journal knows and the vault holds. A user who was forgotten has none, and gets
    no note.
    """

    def __init__(self, notes: SqlNoteStore, skills: SqlSkillFiles, vault: Vault) -> None:
        self._notes, self._skills, self._vault = notes, skills, vault
        self._changed: set[str] = set()
        self._woken = asyncio.Event()
        self.turn = asyncio.Lock()
        """Held while a note is written. Whoever removes a user's folder holds it, too."""
        self._states: dict[str, _State] = {}
        """What each note was made of when the whole vault was last looked at, and the stamp of its file."""
        self._linked: dict[str, list[str]] = {}
        """The files of skills of each user, when these were last looked at."""
        self._failed: set[str] = set()

    def start(self, name: str) -> None:
        self._woken, self.turn, self._states = asyncio.Event(), asyncio.Lock(), {}
        super().start(name)

    async def stop(self) -> None:
        """What changed is written before this returns."""
        await super().stop()
        await self.write_changed()

    def changed(self, owners: Iterable[str]) -> None:
        """Files of these owners came or went; those of an agent are looked for at every change."""
        self._changed.update(owner for owner in owners if "/users/" in owner)
        self._woken.set()

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            await asyncio.sleep(_DELAY_SECONDS)  # Debounce: one run for the whole burst.
            self._woken.clear()
            try:
                await self.write_changed()
            except RecollectError as error:  # The next sweep looks at them all.
                _log.warning("index notes can't be written now: %s", error)

    async def write_changed(self) -> None:
        """Returns when the notes of all owners whose files changed are written."""
        async with self.turn:
            skills = await self._skills.of_users()
            owners = skills.keys() | self._linked.keys()
            self._changed.update(owner for owner in owners if skills.get(owner) != self._linked.get(owner))
            self._linked = skills
            while self._changed:
                owner = self._changed.pop()
                await self._write(owner, skills.get(owner, []))

    async def look_at_all(self, listing: Listing | None = None) -> None:
        """Write the notes that are not as they should be; `listing` is what the vault holds, if that is known."""
        if listing is None:
            listing = Listing.of(await self._vault.stamps())
        known, skills = await self._notes.listed(), await self._skills.of_users()
        states = await asyncio.to_thread(_states, known, skills, listing.stamps)
        for owner, state in states.items():
            if self._states.get(owner) != state:
                async with self.turn:
                    if await self._write(owner, state[1]):
                        self._states[owner] = state
        for owner in self._states.keys() - states.keys():
            del self._states[owner]

    async def _write(self, owner: str, skills: list[str]) -> bool:
        path = index_path(owner)
        try:
            there = await self._vault.stamps(owner)
            known = [file for _, file in await self._notes.listed(owner)]
            learned = skills if any(map(is_transcript, there)) else []  # Else they were forgotten since.
            wanted = render_index(owner, [file for file in known if file in there], learned)
            found = await self._vault.look(path)
            if found is not None and is_own_index(found.text) and found.text != wanted:
                await self._replace(owner, wanted, frozenset([found.digest]))
            elif found is None and wanted is not None:
                await self._replace(owner, wanted, frozenset())
        except StorageUnavailable as error:
            if owner not in self._failed:
                _log.warning("%s can't be written now: %s", path, error.message)
            self._failed.add(owner)
            return False
        self._failed.discard(owner)
        return True

    async def _replace(self, owner: str, text: str | None, ours: frozenset[str]) -> None:
        if text is not None:
            await self._vault.write_unless_foreign(index_path(owner), text, ours)
        else:
            await self._vault.remove_file(index_path(owner), ours)
            await self._vault.remove_empty_folder(owner)


def _states(
    known: Iterable[tuple[str, str]], skills: Mapping[str, list[str]], stamps: Mapping[str, FileStamp]
) -> dict[str, _State]:
    """By user: the files of theirs that there are, those of their skills, and the stamp of their note."""
    states: dict[str, _State] = {}
    owners = {owner for path in stamps if is_index_path(path) and (owner := owner_of_path(path))}
    owners.update(owner for owner, _ in known if "/users/" in owner)
    for owner in sorted(owners | skills.keys()):
        states[owner] = ([], skills.get(owner, []), stamps.get(index_path(owner)))
    for owner, path in known:
        if owner in states and path in stamps:
            states[owner][0].append(path)
    return states
