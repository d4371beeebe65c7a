"""The memory tool of Anthropic's models: six commands on files below `/memories`, which are a user's notes.

Answers and mistakes are in the words of Anthropic's own implementation. A file is a Markdown note: one whose name has
no Markdown ending gets `.md` behind it, and is found with and without.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from recollect.domain.access import Caller
from recollect.domain.model import NOTE_BYTES, Note
from recollect.domain.paths import file_name, is_markdown, kept_name
from recollect.errors import AlreadyExists, InvalidInput, NotFound
from recollect.infra.journal.forgetting import SqlForgetting
from recollect.service.coordination import OwnerLocks
from recollect.service.forget.forget import forget_note
from recollect.service.vault.notes import Notes, name_of, notes_owner

ROOT = "/memories"
_LEVELS = 2
_MOST_FOLDERS = 20
_NUMBER_WIDTH = 6
_AROUND = 2
"""Lines shown before and after a change."""
_TRIES = 5
_own_ending = re.compile(r".+\.[A-Za-z0-9]{1,8}").fullmatch


@dataclass(frozen=True, slots=True)
class MemoryTool:
    """Raises NotFound, AlreadyExists or InvalidInput, in words for the model."""

    notes: Notes
    forgetting: SqlForgetting
    _locks: OwnerLocks = field(default_factory=OwnerLocks)
    """By owner: one change at a time."""

    async def view(self, caller: Caller, user_id: str, path: str, lines: Sequence[int] | None = None) -> str:
        """A file with line numbers, or what is in a folder."""
        parts, names = _parts(path), await self._names(caller, user_id)
        if (note := _found(names, parts)) is None:
            return await self._listed(names, parts, path, notes_owner(caller, user_id))
        every = (await self._text(note, path)).split("\n")
        first, last = 0, len(every)
        if lines is not None and len(lines) == 2:
            first, last = max(1, lines[0]) - 1, len(every) if lines[1] == -1 else lines[1]
        shown = "\n".join(_numbered(every[first:last], first + 1))
        return f"Here's the content of {path} with line numbers:\n{shown}"

    async def create(self, caller: Caller, user_id: str, path: str, text: str) -> str:
        parts = _parts(path)
        async with self._locks.of(notes_owner(caller, user_id)):
            names = await self._names(caller, user_id)
            if not parts or _found(names, parts) is not None or _below(names, parts):
                raise AlreadyExists(f"File {path} already exists")
            await self._put(_new_path(notes_owner(caller, user_id), parts), text, path)
        return f"File created successfully at: {path}"

    async def str_replace(self, caller: Caller, user_id: str, path: str, old: str, new: str) -> str:
        """Replace a text that is there just once."""
        place = 0

        def changed(text: str) -> str:
            nonlocal place
            places = _places(text, old)
            if not text.count(old) or not old:
                raise InvalidInput(
                    f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
                )
            if text.count(old) > 1:
                lines = ", ".join(str(text[:each].count("\n") + 1) for each in places)
                raise InvalidInput(
                    f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
                    "Please ensure it is unique"
                )
            place = text[: places[0]].count("\n")
            return text.replace(old, new)

        lines = (await self._change(caller, user_id, path, changed)).split("\n")
        first = max(0, place - _AROUND)
        snippet = "\n".join(_numbered(lines[first : place + _AROUND + 1], first + 1))
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            + snippet
        )

    async def insert(self, caller: Caller, user_id: str, path: str, line: int, added: str) -> str:
        """Insert a text after a line; 0: at the beginning."""

        def changed(text: str) -> str:
            lines = text.split("\n")
            if lines[-1] == "":
                lines.pop()
            if not 0 <= line <= len(lines):
                raise InvalidInput(
                    f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}]."
                )
            lines.insert(line, added.rstrip("\n"))
            joined = "\n".join(lines)
            return joined if joined.endswith("\n") else joined + "\n"

        await self._change(caller, user_id, path, changed)
        return f"The file {path} has been edited."

    async def delete(self, caller: Caller, user_id: str, path: str) -> str:
        """Forget a note, or all of a folder."""
        if not (parts := _parts(path)):
            raise InvalidInput("Cannot delete the /memories directory itself")
        async with self._locks.of(notes_owner(caller, user_id)):
            names = await self._names(caller, user_id)
            note = _found(names, parts)
            gone = [name_of(note)] if note is not None else _below(names, parts)
            if not gone:
                raise NotFound(f"The path {path} does not exist")
            for name in gone:
                await forget_note(self.notes, self.forgetting, caller, user_id, name)
        return f"Successfully deleted {path}"

    async def rename(self, caller: Caller, user_id: str, path: str, new: str) -> str:
        """Give a note, or all of a folder, another place: the new file is written before the old one goes."""
        parts, target = _parts(path), _parts(new)
        owner = notes_owner(caller, user_id)
        if not parts:
            raise InvalidInput("Cannot rename the /memories directory itself")
        async with self._locks.of(owner):
            names = await self._names(caller, user_id)
            if not target or _found(names, target) is not None or _below(names, target):
                raise AlreadyExists(f"The destination {new} already exists")
            if (note := _found(names, parts)) is not None:
                await self._move(note, _new_path(owner, target), path)
            elif below := _below(names, parts):
                if target[: len(parts)] == parts:
                    raise InvalidInput(f"The destination {new} is inside of {path}")
                for name in below:
                    rest = name.split("/")[len(parts) :]
                    await self._move(names[name], _new_path(owner, [*target, *rest]), path)
            else:
                raise NotFound(f"The path {path} does not exist")
        return f"Successfully renamed {path} to {new}"

    async def _names(self, caller: Caller, user_id: str) -> dict[str, Note]:
        return {name_of(note): note for note in await self.notes.list_notes(caller, user_id)}

    async def _text(self, note: Note, path: str) -> str:
        text, _ = await self._look(note.path, path)
        return text

    async def _look(self, file: str, path: str) -> tuple[str, str]:
        """Text and digest of a file."""
        found = await self.notes.follower.vault.look(file, NOTE_BYTES)
        if found is None:
            raise NotFound(
                f"The file {path} no longer exists (may have been deleted or renamed concurrently)."
            )
        if not found.is_whole:
            raise InvalidInput(f"The file {path} is longer than {NOTE_BYTES:,} bytes, or no text")
        return found.text, found.digest

    async def _listed(self, names: dict[str, Note], parts: Sequence[str], path: str, owner: str) -> str:
        below = _below(names, parts)
        if parts and not below:
            raise NotFound(f"The path {path} does not exist. Please provide a valid path.")
        stamps = await self.notes.follower.vault.stamps(f"{owner}/notes")
        sizes: dict[str, int] = {}
        for name in below:
            stamp = stamps.get(names[name].path)
            size = max(0, stamp.size) if stamp is not None else 0
            within = name.split("/")[len(parts) :]
            for depth in range(1, min(_LEVELS, len(within) - 1) + 1):
                folder = "/".join(within[:depth]) + "/"
                sizes[folder] = sizes.get(folder, 0) + size
            if len(within) <= _LEVELS:
                sizes[_shown("/".join(within))] = size
        whole = sum(size for name, size in sizes.items() if not name.endswith("/"))
        lines = [f"{_size(whole)}\t{path}"]
        lines += [f"{_size(size)}\t{path}/{name}" for name, size in sorted(sizes.items())]
        head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
        return "\n".join([head, *lines])

    async def _change(self, caller: Caller, user_id: str, path: str, change: Callable[[str], str]) -> str:
        """Change what the file says now, once more where a person changed it meanwhile. Returns its new text."""
        parts = _parts(path)
        async with self._locks.of(notes_owner(caller, user_id)):
            names = await self._names(caller, user_id)
            if (note := _found(names, parts)) is None:
                if not parts or _below(names, parts):
                    raise InvalidInput(f"The path {path} is not a file.")
                raise NotFound(f"The path {path} does not exist. Please provide a valid path.")
            for number in range(_TRIES):
                text, digest = await self._look(note.path, path)
                text = change(text)
                try:
                    await self._put(note.path, text, path, over=digest)
                    return text
                except AlreadyExists:
                    if number == _TRIES - 1:
                        raise
        raise AssertionError("unreachable")

    async def _put(self, file: str, text: str, path: str, over: str | None = None) -> None:
        if len(text.encode()) > NOTE_BYTES:
            raise InvalidInput(f"The file {path} would be longer than {NOTE_BYTES:,} bytes")
        await self.notes.follower.put(file, text, replace=over is not None, over=over)
        await self.notes.on_written([file])

    async def _move(self, note: Note, file: str, path: str) -> None:
        """What a person saves meanwhile in the old place is kept there, beside."""
        text, digest = await self._look(note.path, path)
        await self._put(file, text, path)
        await self.notes.follower.vault.remove_file(note.path, frozenset([digest]))
        await self.notes.follower.let_go([note])


def _parts(path: str) -> list[str]:
    """The path below `/memories`. Raises InvalidInput for one that leads anywhere else."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise InvalidInput(f"Path must start with /memories, got: {path}")
    parts = [part for part in path.removeprefix(ROOT).split("/") if part not in ("", ".")]
    if ".." in parts:
        raise InvalidInput(f"Path {path} would escape /memories directory")
    if len(parts) > _MOST_FOLDERS:
        raise InvalidInput(f"Path {path} has more than {_MOST_FOLDERS} folders")
    return parts


def _found(names: dict[str, Note], parts: Sequence[str]) -> Note | None:
    """The note that is meant: by its name as it is, else by the one that it got when it was created."""
    if not parts:
        return None
    given = "/".join(parts)
    return (
        names.get(given)
        or names.get(f"{given}.md")
        or names.get(_new_name(parts))
        or names.get(_plain_name(parts))
    )


def _below(names: dict[str, Note], parts: Sequence[str]) -> list[str]:
    folders = {"/".join(parts), *("/".join(map(form, parts)) for form in (kept_name, file_name))}
    return sorted(
        name for name in names if any(name.startswith(f"{folder}/" if folder else "") for folder in folders)
    )


def _new_name(parts: Sequence[str]) -> str:
    *folders, last = parts
    return "/".join(map(kept_name, [*folders, f"{_stem(last)}.md"]))


def _plain_name(parts: Sequence[str]) -> str:
    """As earlier versions wrote it."""
    *folders, last = parts
    return "/".join([*map(file_name, folders), f"{file_name(_stem(last))}.md"])


def _stem(name: str) -> str:
    return name[: name.rindex(".")] or name if is_markdown(name) else name


def _new_path(owner: str, parts: Sequence[str]) -> str:
    return f"{owner}/notes/{_new_name(parts)}"


def _shown(name: str) -> str:
    """Without the `.md` that a file of another ending got."""
    return name[:-3] if name.endswith(".md") and _own_ending(name[:-3].rpartition("/")[2]) else name


def _places(text: str, wanted: str) -> list[int]:
    """Where a text is found; an empty one nowhere."""
    return [found.start() for found in re.finditer(f"(?={re.escape(wanted)})", text)] if wanted else []


def _numbered(lines: Sequence[str], first: int) -> list[str]:
    return [f"{number:>{_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first)]


def _size(size: int) -> str:
    if size == 0:
        return "0B"
    unit = min((size.bit_length() - 1) // 10, 3)
    value = size / 1024**unit
    return f"{int(value) if value == int(value) else f'{value:.1f}'}{'BKMG'[unit]}"
