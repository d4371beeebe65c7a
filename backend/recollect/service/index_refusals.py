"""Texts that the embedding model did not take: how many there are, and another try."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from recollect.memory.index_progress import ThreadProgress
from recollect.memory.index_row import TURN, Generation, IndexRow
from recollect.memory.note import Note
from recollect.service.index_meaning import BATCH, MeaningIndexer
from recollect.service.owner_locks import OwnerLocks
from recollect.service.ports import IndexLedger, IndexStore


class RefusalLedger(IndexLedger, Protocol):
    """A ledger that also knows what the embedding model did not take."""

    async def refused(self, generation: str) -> dict[str, int]:
        """How many texts of each owner have no vector though they were to be embedded; owners without any left out."""
        ...


@dataclass(frozen=True, slots=True)
class _Tried:
    """What of an owner was to be embedded when it was looked at."""

    threads: dict[str, ThreadProgress]
    notes: dict[str, str]
    """Path to digest."""

    def holds(self, row: IndexRow) -> bool:
        if row.type != TURN:
            return row.path in self.notes
        progress = self.threads.get(row.thread_id)
        return progress is not None and row.position <= progress.vectors_to

    def unchanged(self, now: "_Tried") -> "_Tried":
        """As far as nothing was edited since."""
        return _Tried(
            {
                thread_id: seen
                for thread_id, progress in self.threads.items()
                if (seen := now.threads.get(thread_id)) is not None and seen.revision == progress.revision
            },
            dict(self.notes.items() & now.notes.items()),
        )


@dataclass(frozen=True, slots=True)
class Refusals:
    """A server that refused a text may take it later: it was set up otherwise, or another one answers by now."""

    store: IndexStore
    ledger: RefusalLedger
    meaning: MeaningIndexer
    locks: OwnerLocks

    async def try_again(
        self, generation: Generation, owner: str, space: str, user_id: str, *, live: bool
    ) -> Generation:
        """Embed what of an owner was refused before. Raises EmbedderUnavailable where the model does not answer."""
        tried = await self._tried(generation, owner, space, user_id)
        stored = await self.store.load(generation.name, owner)
        missing = [
            row
            for row, is_embedded in zip(stored.rows, stored.has_vector, strict=True)
            if not is_embedded and tried.holds(row)
        ]
        still = {row.row_id for row in missing}
        for start in range(0, len(missing), BATCH):
            rows = missing[start : start + BATCH]
            vectors = await self.meaning.vectors_of(generation, rows)
            generation = await self.meaning.fitting(generation, vectors)
            found = [(row, vector) for row, vector in zip(rows, vectors, strict=True) if vector is not None]
            async with self.locks.of(owner):
                kept = tried.unchanged(await self._tried(generation, owner, space, user_id))
                found = [(row, vector) for row, vector in found if kept.holds(row)]
                await self.meaning.set_vectors(
                    generation, owner, [row for row, _ in found], [vector for _, vector in found], live=live
                )
            still.difference_update(row.row_id for row, _ in found)
        async with self.locks.of(owner):
            kept = tried.unchanged(await self._tried(generation, owner, space, user_id))
            await self._record(generation, owner, kept, stored.rows, still)
        return generation

    async def _tried(self, generation: Generation, owner: str, space: str, user_id: str) -> _Tried:
        threads = await self.ledger.owner_progress(generation.name, space, user_id)
        notes = await self.ledger.notes(generation.name, owner)
        return _Tried(
            {each.thread.thread_id: each for each in threads if each.refused and not each.is_stale},
            {path: digest for path, (digest, is_embedded) in notes.items() if is_embedded},
        )

    async def _record(
        self, generation: Generation, owner: str, kept: _Tried, rows: Sequence[IndexRow], still: set[str]
    ) -> None:
        """What is still refused, by a count of it: a kill between a vector and its record is made good."""
        refused = Counter(row.thread_id for row in rows if row.row_id in still and row.type == TURN)
        for thread_id, progress in kept.threads.items():
            change = refused[thread_id] - progress.refused
            await self.ledger.record_vectors(generation.name, progress, progress.vectors_to, change)
        vectors = Counter({row.path: 0 for row in rows if row.path in kept.notes})
        vectors.update(row.path for row in rows if row.path in kept.notes and row.row_id not in still)
        put = [Note(path, owner, kept.notes[path], 0) for path in vectors]
        await self.ledger.record_notes(generation.name, owner, put, [], embedded=True, counts=vectors)
