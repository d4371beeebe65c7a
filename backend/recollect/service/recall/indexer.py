"""The indexer: keeps the index up with journal and vault, by words at once and by meaning as soon as it can."""

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from recollect.domain.paths import owner_folder
from recollect.domain.recall.rows import Generation, ThreadProgress
from recollect.errors import IndexUnavailable, StorageUnavailable, Unavailable
from recollect.infra.index.store import LanceIndex
from recollect.infra.journal.index import SqlIndexLedger
from recollect.service.coordination import RetryLoop
from recollect.service.ports import Embedder
from recollect.service.recall.corpus_cache import Corpora
from recollect.service.recall.embedding import BATCH, Key, MeaningIndexer, ModelCheck
from recollect.service.recall.generations import (
    IndexInspector,
    Refusals,
    discard_others,
    is_gone,
    new_generation,
    usable_live,
)
from recollect.service.recall.words import WordIndexer

_PAGE = 200
_log = logging.getLogger("recollect.index")


class Indexer:
    """What has to be done follows from journal, vault and ledger: a kill loses none of it.

    One loop writes words, another notes, a third vectors: a slow or missing embedding model delays vectors alone,
    and a vault that cannot be read notes alone.
    """

    def __init__(
        self,
        store: LanceIndex,
        ledger: SqlIndexLedger,
        words: WordIndexer,
        meaning: MeaningIndexer,
        corpora: Corpora,
        embedder: Embedder | None,
        *,
        delay_seconds: float = 0.1,
        retry_seconds: float = 3600,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._words = words
        self._meaning = meaning
        self._corpora = corpora
        self._embedder = embedder
        self._model = ModelCheck(embedder)
        self._inspector = IndexInspector(store, ledger, corpora, words.locks)
        self._refusals = Refusals(store, ledger, meaning, words.locks)
        self._refused: dict[str, int] = {}
        """By owner, as the ledger says."""
        self._retried_owners: dict[str, None] = {}
        """Owners whose refused texts wait for another try."""
        self._retry_seconds = retry_seconds
        self._retry: asyncio.TimerHandle | None = None
        self._delay = delay_seconds
        self._live: Generation | None = None
        self.building: Generation | None = None
        """A generation that is being filled beside the live one."""
        self._behind: dict[Key, None] = {}
        self._in_work: dict[Key, None] = {}
        """Threads that were behind, and are being indexed."""
        self._damaged: dict[str, tuple[str, str]] = {}
        """Owners, with their space and user, whose rows are dropped and put anew."""
        self._unembedded: OrderedDict[Key, None] = OrderedDict()
        self._note_owners: dict[str, None] = {}
        self._unembedded_owners: dict[str, None] = {}
        self._owner_in_work: str | None = None
        """Whose notes are being indexed."""
        self._scanned = False
        self._changed = asyncio.Event()
        self._words_turn, self._meaning_turn = asyncio.Lock(), asyncio.Lock()
        self._words_loop = RetryLoop(
            self._words_step, delay_seconds=delay_seconds, patient=False, on_change=self._changed.set
        )
        self._notes_loop = RetryLoop(
            self._notes_step, delay_seconds=delay_seconds, patient=False, on_change=self._changed.set
        )
        self._meaning_loop = RetryLoop(
            self._meaning_step, delay_seconds=delay_seconds, patient=True, on_change=self._changed.set
        )
        self.remaking = False
        """Whether an index that was missing, damaged or of another format is being made anew."""

    @property
    def live(self) -> Generation:
        if self._live is None:
            raise RuntimeError("the indexer is not started")
        return self._live

    @property
    def model_mismatch(self) -> str | None:
        """The index holds another model's vectors: said with what to do about it."""
        return None if self._live is None else self._model.mismatch(self._live)

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
        self._live = await self._open_live()
        self._corpora.serve(self._live.name)
        await self._inspector.begin(self._live.name)
        self._words_loop.start("index-words")
        self._notes_loop.start("index-notes")
        self._meaning_loop.start("index-meaning")
        self._refused = await self._ledger.refused(self._live.name)
        self.try_refused_again()
        self.catch_up()

    async def stop(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        for loop in (self._words_loop, self._notes_loop, self._meaning_loop):
            await loop.stop()
        self._corpora.clear()

    def catch_up(self) -> None:
        """Look everywhere for what was left undone."""
        self._scanned = False
        self._words_loop.wake()

    def try_refused_again(self) -> None:
        """Have the texts that the embedding model refused embedded, if it takes them by now; from here on hourly."""
        if self._retry is not None:
            self._retry.cancel()
        self._retry = asyncio.get_running_loop().call_later(self._retry_seconds, self.try_refused_again)
        self._retried_owners.update(dict.fromkeys(self._refused))
        self._meaning_loop.wake()

    async def _open_live(self) -> Generation:
        """The live generation, or an empty one in its place that is filled from journal and vault."""
        live, old = await usable_live(self._store, self._ledger)
        if live is None:
            live = await new_generation(self._store, self._ledger, old)
            await self._store.promote(live.name)
            self._meaning.source = old
            await self._expect_all_notes(live)
            self.remaking = (
                old is not None
                or bool(self._note_owners)
                or bool(await self._ledger.behind(live.name, limit=1))
            )
            if self.remaking:
                what = "missing or damaged" if old is None else "of another version"
                _log.warning("the index is %s and is made anew; search reads the journal meanwhile", what)
        await discard_others(self._store, (live, self._meaning.source))
        await self._ledger.keep_only(live.name)
        return live

    async def _expect_all_notes(self, live: Generation) -> None:
        """Before anybody searches: until the notes are indexed, whoever searches is told that they are missing."""
        self._note_owners.update(dict.fromkeys(await self._ledger.note_owners(live.name)))

    async def ensure_live(self) -> None:
        """Have another generation in the place of the live one where that was taken away from the disk."""
        async with self._words_turn:
            await self._replace_if_gone()

    async def _replace_if_gone(self) -> bool:
        """The caller holds the turn of words. True where an empty generation is in its place, and is being filled."""
        if not await is_gone(self._store, self.live):
            return False
        _log.error("the index is gone from the disk and is made anew; search reads the journal meanwhile")
        live = await new_generation(self._store, self._ledger, self.live)
        await self._expect_all_notes(live)
        await self._store.promote(live.name)
        self.remaking = True
        self._live = live
        self._damaged.clear()
        await self._inspector.begin(live.name)
        self._corpora.serve(live.name)
        await discard_others(self._store, (live, self.building, self._meaning.source))
        self.catch_up()
        return True

    def thread_changed(self, space: str, thread_id: str) -> None:
        """Turns were added or edited, or the tags changed."""
        self._behind[space, thread_id] = None
        self._words_loop.wake()

    def notes_changed(self, owners: Iterable[str]) -> None:
        self._note_owners.update(dict.fromkeys(owners))
        self._notes_loop.wake()

    def owner_damaged(self, owner: str, space: str, user_id: str) -> None:
        """Nothing of an owner's index can be used: it is dropped and filled again."""
        self._damaged[owner] = (space, user_id)
        self.remaking = True
        self._words_loop.wake()

    async def _refill(self, owner: str) -> None:
        space, user_id = self._damaged[owner]
        async with self._words.locks.of(owner):
            await self._words.start_over(self.live.name, owner, space, user_id)
            del self._damaged[owner]
        await self._mark_all_of(owner, space, user_id)

    async def _mark_all_of(self, owner: str, space: str, user_id: str) -> None:
        for progress in await self._ledger.owner_progress(self.live.name, space, user_id):
            self.thread_changed(space, progress.thread.thread_id)
        self.notes_changed([owner])

    async def forget_thread(self, space: str, user_id: str, thread_id: str) -> None:
        """No byte of it is left in any generation when this returns."""
        await self.ensure_live()
        if not await self._words.forget_thread(self.generations, space, user_id, thread_id):
            await self._mark_all_of(owner_folder(space, user_id), space, user_id)
        self.thread_changed(space, thread_id)

    def generations(self) -> list[str]:
        """The names of those that are in use."""
        used = (self._live, self.building, self._meaning.source)
        return list(dict.fromkeys(generation.name for generation in used if generation is not None))

    async def idle(self) -> None:
        """Returns when all that is known to be behind is indexed and embedded."""
        while not self.is_idle():
            self._changed.clear()
            await self._changed.wait()

    async def settled(self) -> None:
        """Returns when all is indexed, as far as notes can be read, and embedded, as far as the model lets it."""
        while not (self._words_are_done() and self._are_done_or_stuck()):
            self._changed.clear()
            await self._changed.wait()

    def is_idle(self) -> bool:
        others = (self._note_owners, self._unembedded, self._unembedded_owners, self._retried_owners)
        working = self._notes_loop.working or self._meaning_loop.working
        return self._words_are_done() and not working and not any(others)

    def _words_are_done(self) -> bool:
        waiting = self._damaged or self._behind or self._in_work or self._inspector.waiting
        return self._scanned and not self._words_loop.working and not waiting

    def _are_done_or_stuck(self) -> bool:
        meaning = self._is_anything_unembedded() or self._meaning_loop.working
        notes = self._note_owners or self._notes_loop.working
        return not (notes and self.notes_problem is None) and not (
            meaning and self._meaning_loop.problem is None
        )

    @property
    def waiting(self) -> tuple[int, int]:
        """How many threads wait to be indexed, and how many to be embedded."""
        return len(self._behind) + len(self._in_work), len(self._unembedded)

    @property
    def notes_waiting(self) -> int:
        """How many owners have notes that wait to be indexed."""
        return len(self._note_owners) + (self._owner_in_work is not None)

    @property
    def refused(self) -> int:
        """Texts that the embedding model would not take."""
        return sum(self._refused.values())

    def refused_of(self, owner: str) -> int:
        return self._refused.get(owner, 0)

    def notes_behind(self, owner: str) -> bool:
        """Whether an owner has notes that cannot be found yet."""
        return owner in self._note_owners or owner == self._owner_in_work or owner in self._corpora.notes_lost

    async def _scan(self) -> None:
        after = 0
        while page := await self._ledger.behind(self.live.name, after, _PAGE):
            after = page[-1].thread_pk
            for progress in page:
                self._mark(progress)
        owners = dict.fromkeys(await self._ledger.note_owners(self.live.name))
        self._note_owners.update(owners)
        self._unembedded_owners.update(owners)
        self._notes_loop.wake()

    def _mark(self, progress: ThreadProgress) -> None:
        key = (progress.thread.space, progress.thread.thread_id)
        if progress.words_behind:
            self._behind[key] = None
        if progress.vectors_behind:
            self._unembedded[key] = None

    async def _words_step(self) -> None:
        if not self._scanned:
            self._scanned = True
            try:
                await self._scan()
            except BaseException:
                self._scanned = False
                raise
            self._meaning_loop.wake()
        while self._damaged or self._behind or self._inspector.waiting:
            async with self._words_turn:
                problems = [*await self._refill_damaged(), *await self._index_behind()]
                await self._inspector.inspect_some()
                if problems and not await self._replace_if_gone():
                    raise problems[0]
            self._meaning_loop.wake()
            if self._behind:
                # Under steady traffic too, one write for what comes in a while, and time for those who add.
                await asyncio.sleep(self._delay)
        self._finish_remaking()

    def _finish_remaking(self) -> None:
        waiting = (self._damaged, self._behind, self._in_work, self._note_owners)
        if self.remaking and self._scanned and not any(waiting):
            self.remaking = False
            self._meaning_loop.wake()  # The old index is no longer needed.

    async def _refill_damaged(self) -> list[IndexUnavailable]:
        problems = []
        for owner in list(self._damaged):
            try:
                await self._refill(owner)
            except IndexUnavailable as error:
                problems.append(error)
        return problems

    async def _index_behind(self) -> list[IndexUnavailable]:
        """An owner whose index cannot be written keeps nobody else waiting."""
        # Taken before they are looked at: what is added to a thread after that puts it back.
        self._in_work, self._behind = self._behind, {}
        problems = []
        try:
            for space, user_id, threads in await self._by_owner():
                try:
                    await self._index(space, user_id, threads)
                except IndexUnavailable as error:
                    problems.append(error)
                    await self._suspect(owner_folder(space, user_id))
        finally:
            self._behind.update(self._in_work)
            self._in_work = {}
        return problems

    async def _by_owner(self) -> list[tuple[str, str, list[str]]]:
        owners: defaultdict[Key, list[str]] = defaultdict(list)
        for space, thread_id in list(self._in_work):
            seen = await self._ledger.progress(self.live.name, space, thread_id)
            if seen is not None and seen.words_behind:
                owners[space, seen.thread.user_id].append(thread_id)
                continue
            del self._in_work[space, thread_id]
            if seen is not None and seen.vectors_behind:
                self._unembedded[space, thread_id] = None
        return [(space, user_id, threads) for (space, user_id), threads in owners.items()]

    async def _index(self, space: str, user_id: str, threads: list[str]) -> None:
        more = await self._words.index_threads(self.live.name, space, user_id, threads, live=True)
        for thread_id in threads:
            del self._in_work[space, thread_id]
        self._behind.update({(space, thread_id): None for thread_id in more})
        self._unembedded.update({(space, thread_id): None for thread_id in threads})
        self._meaning_loop.wake()

    async def _suspect(self, owner: str) -> None:
        """Something could not be written. What cannot be read either is damaged; else it is tried again as it is."""
        if not await self._words.is_readable(self.live.name, owner):
            known = await self._ledger.owners(self.live.name)
            self.owner_damaged(owner, *known.get(owner, ("", "")))
        # What is in memory cannot be kept up: whoever searches reads the rest from the journal.
        self._corpora.drop(owner)

    async def _notes_step(self) -> None:
        problems: list[Unavailable] = []
        for owner in list(self._note_owners):
            async with self._words_turn:
                problems += await self._index_notes(owner)
                if problems and await self._replace_if_gone():
                    return
        self._meaning_loop.wake()
        if problems:
            raise problems[0]
        self._finish_remaking()

    async def _index_notes(self, owner: str) -> list[Unavailable]:
        del self._note_owners[owner]
        self._owner_in_work = owner
        try:
            unread = await self._words.index_notes(self.live.name, owner, live=True)
        except BaseException as error:
            self._note_owners[owner] = None
            if not isinstance(error, IndexUnavailable):
                raise
            await self._suspect(owner)
            return [error]
        finally:
            self._owner_in_work = None
        self._unembedded_owners[owner] = None
        if unread:
            self._note_owners[owner] = None
            return [StorageUnavailable(unread_in_words(unread))]
        self._corpora.notes_lost.discard(owner)
        return []

    async def _meaning_step(self) -> None:
        await self._model.probe(self.live)
        if self._embedder is None or self.model_mismatch is not None:
            for waiting_for_it in (self._unembedded, self._unembedded_owners, self._retried_owners):
                waiting_for_it.clear()
        while self._is_anything_unembedded():
            async with self._meaning_turn:
                try:
                    await self._embed_threads()
                    await self._embed_notes()
                    await self._embed_refused()
                finally:
                    self._refused = await self._ledger.refused(self.live.name)
            self._changed.set()
        waiting = self.remaking or self.waiting[0] or self._note_owners or self._owner_in_work
        if (source := self._meaning.source) is not None and self.building is None and not waiting:
            self._meaning.forget_source()
            await self._store.discard(source.name)

    async def _embed_threads(self) -> None:
        # The newest first: who is talking now is not kept waiting by a large import.
        taken = [self._unembedded.popitem()[0] for _ in range(min(BATCH, len(self._unembedded)))]
        more: Iterable[Key] = reversed(taken)
        try:
            outcome = await self._meaning.embed_threads(self.live, taken, live=True)
            self._take_model(outcome.generation)
            more = outcome.unfinished
        finally:
            self._put_back(more)
        for space, user_id in outcome.unwritable:
            await self._suspect(owner_folder(space, user_id))
        if outcome.unwritable:
            raise next(iter(outcome.unwritable.values()))

    def _is_anything_unembedded(self) -> bool:
        return any((self._unembedded, self._unembedded_owners, self._retried_owners))

    async def _embed_notes(self) -> None:
        await self._embed_owners(
            self._unembedded_owners, lambda owner: self._meaning.embed_notes(self.live, owner, live=True)
        )

    async def _embed_refused(self) -> None:
        if self._retried_owners:
            users = await self._ledger.owners(self.live.name)
            await self._embed_owners(
                self._retried_owners,
                lambda owner: self._refusals.try_again(
                    self.live, owner, *users.get(owner, ("", "")), live=True
                ),
            )

    async def _embed_owners(
        self, owners: dict[str, None], embed: Callable[[str], Awaitable[Generation]]
    ) -> None:
        """An owner whose index cannot be used keeps nobody else waiting."""
        problems = []
        for owner in list(owners):
            del owners[owner]
            try:
                self._take_model(await embed(owner))
            except BaseException as error:
                owners[owner] = None
                if not isinstance(error, IndexUnavailable):
                    raise
                await self._suspect(owner)
                problems.append(error)
        if problems:
            raise problems[0]

    def _take_model(self, generation: Generation) -> None:
        """The live generation has vectors now, unless another took its place meanwhile."""
        if generation.name == self.live.name:
            self._live = generation
            self._model.seen(generation.dimensions)

    def _put_back(self, keys: Iterable[Key]) -> None:
        for key in keys:
            if key not in self._unembedded:
                self._unembedded[key] = None
                self._unembedded.move_to_end(key, last=False)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Nothing is written to the live generation while this lasts; what comes meanwhile waits."""
        # In this order: a batch that is being embedded may take long, and must not keep new words waiting.
        async with self._meaning_turn, self._words_turn:
            yield

    async def swap_to(self, generation: Generation) -> Generation:
        """Make another generation the live one; the caller holds the loops. Returns the one it was."""
        old = self.live
        await self._store.promote(generation.name)
        self._live = generation
        self._inspector.waiting.clear()  # What was just made and proven needs no inspection.
        self._corpora.serve(generation.name)
        self.building = None
        self._meaning_loop.begin_anew()  # Whatever kept vectors from the old one, the new one has them.
        return old


def unread_in_words(number: int) -> str:
    return f"{number} notes cannot be read in the vault: bring their files back"
