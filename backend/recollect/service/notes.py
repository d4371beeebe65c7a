"""Notes and files of entries: what is searched of the vault is known, and whoever indexes it is told when it changes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from recollect.memory.entry_paths import is_entry_path
from recollect.memory.note import NOTE_BYTES, Note
from recollect.memory.vault_file import FileStamp, VaultFile
from recollect.memory.vault_paths import owner_of_path
from recollect.service.ports import NoteStore
from recollect.service.take_in import EditReports
from recollect.service.vault_reader import VaultReader

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class NoteFollower:
    """Keeps the known notes true to the vault, files of entries among them; of what becomes of entries others tell."""

    store: NoteStore
    reader: VaultReader
    reports: EditReports
    on_changed: Callable[[set[str]], None]
    """Told the folders of the owners whose notes changed."""
    partly_read: set[str] = field(default_factory=set)
    """Paths of those that are longer than what is read, or no text."""

    def problem(self) -> str | None:
        """What of the notes cannot be found, in words."""
        if not self.partly_read:
            return None
        number = len(self.partly_read)
        notes, are = ("1 note", "is") if number == 1 else (f"{number} notes", "are")
        return f"{notes} {are} longer than {NOTE_BYTES:,} bytes or not UTF-8, and found in part: the log says which"

    async def look_at(self, paths: Iterable[str]) -> dict[str, FileStamp]:
        """Take in notes that may be new or edited. Returns the stamps of those that need not be read again.

        One that cannot be read stays as it is known.
        """
        stamps: dict[str, FileStamp] = {}
        changed: set[str] = set()
        asked = list(paths)
        known = {
            note.path: note
            for start in range(0, len(asked), _AT_ONCE)
            for note in await self.store.at(asked[start : start + _AT_ONCE])
        }
        for path in asked:
            owner, found = owner_of_path(path), await self.reader.look(path, NOTE_BYTES)
            if owner is None or found is None:
                continue
            self._remember(path, found)
            if found.stamp is not None:
                stamps[path] = found.stamp
            note = Note(path, owner, found.digest, found.modified)
            if (old := known.get(path)) is None or old.digest != note.digest:
                await self.store.seen(note)
                changed.add(owner)
                self._report(path, found, is_new=path not in known)
        if changed:
            self.on_changed(changed)
        return stamps

    async def let_go(self, notes: Iterable[Note]) -> None:
        """These are gone from the vault."""
        gone = list(notes)
        self.partly_read.difference_update(note.path for note in gone)
        if gone:
            await self.store.gone([note.path for note in gone])
            for note in gone:
                if not is_entry_path(note.path):
                    self.reports.tell(note.path, "the note is gone")
            self.on_changed({note.owner for note in gone})

    def _remember(self, path: str, found: VaultFile) -> None:
        if found.is_whole:
            self.partly_read.discard(path)
        else:
            self.partly_read.add(path)

    def _report(self, path: str, found: VaultFile, *, is_new: bool) -> None:
        if found.is_whole and is_entry_path(path):
            return
        if found.is_whole:
            self.reports.tell(path, "a new note" if is_new else "the note was edited")
        else:
            self.reports.not_read(
                path,
                f"the note is longer than {NOTE_BYTES:,} bytes or not UTF-8; it is read as far as possible",
            )
