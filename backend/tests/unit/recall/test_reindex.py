"""Reindexing: beside the live index, proven, swapped, and nothing lost on the way."""

import asyncio

import pytest

from recollect.domain.recall.rows import FORMAT, Generation, StoredRows
from recollect.errors import EmbedderUnavailable, IndexUnavailable, StorageUnavailable
from recollect.service import coordination
from recollect.service.recall import embedding, words
from tests.eventually import eventually
from tests.fakes import FakeEmbedder
from tests.unit.index_house import House, embedder

HINT = "all texts are embedded again in the background"


async def test_what_kept_vectors_from_the_old_index_is_no_problem_of_the_new_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.add("t1", "one")
    await house.settled()
    embedder(house).dimensions += 1
    monkeypatch.setattr(coordination, "_FIRST_PAUSE", 60.0)
    await house.add("t1", "two")
    await eventually(lambda: house.indexer.meaning_problem)
    assert (await house.reindexer.reindex()).embedded == 2
    assert house.indexer.live.dimensions == 65
    assert house.indexer.meaning_problem is None
    await house.add("t1", "three")
    await house.settled()
    assert await house.stored() == dict.fromkeys(("one", "two", "three"), True)


async def test_another_model_embeds_all_again_in_the_background_and_search_goes_by_words_meanwhile(
    house: House,
) -> None:
    await house.add("t1", "one")
    await house.settled()
    house.embedder = other = FakeEmbedder("another-model", 32)
    other.go_on.clear()
    await house.reopen()
    told: list[str] = []
    house.store.on_put = lambda _: told.append(str(house.reindexer.problem))
    await house.add("t1", "two")
    await house.settled()
    house.reindexer.start()
    house.indexer.catch_up()
    await eventually(lambda: other.waiting)
    assert HINT in str(house.indexer.model_mismatch)
    found = await house.search("one two")
    assert {hit.text for hit in found.hits} == {"one", "two"}
    assert HINT in found.degraded[0]
    with pytest.raises(EmbedderUnavailable, match=HINT):
        await house.search("one", mode="vector")
    other.go_on.set()
    await eventually(lambda: house.indexer.model_mismatch is None)
    await house.settled()
    assert "0 of about 2 texts are done" in told[-1]
    assert (house.reindexer.problem, house.reindexer.progress) == (None, None)
    found = await house.search("one two")
    assert (found.degraded, found.model) == ([], "another-model")
    assert await house.texts("one", mode="vector") == {"one", "two"}


async def test_the_old_vectors_serve_until_the_index_is_made_again_where_their_model_is_still_here(
    house: House,
) -> None:
    await house.add("t1", "one")
    await house.settled()
    former, house.embedder = house.embedder, FakeEmbedder("another-model", 32)
    await house.reopen()
    house.recall._find_former = {"fake-words": former}.get  # type: ignore[assignment]
    found = await house.search("one", mode="vector")
    assert ([hit.text for hit in found.hits], found.model) == (["one"], "fake-words")
    assert HINT in found.degraded[0]
    await house.reindexer.reindex()
    found = await house.search("one", mode="vector")
    assert (found.degraded, found.model) == ([], "another-model")


async def test_notes_in_many_portions_are_all_in_the_index_and_in_the_next_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "_PASSAGES_AT_ONCE", 2)
    monkeypatch.setattr(embedding, "_FILES_AT_ONCE", 2)
    async with house.indexer.held():
        for number in range(5):
            await house.write_note(f"n{number}", f"# One\n{number}\n# Two\n{number}")
    await house.settled()
    assert await house.whole()
    assert (await house.reindexer.reindex()).embedded == 0
    await house.settled()
    assert [len(await house.stored()), await house.whole(), await house.all_embedded()] == [10, True, True]


async def test_reindexing_uses_vectors_again(house: House) -> None:
    await house.add("t1", "one", "two")
    await house.write_note("n", "three")
    await house.settled()
    old = house.indexer.live.name
    assert (await house.reindexer.reindex()).embedded == 0
    assert house.indexer.live.name != old
    assert await house.generations() == [house.indexer.live.name]
    await house.settled()
    assert await house.stored() == dict.fromkeys(("one", "two", "three"), True)


async def test_reindexing_with_an_embedder_that_is_down_says_so_and_changes_nothing(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    old = house.indexer.live
    embedder(house).fail = "down"
    with pytest.raises(EmbedderUnavailable, match="down"):
        await house.reindexer.reindex()
    assert (house.indexer.live, await house.generations()) == (old, [old.name])


async def test_reindexing_leaves_a_text_that_is_refused_to_its_words(house: House) -> None:
    await house.add("t1", "one", "unspeakable", "two")
    async with asyncio.timeout(30):
        await house.reindexer.reindex()
    await house.settled()
    assert await house.stored() == {"one": True, "unspeakable": False, "two": True}


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
    async with asyncio.timeout(30):
        await house.reindexer.reindex()
    house.store.on_put = lambda generation: None
    await asyncio.gather(*added)
    expected = {"one", *(f"new {number}" for number in range(len(added)))}
    assert await house.texts(" ".join(expected)) == expected
    assert len(added) > 1
    await house.settled()
    assert await house.stored() == dict.fromkeys(expected, True)
    assert await house.whole()


async def test_a_search_that_was_reading_when_the_index_was_swapped_reads_the_new_one(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    house.corpus_cache.clear()
    load, reading, go_on = house.store.load, asyncio.Event(), asyncio.Event()

    async def slow_load(generation: str, owner: str, *, patient: bool = False) -> StoredRows:
        stored = await load(generation, owner, patient=patient)
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
    assert house.corpus_cache.damaged == 0
    house.indexer.catch_up()
    await house.add("t1", "two")
    await house.settled()
    assert await house.texts("one two") == {"one", "two"}


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
    assert house.indexer.live == await house.store.live() != old
    await house.settled()
    assert await house.stored() == {"one": True}


async def test_forgetting_while_reindexing_leaves_no_row_in_either_generation(house: House) -> None:
    await house.add("t1", "secret", "secret too")
    await house.add("t2", "harmless")
    await house.settled()
    live = house.indexer.live.name
    forgetting: list[asyncio.Task[None]] = []
    both: list[list[str]] = []

    async def forget() -> None:
        await house.forget("t1")
        both.append([text for name in await house.generations() for text in await house.stored(name)])

    def on_put(generation: str) -> None:
        if generation != live and not forgetting:
            forgetting.append(asyncio.ensure_future(forget()))

    house.store.on_put = on_put
    await house.reindexer.reindex()
    await asyncio.gather(*forgetting)
    assert [text for text in both[0] if "secret" in text] == []
    await house.settled()
    assert await house.stored() == {"harmless": True}
    assert await house.texts("secret harmless") == {"harmless"}


async def test_a_check_that_fails_leaves_the_old_index_in_place(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    old = house.indexer.live
    house.problems = ["index: 1 texts are missing"]
    with pytest.raises(IndexUnavailable, match="1 texts are missing"):
        await house.reindexer.reindex()
    assert (house.indexer.live, await house.generations()) == (old, [old.name])
    assert await house.texts("one") == {"one"}
    house.problems = []
    await house.reindexer.reindex()
    assert house.indexer.live != old


@pytest.mark.parametrize("missing", [True, False])
async def test_reindexing_refuses_while_notes_cannot_be_read(house: House, missing: bool) -> None:
    await house.write_note("n", "three")
    await house.settled()
    old = house.indexer.live
    house.vault.files.clear()
    if missing:
        house.vault.take_away()
    with pytest.raises(StorageUnavailable, match="the vault is missing" if missing else "1 notes"):
        await house.reindexer.reindex()
    assert (house.indexer.live, await house.generations()) == (old, [old.name])
    assert await house.texts("three") == {"three"}


async def test_reindexing_uses_no_vector_that_the_index_does_not_vouch_for(house: House) -> None:
    await house.add("t1", "one", "two")
    await house.settled()
    await house.lose_vectors("one")
    assert (await house.reindexer.reindex()).embedded == 1
    assert await house.stored() == {"one": True, "two": True}
