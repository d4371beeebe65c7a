"""What waits to be embedded, and texts that the embedding model refused."""

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from recollect.domain.model import Note
from recollect.domain.paths import owner_folder
from recollect.domain.recall.rows import TURN, Generation, IndexRow, ThreadProgress
from recollect.errors import IndexUnavailable
from recollect.infra.index.store import LanceIndex
from recollect.infra.journal.index import SqlIndexLedger
from recollect.service.coordination import OwnerLocks
from recollect.service.recall.embedding import BATCH, MeaningIndexer
from recollect.service.recall.words import Key


class EmbeddingQueue:
    """Threads and owners' notes that are indexed by words alone, and owners whose refused texts are tried again."""

    def __init__(
        self,
        ledger: SqlIndexLedger,
        meaning: MeaningIndexer,
        refusals: "Refusals",
        *,
        live: Callable[[], Generation],
        adopt: Callable[[Generation], None],
    ) -> None:
        """`adopt` is given the live generation as it is after its first vectors were set."""
        self._ledger = ledger
        self._meaning = meaning
        self._refusals = refusals
        self._live = live
        self._adopt = adopt
        self._threads: OrderedDict[Key, None] = OrderedDict()
        self._note_owners: dict[str, None] = {}
        self._refused_owners: dict[str, None] = {}
        self.refused: dict[str, int] = {}
        """How many texts of each owner the model refused."""

    def __bool__(self) -> bool:
        return any((self._threads, self._note_owners, self._refused_owners))

    @property
    def threads(self) -> int:
        """How many threads wait."""
        return len(self._threads)

    def add_threads(self, keys: Iterable[Key]) -> None:
        self._threads.update(dict.fromkeys(keys))

    def add_notes_of(self, owners: Iterable[str]) -> None:
        self._note_owners.update(dict.fromkeys(owners))

    def add_refused(self) -> None:
        """Have the texts that were refused tried again."""
        self._refused_owners.update(dict.fromkeys(self.refused))

    def clear(self) -> None:
        for waiting in (self._threads, self._note_owners, self._refused_owners):
            waiting.clear()

    async def count_refused(self) -> None:
        self.refused = await self._ledger.refused(self._live().name)

    async def embed_some(self) -> dict[str, IndexUnavailable]:
        """Embed a batch of turns, and all notes and refused texts. Returns the owners whose index cannot be used:
        they keep nobody else waiting, and are in the queue again. Raises EmbedderUnavailable.
        """
        try:
            unusable = await self._embed_threads()
            unusable |= await self._embed_owners(
                self._note_owners, lambda owner: self._meaning.embed_notes(self._live(), owner, live=True)
            )
            if self._refused_owners:
                users = await self._ledger.owners(self._live().name)
                unusable |= await self._embed_owners(
                    self._refused_owners,
                    lambda owner: self._refusals.try_again(
                        self._live(), owner, *users.get(owner, ("", "")), live=True
                    ),
                )
            return unusable
        finally:
            await self.count_refused()

    async def _embed_threads(self) -> dict[str, IndexUnavailable]:
        # The newest first: who is talking now is not kept waiting by a large import.
        taken = [self._threads.popitem()[0] for _ in range(min(BATCH, len(self._threads)))]
        more: Iterable[Key] = reversed(taken)
        try:
            outcome = await self._meaning.embed_threads(self._live(), taken, live=True)
            self._adopt(outcome.generation)
            more = outcome.unfinished
        finally:
            for key in more:
                if key not in self._threads:
                    self._threads[key] = None
                    self._threads.move_to_end(key, last=False)
        return {owner_folder(*user): error for user, error in outcome.unwritable.items()}

    async def _embed_owners(
        self, owners: dict[str, None], embed: Callable[[str], Awaitable[Generation]]
    ) -> dict[str, IndexUnavailable]:
        unusable = {}
        for owner in list(owners):
            del owners[owner]
            try:
                self._adopt(await embed(owner))
            except BaseException as error:
                owners[owner] = None
                if not isinstance(error, IndexUnavailable):
                    raise
                unusable[owner] = error
        return unusable


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
