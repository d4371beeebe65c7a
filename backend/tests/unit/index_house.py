"""An indexer, a reindexer and a search on a real journal, vault and index, for tests."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from recollect.domain.access import Caller
from recollect.domain.identity import text_digest
from recollect.domain.model import Append, NewTurn, Note, ThreadRef
from recollect.domain.recall.hits import Selection
from recollect.domain.recall.rows import Generation, IndexRow, StoredRows, Vectors
from recollect.errors import IndexUnavailable, TextRefused
from recollect.failpoints import FailPoints
from recollect.infra.index.places import Place
from recollect.infra.index.store import LanceIndex
from recollect.infra.journal.index import SqlIndexLedger
from recollect.service.coordination import OwnerLocks
from recollect.service.forget.purge import IndexForgetter
from recollect.service.recall.corpus_cache import CorpusCache
from recollect.service.recall.embedding import MeaningIndexer
from recollect.service.recall.indexer import Indexer
from recollect.service.recall.reindex import Reindexer
from recollect.service.recall.search import Found, Recall, Search
from recollect.service.recall.verify import IndexVerifier
from recollect.service.recall.words import WordIndexer
from tests import deployment
from tests.contract.journals import Journal
from tests.fakes import START, FakeEmbedder
from tests.persons_vault import PersonsVault

OWNER = "default/users/ann"


class Picky(FakeEmbedder):
    """Fails, with whatever comes with it, for a text that holds `refused`."""

    refused = "unspeakable"

    async def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = await super().embed(texts)
        if any(self.refused in text for text in texts):
            raise TextRefused("the embedding server answered 400")
        return vectors


class Fragile(LanceIndex):
    """An index in which single owners' rows are damaged, cannot be written, or wait to be written."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.compacted: list[tuple[str, str]] = []
        self.damaged: set[str] = set()
        self.read_only: set[str] = set()
        self.on_put: Callable[[str], None] = lambda generation: None

    async def load(self, generation: str, owner: str, *, patient: bool = False) -> StoredRows:
        self._refuse(owner, self.damaged)
        return await super().load(generation, owner, patient=patient)

    async def load_files(
        self, generation: str, owner: str, paths: Collection[str], row_ids: Collection[str] = ()
    ) -> StoredRows:
        self._refuse(owner, self.damaged)
        return await super().load_files(generation, owner, paths, row_ids)

    async def count(self, generation: str, owner: str) -> int:
        self._refuse(owner, self.damaged)
        return await super().count(generation, owner)

    async def put(self, generation: str, owner: str, rows: Sequence[IndexRow], words: Sequence[str]) -> None:
        self._refuse(owner, self.damaged | self.read_only)
        await super().put(generation, owner, rows, words)
        self.on_put(generation)

    async def set_vectors(
        self, generation: str, owner: str, row_ids: Sequence[str], vectors: Vectors
    ) -> None:
        self._refuse(owner, self.damaged | self.read_only)
        await super().set_vectors(generation, owner, row_ids, vectors)

    async def drop(self, generation: str, owner: str) -> None:
        await super().drop(generation, owner)
        self.damaged.discard(owner)

    async def compact(self, generation: str, owner: str) -> None:
        self.compacted.append((generation, owner))
        await super().compact(generation, owner)

    def describe(self, generation: Generation) -> None:
        """As another version of the program would have written it."""
        self._describe(generation)

    def _refuse(self, owner: str, owners: set[str]) -> None:
        if owner in owners:
            raise IndexUnavailable("the index cannot be used; the log says why")


class House:
    """An indexer, a reindexer and a search. `open` again is a new process on the same disk."""

    def __init__(self, journal: Journal, vault: PersonsVault, embedder: FakeEmbedder | None = None) -> None:
        self.journal, self.notes, self.vault = journal, journal.notes, vault
        self.folder = journal.file.with_name("index")
        self.store = Fragile(deployment.HOMES.index(self.folder))
        self.ledger = SqlIndexLedger(journal.database)
        self.embedder: FakeEmbedder | None = embedder or FakeEmbedder()
        self.problems: list[str] = []
        """What a check of the index finds, besides what is really wrong."""

    async def open(self) -> None:
        locks = OwnerLocks()
        self.corpus_cache = CorpusCache(
            self.store,
            self.ledger,
            self.journal.transcripts,
            self.journal.entries,
            locks,
            budget_bytes=1 << 30,
            on_damage=self._owner_damaged,
        )
        words = WordIndexer(
            self.store,
            self.ledger,
            self.journal.transcripts,
            self.journal.entries,
            self.journal.entry_files,
            self.vault,
            locks,
            self.corpus_cache,
            FailPoints(),
        )
        self.meaning = MeaningIndexer(words, self.embedder)
        self.indexer = Indexer(self.meaning, delay_seconds=0)
        self.verifier = IndexVerifier(words, self.journal.threads, self.journal.coverage, self.notes)
        self.recall = Recall(self.indexer, self.journal.threads, clock=self.journal.clock, embed_seconds=5)
        self.reindexer = Reindexer(self.indexer, self._check)
        self.forgetter = IndexForgetter(self.indexer)
        self.journal.on_entries = self.indexer.entries_changed
        await self.indexer.start()

    def _owner_damaged(self, owner: str, space: str, user_id: str) -> None:
        self.indexer.owner_damaged(owner, space, user_id)

    async def close(self) -> None:
        await self.reindexer.stop()
        await self.indexer.stop()
        await self.recall.close()
        await self.store.close()

    async def reopen(self) -> None:
        await self.close()
        await self.open()

    async def _check(self, generation: str) -> list[str]:
        return self.problems + await self.verifier.problems(generation)

    async def add(self, thread_id: str, *texts: str, user_id: str = "ann") -> None:
        turns = [NewTurn("user", text, START, user_id) for text in texts]
        await self.journal.threads.append(Append("default", thread_id, turns, user_id))
        self.indexer.thread_changed(ThreadRef("default", user_id, thread_id))

    async def edit(self, thread_id: str, number: int, content: str) -> None:
        (placed,) = await self.journal.transcripts.turns(
            ThreadRef("default", "ann", thread_id), number, number
        )
        edited = [replace(placed.turn, content=content)]
        await self.journal.transcripts.revise(ThreadRef("default", "ann", thread_id), edited, {})
        self.indexer.thread_changed(ThreadRef("default", "ann", thread_id))

    async def write_note(self, name: str, text: str) -> None:
        path = f"{OWNER}/notes/{name}.md"
        self.vault.files[path] = text
        await self.notes.seen(Note(path, OWNER, text_digest(text), START))
        self.indexer.notes_changed([OWNER])

    async def forget(self, thread_id: str) -> None:
        """What deleting a thread, and the job that follows, do to the index."""
        await self.journal.delete(thread_id)
        await self.forgetter.forget_thread(ThreadRef("default", "ann", thread_id))

    async def settled(self) -> None:
        async with asyncio.timeout(60):
            await self.indexer.settled()
            while self.indexer._notes_loop.problem or self.indexer._meaning_loop.problem:
                await asyncio.sleep(0.005)
                await self.indexer.settled()

    async def search(self, query: str, *, user_id: str = "ann", mode: Any = "hybrid") -> Found:
        return await self.recall.search(
            Caller(), Search(query, user_id, selection=Selection(mode, top_k=100))
        )

    async def texts(self, query: str, *, user_id: str = "ann", mode: Any = "keyword") -> set[str]:
        return {hit.text for hit in (await self.search(query, user_id=user_id, mode=mode)).hits}

    async def stored(self, generation: str | None = None, owner: str = OWNER) -> dict[str, bool]:
        """The texts that a generation holds of an owner, and whether they have a vector."""
        kept = await LanceIndex.load(self.store, generation or self.indexer.live.name, owner)
        return dict(zip((row.text for row in kept.rows), kept.has_vector.tolist(), strict=True))

    async def holds(self, expected: dict[str, bool], owner: str = OWNER) -> bool:
        return await self.stored(owner=owner) == expected

    async def all_embedded(self, owner: str = OWNER) -> bool:
        return all((await self.stored(owner=owner)).values())

    async def generations(self) -> list[str]:
        return [generation.name for generation in await self.store.generations()]

    async def lose_vectors(self, *texts: str) -> None:
        """Of these texts; of all where none is named."""
        live = self.indexer.live.name
        kept = await LanceIndex.load(self.store, live, OWNER)
        lost = [place for place, row in enumerate(kept.rows) if not texts or row.text in texts]
        rows, words = [kept.rows[place] for place in lost], [kept.words[place] for place in lost]
        await LanceIndex.put(self.store, live, OWNER, rows, words)

    def delete_index(self) -> None:
        """As somebody does who removes the folder of the index."""
        deployment.HOMES.remove_index(self.folder)

    async def whole(self) -> bool:
        """All that the journal holds is indexed and embedded, and nothing else is."""
        live = self.indexer.live.name
        return await self.ledger.behind(live) == [] and await self.verifier.problems(live) == []


def embedder(house: House) -> FakeEmbedder:
    assert house.embedder is not None
    return house.embedder
