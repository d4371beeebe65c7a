"""One owner's searchable rows in memory, and how they change."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from recollect.domain.recall.corpus import Corpus
from recollect.domain.recall.rows import IndexRow, StoredRows, Vectors, meaning_of, words_of

_FEW_ROWS, _FEW_CHARACTERS = 64, 20_000
"""Up to so many rows, and characters in them, are added on the event loop; more are added in a thread."""

Result = TypeVar("Result")


@dataclass(slots=True)
class OwnerCorpus:
    """What can be searched of one owner. Rows that are not in the index yet are found all the same."""

    owner: str
    space: str
    user_id: str
    corpus: Corpus = field(default_factory=Corpus)
    unindexed: set[str] = field(default_factory=set)
    """Ids of the rows that came from the journal."""
    measured_bytes: int = 0
    measured_rows: int = 0
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the corpus changes."""
    catching_up: asyncio.Lock = field(default_factory=asyncio.Lock)


def fill(corpus: Corpus, stored: StoredRows) -> None:
    corpus.extend(stored.rows, stored.words)
    corpus.take_all_vectors(stored.vectors, stored.has_vector)


def holds(corpus: Corpus, row: IndexRow) -> bool:
    place = corpus.places.get(row.row_id)
    return place is not None and corpus.rows[place] == row


def _vector_for(corpus: Corpus, row: IndexRow) -> Vectors | None:
    """The vector of the row that this one replaces, where both mean the same."""
    vector = corpus.vector_of(row.row_id)
    same = vector is not None and meaning_of(corpus.rows[corpus.places[row.row_id]]) == meaning_of(row)
    return vector if same else None


async def done(work: Callable[[], Result], rows: Sequence[IndexRow]) -> Result:
    """On the event loop for a few rows, else in a thread."""
    are_few = len(rows) <= _FEW_ROWS and sum(len(row.text) for row in rows) <= _FEW_CHARACTERS
    return work() if are_few else await asyncio.to_thread(work)


async def words_of_rows(rows: Sequence[IndexRow]) -> list[str]:
    return await done(lambda: [words_of(row) for row in rows], rows)


def replace_rows(
    corpus: Corpus, rows: Sequence[IndexRow], words: Sequence[str], gone: Collection[str]
) -> bool:
    """Returns whether anything changed."""
    gone = set(gone)
    fresh = [place for place, row in enumerate(rows) if not holds(corpus, row) or row.row_id in gone]
    rows, words = [rows[place] for place in fresh], [words[place] for place in fresh]
    if not rows and corpus.places.keys().isdisjoint(gone):
        return False
    kept = {
        row.row_id: vector.copy()
        for row in rows
        if row.row_id not in gone and (vector := _vector_for(corpus, row)) is not None
    }
    corpus.extend(rows, words, gone)
    if kept:
        corpus.set_vectors(list(kept), np.stack(list(kept.values())))
    return True
