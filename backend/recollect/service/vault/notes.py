"""Notes: what a person puts into `notes/`, by hand or through the API."""

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field

from recollect.domain.access import Caller
from recollect.domain.model import DEFAULT_USER, NOTE_BYTES, Note
from recollect.domain.paths import (
    MARKDOWN_ENDINGS,
    file_name,
    is_entry_path,
    is_note,
    kept_name,
    owner_folder,
    owner_of_path,
)
from recollect.domain.vault_file import FileStamp, VaultFile, text_digests
from recollect.errors import AlreadyExists, InvalidInput, NotFound
from recollect.infra.journal.files import SqlNoteStore
from recollect.infra.vault import Vault
from recollect.service.coordination import OwnerLocks
from recollect.service.vault.reader import GOING_BACK_MS, EditReports, VaultReader, drop_old_copy

_AT_ONCE = 500
_DEEPEST = 12
"""Folders of a file that is imported."""


@dataclass(frozen=True, slots=True)
class NoteFollower:
    """Keeps the records of notes, for the index, true to the vault."""

    store: SqlNoteStore
    vault: Vault
    reader: VaultReader
    reports: EditReports
    on_changed: Callable[[set[str]], None]
    """Told the folders of the owners whose notes changed."""
    locks: OwnerLocks = field(default_factory=OwnerLocks)
    """By path: one at a time reads a note's file and changes its record, or writes both."""
    partly_read: set[str] = field(default_factory=set)
    """Paths of notes that are too long to be read whole, or not UTF-8."""

    def problem(self) -> str | None:
        """That search finds some notes only in part; None if it finds all of every note."""
        if not self.partly_read:
            return None
        number = len(self.partly_read)
        notes, are = ("1 note", "is") if number == 1 else (f"{number} notes", "are")
        return f"{notes} {are} longer than {NOTE_BYTES:,} bytes or not UTF-8, and found in part: the log says which"

    async def look_at(self, paths: Iterable[str]) -> dict[str, FileStamp]:
        """Record new and edited notes. Returns the stamps of those that need not be read again.

        A note that can't be read keeps its record.
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
            async with self.locks.of(path):
                found = await self.reader.look(path, NOTE_BYTES)
                if found is None or (owner := owner_of_path(path)) is None:
                    continue
                old = known.get(path)
                if old is None or old.digest != found.digest:
                    old = next(iter(await self.store.at([path])), None)
                if await self._is_replaced(path, found, old):
                    changed.add(owner)  # The index may have read the old copy.
                    continue
                self._remember(path, found)
                if found.stamp is not None:
                    stamps[path] = found.stamp
                if old is None or old.digest != found.digest:
                    await self._record(Note(path, owner, found.digest, found.modified), found)
                    changed.add(owner)
                    self._report(path, found, is_new=old is None)
        if changed:
            self.on_changed(changed)
        return stamps

    async def _record(self, note: Note, found: VaultFile) -> None:
        is_ours = found.is_whole and await self.store.has_versions(note.path)
        await self.store.seen(note, found.text if is_ours else None)

    async def put(self, path: str, text: str, *, replace: bool, over: str | None = None) -> bool:
        """Write a note that came through the API. Returns whether it is new.

        It is recorded once it is written: whatever fails before that leaves the version that was there the current
        one. Raises AlreadyExists if another text is there, unless `replace`, or if that has another digest than `over`.
        Raises InvalidInput if a folder of its path is a file, or it is a folder itself.
        """
        async with self.locks.of(path):
            before = await self.vault.look(path)
            if over is not None and (before is None or before.digest != over):
                raise AlreadyExists("the note was edited by hand meanwhile", field="name")
            if before is None and await self.vault.is_blocked(path):
                raise InvalidInput(
                    "name: a file is where it needs a folder, or the other way round", field="name"
                )
            # One that was deleted may still be there for a moment.
            is_gone = before is not None and await self.store.is_deleted(path, *before.digests)
            ours = frozenset([before.digest]) if before is not None and (replace or is_gone) else frozenset()
            is_same = before is not None and before.is_whole and before.text == text
            if before is not None and not replace and not is_same and not is_gone:
                raise AlreadyExists("there is another note of this name", field="name")
            versions = await self._versions(path, text, before)
            if await self.vault.write_unless_foreign(path, text, ours) is not None:
                raise AlreadyExists("the note was edited by hand meanwhile", field="name")
            found = await self.vault.look(path, NOTE_BYTES)
            digest = found.digest if found is not None and found.text == text else versions[-1]
            owner = owner_of_path(path) or ""
            note = Note(path, owner, digest, 0 if found is None else found.modified)
            await self.store.put(note, text, versions)
            self.reports.tell(path, "a new note" if before is None else "the note was replaced")
        self.on_changed({owner})
        return before is None

    async def _versions(self, path: str, text: str, before: VaultFile | None) -> list[str]:
        """Digests of the version that is replaced, of the text in LF form if that was deleted, and of the text."""
        digest, lf_digest = text_digests(text)
        lifted = [lf_digest] if await self.store.is_deleted(path, lf_digest) else []
        if before is None or await self.store.is_deleted(path, *before.digests):
            return [*lifted, digest]
        return [before.digest, *lifted, digest]

    async def _is_replaced(self, path: str, found: VaultFile, known: Note | None) -> bool:
        """Restore the current version over an old copy, or remove a deleted one; else False.

        The journal may have no text of a note that a person edited: the old copy stays, and is reported.
        """
        if not await self.store.is_old_copy(path, *found.digests):
            return False
        is_known = known is not None and known.digest == found.digest
        if not is_known and (current := await self.store.text(path)) is not None:
            if await self.vault.write_unless_foreign(path, current, frozenset([found.digest])) is None:
                self.reports.old_copy_replaced(path)
            return True
        if await drop_old_copy(self.store, self.vault, self.reports, path, found):
            await self.store.drop_removed(0, path)  # The copy has it: it was removed before.
        if await self.store.is_deleted(path, *found.digests):
            return True
        if not is_known:
            self.reports.old_copy_replaced(path, "stays: no newer text of the note is kept")
        return False

    async def write_again(self, notes: Iterable[Note]) -> list[Note]:
        """Restore missing notes that came through the API. Returns the others: only their person had them."""
        others = []
        for note in notes:
            async with self.locks.of(note.path):
                if (text := await self.store.text(note.path)) is None:
                    others.append(note)
                elif await self.vault.write_unless_foreign(note.path, text, frozenset()) is None:
                    self.reports.file_restored(note.path)
        return others

    async def without_copies(self, paths: Iterable[str]) -> list[str]:
        """The paths without conflict copies of sync tools; one that was taken for a note is none any more."""
        asked = list(paths)
        listed = await self.reader.without_copies(self.store, asked)
        copies = set(asked) - set(listed)
        if copies and (taken := await self.store.at(copies)):
            await self.store.gone([note.path for note in taken])
            self._tell_gone(taken)
        return listed

    async def let_go(self, notes: Iterable[Note]) -> None:
        """Remove the records of notes that are gone from the vault. Those that came through the API stay removed."""
        gone = []
        for note in notes:
            async with self.locks.of(note.path):
                if not is_note(note.path):
                    await self.store.gone([note.path])
                elif await self.reader.look(note.path, 1) is not None or self.reader.failed(note.path):
                    continue
                else:
                    await self.store.removed(note, self.reports.clock())
                gone.append(note)
        self._tell_gone(gone)

    async def swept(self, missing: Iterable[Note]) -> None:
        """Let go of missing notes. Restore them if they vanished shortly before the vault went back in time."""
        await self.let_go(missing)
        if await self.store.any_removed():
            await self.store.drop_removed(self.reports.clock() - GOING_BACK_MS)
        if await self.may_restore():
            back = await self.store.bring_back()
            await self.write_again(back)
            self.on_changed({note.owner for note in back})

    async def may_restore(self) -> bool:
        return self.reports.reverts() and await self.store.any_removed()

    def _tell_gone(self, gone: Collection[Note]) -> None:
        self.partly_read.difference_update(note.path for note in gone)
        if gone:
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
        if found.is_whole:
            self.reports.tell(path, "a new note" if is_new else "the note was edited")
        else:
            self.reports.not_read(
                path,
                f"the note is longer than {NOTE_BYTES:,} bytes or not UTF-8; it is read as far as possible",
            )


@dataclass(frozen=True, slots=True)
class NoteText:
    """A note and its text."""

    note: Note
    text: str


@dataclass(frozen=True, slots=True)
class Notes:
    """Lists, reads and imports notes. An existing note is replaced only if the caller asks for it."""

    follower: NoteFollower
    on_written: Callable[[Iterable[str]], Awaitable[None]]
    """Called with the paths that were written; it looks at them as at any file that changed."""

    async def list_notes(self, caller: Caller, user_id: str | None) -> list[Note]:
        known = await self.follower.store.known(notes_owner(caller, user_id))
        return [note for note in known if is_note(note.path)]

    async def get_note(self, caller: Caller, user_id: str | None, name: str) -> NoteText:
        """By its path below `notes/`. Raises NotFound."""
        for note in await self.list_notes(caller, user_id):
            if name_of(note) == name and (found := await self.follower.vault.look(note.path, NOTE_BYTES)):
                return NoteText(note, found.text)
        raise NotFound(f"there is no note {name!r}")

    async def import_note(
        self, caller: Caller, user_id: str | None, name: str, text: str, *, replace: bool = False
    ) -> tuple[NoteText, bool]:
        """The note, and whether it is new. Raises AlreadyExists if another text has that name, unless `replace`."""
        if "/" in name or "\\" in name:
            raise InvalidInput("name: names a file, without folders", field="name")
        return await self._write(caller, user_id, f"{file_name(_stem(name))}.md", text, replace=replace)

    async def import_file(
        self, caller: Caller, user_id: str | None, name: str, text: str
    ) -> tuple[NoteText, bool]:
        """Likewise, a file of a person's folder, which keeps its name and the folders that it lies in."""
        folders = [each for each in name.replace("\\", "/").split("/") if each not in ("", ".", "..")]
        return await self._write(caller, user_id, "/".join(map(kept_name, folders[-_DEEPEST:])), text)

    async def _write(
        self, caller: Caller, user_id: str | None, name: str, text: str, *, replace: bool = False
    ) -> tuple[NoteText, bool]:
        if len(text.encode()) > NOTE_BYTES:
            raise InvalidInput(f"text: a note has at most {NOTE_BYTES:,} bytes", field="text")
        path = f"{notes_owner(caller, user_id)}/notes/{name}"
        is_new = await self.follower.put(path, text, replace=replace)
        await self.on_written([path])
        for note in await self.follower.store.at([path]):
            return NoteText(note, text), is_new
        raise NotFound(f"the note {name!r} was removed meanwhile")


def name_of(note: Note) -> str:
    """Its path below `notes/`."""
    return note.path.split("/", 4)[4]


def notes_owner(caller: Caller, user_id: str | None) -> str:
    return owner_folder(caller.space, caller.acting_for(user_id) or DEFAULT_USER)


def _stem(name: str) -> str:
    """Without its ending."""
    for ending in MARKDOWN_ENDINGS:
        if name.lower().endswith(ending) and len(name) > len(ending):
            return name[: -len(ending)]
    return name
