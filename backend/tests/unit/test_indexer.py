"""The indexer on fakes: what it does when engines are slow, broken, damaged, swapped or asked to forget."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from recollect.errors import EmbedderUnavailable, IndexUnavailable
from recollect.failpoints import FailPoints
from recollect.memory.access import Caller
from recollect.memory.hits import Selection
from recollect.memory.identity import text_digest
from recollect.memory.index_row import Generation, IndexRow, StoredRows, Vectors
from recollect.memory.model import Append, NewTurn
from recollect.memory.note import Note
from recollect.memory.searchable import FORMAT
from recollect.service import persistent_loop
from recollect.service.corpora import Corpora
from recollect.service.index_meaning import PROBE, MeaningIndexer
from recollect.service.index_words import WordIndexer
from recollect.service.indexer import Indexer
from recollect.service.owner_locks import OwnerLocks
from recollect.service.recall import Found, Recall, Search
from recollect.service.reindex import Reindexer
from recollect.service.verify_index import IndexVerifier
from tests.eventually import eventually
from tests.fake_index import FakeEmbedder
from tests.fake_index_ledger import FakeIndexLedger
from tests.fake_index_store import FakeIndexStore
from tests.fakes import START, FakeJournal, FakeNoteStore, FakeVault

OWNER = "default/users/ann"
HINT = "recollect reindex"


class Picky(FakeEmbedder):
    """Fails, with whatever comes with it, for a text that holds `refused`."""

    refused = "unspeakable"

    async def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = await super().embed(texts)
        if any(self.refused in text for text in texts):
            raise EmbedderUnavailable("the embedding server answered 400")
        return vectors


class Fragile(FakeIndexStore):
    """An index store in which single owners' rows are damaged, cannot be written, or wait to be written."""

    def __init__(self) -> None:
        super().__init__()
        self.damaged: set[str] = set()
        self.read_only: set[str] = set()
        self.on_put: Callable[[str], None] = lambda generation: None

    async def load(self, generation: str, owner: str) -> StoredRows:
        self._refuse(owner, self.damaged)
        return await super().load(generation, owner)

    async def put(self, generation: str, owner: str, rows: Sequence[IndexRow], words: Sequence[str]) -> None:
        self._refuse(owner, self.damaged | self.read_only)
        await super().put(generation, owner, rows, words)
        self.on_put(generation)
        await asyncio.sleep(0)  # Others get their turn, as they do while a disk is written.

    async def set_vectors(
        self, generation: str, owner: str, row_ids: Sequence[str], vectors: Vectors
    ) -> None:
        self._refuse(owner, self.damaged | self.read_only)
        await super().set_vectors(generation, owner, row_ids, vectors)

    async def drop(self, generation: str, owner: str) -> None:
        await super().drop(generation, owner)
        self.damaged.discard(owner)

    def _refuse(self, owner: str, owners: set[str]) -> None:
        if owner in owners:
            raise IndexUnavailable("the index cannot be used; the log says why")


class House:
    """An indexer, a reindexer and a search on fakes. `open` again is a new process on the same disk."""

    def __init__(self, embedder: FakeEmbedder | None = None) -> None:
        self.journal = FakeJournal()
        self.notes, self.vault = FakeNoteStore(), FakeVault()
        self.store = Fragile()
        self.ledger = FakeIndexLedger(self.journal, self.notes)
        self.embedder: FakeEmbedder | None = embedder or FakeEmbedder()
        self.problems: list[str] = []
        """What a check of the index finds, besides what is really wrong."""

    async def open(self) -> None:
        locks, points = OwnerLocks(), FailPoints()
        self.corpora = Corpora(
            self.store,
            self.ledger,
            self.journal.transcripts,
            locks,
            budget_bytes=1 << 30,
            on_damage=self._owner_damaged,
        )
        words = WordIndexer(
            self.store,
            self.ledger,
            self.journal.transcripts,
            self.notes,
            self.vault,
            locks,
            self.corpora,
            points,
        )
        self.meaning = MeaningIndexer(
            self.store,
            self.ledger,
            self.journal.transcripts,
            words,
            locks,
            self.corpora,
            self.embedder,
            points,
        )
        self.indexer = Indexer(
            self.store, self.ledger, words, self.meaning, self.corpora, self.embedder, delay_seconds=0
        )
        self.verifier = IndexVerifier(
            self.store,
            self.ledger,
            self.journal.transcripts,
            self.journal.threads,
            self.journal.coverage,
            self.notes,
            self.vault,
        )
        self.recall = Recall(
            self.indexer,
            self.corpora,
            self.ledger,
            self.journal.threads,
            self.journal.transcripts,
            self.embedder,
            clock=self.journal.clock,
            embed_seconds=5,
        )
        self.reindexer = Reindexer(
            self.indexer, self.store, self.ledger, words, self.meaning, self.embedder, self._check, points
        )
        await self.indexer.start()

    def _owner_damaged(self, owner: str, space: str, user_id: str) -> None:
        self.indexer.owner_damaged(owner, space, user_id)

    async def close(self) -> None:
        await self.indexer.stop()
        await self.recall.close()

    async def reopen(self) -> None:
        await self.close()
        await self.open()

    async def _check(self, generation: str) -> list[str]:
        return self.problems + await self.verifier.problems(generation)

    async def add(self, thread_id: str, *texts: str, user_id: str = "ann") -> None:
        turns = [NewTurn("user", text, START, user_id) for text in texts]
        await self.journal.threads.append(Append("default", thread_id, turns, user_id))
        self.indexer.thread_changed("default", thread_id)

    async def edit(self, thread_id: str, number: int, content: str) -> None:
        (placed,) = await self.journal.transcripts.turns("default", thread_id, number, number)
        edited = [replace(placed.turn, content=content)]
        await self.journal.transcripts.revise("default", thread_id, edited, {})
        self.indexer.thread_changed("default", thread_id)

    async def write_note(self, name: str, text: str) -> None:
        path = f"{OWNER}/notes/{name}.md"
        self.vault.files[path] = text
        await self.notes.seen(Note(path, OWNER, text_digest(text), START))
        self.indexer.notes_changed([OWNER])

    async def forget(self, thread_id: str) -> None:
        """What deleting a thread, and the job that follows, do to the index."""
        await self.journal.threads.delete_thread(thread_id)
        await self.indexer.forget_thread("default", "ann", thread_id)

    async def settled(self) -> None:
        async with asyncio.timeout(10):
            await self.indexer.idle()

    async def search(self, query: str, *, user_id: str = "ann", mode: Any = "hybrid") -> Found:
        return await self.recall.search(
            Caller(), Search(query, user_id, selection=Selection(mode, top_k=100))
        )

    async def texts(self, query: str, *, user_id: str = "ann", mode: Any = "keyword") -> set[str]:
        return {hit.text for hit in (await self.search(query, user_id=user_id, mode=mode)).hits}

    def stored(self, generation: str | None = None, owner: str = OWNER) -> dict[str, bool]:
        """The texts that a generation holds of an owner, and whether they have a vector."""
        kept = self.store.contents[generation or self.indexer.live.name].owners.get(owner, {})
        return {one.row.text: one.vector is not None for one in kept.values()}

    async def whole(self) -> bool:
        """All that the journal holds is indexed and embedded, and nothing else is."""
        live = self.indexer.live.name
        return await self.ledger.behind(live) == [] and await self.verifier.problems(live) == []


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistent_loop, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(persistent_loop, "_LONGEST_PAUSE", 0.01)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    opened = House(Picky())
    await opened.open()
    yield opened
    await opened.close()


def embedder(house: House) -> FakeEmbedder:
    assert house.embedder is not None
    return house.embedder


async def test_words_are_found_while_vectors_are_still_being_made(house: House) -> None:
    embedder(house).go_on.clear()
    await house.add("t1", "Marta moves to Porto")
    await eventually(lambda: embedder(house).waiting)
    assert house.stored() == {"Marta moves to Porto": False}
    assert await house.texts("Porto") == {"Marta moves to Porto"}
    embedder(house).go_on.set()
    await house.settled()
    assert house.stored() == {"Marta moves to Porto": True}
    found = await house.search("Porto")
    assert [(hit.embedded, found.degraded) for hit in found.hits] == [(True, [])]


async def test_vectors_catch_up_when_the_embedder_is_back(house: House) -> None:
    embedder(house).fail = "the embedding server answered 500"
    for number in range(70):
        await house.add(f"t{number}", f"text {number}")
    await eventually(lambda: house.indexer.meaning_problem == "the embedding server answered 500")
    found = await house.search("text")
    assert len(found.hits) == 70
    assert found.degraded == ["searched by words alone: the embedding server answered 500"]
    embedder(house).fail = None
    await house.settled()
    assert house.indexer.meaning_problem is None
    assert await house.whole()
    assert (await house.search("text")).degraded == []


async def test_nothing_is_lost_when_the_process_ends_while_the_embedder_is_down(house: House) -> None:
    embedder(house).fail = "down"
    await house.add("t1", "one", "two")
    await eventually(lambda: house.indexer.meaning_problem)
    embedder(house).fail = None
    await house.reopen()
    await house.settled()
    assert house.stored() == {"one": True, "two": True}


async def test_one_text_that_is_always_refused_keeps_no_other_from_being_embedded(house: House) -> None:
    await house.add("t1", *(f"text {number}" for number in range(10)), "unspeakable", "the last")
    await house.add("t2", "elsewhere")
    await house.settled()
    assert {text for text, embedded in house.stored().items() if not embedded} == {"unspeakable"}
    assert house.indexer.refused == 1
    seen = await house.ledger.progress(house.indexer.live.name, "default", "t1")
    assert seen is not None
    assert seen.refused == 1
    found = await house.search("text")
    assert len(found.hits) == 12  # All that have a vector; the words of the one without were not asked for.
    assert found.degraded == ["1 of 13 texts are not embedded yet and are found by words alone"]


async def test_an_embedder_that_is_down_is_not_asked_for_every_text(house: House) -> None:
    embedder(house).fail = "down"
    await house.add("t1", *(f"text {number}" for number in range(50)))
    await eventually(lambda: house.indexer.meaning_problem)
    assert {len(call) for call in embedder(house).calls} == {50, 1}
    assert all(call == [PROBE] for call in embedder(house).calls if len(call) == 1)


async def test_a_model_that_lies_about_its_dimensions_is_a_problem_that_is_shown(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    embedder(house).dimensions += 1
    await house.add("t1", "two")
    await eventually(lambda: house.indexer.meaning_problem)
    assert "65 dimensions" in str(house.indexer.meaning_problem)
    assert house.stored() == {"one": True, "two": False}
    assert "65 dimensions" in (await house.search("one")).degraded[0]
    with pytest.raises(EmbedderUnavailable, match="65 dimensions"):
        await house.search("one", mode="vector")


async def test_reindexing_mends_vectors_of_other_dimensions(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    embedder(house).dimensions += 1
    await house.add("t1", "two")
    await eventually(lambda: house.indexer.meaning_problem)
    assert (await house.reindexer.reindex()).embedded == 2
    assert house.indexer.live.dimensions == 65
    await house.settled()
    assert (await house.search("one")).degraded == []


async def test_a_turn_that_is_edited_while_it_is_embedded_gets_the_vector_of_its_new_words(
    house: House,
) -> None:
    embedder(house).go_on.clear()
    await house.add("t1", "old words")
    await eventually(lambda: embedder(house).waiting)
    await house.edit("t1", 1, "new words")
    await eventually(lambda: house.stored() == {"new words": False})
    assert await house.texts("words") == {"new words"}
    embedder(house).go_on.set()
    await house.settled()
    stored = await house.store.load(house.indexer.live.name, OWNER)
    (expected,) = await embedder(house).embed(["ann: new words"])
    in_memory = (await house.corpora.get("default", "ann")).corpus
    assert np.array_equal(stored.vectors[0], expected)
    assert np.array_equal(in_memory.vectors[0], expected)


async def test_tags_that_change_leave_vectors_as_they_are(house: House) -> None:
    await house.add("t1", "one", "two")
    await house.settled()
    before = len(embedder(house).calls)
    await house.journal.threads.update_thread("t1", {"tags": ["work"]})
    house.indexer.thread_changed("default", "t1")
    await house.settled()
    stored = await house.store.load(house.indexer.live.name, OWNER)
    assert [row.tags for row in stored.rows] == [("work",), ("work",)]
    assert stored.has_vector.all()
    assert len(embedder(house).calls) == before


async def test_vectors_that_a_kill_took_from_reworked_rows_are_made_anew(house: House) -> None:
    await house.add("t1", "one", "two")
    await house.settled()
    await house.close()
    await house.journal.threads.update_thread("t1", {"tags": ["work"]})
    stored = await house.store.load(house.indexer.live.name, OWNER)
    rows = [replace(row, tags=("work",)) for row in stored.rows]
    await house.store.put(house.indexer.live.name, OWNER, rows, stored.words)
    await house.open()
    await house.settled()
    assert house.stored() == {"one": True, "two": True}


async def test_a_damaged_owner_is_found_from_the_journal_and_filled_again(house: House) -> None:
    await house.add("t1", "one", "two")
    await house.add("t2", "three")
    await house.write_note("n", "four")
    await house.settled()
    house.store.damaged.add(OWNER)
    house.corpora.clear()
    found = await house.search("one two three", mode="keyword")
    assert {hit.text for hit in found.hits} == {"one", "two", "three"}
    assert (found.from_journal, house.corpora.damaged) == (3, 1)
    await house.settled()
    assert house.stored() == dict.fromkeys(("one", "two", "three", "four"), True)
    assert await house.texts("four") == {"four"}
    assert await house.whole()


async def test_rows_that_are_missing_without_an_error_are_noticed(house: House) -> None:
    await house.add("t1", "one", "two")
    await house.settled()
    await house.store.drop(house.indexer.live.name, OWNER)
    house.corpora.clear()
    assert await house.texts("one two") == {"one", "two"}
    await house.settled()
    assert house.stored() == {"one": True, "two": True}


async def test_damage_is_noticed_by_writing_too(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    house.store.damaged.add(OWNER)
    await house.add("t1", "two")
    await house.settled()
    assert house.stored() == {"one": True, "two": True}


async def test_an_owner_who_says_nothing_in_words_is_not_taken_for_damaged(house: House) -> None:
    await house.add("t1", "one", "\n", " \t ", "")
    await house.settled()
    for _ in range(2):
        house.corpora.clear()
        assert await house.texts("one") == {"one"}
    assert house.corpora.damaged == 0


async def test_one_owner_who_cannot_be_written_keeps_no_other_waiting(house: House) -> None:
    house.store.read_only.add(OWNER)
    await house.add("t1", "mine")
    await eventually(lambda: house.indexer.words_problem)
    for number in range(3):
        await house.add(f"b{number}", f"yours {number}", user_id="bob")
    await eventually(lambda: len(house.stored(owner="default/users/bob")) == 3)
    await eventually(lambda: all(house.stored(owner="default/users/bob").values()))
    assert house.indexer.words_problem == "the index cannot be used; the log says why"
    house.store.read_only.clear()
    await house.settled()
    assert [house.indexer.words_problem, house.stored()] == [None, {"mine": True}]


async def test_what_cannot_be_written_is_found_all_the_same(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    assert await house.texts("one two three") == {"one"}
    house.store.read_only.add(OWNER)
    for text in ("two", "three"):
        await house.add("t1", text)
        await eventually(partial(_finds, house, text))
    assert house.stored() == {"one": True}


async def _finds(house: House, text: str) -> bool:
    return text in await house.texts(text)


async def test_a_message_that_comes_while_the_loop_looks_is_not_overlooked(house: House) -> None:
    """The last look at the ledger before a thread counts as done is the moment at which another message comes."""
    seen = house.ledger.progress

    async def progress(generation: str, space: str, thread_id: str) -> Any:
        found = await seen(generation, space, thread_id)
        if len(house.journal.rows["default", "t1"].turns) == 1:
            await house.add("t1", "two")
        return found

    await house.add("t1", "one")
    await house.settled()
    house.ledger.progress = progress  # type: ignore[method-assign]
    house.indexer.thread_changed("default", "t1")
    await house.settled()
    assert house.stored() == {"one": True, "two": True}


async def test_a_note_that_changes_while_notes_are_indexed_is_not_overlooked(house: House) -> None:
    async def change_once(generation: str) -> None:
        await house.write_note("n", "second")

    changing: list[asyncio.Task[None]] = []

    def on_put(generation: str) -> None:
        if not changing:
            changing.append(asyncio.ensure_future(change_once(generation)))

    house.store.on_put = on_put
    await house.write_note("n", "first")
    await eventually(lambda: changing and changing[0].done())
    await house.settled()
    assert house.stored() == {"second": True}


async def test_notes_that_wait_are_said_to_be_missing(house: House) -> None:
    house.store.read_only.add(OWNER)
    await house.write_note("n", "first")
    await eventually(lambda: house.indexer.words_problem)
    assert (await house.search("first", mode="keyword")).degraded == [
        "some notes are not indexed yet and are not found"
    ]


async def test_an_index_that_is_missing_is_made_anew_while_search_finds_everything(house: House) -> None:
    await house.add("t1", "one", "two")
    await house.settled()
    await house.close()
    house.store.contents.clear()
    house.store.live_name = None
    embedder(house).go_on.clear()
    await house.open()
    assert await house.texts("one two") == {"one", "two"}
    embedder(house).go_on.set()
    await house.settled()
    assert (house.indexer.remaking, await house.whole()) == (False, True)


async def test_an_index_of_another_format_is_made_anew_with_the_vectors_it_had(house: House) -> None:
    await house.add("t1", "one", "two")
    await house.settled()
    await house.close()
    old = house.indexer.live
    house.store.contents[old.name].described = replace(old, format=FORMAT + 1)
    embedder(house).calls.clear()
    await house.open()
    assert await house.texts("one two") == {"one", "two"}
    await house.settled()
    assert await house.whole()
    assert house.indexer.live.format == FORMAT
    assert list(house.store.contents) == [house.indexer.live.name]
    assert embedder(house).calls == []


async def test_forgetting_reaches_an_old_index_whose_vectors_are_still_wanted(house: House) -> None:
    await house.add("t1", "secret")
    await house.add("t2", "harmless")
    await house.settled()
    await house.close()
    old = house.indexer.live
    house.store.contents[old.name].described = replace(old, format=FORMAT + 1, model="another")
    embedder(house).fail = "down"
    await house.open()
    await house.forget("t1")
    assert "secret" not in house.stored(old.name)


async def test_an_old_index_does_not_stay_where_no_embedder_is_configured(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    await house.close()
    old = house.indexer.live
    house.store.contents[old.name].described = replace(old, format=FORMAT + 1)
    house.embedder = None
    await house.open()
    await house.settled()
    assert list(house.store.contents) == [house.indexer.live.name]


async def test_a_generation_that_a_killed_rebuild_left_is_discarded(house: House) -> None:
    await house.store.create(Generation("g000009", FORMAT))
    await house.reopen()
    assert list(house.store.contents) == [house.indexer.live.name]


async def test_another_model_searches_by_words_until_the_index_is_made_anew(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    house.embedder = FakeEmbedder("another-model", 32)
    await house.reopen()
    await house.add("t1", "two")
    await house.settled()
    assert HINT in str(house.indexer.model_mismatch)
    found = await house.search("one two")
    assert {hit.text for hit in found.hits} == {"one", "two"}
    assert HINT in found.degraded[0]
    with pytest.raises(EmbedderUnavailable, match=HINT):
        await house.search("one", mode="vector")
    assert (await house.reindexer.reindex()).embedded == 2
    await house.settled()
    assert house.indexer.model_mismatch is None
    assert (await house.search("one two")).degraded == []
    assert await house.texts("one", mode="vector") == {"one", "two"}


async def test_reindexing_uses_vectors_again(house: House) -> None:
    await house.add("t1", "one", "two")
    await house.write_note("n", "three")
    await house.settled()
    old = house.indexer.live.name
    assert (await house.reindexer.reindex()).embedded == 0
    assert house.indexer.live.name != old
    assert list(house.store.contents) == [house.indexer.live.name]
    await house.settled()
    assert house.stored() == dict.fromkeys(("one", "two", "three"), True)


async def test_reindexing_without_an_embedder_ends(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    house.embedder = None
    await house.reopen()
    async with asyncio.timeout(10):
        await house.reindexer.reindex()
    assert house.stored() == {"one": False}


async def test_reindexing_with_an_embedder_that_is_down_says_so_and_changes_nothing(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    old = house.indexer.live
    embedder(house).fail = "down"
    with pytest.raises(EmbedderUnavailable, match="down"):
        await house.reindexer.reindex()
    assert (house.indexer.live, list(house.store.contents)) == (old, [old.name])


async def test_reindexing_leaves_a_text_that_is_refused_to_its_words(house: House) -> None:
    await house.add("t1", "one", "unspeakable", "two")
    async with asyncio.timeout(10):
        await house.reindexer.reindex()
    await house.settled()
    assert house.stored() == {"one": True, "unspeakable": False, "two": True}


async def test_what_is_added_while_reindexing_is_not_missing_afterwards(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    live = house.indexer.live.name
    added: list[asyncio.Task[None]] = []

    def on_put(generation: str) -> None:
        if generation != live and len(added) < 20:
            number = len(added)
            added.append(asyncio.ensure_future(house.add(f"t{number % 3}", f"new {number}")))

    house.store.on_put = on_put
    async with asyncio.timeout(10):
        await house.reindexer.reindex()
    house.store.on_put = lambda generation: None
    await asyncio.gather(*added)
    expected = {"one", *(f"new {number}" for number in range(len(added)))}
    assert await house.texts(" ".join(expected)) == expected
    assert len(added) > 1
    await house.settled()
    assert house.stored() == dict.fromkeys(expected, True)
    assert await house.whole()


async def test_a_search_that_was_reading_when_the_index_was_swapped_reads_the_new_one(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    house.corpora.clear()
    load, reading, go_on = house.store.load, asyncio.Event(), asyncio.Event()

    async def slow_load(generation: str, owner: str) -> StoredRows:
        stored = await load(generation, owner)
        reading.set()
        await go_on.wait()
        return stored

    house.store.load = slow_load  # type: ignore[method-assign]
    searching = asyncio.ensure_future(house.search("one", mode="keyword"))
    await reading.wait()
    house.store.load = load  # type: ignore[method-assign]
    building = Generation("g000777", FORMAT)
    await house.ledger.add_generation(building.name)
    await house.store.create(building)
    async with house.indexer.held():
        old = await house.indexer.swap_to(building)
    await house.store.discard(old.name)
    go_on.set()
    found = await searching
    assert [hit.text for hit in found.hits] == ["one"]
    assert (found.embedded, found.from_journal) == (0, 1)
    assert house.corpora.damaged == 0
    house.indexer.catch_up()
    await house.add("t1", "two")
    await house.settled()
    assert await house.texts("one two") == {"one", "two"}


async def test_a_check_that_fails_leaves_the_old_index_in_place(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    old = house.indexer.live
    house.problems = ["index: 1 texts are missing"]
    with pytest.raises(IndexUnavailable, match="1 texts are missing"):
        await house.reindexer.reindex()
    assert (house.indexer.live, list(house.store.contents)) == (old, [old.name])
    assert await house.texts("one") == {"one"}
    house.problems = []
    await house.reindexer.reindex()
    assert house.indexer.live != old


async def test_a_swap_that_fails_leaves_the_old_index_in_place(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    old = house.indexer.live

    async def promote(generation: str) -> None:
        raise IndexUnavailable("the disk is full")

    house.store.promote = promote  # type: ignore[method-assign]
    with pytest.raises(IndexUnavailable, match="full"):
        await house.reindexer.reindex()
    assert (house.indexer.live, list(house.store.contents)) == (old, [old.name])
    assert await house.texts("one") == {"one"}


async def test_a_caller_who_goes_away_during_the_swap_leaves_it_whole(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    old = house.indexer.live
    promote, promoting, go_on = house.store.promote, asyncio.Event(), asyncio.Event()

    async def slow_promote(generation: str) -> None:
        promoting.set()
        await go_on.wait()
        await promote(generation)

    house.store.promote = slow_promote  # type: ignore[method-assign]
    reindexing = asyncio.ensure_future(house.reindexer.reindex())
    await promoting.wait()
    reindexing.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await reindexing
    assert house.indexer.live.name == house.store.live_name != old.name
    await house.settled()
    assert house.stored() == {"one": True}


async def test_forgetting_while_reindexing_leaves_no_row_in_either_generation(house: House) -> None:
    await house.add("t1", "secret", "secret too")
    await house.add("t2", "harmless")
    await house.settled()
    live = house.indexer.live.name
    forgetting: list[asyncio.Task[None]] = []
    both: list[list[str]] = []

    async def forget() -> None:
        await house.forget("t1")
        both.append([text for name in house.store.contents for text in house.stored(name)])

    def on_put(generation: str) -> None:
        if generation != live and not forgetting:
            forgetting.append(asyncio.ensure_future(forget()))

    house.store.on_put = on_put
    await house.reindexer.reindex()
    await asyncio.gather(*forgetting)
    assert [text for text in both[0] if "secret" in text] == []
    await house.settled()
    assert house.stored() == {"harmless": True}
    assert await house.texts("secret harmless") == {"harmless"}


async def test_forgetting_in_an_index_that_cannot_be_read_drops_it_and_fills_the_rest_again(
    house: House,
) -> None:
    await house.add("t1", "secret")
    await house.add("t2", "harmless")
    await house.write_note("n", "noted")
    await house.settled()
    house.store.damaged.add(OWNER)
    await house.forget("t1")
    await house.settled()
    assert house.stored() == {"harmless": True, "noted": True}


async def test_a_thread_id_that_another_user_takes_over_is_indexed_for_them(house: House) -> None:
    await house.add("t1", "mine")
    await house.settled()
    await house.journal.threads.delete_thread("t1")
    await house.add("t1", "yours", user_id="bob")
    await house.indexer.forget_thread("default", "ann", "t1")
    await house.settled()
    assert (house.stored(), house.stored(owner="default/users/bob")) == ({}, {"yours": True})


async def test_neighbours_are_never_another_users(house: House) -> None:
    await house.add("t1", "mine", "mine too")
    await house.settled()
    await house.journal.threads.delete_thread("t1")
    await house.add("t1", *("yours" for _ in range(5)), user_id="bob")
    found = await house.recall.search(Caller(), Search("mine", "ann", neighbours=5))
    assert [turn.content for turns in found.neighbours for turn in turns] == []


async def test_idle_waits_for_what_an_earlier_process_left(house: House) -> None:
    embedder(house).fail = "down"
    await house.add("t1", "one")
    await eventually(lambda: house.indexer.meaning_problem)
    embedder(house).fail = None
    await house.reopen()
    assert not house.indexer.is_idle()
    await house.settled()
    assert house.stored() == {"one": True}
