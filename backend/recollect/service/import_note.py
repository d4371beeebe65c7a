"""Notes over the door: a Markdown text becomes a file in the user's `notes/`, and is found like any other."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from recollect.errors import AlreadyExists, InvalidInput, NotFound
from recollect.memory.access import Caller
from recollect.memory.file_names import file_name
from recollect.memory.note import NOTE_BYTES, Note
from recollect.memory.vault_paths import MARKDOWN_ENDINGS, is_note, owner_folder
from recollect.service.ports import NoteStore, Vault
from recollect.service.threads import DEFAULT_USER


@dataclass(frozen=True, slots=True)
class NoteText:
    """A note and what stands in it."""

    note: Note
    text: str


@dataclass(frozen=True, slots=True)
class Notes:
    """What people put into their notes. What stands there already is never replaced unasked."""

    store: NoteStore
    vault: Vault
    on_written: Callable[[Iterable[str]], Awaitable[None]]
    """Told the paths that were written: they are taken in at once."""

    async def list_notes(self, caller: Caller, user_id: str | None) -> list[Note]:
        known = await self.store.known(_owner(caller, user_id))
        return [note for note in known if is_note(note.path)]

    async def get_note(self, caller: Caller, user_id: str | None, name: str) -> NoteText:
        """By its path below `notes/`. Raises NotFound."""
        for note in await self.list_notes(caller, user_id):
            if name_of(note) == name and (found := await self.vault.look(note.path, NOTE_BYTES)) is not None:
                return NoteText(note, found.text)
        raise NotFound(f"there is no note {name!r}")

    async def import_note(
        self, caller: Caller, user_id: str | None, name: str, text: str, *, replace: bool = False
    ) -> tuple[NoteText, bool]:
        """The note, and whether it is new. Raises AlreadyExists where another text has that name, unless told to."""
        if len(text.encode()) > NOTE_BYTES:
            raise InvalidInput(f"text: a note has at most {NOTE_BYTES:,} bytes", field="text")
        path = f"{_owner(caller, user_id)}/notes/{file_name(_stem(name))}.md"
        before = await self.vault.look(path)
        ours = frozenset([before.digest]) if before is not None and replace else frozenset()
        if await self.vault.write_unless_foreign(path, text, ours) is not None:
            raise AlreadyExists(f"there is another note {name!r}", field="name")
        await self.on_written([path])
        for note in await self.list_notes(caller, user_id):
            if note.path == path:
                return NoteText(note, text), before is None
        raise NotFound(f"the note {name!r} was removed meanwhile")


def name_of(note: Note) -> str:
    """Its path below `notes/`."""
    return note.path.split("/", 4)[4]


def _owner(caller: Caller, user_id: str | None) -> str:
    return owner_folder(caller.space, caller.acting_for(user_id) or DEFAULT_USER)


def _stem(name: str) -> str:
    """The name of a file without its ending; what folder it was in elsewhere says nothing here."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    for ending in MARKDOWN_ENDINGS:
        if last.lower().endswith(ending) and len(last) > len(ending):
            return last[: -len(ending)]
    return last or name
