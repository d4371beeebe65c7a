"""The parts of a corpus: postings, neighbours, sources of entries, and a view at one moment."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from recollect.domain.recall.rows import TURN, IndexRow

Counts = npt.NDArray[np.uint16]
_HIGHEST_COUNT = 65_535


@dataclass(frozen=True, slots=True)
class Postings:
    """The rows that hold a word, and how often: in all of the row, and among its first words."""

    rows: npt.NDArray[np.int32]
    counts: Counts
    head_counts: Counts

    def followed_by(self, later: "Postings") -> "Postings":
        return Postings(
            np.concatenate((self.rows, later.rows)),
            np.concatenate((self.counts, later.counts)),
            np.concatenate((self.head_counts, later.head_counts)),
        )


class Terms:
    """The index terms of some rows, as numbers: a hundred thousand rows are taken in together."""

    def __init__(self, terms: Sequence[str]) -> None:
        self._codes: defaultdict[str, int] = defaultdict()
        self._codes.default_factory = self._codes.__len__
        code_of = self._codes.__getitem__
        self._rows = [np.fromiter(map(code_of, each.split()), np.int64) for each in terms]
        self.lengths = np.array([len(row) for row in self._rows], np.int32)
        """How many terms each row has."""

    def postings(self, first: int, head: int) -> Iterator[tuple[str, Postings]]:
        """Of every word, where the first of these rows is row `first`, and `head` terms are a row's first words."""
        if not self.lengths.any():
            return
        # One number for each term: its word, then its row, then whether it stands behind the first words. Sorted,
        # the terms of a word lie together, and among them those of a row.
        number = len(self._rows)
        row = np.repeat(np.arange(number), self.lengths)
        begin = np.cumsum(self.lengths) - self.lengths
        behind = np.arange(len(row)) - begin[row] >= head
        keys = (np.concatenate(self._rows) * number + row) * 2 + behind
        keys.sort()
        begins = np.flatnonzero(np.diff(keys >> 1, prepend=-1))
        words, rows = np.divmod(keys[begins] >> 1, number)
        places = (rows + first).astype(np.int32)
        counts = np.minimum(np.diff(begins, append=len(keys)), _HIGHEST_COUNT).astype(np.uint16)
        heads = np.add.reduceat(1 - (keys & 1), begins).astype(np.uint16)
        edges = [0, *np.cumsum(np.bincount(words)).tolist()]
        for word, code in self._codes.items():
            here = slice(edges[code], edges[code + 1])
            yield word, Postings(places[here], counts[here], heads[here])


Rows = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]

KERNEL = (1.0, 0.5)
"""How much a neighbour counts that is one, two messages away, before or after. So many on each side are shown as one."""
_FEW = 6
"""For a word that more than one row in so many holds, it is faster to look at all rows."""


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The surroundings of the first rows of a corpus, as many as there were when it was made."""

    steps: tuple[tuple[Rows, float], ...]
    """For each step away, the row there (-1 for none), and how much it counts; the nearest first."""
    near_lengths: Floats
    mean_length: float
    mean_near_length: float
    members: Floats
    with_assistant: Flags
    """Whether an assistant speaks in the row's thread."""
    among_people: Flags
    """Whether several people speak in the row's thread, and no assistant."""
    of_user: Flags
    """Whether it is what the person said to an assistant."""
    replies: Flags
    """Whether it is what an assistant, or a tool, answered to the person."""

    def averaged(self, values: Floats) -> Floats:
        """Over each row and its neighbours."""
        return _gathered(values, self.steps) / self.members

    def spread(self, rows: Rows, counts: npt.NDArray[np.uint16]) -> tuple[npt.NDArray[np.int64], Floats]:
        """Where the counts of these rows are felt: the rows they are neighbours of, with the sums."""
        felt = counts.astype(np.float32)
        if len(rows) * _FEW > len(self.members):
            everywhere = np.zeros(len(self.members), np.float32)
            everywhere[rows] = felt
            everywhere = _gathered(everywhere, self.steps)
            around = np.nonzero(everywhere)[0]
            return around, everywhere[around]
        places = np.concatenate([rows, *(step[rows] for step, _ in self.steps)])
        weights = np.concatenate([felt, *(felt * np.float32(weight) for _, weight in self.steps)])
        there = places >= 0
        sums = np.bincount(places[there], weights[there], minlength=1)
        around = np.nonzero(sums)[0]
        return around, sums[around].astype(np.float32)


def _steps(link: Rows) -> list[tuple[Rows, float]]:
    link = np.array(link)  # Of its own: rows that are added meanwhile are linked in the one that was given.
    link[link >= len(link)] = -1
    steps = [link]
    for _ in KERNEL[1:]:
        steps.append(np.where(steps[-1] >= 0, link[steps[-1]], -1).astype(np.int32))
    return list(zip(steps, KERNEL, strict=True))


def _gathered(values: Floats, steps: Iterable[tuple[Rows, float]]) -> Floats:
    total = values.copy()
    padded = np.append(values, np.float32(0))  # Where -1, for no row, points to.
    for step, weight in steps:
        total += np.float32(weight) * padded[step]
    return total


Places = npt.NDArray[np.int32]
_POSITIONS = 1 << 40
"""More than a thread has."""


@dataclass(frozen=True, slots=True)
class EntrySources:
    """Pairs of an entry and a turn that it came from, both there; by the entries' places."""

    entries: Places
    turns: Places

    @classmethod
    def none(cls) -> "EntrySources":
        return cls(np.zeros(0, np.int32), np.zeros(0, np.int32))

    @classmethod
    def of_pairs(cls, entries: Places, turns: Places) -> "EntrySources":
        """In any order."""
        in_order = np.argsort(entries, kind="stable")
        return cls(entries[in_order], turns[in_order])

    @classmethod
    def of_list(cls, pairs: Sequence[tuple[int, int]]) -> "EntrySources":
        placed = np.array(pairs, np.int32).reshape(-1, 2)
        return cls.of_pairs(placed[:, 0], placed[:, 1])

    def with_those_of(self, *others: "EntrySources") -> "EntrySources":
        all_of_them = (self, *others)
        return self.of_pairs(
            np.concatenate([each.entries for each in all_of_them]),
            np.concatenate([each.turns for each in all_of_them]),
        )

    def where(self, wanted: Flags) -> "EntrySources":
        """Of each pair, whether it is wanted."""
        return EntrySources(self.entries[wanted], self.turns[wanted])

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
    ) -> EntrySources:
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
        return EntrySources.of_pairs(entries, turns)


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


Scalar = TypeVar("Scalar", bound=np.generic)
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
    def rows(self) -> list[IndexRow]:
        return self.content.rows

    def present(self, values: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """Of one value a place, those of the rows that statistics are of."""
        return values if self.is_full else values[self.counted]


def neighbourhood(
    view: View,
    lengths: npt.NDArray[np.int32],
    head_lengths: npt.NDArray[np.int32],
    with_assistant: Flags,
    of_person: Flags,
    senders: Rows,
    threads: Rows,
) -> Neighbourhood:
    """From the links between rows; a link that leads beyond the last row leads nowhere. The means are of the rows that
    statistics are of.
    """
    before, after = view.before, view.content.after[: view.size]
    steps = tuple(
        step for pair in zip(*(_steps(link) for link in (before, after)), strict=True) for step in pair
    )
    near_lengths = _gathered(head_lengths.astype(np.float32), steps)
    of_user = with_assistant & of_person
    return Neighbourhood(
        steps=steps,
        near_lengths=near_lengths,
        mean_length=max(1.0, float(view.present(lengths).mean())),
        mean_near_length=max(1.0, float(view.present(near_lengths).mean())),
        members=_gathered(np.ones(len(before), np.float32), steps),
        with_assistant=with_assistant,
        among_people=~with_assistant
        & np.isin(threads, _of_several(threads, senders, view.there & of_person)),
        of_user=of_user,
        replies=(before >= 0) & ~of_user & of_user[before],
    )


def _of_several(threads: Rows, senders: Rows, among: Flags) -> Rows:
    """The threads in which several people speak."""
    pairs = np.unique(np.stack((threads[among], senders[among])), axis=1)
    found, counts = np.unique(pairs[0], return_counts=True)
    several: Rows = found[counts > 1]
    return several


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
