"""What a reader of the vault could not make sense of, and where."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One piece of damage in a file. `line` counts from 1."""

    line: int
    message: str
    anchor: str | None = None
    """The turn or entry that is damaged by it; None where no single one is."""
