"""Owners' searchable rows in memory: read once, then kept up with everything that is written."""

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace

from recollect.domain.entries.entry import is_agents
from recollect.domain.model import ThreadRef
from recollect.domain.paths import agent_folder, is_entry_path, is_note, owner_folder
from recollect.domain.recall.corpus import Corpus
from recollect.domain.recall.rows import (
    IndexRow,
    StoredRows,
    ThreadProgress,
    Vectors,
    came_from,
    entry_row,
    turn_row,
    turn_row_id,
)
from recollect.errors import IndexUnavailable, IndexUnreachable, Unavailable
from recollect.infra.index.store import LanceIndex
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.files import SqlTranscriptStore
from recollect.infra.journal.index import SqlIndexLedger
from recollect.service.coordination import OwnerLocks
from recollect.service.recall.owner_corpus import OwnerCorpus

_EMPTY_SHARE, _FEWEST_EMPTY = 1 / 3, 256
"""A corpus of which so much is empty, and so many places, is reloaded."""
_GROWTH = 1.1
"""By how much a corpus grows before its memory is measured again: measuring looks at all of it."""
_STOPGAP_SECONDS = 10.0
_UNREAD = ""
"""No generation of the index: to the ledger nothing is indexed there, so all is read from the journal."""
_log = logging.getLogger("recollect.index")


class CorpusCache:
    """The owners that were searched last, up to a budget of memory.

    An index that is missing, damaged or behind never hides anything: what it lacks is read from the journal.
    With a user's rows are those of agents' cases that came from the user's own threads, and no others: whoever
    writes an agent's rows holds the agent's lock, and gets the user's behind it, never the other way round.
    """

    def __init__(
        self,
        store: LanceIndex,
        ledger: SqlIndexLedger,
        turns: SqlTranscriptStore,
        entries: SqlEntryStore,
        locks: OwnerLocks,
        *,
        budget_bytes: int,
        on_damage: Callable[[str, str, str], None] = lambda owner, space, user_id: None,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._turns = turns
        self._entries = entries
        self._changed: defaultdict[str, set[str]] = defaultdict(set)
        """By owner, ids of entries that changed and that search has not looked up since."""
        self._ahead: defaultdict[str, set[str]] = defaultdict(set)
        """By owner, ids of entries that are in memory as the journal has them, and not so in the index yet."""
        self._locks = locks
        self._budget = budget_bytes
        self._on_damage = on_damage
        self._generation = ""
        self._loaded: OrderedDict[str, OwnerCorpus] = OrderedDict()
        self._reloading: dict[str, asyncio.Task[None]] = {}
        self._loading: set[str] = set()
        self.damaged = 0
        """How often an owner's index was found damaged and is rebuilt."""
        self.notes_lost: set[str] = set()
        """Owners whose note rows are missing from the index. The indexer removes an owner once reindexed."""

    def serve(self, generation: str) -> None:
        """From here on everything is read from this generation of the index."""
        self._generation = generation
        self.clear()

    async def get(self, space: str, user_id: str) -> OwnerCorpus:
        owner = owner_folder(space, user_id)
        if (found := self._loaded.get(owner)) is not None:
            self._loaded.move_to_end(owner)
        else:
            found = await self._first(owner, space, user_id)
        if self._changed.get(owner) or found.catching_up.locked():
            async with found.catching_up:
                await self._catch_up(found, self._changed.pop(owner, set()))
        return found

    def entries_changed(self, owner: str, ids: set[str]) -> None:
        """The next search of the owner finds these entries as the journal has them."""
        if owner in self._loaded or owner in self._loading:
            self._changed[owner] |= ids

    async def _first(self, owner: str, space: str, user_id: str) -> OwnerCorpus:
        async with self._locks.of(owner):
            self._loading.add(owner)
            try:
                while (found := self._loaded.get(owner)) is None:
                    generation = self._generation
                    read = await self._load(generation, owner, space, user_id)
                    # What was read of a generation that was replaced meanwhile is not kept up with what is written.
                    if generation == self._generation:
                        self._keep(read)
            finally:
                self._loading.discard(owner)
        return found

    async def _catch_up(self, loaded: OwnerCorpus, ids: set[str]) -> None:
        """Have these memories as the journal has them: the index follows a moment later."""
        owner, is_done = loaded.owner, False
        try:
            found = await self._entries.some(loaded.space, owner, sorted(ids))
            known = [each for each in found if is_entry_path(each.path)]
            cited = {
                (each.thread_in(loaded.space), each.turn_id) for entry in known for each in entry.sources
            }
            for thread in {ref for ref, turn in cited if turn_row_id(ref, turn) not in loaded.corpus.places}:
                await self.read_ahead(thread)
            rows = list(filter(None, map(entry_row, known)))
            gone = (ids - {row.row_id for row in rows}) & loaded.corpus.places.keys()
            rows = [row for row in rows if not loaded.holds(row)]
            changed = [*rows, *await self._asking(loaded)]
            await self._change(loaded, changed, None, gone)
            self._ahead[owner].update(gone, (row.row_id for row in rows))
            is_done = self._loaded.get(owner) is loaded
        finally:
            if not is_done:
                self._changed[owner] |= ids

    async def _asking(self, loaded: OwnerCorpus) -> list[IndexRow]:
        """The turns of which a model says since the last time that they only ask, or that they don't."""
        corpus, asking = loaded.corpus, await self._entries.asking(loaded.space, loaded.user_id)
        named, corpus.asking = (asking | corpus.asking) & corpus.places.keys(), asking
        rows = (corpus.rows[corpus.places[name]] for name in sorted(named))
        return [replace(row, asks=not row.asks) for row in rows if row.asks != (row.row_id in asking)]

    async def extend(
        self, owner: str, rows: Sequence[IndexRow], words: Sequence[str], gone: Collection[str] = ()
    ) -> None:
        """Rows that were written for an owner whose lock the caller holds, and the ids of rows that were removed.

        A row that was written again keeps its vector where its meaning did not change, as it does in the index; one
        that was removed before it was written does not.
        """
        if is_agents(owner):

            async def change(user: OwnerCorpus) -> None:
                mine = [place for place, row in enumerate(rows) if came_from(user.owner, row)]
                chosen = [rows[place] for place in mine]
                others = {row.row_id for row in rows} - {row.row_id for row in chosen}
                await self._change(user, chosen, [words[place] for place in mine], {*gone, *others})

            await self._for_users(owner, change)
            return
        written = {*gone, *(row.row_id for row in rows)}
        if (loaded := self._loaded.get(owner)) is None:
            return
        # They may have been read before the last change: they are looked up again.
        self._changed[owner] |= self._ahead[owner] & written
        self._ahead[owner] -= written
        loaded.unindexed.difference_update(gone, (row.row_id for row in rows))
        await self._change(loaded, rows, words, gone)

    async def read_ahead(self, thread: ThreadRef) -> None:
        """When this returns, searches find what the thread holds by its words, whether it is indexed yet or not."""
        owner = owner_folder(thread.space, thread.user_id)
        async with self._locks.of(owner):
            progress = await self._ledger.progress(self._generation, thread)
            # Whoever is not in memory is read with all that is not indexed.
            if progress is not None and (loaded := self._loaded.get(owner)) is not None:
                await self._add_unindexed(progress, loaded)

    async def _for_users(self, agent: str, change: Callable[[OwnerCorpus], Awaitable[None]]) -> None:
        """Change the users of an agent's space who are in memory, each under their lock."""
        for owner in self._users_beside(agent):
            async with self._locks.of(owner):
                if (loaded := self._loaded.get(owner)) is not None:
                    await change(loaded)

    def _users_beside(self, agent: str) -> list[str]:
        """The users of an agent's space who are in memory, or about to be."""
        space = agent.partition("/")[0] + "/"
        return [
            owner for owner in {**self._loaded, **dict.fromkeys(self._loading)} if owner.startswith(space)
        ]

    def ids(self, owner: str, wanted: Callable[[IndexRow], bool]) -> list[str]:
        """The wanted rows of a user who is in memory, those that are not in the index yet among them."""
        corpus = Corpus() if (loaded := self._loaded.get(owner)) is None else loaded.corpus
        return [row_id for row_id, place in corpus.places.items() if wanted(corpus.rows[place])]

    async def _change(
        self,
        loaded: OwnerCorpus,
        rows: Sequence[IndexRow],
        words: Sequence[str] | None,
        gone: Collection[str],
    ) -> None:
        if not await loaded.put(rows, words, gone):
            return
        if len(loaded.corpus) > _GROWTH * loaded.measured_rows:
            self._measure(loaded)
        self._reload_if_empty(loaded)

    def _reload_if_empty(self, loaded: OwnerCorpus) -> None:
        """Off the path of searches: these go on with what is there until the new one is whole."""
        corpus = loaded.corpus
        if corpus.empty_share < _EMPTY_SHARE or corpus.empty_places < _FEWEST_EMPTY:
            return
        if loaded.owner not in self._reloading:
            self._begin(self._reload(loaded), loaded.owner)

    def _begin(self, reload: Coroutine[None, None, None], owner: str) -> None:
        task = self._reloading[owner] = asyncio.create_task(reload)
        task.add_done_callback(lambda done: self._reloaded(owner, done))

    async def _reload_when_reachable(self, loaded: OwnerCorpus) -> None:
        while loaded.is_stopgap and self._loaded.get(loaded.owner) is loaded:
            await asyncio.sleep(_STOPGAP_SECONDS)
            with suppress(Unavailable):
                await self._store.reach()
                await self._reload(loaded)
                return

    async def _reload(self, loaded: OwnerCorpus) -> None:
        async with self._locks.of(loaded.owner):
            if self._loaded.get(loaded.owner) is loaded:
                generation = self._generation
                user = loaded.space, loaded.user_id
                read = await self._load(generation, loaded.owner, *user, patient=True)
                if generation == self._generation and self._loaded.get(loaded.owner) is loaded:
                    self._keep(read)

    def _reloaded(self, owner: str, task: asyncio.Task[None]) -> None:
        if self._reloading.get(owner) is task:
            del self._reloading[owner]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("an owner's rows could not be reloaded; those in memory stay", exc_info=error)

    async def set_vectors(self, owner: str, row_ids: Sequence[str], vectors: Vectors) -> None:
        """Vectors that were written for an owner whose lock the caller holds."""

        async def change(loaded: OwnerCorpus) -> None:
            async with loaded.changing:
                loaded.corpus.set_vectors(row_ids, vectors)

        if is_agents(owner):
            await self._for_users(owner, change)
        elif (loaded := self._loaded.get(owner)) is not None:
            await change(loaded)

    def drop(self, owner: str) -> None:
        """Drop an owner's corpus, which can't be updated: the next search reads it again."""
        for dropped in self._users_beside(owner) if is_agents(owner) else [owner]:
            self._loaded.pop(dropped, None)

    def clear(self) -> None:
        for task in list(self._reloading.values()):
            task.cancel()
        self._loaded.clear()

    @property
    def bytes_used(self) -> int:
        return sum(loaded.measured_bytes for loaded in self._loaded.values())

    async def _load(
        self, generation: str, owner: str, space: str, user_id: str, *, patient: bool = False
    ) -> OwnerCorpus:
        loaded = OwnerCorpus(owner, space, user_id)
        try:
            stored = await self._stored(generation, owner, space, user_id, patient=patient)
        except IndexUnreachable as error:
            _log.warning("%s; search reads the journal meanwhile", error.message)
            generation, stored, loaded.is_stopgap = _UNREAD, StoredRows(), True
        loaded.corpus.asking = await self._entries.asking(space, user_id)
        await asyncio.to_thread(loaded.corpus.extend, stored.rows, stored.words)
        await asyncio.to_thread(loaded.corpus.take_all_vectors, stored.vectors, stored.has_vector)
        await self._add_unindexed_entries(generation, loaded)
        threads = await self._ledger.owner_progress(generation, space, user_id)
        agents = {agent_folder(space, progress.thread.agent_id) for progress in threads}
        for agent in sorted(agents if generation != _UNREAD else ()):
            await self._add_cases(generation, agent, loaded, patient=patient)
        for progress in threads:
            await self._add_unindexed(progress, loaded)
        return loaded

    async def _add_unindexed(self, progress: ThreadProgress, loaded: OwnerCorpus) -> None:
        if progress.words_to < progress.last_position:
            thread = progress.thread
            placed = await self._turns.turns(thread.ref, progress.words_to + 1, progress.last_position)
            made = await asyncio.to_thread(lambda: [turn_row(thread, each.turn) for each in placed])
            rows = [row for row in made if row is not None and row.row_id not in loaded.corpus.places]
            await loaded.put(rows)
            loaded.unindexed.update(row.row_id for row in rows)

    async def _add_unindexed_entries(self, generation: str, loaded: OwnerCorpus) -> None:
        """What the index lacks of memories, and without those that it still has."""
        behind, gone = await self._ledger.notes_behind(generation, loaded.owner)
        paths = {path for path in (*gone, *(note.path for note in behind)) if is_entry_path(path)}
        if paths:
            rows = list(filter(None, map(entry_row, await self._entries.in_files(paths))))
            ids = {row.row_id for row in rows}
            old = [row.row_id for row in loaded.corpus.rows if row.is_entry and row.path in paths]
            await loaded.put(rows, gone=set(old) - ids)

    async def _add_cases(self, generation: str, agent: str, loaded: OwnerCorpus, *, patient: bool) -> None:
        """What an agent learned from the owner's own threads."""
        try:
            stored = await self._store.load(generation, agent, patient=patient)
        except IndexUnreachable:
            loaded.is_stopgap = True
            return
        except IndexUnavailable as error:
            _log.error("an agent's index is damaged and is rebuilt: %s", error.message)
            self._on_damage(agent, loaded.space, "")
            return
        mine = [place for place, row in enumerate(stored.rows) if came_from(loaded.owner, row)]
        await loaded.put([stored.rows[place] for place in mine], [stored.words[place] for place in mine])
        embedded = [place for place in mine if stored.has_vector[place]]
        if embedded:
            row_ids = [stored.rows[place].row_id for place in embedded]
            loaded.corpus.set_vectors(row_ids, stored.vectors[embedded])

    async def _stored(
        self, generation: str, owner: str, space: str, user_id: str, *, patient: bool
    ) -> StoredRows:
        """The rows of the index; none, and a repair under way, where they are not what the ledger says."""
        try:
            stored = await self._store.load(generation, owner, patient=patient)
            problem = stored.lacks(await self._ledger.expected(generation, owner, space, user_id))
            if problem is None:
                return stored
        except IndexUnreachable:
            raise
        except IndexUnavailable as error:
            problem = error.message
        # One that was replaced may have lost its files: that is no damage.
        if generation == self._generation:
            await self.found_damaged(owner, space, user_id, problem)
        return StoredRows()

    async def found_damaged(self, owner: str, space: str, user_id: str, problem: str) -> None:
        """Have an owner's index rebuilt. The caller holds the owner's lock."""
        _log.error("an owner's index is damaged and is rebuilt: %s", problem)
        self.damaged += 1
        if any(map(is_note, await self._ledger.notes(self._generation, owner))):
            self.notes_lost.add(owner)
        await self._ledger.reset_owner(self._generation, owner, space, user_id)
        self.drop(owner)
        self._on_damage(owner, space, user_id)

    def _keep(self, loaded: OwnerCorpus) -> None:
        self._loaded[loaded.owner] = loaded
        self._ahead.pop(loaded.owner, None)
        self._measure(loaded)
        if loaded.is_stopgap:
            self._begin(self._reload_when_reachable(loaded), loaded.owner)

    def _measure(self, loaded: OwnerCorpus) -> None:
        loaded.measured_bytes, loaded.measured_rows = loaded.corpus.bytes_used, len(loaded.corpus)
        while self.bytes_used > self._budget and len(self._loaded) > 1:
            oldest = next(iter(self._loaded))
            if oldest == loaded.owner:
                self._loaded.move_to_end(oldest)
                continue
            self.drop(oldest)
