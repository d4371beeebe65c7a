"""Postings: for each word, the rows that hold it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
