"""What the journal knows of a skill's file."""

from dataclasses import dataclass

from recollect.memory.known_entry import Actor

BY_HAND = "written by hand"
FROM_CASES = "made of its cases"


@dataclass(frozen=True, slots=True)
class SeenSkill:
    """A skill's file as it was last seen."""

    path: str
    text: str
    revision: int
    """Counts its changes."""


@dataclass(frozen=True, slots=True)
class PastSkill:
    """A skill's file as it was before a change."""

    path: str
    revision: int
    text: str
    actor: Actor
    cause: str
    """In words: what the change was."""
    at: int
