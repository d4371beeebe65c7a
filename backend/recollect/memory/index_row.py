"""What the index holds: one row per searchable text."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
"""One unit vector a row."""

DIGEST_MARK = "#"
"""In a model's name: the digest of its files follows."""

TURN = "turn"
NOTE = "note"


@dataclass(frozen=True, slots=True)
class IndexRow:
    """A searchable text and where it comes from. It depends on the vault alone: rebuilding gives the same rows."""

    row_id: str
    """Unique within its owner."""
    type: str
    """`turn`, `note`, or the kind of an entry."""
    text: str
    timestamp: int
    """When it happened, in UTC milliseconds."""
    thread_id: str = ""
    position: int = 0
    """Its place in the thread or the file."""
    message_ids: tuple[str, ...] = ()
    role: str = ""
    sender: str = ""
    agent_id: str = ""
    tags: tuple[str, ...] = ()
    path: str = ""
    """In the vault: the file, or for turns the folder of their thread."""
    sources: tuple[str, ...] = ()
    """Of an entry: the turns it came from, each as the folder of its thread, `#` and the turn's id."""
    until: int = 0
    """Of an entry: when it ceased to hold, in UTC milliseconds; 0 while it holds."""
    pinned: bool = False
    """Of an entry: a person wants it kept in view."""
    edited: bool = False
    """Of an entry: a person wrote it, whatever the turns say that it came from."""

    @property
    def is_entry(self) -> bool:
        """A memory that was made of turns, or that a person wrote like one."""
        return self.type not in (TURN, NOTE)

    @property
    def digest(self) -> str:
        """Equal digests mean equal rows."""
        fields = (
            self.row_id, self.type, self.text, str(self.timestamp), self.thread_id, str(self.position),
            "\x01".join(self.message_ids), self.role, self.sender, self.agent_id, "\x01".join(self.tags), self.path,
            "\x01".join(self.sources), str(self.until), str(self.pinned), str(self.edited),
        )  # fmt: skip
        return hashlib.sha256("\x00".join(fields).encode()).hexdigest()[:32]


@dataclass(slots=True)
class StoredRows:
    """All rows of one owner, as they were stored."""

    rows: list[IndexRow] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    """The index terms of each row, with spaces between."""
    vectors: Vectors = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """One line a row; zeros where there is none yet."""
    has_vector: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def lacks(self, expected: "Expected") -> str | None:
        """What is missing of what is expected, in words."""
        are_notes = np.array([row.type != TURN for row in self.rows], np.bool_)
        there = Expected(
            turns=int((~are_notes).sum()),
            turn_vectors=int(self.has_vector[~are_notes].sum()),
            notes=int(are_notes.sum()),
            note_vectors=int(self.has_vector[are_notes].sum()),
        )
        for name in ("turns", "notes", "turn_vectors", "note_vectors"):
            found, wanted = getattr(there, name), getattr(expected, name)
            if found < wanted:
                return f"it holds {found} {name.replace('_', ' ')}, fewer than the {wanted} it should"
        return None


@dataclass(frozen=True, slots=True)
class Expected:
    """How much the index must hold of one owner, at least."""

    turns: int = 0
    turn_vectors: int = 0
    notes: int = 0
    """Passages of notes, and entries."""
    note_vectors: int = 0

    @property
    def rows(self) -> int:
        return self.turns + self.notes


@dataclass(frozen=True, slots=True)
class Generation:
    """One complete index. A new one is filled beside the live one and takes its place when it is whole."""

    name: str
    format: int
    """Of the rows and their terms; an index of another format is made anew."""
    model: str | None = None
    """The embedding model of its vectors; None until the first vectors come."""
    dimensions: int = 0

    def holds_vectors_of(self, model: str) -> bool:
        """Whether a model's vectors can be compared with those that are here. A name that ends in the mark before
        the digest is that of a model that is not there yet.
        """
        return self.model in (None, model) or (
            model.endswith(DIGEST_MARK) and (self.model or "").startswith(model)
        )

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "format": self.format, "model": self.model, "dimensions": self.dimensions}
