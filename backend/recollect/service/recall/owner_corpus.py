"""What can be searched of one owner, in memory."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from recollect.domain.recall.corpus import Corpus
from recollect.domain.recall.rows import IndexRow, meaning_of, words_of

_FEW_ROWS, _FEW_CHARACTERS = 64, 20_000
"""Up to so many rows, and characters in them, are added on the event loop; more are added in a thread."""


@dataclass(slots=True)
class OwnerCorpus:
    """What can be searched of one owner. Rows that are not in the index yet are found all the same."""

    owner: str
    space: str
    user_id: str
    corpus: Corpus = field(default_factory=Corpus)
    unindexed: set[str] = field(default_factory=set)
    """Ids of the rows that came from the journal."""
    is_stopgap: bool = False
    """The index could not be read: all of it came from the journal, and it is read again."""
    measured_bytes: int = 0
    measured_rows: int = 0
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the corpus changes."""
    catching_up: asyncio.Lock = field(default_factory=asyncio.Lock)

    def holds(self, row: IndexRow) -> bool:
        place = self.corpus.places.get(row.row_id)
        return place is not None and self.corpus.rows[place] == row

    async def put(
        self, rows: Sequence[IndexRow], words: Sequence[str] | None = None, gone: Collection[str] = ()
    ) -> bool:
        """Add or replace rows, after those of the ids in `gone` were removed. Returns whether anything changed.

        A row that is replaced by one of the same meaning hands its vector on.
        """
        are_few = len(rows) <= _FEW_ROWS and sum(len(row.text) for row in rows) <= _FEW_CHARACTERS
        async with self.changing:
            if are_few:
                return self._put(rows, words, set(gone))
            return await asyncio.to_thread(self._put, rows, words, set(gone))

    def _put(self, rows: Sequence[IndexRow], words: Sequence[str] | None, gone: set[str]) -> bool:
        corpus = self.corpus
        fresh = [place for place, row in enumerate(rows) if not self.holds(row) or row.row_id in gone]
        if not fresh and corpus.places.keys().isdisjoint(gone):
            return False
        put = [rows[place] for place in fresh]
        kept = {
            row.row_id: vector.copy()
            for row in put
            if row.row_id not in gone
            and (vector := corpus.vector_of(row.row_id)) is not None
            and meaning_of(corpus.rows[corpus.places[row.row_id]]) == meaning_of(row)
        }
        corpus.extend(put, [words_of(rows[n]) if words is None else words[n] for n in fresh], gone)
        if kept:
            corpus.set_vectors(list(kept), np.stack(list(kept.values())))
        return True
