"""Generations of the index: which one is live, damage found at start, and texts that the embedder refused."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from recollect.domain.model import Note
from recollect.domain.recall.rows import FORMAT, TURN, Generation, IndexRow, ThreadProgress
from recollect.errors import IndexUnavailable
from recollect.infra.index.store import LanceIndex
from recollect.infra.journal.index import SqlIndexLedger
from recollect.service.coordination import OwnerLocks
from recollect.service.recall.corpus_cache import Corpora
from recollect.service.recall.embedding import BATCH, MeaningIndexer


async def new_generation(store: LanceIndex, ledger: SqlIndexLedger, above: Generation | None) -> Generation:
    """An empty generation beside all others. `above` may be gone from the disk; its name is not used again."""
    names = [generation.name for generation in await store.generations()]
    names += [above.name] if above is not None else []
    number = 1 + max((int(name[1:]) for name in names if name[1:].isdigit()), default=0)
    generation = Generation(f"g{number:06d}", FORMAT)
    await ledger.add_generation(generation.name)
    await store.create(generation)
    return generation


async def usable_live(
    store: LanceIndex, ledger: SqlIndexLedger
) -> tuple[Generation | None, Generation | None]:
    """The live generation where it can be used, and else what stands in its place, if anything does."""
    live = await store.live()
    if live is not None and live.format == FORMAT and await ledger.knows(live.name):
        return live, None
    return None, live


async def is_gone(store: LanceIndex, live: Generation) -> bool:
    """Whether somebody took the live generation away from under a running process."""
    there = await store.live()
    return there is None or there.name != live.name


async def discard_others(store: LanceIndex, kept: Collection[Generation | None]) -> None:
    """What killed rebuilds left, and what nobody needs any more."""
    names = {generation.name for generation in kept if generation is not None}
    for leftover in await store.generations():
        if leftover.name not in names:
            await store.discard(leftover.name)


_AT_ONCE = 20


class IndexInspector:
    """Counts every owner's rows once, and has those made anew that are fewer than the ledger says."""

    def __init__(
        self, store: LanceIndex, ledger: SqlIndexLedger, corpora: Corpora, locks: OwnerLocks
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._corpora = corpora
        self._locks = locks
        self._generation = ""
        self.waiting: dict[str, tuple[str, str]] = {}
        """Owners whose rows nobody has counted yet, with their space and user."""

    async def begin(self, generation: str) -> None:
        self._generation = generation
        self.waiting = await self._ledger.owners(generation)

    async def inspect_some(self) -> None:
        """A few owners at a time: new messages are not kept waiting."""
        for owner in list(self.waiting)[:_AT_ONCE]:
            space, user_id = self.waiting.pop(owner)
            async with self._locks.of(owner):
                if (problem := await self._problem(owner, space, user_id)) is not None:
                    await self._corpora.found_damaged(owner, space, user_id, problem)

    async def _problem(self, owner: str, space: str, user_id: str) -> str | None:
        # An owner that was found damaged meanwhile has nothing to lose: nothing is expected of the index.
        wanted = (await self._ledger.expected(self._generation, owner, space, user_id)).rows
        if not wanted:
            return None
        try:
            found = await self._store.count(self._generation, owner)
        except IndexUnavailable as error:
            return error.message
        return f"it holds {found} rows, fewer than the {wanted} it should" if found < wanted else None


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

    store: LanceIndex
    ledger: SqlIndexLedger
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
