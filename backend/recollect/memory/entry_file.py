"""What the journal knows of the files in which entries stand, and of each entry as its file holds it."""

from dataclasses import dataclass

from recollect.memory.known_entry import KnownEntry


@dataclass(frozen=True, slots=True)
class EntryFileState:
    """One file of entries."""

    path: str
    space: str
    owner: str
    """The owner's folder in the vault."""
    revision: int
    """Counts the changes of what it should hold."""
    written: int = 0
    """The revision that it holds."""
    digest: str | None = None
    """Of the file as it was last written or taken in."""
    writing: str | None = None
    """Digests of what may have been put in place since."""

    @property
    def is_written(self) -> bool:
        return self.written == self.revision

    @property
    def digests(self) -> frozenset[str]:
        """Of all that we may have put in place, or have taken in."""
        return frozenset([*([self.digest] if self.digest else []), *(self.writing or "").split()])


@dataclass(frozen=True, slots=True)
class FiledEntry:
    """An entry, and the digests of its section as its file may hold it; none where it has yet to be written."""

    known: KnownEntry
    digests: frozenset[str] = frozenset()
