"""Notes: whatever Markdown a person puts into `notes/`."""

from dataclasses import dataclass

NOTE_BYTES = 1_000_000
"""Of a longer note, this much is read."""


@dataclass(frozen=True, slots=True)
class Note:
    """A note as it was last seen."""

    path: str
    """In the vault."""
    owner: str
    """The owner's folder in the vault."""
    digest: str
    """SHA-256 of what was read of it."""
    modified: int
    """When it was last written, in UTC milliseconds."""
