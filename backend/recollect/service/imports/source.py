"""Files that are imported: what they are is told by what they hold, and they are read piece by piece."""

import codecs
import io
import itertools
import json
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any, cast

from recollect.domain.imports.conversation import UNREADABLE, Conversation
from recollect.domain.imports.exports import (
    CLAUDE_NOTES,
    READERS,
    claude_code,
    claude_notes,
    format_of,
    format_of_line,
)
from recollect.domain.model import NOTE_BYTES
from recollect.domain.paths import is_markdown
from recollect.errors import InvalidInput

CLAUDE_CODE, SERVER_MEMORY, MARKDOWN = "Claude Code", "server-memory", "Markdown"
KNOWN = f"{', '.join(READERS)}, {CLAUDE_NOTES}, {CLAUDE_CODE}, {SERVER_MEMORY}, {MARKDOWN}"
_CHUNK = 1024 * 1024
_BUFFER = 64 * 1024
_MOST_CHARACTERS = 32 * 1024 * 1024
"""Of one conversation, or one line, as JSON."""
_LONGEST_SESSION = 256 * 1024 * 1024
"""What is said in a session is in memory at once."""
_MOST_UNPACKED = 16 * 1024 * 1024 * 1024
_LARGEST_DIRECTORY = 16 * 1024 * 1024
"""Of an archive, in bytes: about 200,000 files."""
_MOST_LOOKED_AT = 50
"""Lines or conversations, by which a format is told."""
_AT_ONCE = 100
_NEAR_THE_END = 16
"""What is cut off within a literal or an escape is told as a mistake that lies so near to the end."""


@dataclass(frozen=True, slots=True)
class NoteFile:
    """A Markdown file, by its path in the folder that is imported."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class GraphLines:
    """Entities and relations, as server-memory stores them."""

    entities: tuple[dict[str, Any], ...]
    relations: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that is not imported, and why."""

    reason: str
    count: int = 1


Item = Conversation | NoteFile | GraphLines | LeftOut


class BrokenFile(ValueError):
    """The file is not what its beginning promised."""


class Damaged(BrokenFile):
    """A file of an archive, or the archive, can't be unpacked."""


_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)
"""Raised by `zipfile` for what is damaged, has a password, or is packed in an unknown way."""


@dataclass(slots=True)
class Source:
    """An opened file. `items` blocks: it is to be read off the event loop."""

    file: IO[bytes]
    name: str
    total: int
    done: int = 0
    """Bytes that were read of `total`."""
    archive: zipfile.ZipFile | None = None
    formats: dict[str, None] = field(default_factory=dict)
    """What was found, in order."""

    @classmethod
    def opened(cls, file: IO[bytes], name: str) -> "Source":
        """Raises InvalidInput for what is none of the formats."""
        source = cls(file, name, file.seek(0, io.SEEK_END))
        file.seek(0)
        damage: BrokenFile | None = None
        try:
            if file.read(4) == b"PK\x03\x04":
                _refuse_many_files(file, source.total)
                source.archive = zipfile.ZipFile(file)
            members = source._members()
            source.total = sum(size for _, size in members)
            if source.total > _MOST_UNPACKED:
                raise BrokenFile(f"unpacked it has more than {_MOST_UNPACKED:,} bytes")
        except _DAMAGE as error:
            raise InvalidInput(f"{name} can't be read: {error}") from error
        for member, _ in members:
            try:
                if (found := source._format(member)) is not None:
                    source.formats[found] = None
            except Damaged as error:
                damage = damage or error
        if not source.formats and damage is not None:
            raise InvalidInput(f"{name} can't be read: {damage}") from damage
        if not source.formats:
            raise InvalidInput(f"{name} is none of the formats that can be imported: {KNOWN}")
        return source

    def items(self) -> Iterator[Item]:
        """What it holds, one conversation, note or batch of entities at a time."""
        before = 0
        for member, size in self._members():
            try:
                yield from self._items(member, size, before)
            except (BrokenFile, UnicodeDecodeError) as error:
                yield LeftOut(f"{member or self.name} can't be read on: {error}")
            before += size
            self.done = before

    def _items(self, member: str, size: int, before: int) -> Iterator[Item]:
        found = self._format(member)
        name = member or self.name
        if found is None:
            is_json = name.lower().endswith((".json", ".jsonl"))
            yield LeftOut(f"{name}: no conversations" if is_json else "images and other files")
            return
        self.done = before
        with closing(self._open(member, counted=True)) as file:
            if found == MARKDOWN:
                yield NoteFile(name, file.read(NOTE_BYTES + 1))
            elif found == SERVER_MEMORY:
                yield from _graph(_lines(file))
            elif found == CLAUDE_CODE and size > _LONGEST_SESSION:
                yield LeftOut(f"sessions of more than {_LONGEST_SESSION:,} bytes")
            elif found == CLAUDE_CODE:
                yield _read(partial(claude_code, _lines(file), name))
            elif found == CLAUDE_NOTES:
                for told in array(file):
                    notes = claude_notes(told) if isinstance(told, dict) else []
                    yield from (NoteFile(named, text.encode("utf-8", "replace")) for named, text in notes)
            else:
                for told in array(file):
                    reader = READERS[found]
                    yield _read(partial(reader, told)) if isinstance(told, dict) else LeftOut(UNREADABLE)

    def _members(self) -> list[tuple[str, int]]:
        """Files in an archive, with their sizes; of a plain file only itself, which has no name in an archive."""
        if self.archive is None:
            return [("", self.total)]
        return [
            (each.filename, each.file_size)
            for each in self.archive.infolist()
            if not each.is_dir() and not _is_hidden(each.filename)
        ]

    def _open(self, member: str, *, counted: bool = False) -> IO[bytes]:
        if self.archive is not None:
            try:
                file = self.archive.open(member)
            except _DAMAGE as error:
                raise Damaged(str(error)) from error
        else:
            file = self.file
            file.seek(0)
        return cast(IO[bytes], io.BufferedReader(_Pieces(file, self if counted else None), _BUFFER))

    def _format(self, member: str) -> str | None:
        """None for what can't be imported."""
        name = (member or self.name).lower()
        if is_markdown(name):
            return MARKDOWN
        if member and not name.endswith((".json", ".jsonl")):
            return None
        with closing(self._open(member)) as file:
            start = file.read(_NEAR_THE_END).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
            if start not in (b"[", b"{"):
                return None
        try:
            with closing(self._open(member)) as file:
                if start == b"{" and (found := _format_of_lines(file)):
                    return found
            with closing(self._open(member)) as file:
                looked_at = itertools.islice(array(file), _MOST_LOOKED_AT)
                found_in = (format_of(each) for each in looked_at if isinstance(each, dict))
                return next((found for found in found_in if found), None)
        except Damaged:
            raise
        except (BrokenFile, UnicodeDecodeError):
            return None


def _refuse_many_files(file: IO[bytes], size: int) -> None:
    """Raises BrokenFile where the list of an archive's files, which is read whole, is too long."""
    start = max(0, size - 66_000)
    file.seek(start)
    tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    if end < 0:
        raise BrokenFile("the list of its files, at its end, is missing")
    length = int.from_bytes(tail[end + 12 : end + 16], "little")
    if tail[max(0, end - 20) : end].startswith(b"PK\x06\x07"):  # A second list's end, with longer numbers.
        file.seek(min(size, int.from_bytes(tail[end - 12 : end - 4], "little")))
        length = int.from_bytes(file.read(48)[40:], "little")
    file.seek(0)
    if length > _LARGEST_DIRECTORY:
        raise BrokenFile("it holds too many files")


def _is_hidden(path: str) -> bool:
    """Settings of editors and systems: no part of what a person wrote."""
    return any(part.startswith((".", "__MACOSX")) for part in path.replace("\\", "/").split("/") if part)


class _Pieces(io.RawIOBase):
    """Reads a file, which stays open, and counts for its source."""

    def __init__(self, file: IO[bytes], source: Source | None) -> None:
        self._file = file
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            piece = self._file.read(len(buffer))
        except _DAMAGE as error:
            raise Damaged(str(error)) from error
        buffer[: len(piece)] = piece
        if self._source is not None:
            self._source.done += len(piece)
        return len(piece)


def _read(reader: Callable[[], Conversation]) -> Conversation | LeftOut:
    """What is of another form than its format promises is left out. Raises BrokenFile where its file can't be read on."""
    try:
        return reader()
    except BrokenFile:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError):
        return LeftOut(UNREADABLE)


def array(file: IO[bytes]) -> Iterator[Any]:
    """The values of a JSON array, or one value alone, each parsed when it is asked for.

    Raises BrokenFile where it is no JSON, or one value is too long.
    """
    text = _Text(file)
    if text.next() == "[":
        text.skip()
        if text.next() != "]":
            yield text.value()
            while text.next() == ",":
                text.skip()
                yield text.value()
        if text.next() != "]":
            raise BrokenFile(f"there is no end of the list after character {text.passed}")
    else:
        yield text.value()


class _Text:
    """JSON text of which only what is being parsed is in memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._buffer = ""
        self._place = 0
        self._is_over = False
        self.passed = 0
        """Characters before the buffer."""

    def next(self) -> str:
        """The next character that is no space; nothing at the end."""
        while True:
            while self._place < len(self._buffer):
                if not self._buffer[self._place].isspace():
                    return self._buffer[self._place]
                self._place += 1
            if not self._more():
                return ""

    def skip(self) -> None:
        self._place += 1

    def value(self) -> Any:
        self.next()
        while True:
            try:
                found, end = _decoder.raw_decode(self._buffer, self._place)
                # A number at the end of the buffer may go on.
                if end < len(self._buffer) or not self._more():
                    self._place = end
                    return found
            except json.JSONDecodeError as error:
                is_cut = error.pos >= len(self._buffer) - _NEAR_THE_END or error.msg.startswith(
                    "Unterminated"
                )
                if not is_cut or not self._more():
                    raise BrokenFile(f"{error.msg} at character {self.passed + error.pos}") from None
            except (RecursionError, ValueError):
                raise BrokenFile(
                    f"what begins at character {self.passed + self._place} is too deep"
                ) from None

    def _more(self) -> bool:
        """Read as much again as is there, so that a long value is not parsed from its beginning too often."""
        rest = self._buffer[self._place :]
        if self._is_over or len(rest) > _MOST_CHARACTERS:
            if not self._is_over:
                raise BrokenFile(f"what begins at character {self.passed + self._place} is too long")
            return False
        read = self._file.read(max(_CHUNK, len(rest)))
        self._is_over = not read
        piece = self._decode(read, self._is_over)
        self.passed += self._place
        self._buffer, self._place = rest + piece, 0
        return bool(read)


_decoder = json.JSONDecoder(strict=False)


def _lines(file: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines. The last line may be cut off: a program may still be writing it."""
    while line := file.readline(_MOST_CHARACTERS):
        try:
            told = json.loads(line.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict):
            yield told


def _format_of_lines(file: IO[bytes]) -> str | None:
    """Told by the first lines: a session may begin with lines that say little."""
    for _ in range(_MOST_LOOKED_AT):
        line = file.readline(_CHUNK)
        if not line:
            return None
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict) and (found := format_of_line(told)):
            return found
    return None


def _graph(lines: Iterator[dict[str, Any]]) -> Iterator[Item]:
    entities: list[dict[str, Any]] = []
    relations: list[dict[str, Any]] = []
    for line in lines:
        kept = {"entity": entities, "relation": relations}.get(str(line.get("type")))
        if kept is None:
            yield LeftOut("lines that are no entity and no relation")
            continue
        kept.append(line)
        if len(entities) + len(relations) >= _AT_ONCE:
            yield GraphLines(tuple(entities), tuple(relations))
            entities, relations = [], []
    if entities or relations:
        yield GraphLines(tuple(entities), tuple(relations))
