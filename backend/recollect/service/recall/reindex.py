"""Makes the index again beside the live one, checks it, and swaps: on request, and where the embedding model is another."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recollect.domain.model import Note, Thread, ThreadRef
from recollect.domain.recall.rows import TURN, Generation, StoredRows
from recollect.errors import AlreadyExists, IndexUnavailable, IndexUnreachable, StorageUnavailable
from recollect.service.coordination import Progress, RetryLoop, no_progress
from recollect.service.recall.embedding import PROBE
from recollect.service.recall.generations import new_generation
from recollect.service.recall.indexer import Indexer
from recollect.service.recall.verify import UNPROVEN
from recollect.service.recall.words import WordIndexer, has_text, unread_in_words


async def keep_unreadable(words: WordIndexer, live: str, building: str, owner: str) -> set[str]:
    """Put the rows that an owner's unreadable notes have in the live generation into the one that is being made.

    Returns the paths of these notes. Raises StorageUnavailable where files of notes are missing.
    """
    unreadable = await _unreadable(words, building, owner)
    async with words.locks.of(owner):
        old, new = await words.ledger.notes(live, owner), await words.ledger.notes(building, owner)
        kept = [
            replace(note, digest=old[note.path][0])
            for note in unreadable
            if note.path in old and note.path not in new
        ]
        if kept:
            counts = await _copy(words, live, building, owner, {note.path for note in kept})
            await words.ledger.record_notes(building, owner, kept, [], counts=counts)
    return {note.path for note in unreadable}


async def _unreadable(words: WordIndexer, building: str, owner: str) -> list[Note]:
    behind, _ = await words.ledger.notes_behind(building, owner)
    unreadable, missing = [], 0
    for note in filter(has_text, behind):
        try:
            missing += await words.vault.look(note.path, 1) is None
        except StorageUnavailable:
            unreadable.append(note)
    if missing:
        raise StorageUnavailable(unread_in_words(missing))
    return unreadable


async def _copy(
    words: WordIndexer, live: str, building: str, owner: str, paths: Collection[str]
) -> Counter[str]:
    """Copy the rows of these files. Returns how many of each; rows that the new index has already are skipped."""
    try:
        stored = await words.store.load(live, owner, patient=True)
    except IndexUnreachable:
        raise
    except IndexUnavailable:
        stored = StoredRows()  # The reason for the new generation, perhaps: nothing is left to keep.
    there = {row.row_id for row in (await words.store.load(building, owner, patient=True)).rows}
    copied = [
        (row, terms)
        for row, terms in zip(stored.rows, stored.words, strict=True)
        if row.type != TURN and row.path in paths and row.row_id not in there
    ]
    await words.store.put(building, owner, [row for row, _ in copied], [terms for _, terms in copied])
    return Counter(row.path for row, _ in copied)


Check = Callable[[str], Awaitable[list[str]]]
"""What is wrong with a generation, compared with the vault."""

_PAGE = 200
_MOST_ROUNDS = 4
_LOOKS = 3
"""What is edited while it is being checked is filled and checked again."""


@dataclass(slots=True)
class ReindexReport:
    """What came of it."""

    generation: str
    embedded: int
    """Texts that had to be embedded; the others' vectors were used again."""
    unreadable: list[str] = field(default_factory=list)
    """Notes whose files are there and cannot be read: they have the rows that they had."""


class Reindexer:
    """Search goes on all the while, and nothing that comes meanwhile is missing afterwards."""

    def __init__(self, indexer: Indexer, check: Check) -> None:
        self.indexer, self.words, self.meaning = indexer, indexer.words, indexer.meaning
        self.store, self.ledger = self.words.store, self.words.ledger
        self.embedder = self.meaning.embedder
        self._check = check
        self._running = asyncio.Lock()
        self._unreadable: set[str] = set()
        self._texts = 0
        """How many the live generation has, counted when a rebuild began."""
        self._loop = RetryLoop(self._follow_model, delay_seconds=0, patient=True, on_change=lambda: None)

    def start(self) -> None:
        """From now on the index is made again by itself when another embedding model is configured."""
        self.indexer.on_other_model = self._loop.wake
        self._loop.start("reindex")

    async def stop(self) -> None:
        await self._loop.stop()

    @property
    def progress(self) -> tuple[int, int] | None:
        """How many texts the rebuild that runs has embedded, and of about how many."""
        building = self.indexer.generations.building
        return None if building is None else (self.meaning.embedded_in[building.name], self._texts)

    @property
    def problem(self) -> str | None:
        """Why the index holds another model's vectors, and how far it is made again."""
        if (mismatch := self.indexer.model_mismatch) is None:
            return None
        told = [mismatch]
        if (progress := self.progress) is not None:
            told.append("{} of about {} texts are done".format(*progress))
        if self._loop.problem is not None:
            told.append(f"the last try failed: {self._loop.problem}")
        return "; ".join(told)

    async def _follow_model(self) -> None:
        if self.indexer.model_mismatch is not None and not self._running.locked():
            await self.reindex()

    async def reindex(self, progress: Progress = no_progress) -> ReindexReport:
        """Raises EmbedderUnavailable where there is an embedder and it does not answer, StorageUnavailable where the
        vault or files of notes are missing, and AlreadyExists.
        """
        if self._running.locked():
            raise AlreadyExists("the index is being rebuilt already")
        async with self._running:
            if not self.words.vault.is_there():
                raise StorageUnavailable("the vault is missing, and the index cannot be made from it")
            self._unreadable.clear()
            source = await self._source()
            self._texts = await self._count_texts()
            building = await new_generation(self.store, self.ledger, self.indexer.live)
            self.indexer.generations.building, self.meaning.source = building, source
            try:
                live = await self._build(building, progress)
            finally:
                self.meaning.forget_source()
                if self.indexer.generations.building is not None:
                    self.indexer.generations.building = None
                    await self.store.discard(building.name)
            await self.ledger.keep_only(live.name)
            embedded = self.meaning.embedded_in[live.name]
            return ReindexReport(live.name, embedded, sorted(self._unreadable))

    async def _source(self) -> Generation | None:
        """The live generation, where its vectors are such as the model gives today."""
        await self.indexer.ensure_live()
        if self.embedder is None:
            return None
        (vector,) = await self.embedder.embed([PROBE])
        live = self.indexer.live
        return live if (live.model, live.dimensions) == (self.embedder.name, len(vector)) else None

    async def _count_texts(self) -> int:
        live = self.indexer.live.name
        owners = await self.ledger.owners(live)
        return sum([(await self.ledger.expected(live, owner, *user)).rows for owner, user in owners.items()])

    async def _build(self, building: Generation, progress: Progress) -> Generation:
        problems: list[str] = []
        for _ in range(_LOOKS):
            building = await self._fill(building, progress)
            # What is not proven because it cannot be read is as it was before.
            problems = [text for text in await self._check(building.name) if not text.endswith(UNPROVEN)]
            if not problems:
                break
        if problems:
            raise IndexUnavailable(f"the new index is not what the vault says: {problems[0]}")
        self.words.fail_points.reach("reindex.filled")
        await _to_its_end(self._swap(building))
        return building

    async def _swap(self, building: Generation) -> None:
        async with self.indexer.held():
            # By words alone: it has to be over soon. What comes later is found in the journal until it is indexed.
            await self._fill_round(building, no_progress, by_meaning=False)
            old = await self.indexer.swap_to(building)
        self.words.fail_points.reach("reindex.swapped")
        self.indexer.catch_up()
        await self.store.discard(old.name)

    async def _fill(self, building: Generation, progress: Progress) -> Generation:
        """In rounds: what is added while one lasts is filled in the next. Where much is added, it has to end too."""
        for _ in range(_MOST_ROUNDS):
            building, filled = await self._fill_round(
                building, progress, by_meaning=self.embedder is not None
            )
            if not filled:
                break
        for owner in await self.ledger.note_owners(building.name):
            unread, has_more = 0, True
            while has_more:
                unread, has_more = await self.words.index_notes(building.name, owner, live=False)
            if unread:
                self._unreadable |= await keep_unreadable(
                    self.words, self.indexer.live.name, building.name, owner
                )
            has_more = self.embedder is not None
            while has_more:
                building, has_more = await self.meaning.embed_notes(building, owner, live=False)
        return building

    async def _fill_round(
        self, building: Generation, progress: Progress, *, by_meaning: bool
    ) -> tuple[Generation, int]:
        """Once through all threads; returns how many there was something to do for."""
        behind = [
            each.thread
            async for each in self.ledger.all_behind(building.name)
            if each.words_behind or (by_meaning and each.vectors_behind)
        ]
        for start in range(0, len(behind), _PAGE):
            building = await self._fill_threads(
                building, behind[start : start + _PAGE], by_meaning=by_meaning
            )
            progress(min(start + _PAGE, len(behind)), len(behind))
        return building, len(behind)

    async def _fill_threads(
        self, building: Generation, threads: Sequence[Thread], *, by_meaning: bool
    ) -> Generation:
        owners: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for thread in threads:
            owners[thread.space, thread.user_id].append(thread.thread_id)
        for (space, user_id), ids in owners.items():
            await self._index(building.name, space, user_id, ids)
            if by_meaning:
                building = await self._embed(
                    building, [ThreadRef(space, user_id, thread_id) for thread_id in ids]
                )
        return building

    async def _index(self, generation: str, space: str, user_id: str, ids: Sequence[str]) -> None:
        while ids:
            more = await self.words.index_threads(generation, space, user_id, ids, live=False)
            left = [ThreadRef(space, user_id, thread_id) for thread_id in more]
            seen = [await self.ledger.progress(generation, thread) for thread in left]
            ids = [each.thread.thread_id for each in seen if each is not None and each.words_behind]

    async def _embed(self, building: Generation, threads: list[ThreadRef]) -> Generation:
        while threads:
            outcome = await self.meaning.embed_threads(building, [threads], live=False)
            building, threads = outcome.generation, outcome.unfinished + outcome.untouched
            for problem in outcome.unwritable.values():
                raise problem
        return building


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """A caller who goes away does not leave it half done."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
