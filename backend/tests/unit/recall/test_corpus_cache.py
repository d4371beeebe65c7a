"""Owners' rows in memory: what changes is changed in place, and no search waits until all is read again."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from recollect.domain.model import ThreadRef
from recollect.domain.recall.rows import IndexRow, StoredRows, words_of
from recollect.service.recall.owner_corpus import OwnerCorpus
from tests.contract.journals import Journal
from tests.eventually import eventually
from tests.persons_vault import PersonsVault
from tests.unit.index_house import OWNER, House


@pytest.fixture
async def house(journal: Journal, vault: PersonsVault) -> AsyncIterator[House]:
    opened = House(journal, vault)
    await opened.open()
    await opened.add("t1", "the dog Rex", "a cat", "the dog Lux")
    await opened.add("t2", "a dog in Porto")
    await opened.settled()
    yield opened
    await opened.close()


async def in_memory(house: House) -> OwnerCorpus:
    return await house.corpus_cache.get("default", "ann")


def row_with(owned: OwnerCorpus, text: str) -> IndexRow:
    (row,) = (row for row in owned.corpus.rows if row.text == text)
    return row


async def write(house: House, *rows: IndexRow, gone: tuple[str, ...] = ()) -> None:
    await house.corpus_cache.extend(OWNER, rows, [words_of(row) for row in rows], gone)


async def test_a_row_that_is_written_again_takes_the_place_of_the_old_one(house: House) -> None:
    owned = await in_memory(house)
    await write(house, replace(row_with(owned, "a cat"), text="a zebra"))
    assert await in_memory(house) is owned
    assert await house.texts("cat") == set()
    assert await house.texts("zebra") == {"a zebra"}
    around = owned.corpus.around(owned.corpus.places[row_with(owned, "a zebra").row_id], owned.corpus.view())
    assert [owned.corpus.rows[place].text for place in around] == ["the dog Rex", "a zebra", "the dog Lux"]


async def test_what_is_edited_or_deleted_is_replaced_in_memory_and_not_read_again(house: House) -> None:
    await house.write_note("n", "a dog in a note")
    await house.settled()
    before = await in_memory(house)
    await house.edit("t1", 1, "the wolf Rex")
    await house.write_note("n", "a wolf in a note")
    await house.forget("t2")
    await house.settled()
    assert await in_memory(house) is before
    assert await house.texts("rex") == {"the wolf Rex"}
    assert await house.texts("note") == {"a wolf in a note"}
    assert await house.texts("dog") == {"the dog Lux"}
    found = await house.search("wolf")
    assert (found.degraded, found.rows) == ([], 4)


async def test_a_row_keeps_its_vector_unless_it_says_something_else(house: House) -> None:
    owned = await in_memory(house)
    tagged = replace(row_with(owned, "a cat"), tags=("pets",))
    edited = replace(row_with(owned, "the dog Rex"), text="the wolf Rex")
    before = owned.corpus.vector_of(tagged.row_id)
    assert before is not None
    before = before.copy()
    await write(house, tagged, edited)
    after = owned.corpus.vector_of(tagged.row_id)
    assert after is not None
    assert after.tolist() == before.tolist()
    assert owned.corpus.vector_of(edited.row_id) is None


async def test_a_row_that_was_removed_before_it_was_written_has_no_vector(house: House) -> None:
    owned = await in_memory(house)
    cat = row_with(owned, "a cat")
    await write(house, cat, gone=(cat.row_id,))
    assert owned.corpus.vector_of(cat.row_id) is None
    assert await house.texts("cat") == {"a cat"}


async def test_what_is_read_ahead_is_found_before_it_is_indexed_and_once_afterwards(house: House) -> None:
    owned, thread = await in_memory(house), ThreadRef("default", "ann", "t3")
    changed = house.indexer.thread_changed
    house.indexer.thread_changed = lambda thread: None  # type: ignore[method-assign]
    await house.add("t3", "a zebra")
    assert "a zebra" not in await house.texts("zebra")
    await house.corpus_cache.read_ahead(thread)
    await house.corpus_cache.read_ahead(thread)
    assert await house.texts("zebra") == {"a zebra"}
    changed(thread)
    await house.settled()
    assert not owned.unindexed
    assert [row.text for row in owned.corpus.rows].count("a zebra") == 1
    assert owned.corpus.vector_of(row_with(owned, "a zebra").row_id) is not None


async def test_a_forgotten_thread_is_gone_from_memory_and_another_of_its_name_is_found_at_once(
    house: House,
) -> None:
    house.indexer.thread_changed = lambda thread: None  # type: ignore[method-assign]
    await house.add("t2", "not yet indexed")
    house.corpus_cache.clear()
    owned = await in_memory(house)
    assert len(owned.unindexed) == 1
    await house.journal.delete("t2")
    await house.add("t2", "a zebra")
    await house.forgetter.forget_thread(ThreadRef("default", "ann", "t2"))
    assert {row.text for row in owned.corpus.rows if row.text} == {"the dog Rex", "a cat", "the dog Lux"}
    assert await house.texts("dog zebra") == {"the dog Rex", "the dog Lux", "a zebra"}


async def test_what_is_a_third_empty_is_read_again_while_searches_go_on(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.add("long", *(f"message {n}" for n in range(600)))
    await house.settled()
    owned = await in_memory(house)
    may_read, load = asyncio.Event(), house.store.load

    async def slow(generation: str, owner: str, *, patient: bool = False) -> StoredRows:
        await may_read.wait()
        return await load(generation, owner, patient=patient)

    monkeypatch.setattr(house.store, "load", slow)
    messages = [row for row in owned.corpus.rows if row.text.startswith("message")]
    await write(house, *(replace(row, tags=("new",)) for row in messages))
    assert owned.corpus.empty_share > 1 / 3
    assert await in_memory(house) is owned
    assert len(await house.texts("message")) == 100
    may_read.set()

    async def is_read_again() -> bool:
        return await in_memory(house) is not owned

    await eventually(is_read_again)
    again = await in_memory(house)
    assert (len(again.corpus), again.corpus.empty_places) == (604, 0)
