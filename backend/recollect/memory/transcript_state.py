"""What of a thread's transcript stands in the vault."""

from dataclasses import dataclass

from recollect.memory.model import Thread, Turn


@dataclass(frozen=True, slots=True)
class StoredPart:
    """One part of a transcript as it was last written, or is about to be."""

    part: int
    first_position: int
    last_position: int
    header_revision: int
    digest: str | None = None
    """SHA-256 of the file as we last put it in place; None before the first time."""
    writing: str | None = None
    """SHA-256 of all that may have been put in place since, with spaces between: attempts that a kill cut short."""


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


@dataclass(frozen=True, slots=True)
class KnownPart:
    """A file that stands in the vault, as far as the journal knows."""

    space: str
    user_id: str
    thread_id: str
    part: int
    digests: frozenset[str]
    """SHA-256 of all that we may have put there."""
