"""An edit, new tags, a note and a deleted thread change single rows in memory: no search reads all of them again."""

from collections.abc import AsyncIterator

import pytest

from tests.contract.journals import Journal
from tests.persons_vault import PersonsVault
from tests.unit.index_house import House


@pytest.fixture
async def house(journal: Journal, vault: PersonsVault) -> AsyncIterator[House]:
    opened = House(journal, vault)
    await opened.open()
    await opened.add("t1", "the dog Rex", "a cat")
    await opened.add("t2", "a dog in Porto")
    await opened.write_note("n", "a dog in a note")
    await opened.settled()
    yield opened
    await opened.close()


async def test_an_edited_turn_is_replaced(house: House) -> None:
    before = await house.corpora.get("default", "ann")
    await house.edit("t1", 1, "the wolf Rex")
    await house.settled()
    assert await house.corpora.get("default", "ann") is before
    assert await house.texts("rex") == {"the wolf Rex"}
    assert (await house.search("wolf")).degraded == []


async def test_an_edited_note_is_replaced(house: House) -> None:
    before = await house.corpora.get("default", "ann")
    await house.write_note("n", "a wolf in a note")
    await house.settled()
    assert await house.corpora.get("default", "ann") is before
    assert await house.texts("note") == {"a wolf in a note"}
    assert (await house.search("wolf")).degraded == []


async def test_a_deleted_thread_is_gone(house: House) -> None:
    before = await house.corpora.get("default", "ann")
    await house.forget("t2")
    await house.settled()
    assert await house.corpora.get("default", "ann") is before
    assert await house.texts("dog") == {"the dog Rex", "a dog in a note"}
    assert (await house.search("dog")).rows == 3
