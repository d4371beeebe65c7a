"""The indexer: keeps the index up with journal and vault, by words at once and by meaning as soon as it can."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial

from recollect.domain.model import ThreadRef
from recollect.domain.recall.rows import Generation
from recollect.errors import (
    IndexUnavailable,
    IndexUnreachable,
    StorageUnavailable,
    TooMuchQueued,
    Unavailable,
)
from recollect.service.coordination import RetryLoop
from recollect.service.recall.backlog import Backlog
from recollect.service.recall.embedding import MeaningIndexer, ModelCheck
from recollect.service.recall.embedding_queue import EmbeddingQueue
from recollect.service.recall.generations import NOT_OPEN, Generations, IndexInspector
from recollect.service.recall.words import User, WordQueue, unread_in_words

_log = logging.getLogger("recollect.index")


class Indexer:
    """Keeps the index up to date. Its work follows from journal, vault and ledger, so a kill loses none of it.

    One loop writes words, another notes, a third vectors: a slow or missing embedding model delays vectors alone,
    and a vault that cannot be read notes alone.
    """

    def __init__(self, meaning: MeaningIndexer, *, delay_seconds: float, most_behind: int = 5_000) -> None:
        self.words, self.meaning = meaning.words, meaning
        self._store, self._ledger = self.words.store, self.words.ledger
        self._corpus_cache = self.words.corpus_cache
        self._embedder = meaning.embedder
        self._model = ModelCheck(meaning.embedder)
        self._inspector = IndexInspector(self.words)
        self._unembedded = EmbeddingQueue(meaning, live=lambda: self.live, adopt=self._take_model)
        self._retry_seconds = 3600.0
        self._retry: asyncio.TimerHandle | None = None
        self._delay = delay_seconds
        self.generations = Generations(meaning)
        self._behind = WordQueue(self.words, self._unembedded.add_threads)
        self._damaged: dict[str, tuple[str, str]] = {}
        """Owners, with their space and user, whose rows are dropped and put again."""
        self._note_owners: dict[str, bool] = {}
        """Whether notes are to be indexed, or entries alone, which are found in the journal meanwhile."""
        self._owner_in_work: str | None = None
        """Whose notes are being indexed."""
        self._scans_wanted, self._scanned = 1, 0
        """The number of the last scan that was asked for, and of the last one that is done."""
        self._backlog = Backlog(self._ledger, most_behind)
        self._changed = asyncio.Event()
        self._words_turn, self._notes_turn, self._meaning_turn = (asyncio.Lock() for _ in range(3))
        loop = partial(RetryLoop, delay_seconds=delay_seconds, on_change=self._changed.set)
        self._words_loop = loop(self._words_step, patient=False)
        self._notes_loop = loop(self._notes_step, patient=False)
        self._meaning_loop = loop(self._meaning_step, patient=True)
        self.on_other_model: Callable[[], None] = lambda: None
        """Called when the live generation turns out to hold another model's vectors."""
        self.remaking = False
        """Whether an index that was missing, damaged or of another format is being rebuilt."""

    @property
    def live(self) -> Generation:
        if self.generations.live is None:
            raise RuntimeError("the indexer is not started")
        return self.generations.live

    @property
    def model_mismatch(self) -> str | None:
        """What to do about an index that holds another model's vectors."""
        live = self.generations.live
        return None if live is None else self._model.mismatch(live)

    @property
    def words_problem(self) -> str | None:
        """Why the index cannot be written."""
        return self._words_loop.problem

    @property
    def notes_problem(self) -> str | None:
        """Why notes are missing from the index."""
        return self._notes_loop.problem

    @property
    def meaning_problem(self) -> str | None:
        """Why nothing is embedded."""
        if self._meaning_loop.problem is not None or self._embedder is None:
            return self._meaning_loop.problem
        return self._embedder.problem()

    async def start(self) -> None:
        try:
            await self._open_live()
        except IndexUnreachable as error:
            _log.error("%s; search reads the journal until it answers", error.message)
        self._words_loop.start("index-words")
        self._notes_loop.start("index-notes")
        self._meaning_loop.start("index-meaning")
        await self._unembedded.count_refused()
        self.try_refused_again()
        self.catch_up()

    async def stop(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        for loop in (self._words_loop, self._notes_loop, self._meaning_loop):
            await loop.stop()
        self._corpus_cache.clear()

    def catch_up(self) -> None:
        """Look everywhere for what was left undone."""
        self._scans_wanted += 1
        self._words_loop.wake()

    def try_refused_again(self) -> None:
        """Have the texts that the embedding model refused embedded, if it takes them by now; from here on hourly."""
        if self._retry is not None:
            self._retry.cancel()
        self._retry = asyncio.get_running_loop().call_later(self._retry_seconds, self.try_refused_again)
        self._unembedded.add_refused()
        self._meaning_loop.wake()

    async def _open_live(self) -> None:
        """Serve the live generation, or an empty one in its place that is filled from journal and vault."""
        with self.generations.opening():
            live, old, is_new = await self.generations.open()
            if is_new:
                await self._expect_all_notes(live)
                is_anything_behind = self._note_owners or await self._ledger.behind(live.name, limit=1)
                self.remaking = old is not None or bool(is_anything_behind)
            if self.remaking:
                what = "missing or damaged" if old is None else "of another version"
                _log.warning("the index is %s and is rebuilt; search reads the journal meanwhile", what)
            await self._serve(live)

    async def _serve(self, live: Generation) -> None:
        await self._backlog.begin()
        await self._inspector.begin(live.name)
        self._corpus_cache.serve(live.name)

    async def _expect_all_notes(self, live: Generation) -> list[str]:
        """Before anybody searches: until the notes are indexed, whoever searches is told that they are missing."""
        self.notes_changed(owners := await self._ledger.note_owners(live.name))
        return owners

    async def ensure_live(self) -> None:
        """Have another generation in the place of the live one where that was taken away from the disk."""
        async with self._notes_turn, self._words_turn:
            await self._replace_if_gone()

    async def _replace_if_gone(self) -> bool:
        """The caller holds the turn of words. True where an empty generation is in its place, and is being filled."""
        live = await self.generations.replace_if_gone()
        if live is None:
            return False
        _log.error("the index is gone from the disk and is rebuilt; search reads the journal meanwhile")
        await self._expect_all_notes(live)
        self.remaking = True
        self._damaged.clear()
        await self._serve(live)
        await self.generations.discard_others()
        self.catch_up()
        return True

    def thread_changed(self, thread: ThreadRef) -> None:
        """Turns were added or edited, or the tags changed."""
        self._behind.add(thread)
        self._words_loop.wake()

    def entries_changed(self, owner: str, ids: set[str]) -> None:
        """The journal has them; searches find them there until they are indexed."""
        self._corpus_cache.entries_changed(owner, ids)
        self._note_owners.setdefault(owner, False)
        self._notes_loop.wake()

    def notes_changed(self, owners: Iterable[str]) -> None:
        self._note_owners.update(dict.fromkeys(owners, True))
        self._notes_loop.wake()

    def note_came(self, owner: str, text: str) -> None:
        """Through the API."""
        self._backlog.note_came(owner, text)
        self.notes_changed([owner])

    def refuse_notes(self, owner: str) -> None:
        """Raises TooMuchQueued where too much of an owner's notes can't be found yet, and the index is in order."""
        is_out_of_order = self.remaking or self.words_problem or self.notes_problem
        if self._backlog.has_too_many(owner) and not is_out_of_order:
            raise TooMuchQueued("search is too far behind the notes of this user; send this again in a while")

    def owner_damaged(self, owner: str, space: str, user_id: str) -> None:
        """Nothing of an owner's index can be used: it is dropped and filled again."""
        self._damaged[owner] = (space, user_id)
        self.remaking = True
        self._words_loop.wake()

    async def settled(self) -> None:
        """Returns when all is indexed, as far as notes can be read, and embedded, as far as the model lets it."""
        while not self._is_settled():
            self._changed.clear()
            await self._changed.wait()

    def _is_settled(self) -> bool:
        words = self._words_loop.working or self._damaged or self._behind or self._inspector.waiting
        notes = self.notes_problem is None and (self._note_owners or self._notes_loop.working)
        meaning = self._meaning_loop.problem is None and (self._unembedded or self._meaning_loop.working)
        return self._scanned == self._scans_wanted and not (words or notes or meaning)

    @property
    def waiting(self) -> tuple[int, int]:
        """How many threads wait to be indexed, and how many to be embedded."""
        return len(self._behind), self._unembedded.threads

    @property
    def overtaken(self) -> set[User]:
        """Users with at least `most_behind` messages that search can't find yet.

        Nobody while the index can't be written or the embedding model does not answer: that must not stop an add.
        """
        is_out_of_order = self.remaking or self.words_problem or self.meaning_problem
        return set() if is_out_of_order else self._backlog.overtaken

    async def _count_overtaken(self) -> None:
        by_meaning = self._embedder is not None and self.model_mismatch is None
        users = self._behind.users | self._unembedded.users
        await self._backlog.count(self.live.name, users, by_meaning=by_meaning)

    @property
    def notes_waiting(self) -> int:
        """How many owners have notes that wait to be indexed."""
        return len(self._note_owners) + (self._owner_in_work is not None)

    @property
    def refused(self) -> int:
        """Texts that the embedding model would not take."""
        return sum(self._unembedded.refused.values())

    def refused_of(self, owner: str) -> int:
        return self._unembedded.refused.get(owner, 0)

    def notes_behind(self, owner: str) -> bool:
        """Whether an owner has notes that cannot be found yet."""
        is_waiting = self._note_owners.get(owner, False) or owner == self._owner_in_work
        return is_waiting or owner in self._corpus_cache.notes_lost

    async def _scan(self) -> None:
        async for progress in self._ledger.all_behind(self.live.name):
            thread = progress.thread
            if progress.words_behind:
                self._behind.add(thread.ref)
            if progress.vectors_behind:
                self._unembedded.add_threads([thread.ref])
        self._unembedded.add_notes_of(await self._expect_all_notes(self.live))

    async def _words_step(self) -> None:
        if self.live is NOT_OPEN:
            await self._behind.read_ahead()
            async with self.held():
                await self._open_live()
            self._meaning_loop.restart()
        if self._scanned < (wanted := self._scans_wanted):
            await self._scan()
            self._scanned = wanted
            self._meaning_loop.wake()
        while self._damaged or self._behind or self._inspector.waiting:
            async with self._words_turn:
                problems = await self._refill_damaged()
                for owner, problem in (await self._behind.index(self.live.name)).items():
                    problems.append(problem)
                    await self._suspect(owner)
                await self._count_overtaken()
                self._meaning_loop.wake()
                await self._inspector.inspect_some()
                if problems and not await self._replace_if_gone():
                    raise problems[0]
            if self._behind:
                # Under steady traffic too, one write for what comes in a while, and time for those who add.
                await asyncio.sleep(self._delay)
        self._finish_remaking()

    def _finish_remaking(self) -> None:
        waiting = (self._damaged, self._behind, self._note_owners)
        if self.remaking and self._scanned == self._scans_wanted and not any(waiting):
            self.remaking = False
            self._meaning_loop.wake()  # The old index is no longer needed.

    async def _refill_damaged(self) -> list[IndexUnavailable]:
        problems = []
        for owner, user in list(self._damaged.items()):
            try:
                threads = await self.words.refill(self.live.name, owner, *user)
            except IndexUnavailable as error:
                problems.append(error)
                continue
            del self._damaged[owner]
            for thread in threads:
                self.thread_changed(thread)
            self.notes_changed([owner])
        return problems

    async def _suspect(self, owner: str) -> None:
        """Something could not be written. What cannot be read either is damaged; else it is tried again as it is."""
        if (user := await self._inspector.suspected(self.live.name, owner)) is not None:
            self.owner_damaged(owner, *user)

    async def _notes_step(self) -> None:
        problems: list[Unavailable] = []
        await self._store.reach()
        for owner in sorted(self._note_owners, key=self._note_owners.__getitem__):
            # A turn of their own: however long notes take, messages are found meanwhile.
            async with self._notes_turn:
                problems += await self._index_notes(owner)
                if problems:
                    async with self._words_turn:
                        if await self._replace_if_gone():
                            return
        self._meaning_loop.wake()
        if problems:
            raise problems[0]
        self._finish_remaking()

    async def _index_notes(self, owner: str) -> list[Unavailable]:
        are_notes, passages = self._note_owners.pop(owner), self._backlog.passages(owner)
        self._owner_in_work = owner if are_notes else None
        try:
            unread, has_more = await self.words.index_notes(self.live.name, owner, live=True)
        except BaseException as error:
            self._note_owners[owner] = are_notes or self._note_owners.get(owner, False)
            if not isinstance(error, IndexUnavailable):
                raise
            await self._suspect(owner)
            return [error]
        finally:
            self._owner_in_work = None
        self._unembedded.add_notes_of([owner])
        if has_more:  # In another turn: others come in between.
            self.notes_changed([owner])
        else:
            self._backlog.indexed(owner, passages)
        if unread:
            self._note_owners[owner] = True
            return [StorageUnavailable(unread_in_words(unread))]
        if not has_more:
            self._corpus_cache.notes_lost.discard(owner)
        return []

    async def _meaning_step(self) -> None:
        await self._model.probe(self.live)
        if self._embedder is None:
            self._unembedded.clear()
        elif self.model_mismatch is not None:
            self._unembedded.clear()
            self.on_other_model()
        while self._unembedded:
            async with self._meaning_turn:
                await self._store.reach()  # Else what is embedded could not be kept.
                unusable = await self._unembedded.embed_some()
                for owner in unusable:
                    await self._suspect(owner)
                await self._count_overtaken()
            if unusable:
                raise next(iter(unusable.values()))
            self._changed.set()
        waiting = self.remaking or self.waiting[0] or self._note_owners or self._owner_in_work
        if (source := self.meaning.source) is not None and self.generations.building is None and not waiting:
            self.meaning.forget_source()
            await self._store.discard(source.name)

    def _take_model(self, generation: Generation) -> None:
        """The live generation has vectors now, unless another took its place meanwhile."""
        if generation.name == self.live.name:
            self.generations.live = generation
            self._model.seen(generation.dimensions)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Nothing is written to the live generation while this lasts; what comes meanwhile waits."""
        # In this order: a batch that is being embedded may take long, and must not keep new words waiting.
        async with self._meaning_turn, self._notes_turn, self._words_turn:
            yield

    async def swap_to(self, generation: Generation) -> Generation:
        """Make another generation the live one; the caller holds the loops. Returns the one it was."""
        old = self.live
        await self._backlog.begin()
        await self._store.promote(generation.name)
        self.generations.live, self.generations.building = generation, None
        self._inspector.waiting.clear()  # What was just made and proven needs no inspection.
        self._corpus_cache.serve(generation.name)
        self._meaning_loop.restart()  # Whatever kept vectors from the old one, the new one has them.
        return old
