"""Owners' searchable rows in memory: read once, then kept up with everything that is written."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from recollect.errors import IndexUnavailable
from recollect.memory.corpus import Corpus
from recollect.memory.index_row import TURN, IndexRow, StoredRows, Vectors
from recollect.memory.searchable import turn_row, words_of
from recollect.memory.vault_paths import owner_folder
from recollect.service.owner_locks import OwnerLocks
from recollect.service.ports import IndexLedger, IndexStore, TranscriptStore

_MANY_ROWS = 64
"""Above this, rows are taken in off the event loop."""
_GROWTH = 1.1
"""By how much a corpus grows before its memory is measured again: measuring looks at all of it."""
_log = logging.getLogger("recollect.index")


@dataclass(slots=True)
class OwnerCorpus:
    """What can be searched of one owner. Rows that are not in the index yet are found all the same."""

    owner: str
    corpus: Corpus = field(default_factory=Corpus)
    unindexed: set[str] = field(default_factory=set)
    """Ids of the rows that came from the journal."""


class Corpora:
    """The owners that were searched last, up to a budget of memory.

    An index that is missing, damaged or behind never hides anything: what it lacks is read from the journal.
    """

    def __init__(
        self,
        store: IndexStore,
        ledger: IndexLedger,
        turns: TranscriptStore,
        locks: OwnerLocks,
        *,
        budget_bytes: int,
        on_damage: Callable[[str, str, str], None] = lambda owner, space, user_id: None,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._turns = turns
        self._locks = locks
        self._budget = budget_bytes
        self._on_damage = on_damage
        self._generation = ""
        self._loaded: OrderedDict[str, OwnerCorpus] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._measured_rows: dict[str, int] = {}
        self.damaged = 0
        """How often an owner's index was found damaged and is made anew."""

    def serve(self, generation: str) -> None:
        """From here on everything is read from this generation of the index."""
        self._generation = generation
        self.clear()

    async def get(self, space: str, user_id: str) -> OwnerCorpus:
        owner = owner_folder(space, user_id)
        if (found := self._loaded.get(owner)) is not None:
            self._loaded.move_to_end(owner)
            return found
        async with self._locks.of(owner):
            while (found := self._loaded.get(owner)) is None:
                generation = self._generation
                read = await self._load(generation, owner, space, user_id)
                # What was read of a generation that was replaced meanwhile is not kept up with what is written.
                if generation == self._generation:
                    self._keep(read)
        return found

    async def extend(self, owner: str, rows: Sequence[IndexRow], words: Sequence[str]) -> None:
        """Rows that were written for an owner whose lock the caller holds."""
        loaded = self._loaded.get(owner)
        if loaded is None or not rows:
            return
        fresh = [
            (row, terms)
            for row, terms in zip(rows, words, strict=True)
            if row.row_id not in loaded.corpus.places
        ]
        if any(
            loaded.corpus.rows[loaded.corpus.places[row.row_id]] != row
            for row in rows
            if row.row_id in loaded.corpus.places
        ):
            self.drop(owner)
            return
        loaded.unindexed.difference_update(row.row_id for row in rows)
        await _take_in(loaded.corpus, [row for row, _ in fresh], [terms for _, terms in fresh])
        if len(loaded.corpus) > _GROWTH * self._measured_rows[owner]:
            self._measure(loaded)

    def set_vectors(self, owner: str, row_ids: Sequence[str], vectors: Vectors) -> None:
        """Vectors that were written for an owner whose lock the caller holds."""
        if (loaded := self._loaded.get(owner)) is not None:
            loaded.corpus.set_vectors(row_ids, vectors)

    def drop(self, owner: str) -> None:
        """Its rows changed in another way than by growing: read them again when they are next wanted."""
        for known in (self._loaded, self._sizes, self._measured_rows):
            known.pop(owner, None)

    def clear(self) -> None:
        for known in (self._loaded, self._sizes, self._measured_rows):
            known.clear()

    @property
    def bytes_used(self) -> int:
        return sum(self._sizes.values())

    async def _load(self, generation: str, owner: str, space: str, user_id: str) -> OwnerCorpus:
        stored = await self._stored(generation, owner, space, user_id)
        loaded = OwnerCorpus(owner)
        await asyncio.to_thread(_fill, loaded.corpus, stored)
        for progress in await self._ledger.owner_progress(generation, space, user_id):
            if progress.words_to < progress.last_position:
                placed = await self._turns.turns(
                    space, progress.thread.thread_id, progress.words_to + 1, progress.last_position
                )
                rows = [row for each in placed if (row := turn_row(progress.thread, each.turn)) is not None]
                rows = [row for row in rows if row.row_id not in loaded.corpus.places]
                await _take_in(loaded.corpus, rows, await _words(rows))
                loaded.unindexed.update(row.row_id for row in rows)
        return loaded

    async def _stored(self, generation: str, owner: str, space: str, user_id: str) -> StoredRows:
        """The rows of the index; none, and a repair under way, where they are not what the ledger says."""
        try:
            stored = await self._store.load(generation, owner)
            expected = await self._ledger.count_indexed(generation, space, user_id)
            if sum(row.type == TURN for row in stored.rows) >= expected:
                return stored
            problem = f"it holds fewer than the {expected} turns it should"
        except IndexUnavailable as error:
            problem = error.message
        if generation != self._generation:
            return StoredRows()  # It was replaced, and its files may be gone: that is no damage.
        _log.error("an owner's index is damaged and is made anew: %s", problem)
        self.damaged += 1
        await self._ledger.reset_owner(generation, owner, space, user_id)
        self._on_damage(owner, space, user_id)
        return StoredRows()

    def _keep(self, loaded: OwnerCorpus) -> None:
        self._loaded[loaded.owner] = loaded
        self._measure(loaded)

    def _measure(self, loaded: OwnerCorpus) -> None:
        self._sizes[loaded.owner] = loaded.corpus.bytes_used
        self._measured_rows[loaded.owner] = len(loaded.corpus)
        while self.bytes_used > self._budget and len(self._loaded) > 1:
            oldest = next(iter(self._loaded))
            if oldest == loaded.owner:
                self._loaded.move_to_end(oldest)
                continue
            self.drop(oldest)


def _fill(corpus: Corpus, stored: StoredRows) -> None:
    corpus.extend(stored.rows, stored.words)
    corpus.take_all_vectors(stored.vectors, stored.has_vector)


async def _words(rows: Sequence[IndexRow]) -> list[str]:
    if len(rows) <= _MANY_ROWS:
        return [words_of(row) for row in rows]
    return await asyncio.to_thread(lambda: [words_of(row) for row in rows])


async def _take_in(corpus: Corpus, rows: Sequence[IndexRow], words: Sequence[str]) -> None:
    if len(rows) <= _MANY_ROWS:
        corpus.extend(rows, words)
    else:
        await asyncio.to_thread(corpus.extend, rows, words)
