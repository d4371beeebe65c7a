"""What waits to be embedded, and texts that the embedding model refused."""

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from math import ceil

from recollect.domain.model import Note, ThreadRef
from recollect.domain.paths import owner_folder
from recollect.domain.recall.rows import TURN, Generation, IndexRow, ThreadProgress
from recollect.errors import IndexUnavailable
from recollect.service.recall.embedding import BATCH, MeaningIndexer
from recollect.service.recall.words import User


class EmbeddingQueue:
    """Threads and owners' notes that are indexed by words alone, and owners whose refused texts are tried again."""

    def __init__(
        self,
        meaning: MeaningIndexer,
        *,
        live: Callable[[], Generation],
        adopt: Callable[[Generation], None],
    ) -> None:
        """`adopt` is given the live generation as it is after its first vectors were set."""
        self._meaning = meaning
        self._words = meaning.words
        self._live = live
        self._adopt = adopt
        self._threads: dict[User, OrderedDict[ThreadRef, None]] = {}
        """Whoever waited longest for a turn first; of each user, the newest thread last."""
        self._note_owners: dict[str, None] = {}
        self._refused_owners: dict[str, None] = {}
        self.refused: dict[str, int] = {}
        """How many texts of each owner the model refused."""

    def __bool__(self) -> bool:
        return any((self._threads, self._note_owners, self._refused_owners))

    @property
    def threads(self) -> int:
        """How many threads wait."""
        return sum(map(len, self._threads.values()))

    @property
    def users(self) -> set[User]:
        """Whose threads wait."""
        return set(self._threads)

    def add_threads(self, threads: Iterable[ThreadRef]) -> None:
        for thread in threads:
            self._threads.setdefault((thread.space, thread.user_id), OrderedDict())[thread] = None

    def add_notes_of(self, owners: Iterable[str]) -> None:
        self._note_owners.update(dict.fromkeys(owners))

    def add_refused(self) -> None:
        """Have the texts that were refused tried again."""
        self._refused_owners.update(dict.fromkeys(self.refused))

    def clear(self) -> None:
        for waiting in (self._threads, self._note_owners, self._refused_owners):
            waiting.clear()

    async def count_refused(self) -> None:
        self.refused = await self._words.ledger.refused(self._live().name)

    async def embed_some(self) -> dict[str, IndexUnavailable]:
        """Embed a batch of turns, about one of each owner's notes, and all refused texts. Returns the owners whose index cannot be used:
        they keep nobody else waiting, and are in the queue again. Raises EmbedderUnavailable.
        """
        try:
            unusable = await self._embed_threads()
            unusable |= await self._embed_owners(
                self._note_owners, lambda owner: self._meaning.embed_notes(self._live(), owner, live=True)
            )
            if self._refused_owners:
                users = await self._words.ledger.owners(self._live().name)
                unusable |= await self._embed_owners(
                    self._refused_owners,
                    lambda owner: self._try_again(self._live(), owner, *users.get(owner, ("", ""))),
                )
            return unusable
        finally:
            await self.count_refused()

    async def _embed_threads(self) -> dict[str, IndexUnavailable]:
        """Users take turns. Of each the newest thread comes first, so that a large import keeps nobody waiting who is
        talking now; one with more to do then comes after the user's others, whatever is added to it meanwhile.
        """
        users = list(self._threads)[:BATCH]
        number = ceil(BATCH / max(1, len(users)))
        taken = {user: self._take(user, number) for user in users}
        begun: set[ThreadRef] = set().union(*taken.values())
        untouched: set[ThreadRef] = set()
        unwritable = {}
        try:
            outcome = await self._meaning.embed_threads(self._live(), list(taken.values()), live=True)
            self._adopt(outcome.generation)
            begun, untouched = set(outcome.unfinished), set(outcome.untouched)
            unwritable = outcome.unwritable
        finally:
            for user, keys in sorted(taken.items(), key=lambda each: not untouched.issuperset(each[1])):
                waiting = self._threads.pop(user, OrderedDict())
                waiting.update(dict.fromkeys(key for key in reversed(keys) if key in untouched))
                for key in keys:
                    if key in begun:
                        waiting[key] = None
                        waiting.move_to_end(key, last=False)
                if waiting:
                    self._threads[user] = waiting
        return {owner_folder(*user): error for user, error in unwritable.items()}

    def _take(self, user: User, number: int) -> list[ThreadRef]:
        threads = self._threads[user]
        return [threads.popitem()[0] for _ in range(min(number, len(threads)))]

    async def _embed_owners(
        self, owners: dict[str, None], embed: Callable[[str], Awaitable[tuple[Generation, bool]]]
    ) -> dict[str, IndexUnavailable]:
        unusable = {}
        for owner in list(owners):
            del owners[owner]
            try:
                generation, has_more = await embed(owner)
                self._adopt(generation)
                if has_more:
                    owners[owner] = None
            except BaseException as error:
                owners[owner] = None
                if not isinstance(error, IndexUnavailable):
                    raise
                unusable[owner] = error
        return unusable

    async def _try_again(
        self, generation: Generation, owner: str, space: str, user_id: str
    ) -> tuple[Generation, bool]:
        """A server that refused a text may take it later: it was set up otherwise, or another one answers by now."""
        missing = (await self._tried(generation.name, owner, space, user_id)).missing
        for start in range(0, len(missing), BATCH):
            rows = missing[start : start + BATCH]
            vectors = await self._meaning.vectors_of(generation, rows)
            generation = await self._meaning.fitting(generation, vectors)
            async with self._words.locks.of(owner):
                # An edit since then has put other words in place of these: their vectors would lie.
                ids = {row.row_id for row in rows}
                now = (await self._words.store.load_files(generation.name, owner, (), ids)).rows
                found = [vector if row in now else None for row, vector in zip(rows, vectors, strict=True)]
                await self._meaning.set_vectors(generation, owner, rows, found, live=True)
        async with self._words.locks.of(owner):
            await self._record(
                generation.name, owner, await self._tried(generation.name, owner, space, user_id)
            )
        return generation, False

    async def _tried(self, generation: str, owner: str, space: str, user_id: str) -> "_Tried":
        threads = await self._words.ledger.owner_progress(generation, space, user_id)
        notes = await self._words.ledger.notes(generation, owner)
        tried = _Tried(
            {each.thread.thread_id: each for each in threads if each.refused and not each.is_stale},
            {path: digest for path, (digest, is_embedded) in notes.items() if is_embedded},
        )
        stored = await self._words.store.load(generation, owner, patient=True)
        for row, is_embedded in zip(stored.rows, stored.has_vector, strict=True):
            if tried.holds(row):
                (tried.embedded if is_embedded else tried.missing).append(row)
        return tried

    async def _record(self, generation: str, owner: str, tried: "_Tried") -> None:
        """Count the texts that are still refused, and record it: that repairs a kill between a vector and its record."""
        ledger = self._words.ledger
        refused = Counter(row.thread_id for row in tried.missing if row.type == TURN)
        for thread_id, progress in tried.threads.items():
            change = refused[thread_id] - progress.refused
            await ledger.record_vectors(generation, progress, progress.vectors_to, change)
        put = [Note(path, owner, digest, 0) for path, digest in tried.notes.items()]
        vectors = Counter(row.path for row in tried.embedded if row.type != TURN)
        await ledger.record_notes(generation, owner, put, [], embedded=True, counts=vectors)


@dataclass(frozen=True, slots=True)
class _Tried:
    """What of an owner was to be embedded."""

    threads: dict[str, ThreadProgress]
    """Those with texts that were refused."""
    notes: dict[str, str]
    """Path to digest."""
    embedded: list[IndexRow] = field(default_factory=list)
    missing: list[IndexRow] = field(default_factory=list)

    def holds(self, row: IndexRow) -> bool:
        if row.type != TURN:
            return row.path in self.notes
        progress = self.threads.get(row.thread_id)
        return progress is not None and row.position <= progress.vectors_to
