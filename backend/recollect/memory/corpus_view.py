"""A corpus at one moment: which rows there are, and how they are linked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from recollect.memory.index_row import IndexRow

Scalar = TypeVar("Scalar", bound=np.generic)
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int32]
SESSION_GAP_MS = 3_600_000
"""A longer silence ends a neighbourhood."""


@dataclass(frozen=True, slots=True)
class Content:
    """Which rows there are and how they are linked; replaced whole when that changes."""

    size: int
    """The places that are complete, the empty ones among them."""
    count: int
    """The rows that are there."""
    there: Flags
    rows: list[IndexRow]
    before: Places
    """The row before each in its session, -1 for none."""
    after: Places
    vector_sum: npt.NDArray[np.float64]
    revision: int = 0
    """How often rows were taken away, or put between others."""


@dataclass(frozen=True, slots=True)
class View:
    """The corpus at one moment: the first `size` places, which of them hold a row, and which a vector."""

    content: Content
    embedded: Flags
    is_entry: Flags
    names: Mapping[str, frozenset[str]]
    """Those who speak."""

    @property
    def size(self) -> int:
        return self.content.size

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.content.count

    @property
    def is_full(self) -> bool:
        """Whether every place holds a turn or a note."""
        return self.content.count == self.content.size and not self.is_entry.any()

    @property
    def counted(self) -> Flags:
        """The rows that statistics are of: turns and notes, so that these score the same with entries and without.

        Where there are entries alone, these.
        """
        said = self.there & ~self.is_entry
        return said if said.any() else self.there

    @property
    def there(self) -> Flags:
        return self.content.there[: self.content.size]

    @property
    def before(self) -> Places:
        return self.content.before[: self.content.size]

    @property
    def vector_sum(self) -> npt.NDArray[np.float64]:
        return self.content.vector_sum

    @property
    def rows(self) -> list[IndexRow]:
        return self.content.rows

    def present(self, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Of one value a place, those of the rows that statistics are of."""
        return values if self.is_full else values[self.counted]


def link(
    before: Places,
    after: Places,
    places: Places,
    threads: Places,
    positions: npt.NDArray[np.int64],
    times: npt.NDArray[np.int64],
) -> Places:
    """Link these places, each with its thread, position and time, in their order. Returns the last of each thread."""
    if not len(places):
        return places
    order = np.lexsort((positions, threads))
    places, threads, times = places[order], threads[order], times[order]
    follows = threads[1:] == threads[:-1]
    near = follows & (np.abs(np.diff(times)) <= SESSION_GAP_MS)
    before[places] = np.append(np.int32(-1), np.where(near, places[:-1], -1))
    after[places] = np.append(np.where(near, places[1:], -1), np.int32(-1))
    lasts: Places = places[np.append(~follows, np.True_)]
    return lasts
