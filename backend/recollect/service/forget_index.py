"""Forgetting in the index: rows go from every generation, and no old version of a table holds them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recollect.errors import IndexUnavailable
from recollect.memory.index_row import TURN, IndexRow
from recollect.memory.vault_paths import owner_folder
from recollect.service.index_words import WordIndexer
from recollect.service.indexer import Indexer


@dataclass(frozen=True, slots=True)
class IndexForgetter:
    """Every step can be cut short and run again: a table is compacted even where no row of it has to go."""

    words: WordIndexer
    indexer: Indexer
    generations: Callable[[], Sequence[str]]
    """Those that are in use."""

    async def forget_turns(self, space: str, user_id: str, thread_id: str, numbers: Sequence[int]) -> None:
        """No byte of these turns is left when this returns; the rest of the thread stays indexed as it is."""
        await self.indexer.ensure_live()
        owner, gone = owner_folder(space, user_id), frozenset(numbers)
        try:
            async with self.words.locks.of(owner):
                for generation in self.generations():
                    stored = await self.words.store.load(generation, owner)
                    ids = [
                        row.row_id
                        for row in stored.rows
                        if row.type == TURN and row.thread_id == thread_id and row.position in gone
                    ]
                    await self._remove(generation, owner, ids)
        except IndexUnavailable:
            await self.indexer.forget_thread(space, user_id, thread_id)
        self.indexer.thread_changed(space, thread_id)

    async def forget_entries(self, owner: str, entry_ids: Sequence[str]) -> None:
        """Their files no longer hold them; what else is in these files is looked at again."""
        wanted = frozenset(entry_ids)
        await self._forget_rows(owner, lambda row: row.row_id in wanted)

    async def forget_note(self, owner: str, path: str) -> None:
        """All that stood in the file. What stands there now is looked at again."""
        await self._forget_rows(owner, lambda row: row.path == path)

    async def forget_user(self, space: str, user_id: str) -> None:
        """Their tables go, whatever is in them."""
        await self.indexer.ensure_live()
        owner = owner_folder(space, user_id)
        async with self.words.locks.of(owner):
            for generation in self.generations():
                await self.words.start_over(generation, owner, space, user_id)
            self.words.corpora.drop(owner)
        self.indexer.notes_changed([owner])
        self.indexer.catch_up()

    async def _forget_rows(self, owner: str, is_gone: Callable[[IndexRow], bool]) -> None:
        """Of notes and files of entries."""
        await self.indexer.ensure_live()
        async with self.words.locks.of(owner):
            for generation in self.generations():
                try:
                    stored = await self.words.store.load(generation, owner)
                except IndexUnavailable:
                    await self._start_over(generation, owner)
                    continue
                gone = [row for row in stored.rows if row.type != TURN and is_gone(row)]
                paths = list(dict.fromkeys(row.path for row in gone))
                # In this order: rows that nobody knows of are put again; rows that are not there would be missed.
                await self.words.ledger.record_notes(generation, owner, [], paths)
                await self._remove(generation, owner, [row.row_id for row in gone])
        self.indexer.notes_changed([owner])

    async def _remove(self, generation: str, owner: str, ids: Sequence[str]) -> None:
        if ids:
            await self.words.store.remove(generation, owner, ids)
            self.words.fail_points.reach("index.removed")
        await self.words.store.compact(generation, owner)
        if generation == self.indexer.live.name:
            await self.words.corpora.extend(owner, [], [], ids)

    async def _start_over(self, generation: str, owner: str) -> None:
        """All of an owner's rows go where they cannot be read; they are put again from journal and vault."""
        known = await self.words.ledger.owners(generation)
        space, user_id = known.get(owner, ("", ""))
        await self.words.start_over(generation, owner, space, user_id)
        self.words.corpora.drop(owner)
        self.indexer.catch_up()
