"""Index notes: keeps each user's `index.md`, with links to their other files, up to date."""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from recollect.domain.markdown.index_note import is_own_index, render_index
from recollect.domain.markdown.transcript import is_transcript, transcript_place
from recollect.domain.paths import file_name, index_path, is_index_path, owner_of_path
from recollect.domain.vault_file import UNREADABLE, FileStamp
from recollect.errors import RecollectError, StorageUnavailable
from recollect.infra.journal.entry_files import SqlSkillFiles
from recollect.infra.journal.files import SqlNoteStore
from recollect.infra.vault import Vault
from recollect.service.coordination import BackgroundLoop

_DELAY_SECONDS = 0.3
_log = logging.getLogger("recollect.vault")
_State = tuple[int, FileStamp | None]


class IndexNotes(BackgroundLoop):
    """Writes a note when the files it links to come or go. A note that a person changed or put there is left alone.

    It links only to files that the journal knows and the vault holds. A user who was forgotten has none, and gets
    no note. Where the files are the same as before, neither the vault is looked at nor the note written.
    """

    def __init__(self, notes: SqlNoteStore, skills: SqlSkillFiles, vault: Vault) -> None:
        self._notes, self._skill_files, self._vault = notes, skills, vault
        self._woken, self._round = asyncio.Event(), asyncio.Lock()
        self.turn = asyncio.Lock()
        """Held while a note is written. Whoever removes a user's folder holds it, too."""
        self._changed: set[str] = set()
        self._skills: dict[str, list[str]] = {}
        """The files of skills of each user."""
        self._skills_changed = True
        self._swept: Mapping[str, FileStamp] | None = None
        """The files that the last sweep found, until their notes are looked at."""
        self._made_of: dict[str, int] = {}
        self._stamps: dict[str, FileStamp | None] = {}
        """Of the notes, when the whole vault was last looked at."""
        self._failed: set[str] = set()

    def start(self, name: str) -> None:
        self._woken, self._round, self.turn = asyncio.Event(), asyncio.Lock(), asyncio.Lock()
        self._woken.set()
        super().start(name)

    async def stop(self) -> None:
        """What changed is written before this returns. The next start looks at the rest."""
        await super().stop()
        self._swept = None
        await self._try_to_write()

    def changed(self, owners: Iterable[str]) -> None:
        """Files of these users changed, or skills of these agents."""
        for owner in owners:
            if "/users/" in owner:
                self._changed.add(owner)
            else:
                self._skills_changed = True
        self._woken.set()

    def swept(self, stamps: Mapping[str, FileStamp]) -> None:
        """Look at all notes soon; `stamps` are those of the files in the vault."""
        self._swept = stamps
        self._woken.set()

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            await asyncio.sleep(_DELAY_SECONDS)  # Debounce: one run for the whole burst.
            self._woken.clear()
            await self._try_to_write()

    async def _try_to_write(self) -> None:
        try:
            await self.write_due()
        except RecollectError as error:  # The next sweep looks at them all.
            _log.warning("index notes can't be written now: %s", error)

    async def write_due(self) -> None:
        """Returns when the notes of all whose files changed are written, and all notes since the last sweep."""
        async with self._round:
            await self._write_changed()
            stamps, self._swept = self._swept, None
            if stamps is not None:
                await self._write_all(stamps)

    async def _write_changed(self) -> None:
        if self._skills_changed:
            await self._look_at_skills()
        while self._changed:
            owner = self._changed.pop()
            async with self.turn:  # For each anew: who waits to remove a folder comes in between.
                known = await self._notes.listed(owner)
                if _made_of((path for _, path in known), self._skills.get(owner)) != self._made_of.get(owner):
                    await self._write(owner)

    async def _write_all(self, stamps: Mapping[str, FileStamp]) -> None:
        """Write the notes that are not as they should be."""
        await self._look_at_skills()
        known = await self._notes.listed()
        states = await asyncio.to_thread(_states, known, self._skills, stamps)
        for owner, (made_of, stamp) in states.items():
            if (made_of, stamp) != (self._made_of.get(owner), self._stamps.get(owner, UNREADABLE)):
                async with self.turn:
                    if await self._write(owner):
                        self._stamps[owner] = stamp
        for owner in self._stamps.keys() - states.keys():
            del self._stamps[owner]
            self._made_of.pop(owner, None)
        self._failed &= states.keys()

    async def forget(self, space: str) -> None:
        """Returns when no note of ours in the space links to what is gone. Raises StorageUnavailable if one may."""
        await self._write_all(await self._vault.stamps())
        if any(owner.startswith(f"{file_name(space)}/") for owner in self._failed):
            raise StorageUnavailable("the index note of a user can't be written")

    async def _look_at_skills(self) -> None:
        self._skills_changed = False
        found = await self._skill_files.of_users()
        owners = found.keys() | self._skills.keys()
        self._changed.update(owner for owner in owners if found.get(owner) != self._skills.get(owner))
        self._skills = found

    async def _write(self, owner: str) -> bool:
        path = index_path(owner)
        try:
            there, known = await self._vault.stamps(owner), await self._notes.listed(owner)
            wanted, made_of = await asyncio.to_thread(
                _rendered, owner, await self._name(owner, there), known, self._skills.get(owner, []), there
            )
            found = await self._vault.look(path)
            if found is not None and is_own_index(found.text) and found.text != wanted:
                await self._replace(owner, wanted, frozenset([found.digest]))
            elif found is None and wanted is not None:
                await self._replace(owner, wanted, frozenset())
        except StorageUnavailable as error:
            if owner not in self._failed:
                _log.warning("%s can't be written now: %s", path, error.message)
            self._failed.add(owner)
            self._made_of.pop(owner, None)
            return False
        self._failed.discard(owner)
        self._made_of[owner] = made_of
        return True

    async def _name(self, owner: str, there: Iterable[str]) -> str:
        """The user's id. Where the folder has another name, a transcript tells it."""
        folder = owner.rpartition("/")[2]
        transcript = min(filter(is_transcript, there), default=None) if "~" in folder else None
        found = None if transcript is None else await self._vault.look(transcript)
        place = None if found is None else transcript_place(found.text)
        return folder if place is None else place[0].user_id

    async def _replace(self, owner: str, text: str | None, ours: frozenset[str]) -> None:
        if text is not None:
            await self._vault.write_unless_foreign(index_path(owner), text, ours)
        else:
            await self._vault.remove_file(index_path(owner), ours)
            await self._vault.remove_empty_folder(owner)


def _made_of(files: Iterable[str], skills: Iterable[str] | None) -> int:
    return hash((tuple(files), tuple(skills or ())))


def _rendered(
    owner: str,
    name: str,
    known: Iterable[tuple[str, str]],
    skills: list[str],
    there: Mapping[str, FileStamp],
) -> tuple[str | None, int]:
    """The note, and what it is made of. A user without transcripts was forgotten since, with all skills."""
    files = [path for _, path in known if path in there]
    skills = skills if any(map(is_transcript, there)) else []
    return render_index(owner, name, files, skills), _made_of(files, skills)


def _states(
    known: Iterable[tuple[str, str]], skills: Mapping[str, list[str]], stamps: Mapping[str, FileStamp]
) -> dict[str, _State]:
    """By user: what their note is made of, and the stamp of its file."""
    files: dict[str, list[str]] = {
        owner: [] for path in stamps if is_index_path(path) and (owner := owner_of_path(path))
    }
    for owner, path in known:
        if "/users/" in owner:
            files.setdefault(owner, []).extend([path] if path in stamps else [])
    owners = sorted(files.keys() | skills.keys())
    return {
        owner: (_made_of(files.get(owner, ()), skills.get(owner)), stamps.get(index_path(owner)))
        for owner in owners
    }
