"""Files of the vault as they were found, and what the journal knows of transcripts."""

import codecs
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from recollect.domain.identity import text_digest
from recollect.domain.model import Thread, Turn


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Tells, without reading, whether a file may have changed since it was read."""

    version: int
    """Another one after every change: when the file was modified, or made of its ETag."""
    size: int


@dataclass(frozen=True, slots=True)
class VaultFile:
    """What a file held when it was read."""

    text: str
    """What is not UTF-8 has marks in its place."""
    digest: str
    """SHA-256 of all its bytes, however few of them were read into `text`."""
    lf_digest: str
    """The same of its bytes with LF line ends and without a byte order mark, as `lf_form` has them."""
    modified: int
    """When it was last written, in UTC milliseconds."""
    stamp: FileStamp | None = None
    """None if the file was written so recently that another change could leave the same stamp."""
    is_whole: bool = True
    """False where bytes were no UTF-8, or the file is longer than what was read."""

    @property
    def digests(self) -> tuple[str, str]:
        return self.digest, self.lf_digest


def lf_form(text: str) -> str:
    """A text with LF line ends and without a byte order mark: tools such as git change both on their own."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def text_digests(text: str) -> tuple[str, str]:
    """As `VaultFile.digests`, of a text that is in a file or will be."""
    return text_digest(text), text_digest(lf_form(text))


class FileDigests:
    """SHA-256 of bytes, and of the same bytes in LF form. Nothing is hashed twice before the two differ.

    A byte order mark is looked for in `first`.
    """

    def __init__(self, first: bytes) -> None:
        self._raw = hashlib.sha256()
        self._lf: hashlib._Hash | None = None
        self._held = b""
        """A carriage return at the end, whose line feed may come yet."""
        if first.startswith(codecs.BOM_UTF8):
            self._raw.update(codecs.BOM_UTF8)
            self._lf = hashlib.sha256()
        self.update(first.removeprefix(codecs.BOM_UTF8))

    def update(self, more: bytes) -> None:
        if self._lf is None and b"\r" in more:
            self._lf = self._raw.copy()
        self._raw.update(more)
        if self._lf is not None:
            joined = self._held + more
            self._held = b"\r" if joined.endswith(b"\r") else b""
            self._lf.update(joined.removesuffix(b"\r").replace(b"\r\n", b"\n"))

    def ended(self) -> tuple[str, str]:
        raw = self._raw.hexdigest()
        if self._lf is None:
            return raw, raw
        self._lf.update(self._held)
        return raw, self._lf.hexdigest()


EMPTY = hashlib.sha256(b"").hexdigest()
"""The digest of a file that holds nothing."""
UNREADABLE = FileStamp(-1, -1)
"""Of a file or folder that exists and can't be read: whether it changed is unknown."""
NOT_FOLLOWED = FileStamp(-1, -2)
"""Of a link that leads out of its owner's folder, or in a circle."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The Markdown files of the vault that can be looked at, and what is not."""

    stamps: dict[str, FileStamp]
    unreadable: frozenset[str] = frozenset()
    not_followed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, marked: Mapping[str, FileStamp]) -> "Listing":
        return cls(
            {path: stamp for path, stamp in marked.items() if stamp not in (UNREADABLE, NOT_FOLLOWED)},
            frozenset(path for path, stamp in marked.items() if stamp == UNREADABLE),
            frozenset(path for path, stamp in marked.items() if stamp == NOT_FOLLOWED),
        )

    def may_hold(self, path: str) -> bool:
        """Whether a file exists, or is where nothing can be read. Only a file for which this is False is gone."""
        if path in self.stamps:
            return True
        parts = path.split("/")
        return any("/".join(parts[:number]) in self.unreadable for number in range(len(parts), 0, -1))

    def gone(self, expected: Mapping[str, str]) -> set[str]:
        """The known files that are gone, or cut to nothing; the digests say what they held."""
        gone = {path for path in expected if not self.may_hold(path)}
        empty = {path for path, stamp in self.stamps.items() if stamp.size == 0}
        return gone | {path for path in empty if expected.get(path, EMPTY) != EMPTY}


_FEWEST = 3
_SHARE = 5


def loss_in_words(transcripts: int, notes: int, gone_transcripts: int, gone_notes: int) -> str | None:
    """Why a person must be asked about missing files; None if each may be restored or dropped by itself.

    Counted are the files that are known to have been there. A fifth of them gone at once is too many, unless
    that is only one or two; no transcript left where there were some always is.
    """
    known, gone = transcripts + notes, gone_transcripts + gone_notes
    emptied = transcripts > 0 and gone == known
    if not emptied and (gone < _FEWEST or gone * _SHARE < known):
        return None
    return (
        f"{gone:,} of {known:,} files vanished from the vault at once; nothing was deleted. Bring them back, or run "
        "'recollect verify --repair' to restore what Recollect wrote and to let your own notes go"
    )


_MOST_ANNOUNCED = 50
TRANSCRIPTS, SKILL_FILES = "transcripts", "skill_files"
"""Kinds of files that no job is named after; the kinds of others are those of their jobs."""


class WrittenFile:
    """Mixin of files that we write: which contents on the disk are our own."""

    __slots__ = ()
    digest: str | None
    """SHA-256 of the file as it was last written or imported; None before the first time."""
    announced: str | None
    """SHA-256 of all that may have been put in place since, with spaces between: writes that a kill interrupted."""

    @property
    def digests(self) -> frozenset[str]:
        """Of all versions that we may have written, or have imported."""
        return frozenset([*([self.digest] if self.digest else []), *(self.announced or "").split()])

    def announcing(self, digest: str) -> str:
        """`announced` with one more digest, the newest ones only."""
        announced = [*(known for known in (self.announced or "").split() if known != digest), digest]
        return " ".join(announced[-_MOST_ANNOUNCED:])


@dataclass(frozen=True, slots=True)
class KnownFile(WrittenFile):
    """A file of the vault as the journal knows it."""

    path: str
    kind: str
    space: str
    owner: str
    """The folder of the owner, or of the presets."""
    revision: int = 1
    """Counts the changes of what it should hold."""
    written: int = 0
    """The revision that it holds."""
    digest: str | None = None
    announced: str | None = None

    @property
    def is_written(self) -> bool:
        return self.written == self.revision


@dataclass(frozen=True, slots=True)
class StoredPart(WrittenFile):
    """One part of a transcript as it was last written, or is about to be."""

    part: int
    first_position: int
    last_position: int
    header_revision: int
    digest: str | None = None
    announced: str | None = None


@dataclass(frozen=True, slots=True)
class PlacedTurn:
    """A turn and its place in the thread."""

    position: int
    turn: Turn


@dataclass(frozen=True, slots=True)
class TranscriptState:
    """How far the vault is behind the journal, for one thread."""

    thread: Thread
    header_revision: int
    last_part: StoredPart | None
    stale_parts: tuple[StoredPart, ...]
    """Parts whose file lacks a memcell or a change of the header, or was never finished."""
