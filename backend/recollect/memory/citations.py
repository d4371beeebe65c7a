"""Which turns each entry came from, by their places in a corpus."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recollect.memory.index_row import TURN, IndexRow

Places = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
_POSITIONS = 1 << 40
"""More than a thread has."""


@dataclass(frozen=True, slots=True)
class Citations:
    """Pairs of an entry and a turn that it came from, both there; by the entries' places."""

    entries: Places
    turns: Places

    def of(self, entry: int) -> list[int]:
        """The places of the turns that an entry came from."""
        first, last = np.searchsorted(self.entries, (entry, entry + 1))
        found: list[int] = self.turns[first:last].tolist()
        return found

    def best_of_entries(self, values: Floats) -> Floats:
        """For each turn the highest value of the entries that came from it, at least 0."""
        best = np.zeros_like(values)
        np.maximum.at(best, self.turns, values[self.entries])
        return best

    def best_of_turns(self, values: Floats) -> Floats:
        """For each entry the highest value of the turns it came from, at least 0."""
        best = np.zeros_like(values)
        np.maximum.at(best, self.entries, values[self.turns])
        return best


class Sources:
    """What entries say they came from, as they are placed; turns that are not there yet may come later."""

    def __init__(self) -> None:
        self._entries: list[int] = []
        self._threads: list[int] = []
        self._numbers: list[int] = []

    def add(self, entry: int, thread: int, number: int) -> None:
        self._entries.append(entry)
        self._threads.append(thread)
        self._numbers.append(number)

    def resolved(
        self, threads: Places, positions: npt.NDArray[np.int64], there: npt.NDArray[np.bool_]
    ) -> Citations:
        """As far as both are there. `threads` and `positions` say which turn is at each place."""
        size = len(there)
        entries = np.array(self._entries, np.int32)
        placed = entries < size
        entries = entries[placed]
        wanted = _keys(np.array(self._threads, np.int64)[placed], np.array(self._numbers, np.int64)[placed])
        present = np.flatnonzero(there).astype(np.int32)
        keys = _keys(threads[present].astype(np.int64), positions[present])
        order = np.argsort(keys, kind="stable")
        present, keys = present[order], keys[order]
        at = np.minimum(np.searchsorted(keys, wanted), max(0, len(keys) - 1))
        found = (keys[at] == wanted) & there[entries] if len(keys) else np.zeros(len(wanted), np.bool_)
        entries, turns = entries[found], present[at[found]] if len(keys) else present
        in_order = np.argsort(entries, kind="stable")
        return Citations(entries[in_order], turns[in_order])


def thread_name(row: IndexRow) -> str:
    """One for all rows that can be each other's neighbours: those of a thread, or of a note. An entry has none."""
    if row.is_entry:
        return f"{row.type}\n{row.row_id}"
    return f"{row.type}\n{row.path or row.thread_id}"


def named_turn(source: str) -> tuple[str, str]:
    """The name of the thread that a source of an entry lies in, and the turn's id."""
    folder, _, turn_id = source.rpartition("#")
    return f"{TURN}\n{folder}", turn_id


def _keys(threads: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return threads * _POSITIONS + numbers
