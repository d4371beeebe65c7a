"""An index that is missing, damaged, gone or of another format: nothing is hidden, all is made again."""

import asyncio
from dataclasses import replace

import pytest

from recollect.domain.model import Note
from recollect.domain.recall.rows import FORMAT, Generation
from recollect.errors import IndexUnreachable
from recollect.service.recall.generations import IndexInspector
from recollect.service.recall.verify import index_problem
from tests.eventually import eventually
from tests.fakes import START
from tests.unit.index_house import OWNER, House, embedder

BLANKS = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000"


async def test_damage_is_noticed_by_writing_too(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    house.store.damaged.add(OWNER)
    await house.add("t1", "two")
    await house.settled()
    assert await house.stored() == {"one": True, "two": True}


async def test_an_index_that_opens_halfway_is_opened_again_and_not_replaced(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.add("t1", "one")
    await house.settled()
    live = house.indexer.live
    await house.close()
    begin, tries, go_on = IndexInspector.begin, [0], asyncio.Event()

    async def fails_at_first(inspector: IndexInspector, generation: str) -> None:
        tries[0] += 1
        if not go_on.is_set():
            raise IndexUnreachable("for the test")
        await begin(inspector, generation)

    monkeypatch.setattr(IndexInspector, "begin", fails_at_first)
    await house.open()
    await eventually(lambda: tries[0] > 1)
    assert await house.texts("one") == {"one"}
    with pytest.raises(IndexUnreachable):
        await house.indexer.ensure_live()
    go_on.set()
    await house.settled()
    assert house.indexer.live == live
    assert await house.generations() == [live.name]
    assert await house.texts("one") == {"one"}


async def test_an_owner_who_says_nothing_in_words_is_not_taken_for_damaged(house: House) -> None:
    await house.add("t1", "one", "", BLANKS, *BLANKS)
    await house.write_note("n", " \n")
    await house.settled()
    for _ in range(2):
        house.corpus_cache.clear()
        assert await house.texts("one") == {"one"}
    assert house.corpus_cache.damaged == 0


async def test_an_index_of_another_format_is_made_again_with_the_vectors_it_had(house: House) -> None:
    await house.add("t1", "one", "two")
    await house.settled()
    await house.close()
    old = house.indexer.live
    house.store.describe(replace(old, format=FORMAT + 1))
    embedder(house).calls.clear()
    await house.open()
    assert await house.texts("one two") == {"one", "two"}
    await house.settled()
    assert await house.whole()
    assert house.indexer.live.format == FORMAT
    assert await house.generations() == [house.indexer.live.name]
    assert embedder(house).calls == []


async def test_forgetting_reaches_an_old_index_whose_vectors_are_still_wanted(house: House) -> None:
    await house.add("t1", "secret")
    await house.add("t2", "harmless")
    await house.settled()
    await house.close()
    old = house.indexer.live
    house.store.describe(replace(old, format=FORMAT + 1, model="another"))
    embedder(house).fail = "down"
    await house.open()
    await house.forget("t1")
    kept = [text for name in await house.generations() for text in await house.stored(name)]
    assert "secret" not in kept


async def test_a_generation_that_a_killed_rebuild_left_is_discarded(house: House) -> None:
    await house.store.create(Generation("g000009", FORMAT))
    await house.reopen()
    assert await house.generations() == [house.indexer.live.name]


async def test_an_owner_of_notes_alone_who_lost_them_is_told_so_and_has_them_again(house: House) -> None:
    await house.write_note("n", "three")
    await house.settled()
    await house.store.drop(house.indexer.live.name, OWNER)
    house.corpus_cache.clear()
    found = await house.search("three", mode="keyword")
    assert (found.hits, found.degraded) == ([], ["some notes are not indexed yet and are not found"])
    await house.settled()
    assert await house.texts("three") == {"three"}
    assert (await house.search("three", mode="keyword")).degraded == []


async def test_vectors_that_vanish_are_noticed_and_made_again(house: House) -> None:
    await house.add("t1", "one", "two")
    await house.write_note("n", "three")
    await house.settled()
    await house.lose_vectors()
    assert await house.verifier.problems(house.indexer.live.name) == [
        "index: it holds 0 turn vectors, fewer than the 2 it should"
    ]
    house.corpus_cache.clear()
    await house.texts("one")
    await house.settled()
    assert await house.stored() == dict.fromkeys(("one", "two", "three"), True)
    assert await house.whole()


async def test_an_index_that_is_deleted_meanwhile_is_made_again_with_the_next_message(house: House) -> None:
    await house.add("t1", "one")
    await house.write_note("n", "three")
    await house.settled()
    old = house.indexer.live.name
    house.delete_index()
    await house.add("t1", "two")
    await house.settled()
    assert house.indexer.live == await house.store.live()
    assert house.indexer.live.name != old
    assert await house.stored() == dict.fromkeys(("one", "two", "three"), True)
    assert (house.indexer.words_problem, house.indexer.remaking) == (None, False)
    assert await house.whole()


async def test_a_search_in_a_deleted_index_finds_messages_and_says_that_notes_are_missing(
    house: House,
) -> None:
    await house.add("t1", "one")
    await house.write_note("n", "three")
    await house.settled()
    house.delete_index()
    house.corpus_cache.clear()
    found = await house.search("one three", mode="keyword")
    assert [hit.text for hit in found.hits] == ["one"]
    assert found.degraded == ["some notes are not indexed yet and are not found"]
    await house.settled()
    assert await house.texts("one three") == {"one", "three"}


async def test_forgetting_works_where_the_index_was_deleted(house: House) -> None:
    await house.add("t1", "secret")
    await house.add("t2", "harmless")
    await house.settled()
    house.delete_index()
    await house.forget("t1")
    await house.settled()
    assert await house.stored() == {"harmless": True}


async def test_notes_that_cannot_be_read_wait_until_they_can(house: House) -> None:
    await house.write_note("n", "three")
    await house.settled()
    await house.close()
    house.delete_index()
    path, text = house.vault.files.popitem()
    await house.open()
    await house.add("t1", "one")
    await eventually(lambda: house.indexer.notes_problem)
    async with asyncio.timeout(30):
        await house.indexer.settled()
    assert await house.stored() == {"one": True}
    found = await house.search("one three", mode="keyword")
    assert [hit.text for hit in found.hits] == ["one"]
    assert found.degraded == ["some notes are not indexed yet and are not found"]
    assert "notes are missing from search: 1 notes" in str(index_problem(house.indexer))
    house.vault.files[path] = text
    await house.settled()
    assert await house.stored() == {"one": True, "three": True}
    assert index_problem(house.indexer) is None


async def test_a_note_whose_file_is_gone_keeps_its_rows_until_it_is_let_go(house: House) -> None:
    await house.write_note("n", "three")
    await house.settled()
    path = next(iter(house.vault.files))
    house.vault.files.clear()
    await house.notes.seen(Note(path, OWNER, "another digest", START))
    house.indexer.notes_changed([OWNER])
    await eventually(lambda: house.indexer.notes_problem)
    assert await house.texts("three") == {"three"}
    await house.notes.gone([path])
    house.indexer.notes_changed([OWNER])
    await house.settled()
    assert await house.stored() == {}


async def test_a_known_note_without_a_file_is_a_problem_that_verifying_names(house: House) -> None:
    await house.write_note("n", "three")
    await house.settled()
    house.vault.files.clear()
    assert await house.verifier.problems(house.indexer.live.name) == [
        "index: 1 notes are known whose files are not in the vault"
    ]
