"""The indexer: words at once, vectors when they can be had, whatever is slow, broken or edited."""

import asyncio
from functools import partial
from typing import Any

import numpy as np
import pytest

from recollect.domain.access import Caller
from recollect.domain.model import Note, ThreadRef
from recollect.domain.recall.rows import FORMAT, Generation
from recollect.errors import EmbedderUnavailable
from recollect.service.recall.embedding import BATCH, PROBE
from recollect.service.recall.search import Search
from tests.eventually import eventually
from tests.unit.index_house import OWNER, House, embedder

HINT = "all texts are embedded again"


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
    assert await house.stored() == {"one": True, "two": False}
    assert "65 dimensions" in (await house.search("one")).degraded[0]
    with pytest.raises(EmbedderUnavailable, match="65 dimensions"):
        await house.search("one", mode="vector")


async def test_a_turn_that_is_edited_while_it_is_embedded_gets_the_vector_of_its_new_words(
    house: House,
) -> None:
    embedder(house).go_on.clear()
    await house.add("t1", "old words")
    await eventually(lambda: embedder(house).waiting)
    await house.edit("t1", 1, "new words")
    await eventually(lambda: house.holds({"new words": False}))
    assert await house.texts("words") == {"new words"}
    embedder(house).go_on.set()
    await house.settled()
    stored = await house.store.load(house.indexer.live.name, OWNER)
    (expected,) = await embedder(house).embed(["ann: new words"])
    in_memory = (await house.corpus_cache.get("default", "ann")).corpus
    assert np.array_equal(stored.vectors[0], expected)
    assert np.array_equal(in_memory.vectors[0], expected)


async def test_tags_that_change_leave_vectors_as_they_are(house: House) -> None:
    await house.add("t1", "one", "two")
    await house.settled()
    before = len(embedder(house).calls)
    await house.journal.update("t1", {"tags": ["work"]})
    house.indexer.thread_changed(ThreadRef("default", "ann", "t1"))
    await house.settled()
    stored = await house.store.load(house.indexer.live.name, OWNER)
    assert [row.tags for row in stored.rows] == [("work",), ("work",)]
    assert stored.has_vector.all()
    assert len(embedder(house).calls) == before


async def test_one_owner_who_cannot_be_written_keeps_no_other_waiting(house: House) -> None:
    house.store.read_only.add(OWNER)
    await house.add("t1", "mine")
    await eventually(lambda: house.indexer.words_problem)
    for number in range(3):
        await house.add(f"b{number}", f"yours {number}", user_id="bob")
    bobs = {f"yours {number}": True for number in range(3)}
    await eventually(lambda: house.holds(bobs, "default/users/bob"))
    assert house.indexer.words_problem == "the index cannot be used; the log says why"
    house.store.read_only.clear()
    await house.settled()
    assert [house.indexer.words_problem, await house.stored()] == [None, {"mine": True}]


@pytest.mark.slow
async def test_another_users_message_is_indexed_between_the_notes_of_one_who_brings_many(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder(house).fail = "down"
    put, written = house.store.put, []

    async def put_and_add(generation: str, owner: str, *rows: Any) -> None:
        await put(generation, owner, *rows)
        written.append(owner)
        if len(written) == 1:
            await house.add("b1", "yours", user_id="bob")

    monkeypatch.setattr(house.store, "put", put_and_add)
    async with house.indexer.held():
        for number in range(3):
            many = "\n".join(f"# h{each} {number}\n\nx{each}" for each in range(40_000))
            await house.write_note(f"n{number}", many)
    await eventually(lambda: not house.indexer.notes_behind(OWNER), seconds=120)
    assert written.count(OWNER) == 3
    assert "default/users/bob" in written[:-1], "his message waited for all of ann's notes"
    assert len((await house.search("h39999 2", mode="keyword")).hits) > 0


async def test_the_vectors_of_many_notes_keep_nobody_elses_waiting(house: House) -> None:
    embedder(house).go_on.clear()
    async with house.indexer.held():
        for number in range(3):
            many = "\n".join(f"# h{each}\n\nx{each}" for each in range(BATCH))
            await house.write_note(f"n{number}", many)
    await eventually(lambda: embedder(house).waiting)
    await house.add("b1", "yours", user_id="bob")
    await eventually(lambda: house.indexer.waiting == (0, 1))
    embedder(house).go_on.set()
    await house.settled()
    sent = [call[0].partition(":")[0] for call in embedder(house).calls]
    assert sent.index("bob") < max(place for place, name in enumerate(sent) if name.startswith("n"))
    assert await house.all_embedded()


async def test_what_cannot_be_written_is_found_all_the_same(house: House) -> None:
    await house.add("t1", "one")
    await house.settled()
    assert await house.texts("one two three") == {"one"}
    house.store.read_only.add(OWNER)
    for text in ("two", "three"):
        await house.add("t1", text)
        await eventually(partial(_finds, house, text))
    assert await house.stored() == {"one": True}


async def _finds(house: House, text: str) -> bool:
    return text in await house.texts(text)


async def test_a_message_that_comes_while_the_loop_looks_is_not_overlooked(house: House) -> None:
    """The last look at the ledger before a thread counts as done is the moment at which another message comes."""
    seen = house.ledger.progress

    async def progress(generation: str, thread: ThreadRef) -> Any:
        found = await seen(generation, thread)
        if len(await house.journal.history("t1")) == 1:
            await house.add("t1", "two")
        return found

    await house.add("t1", "one")
    await house.settled()
    house.ledger.progress = progress  # type: ignore[method-assign]
    house.indexer.thread_changed(ThreadRef("default", "ann", "t1"))
    await house.settled()
    assert await house.stored() == {"one": True, "two": True}


async def test_a_message_that_is_left_alone_from_now_on_while_it_is_indexed_leaves_the_index(
    house: House,
) -> None:
    record = house.ledger.record_words

    async def record_words(*given: Any) -> bool:
        await house.journal.chats.leave_examples(ThreadRef("default", "ann", "t1"), 1, 1)
        return await record(*given)

    house.ledger.record_words = record_words  # type: ignore[assignment, method-assign]
    await house.add("t1", "one")
    await house.add("t1", "two")
    assert "two" in await house.texts("one two")  # Whether "one" is, depends on who is quicker.
    await house.settled()
    assert await house.stored() == {"two": True}
    assert await house.texts("one two") == {"two"}


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
    assert await house.stored() == {"second": True}


async def test_a_note_that_is_indexed_before_its_edit_is_recorded_has_the_time_of_the_edit(
    house: House,
) -> None:
    path = f"{OWNER}/notes/n.md"
    async with house.indexer.held():
        await house.write_note("n", "first")
        house.vault.files[path] = "second"
    await house.settled()
    found = await house.vault.look(path)
    assert found is not None
    await house.notes.seen(Note(path, OWNER, found.digest, found.modified))
    assert list(await house.stored()) == ["second"]
    assert await house.whole()


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
    assert await house.stored() == {"harmless": True, "noted": True}


async def test_a_thread_id_that_another_user_takes_over_is_indexed_for_them(house: House) -> None:
    await house.add("t1", "mine")
    await house.settled()
    await house.journal.delete("t1")
    await house.add("t1", "yours", user_id="bob")
    await house.forgetter.forget_thread(ThreadRef("default", "ann", "t1"))
    await house.settled()
    assert (await house.stored(), await house.stored(owner="default/users/bob")) == ({}, {"yours": True})


async def test_neighbours_are_never_another_users(house: House) -> None:
    await house.add("t1", "mine", "mine too")
    await house.settled()
    await house.journal.delete("t1")
    await house.add("t1", *("yours" for _ in range(5)), user_id="bob")
    found = await house.recall.search(Caller(), Search("mine", "ann", neighbours=5))
    assert [turn.content for turns in found.neighbours for turn in turns] == []


async def test_other_dimensions_under_the_same_name_are_noticed_at_the_start(
    house: House,
) -> None:
    await house.add("t1", "one")
    await house.settled()
    await house.close()
    embedder(house).dimensions += 1
    await house.open()
    await eventually(lambda: house.indexer.model_mismatch)
    assert "gives 65 dimensions, and the index has 64" in str(house.reindexer.problem)
    assert HINT in str(house.reindexer.problem)
    assert HINT in (await house.search("one")).degraded[0]
    embedder(house).dimensions -= 1
    await eventually(lambda: house.indexer.model_mismatch is None)
    assert (await house.search("one")).degraded == []


@pytest.mark.parametrize(
    ("made_with", "configured", "fits"),
    [
        (None, "a", True),
        ("a", "a", True),
        ("a", "b", False),
        ("a#12", "a#34", False),
        ("a#12", "a#", True),
        ("ab#12", "a#", False),
        ("a", "a#", False),
    ],
)
def test_a_model_is_known_by_its_name_and_the_digest_of_its_files(
    made_with: str | None, configured: str, fits: bool
) -> None:
    assert Generation("g1", FORMAT, made_with, 4).holds_vectors_of(configured) is fits


async def test_search_is_overtaken_by_whoever_adds_too_much_until_it_caught_up(house: House) -> None:
    house.indexer._backlog._most_behind = 3
    embedder(house).go_on.clear()
    await house.add("a", "red one", "red two", "red three")
    await house.add("b", "blue one", "blue two", user_id="bob")
    await eventually(lambda: house.indexer.overtaken == {("default", "ann")})
    assert await house.texts("red") == {"red one", "red two", "red three"}, "words come first"
    embedder(house).go_on.set()
    await house.settled()
    assert house.indexer.overtaken == set()


async def test_an_embedder_that_is_down_and_a_backlog_from_before_the_start_stop_nobody(house: House) -> None:
    house.indexer._backlog._most_behind = 3
    embedder(house).fail = "down"
    await house.add("a", *(f"red {number}" for number in range(9)))
    await eventually(lambda: house.indexer.meaning_problem is not None and not house.indexer._behind)
    assert house.indexer.overtaken == set()
    embedder(house).fail = None
    embedder(house).go_on.clear()
    await house.reopen()
    house.indexer._backlog._most_behind = 3
    await house.add("a", "one more")
    await eventually(lambda: embedder(house).waiting > 0 and not house.indexer._behind)
    assert house.indexer.overtaken == set()
    embedder(house).go_on.set()


async def test_neither_a_user_nor_a_thread_keeps_another_from_being_embedded(house: House) -> None:
    model = embedder(house)
    model.go_on.clear()
    await house.add("first", "first")
    await eventually(lambda: model.waiting > 0)
    await house.add("b", "of another user", user_id="bob")
    await house.add("quiet", "of another thread")
    await house.add("busy", *(f"busy {number}" for number in range(5 * BATCH)))
    await eventually(lambda: not house.indexer._behind)
    model.go_on.set()
    await house.settled()
    embedded = [{text.partition(": ")[2] or text for text in call} for call in model.calls]
    turns = {text: number for number, call in enumerate(embedded) for text in call}
    assert turns["of another user"] == 1
    assert turns["of another thread"] == 2
    assert len(model.calls) <= 1 + 6


async def test_where_a_write_is_dear_each_is_of_many_texts_of_one_user_and_users_take_turns(
    house: House,
) -> None:
    model = embedder(house)
    house.store.place.fewest_texts = BATCH // 4
    model.go_on.clear()
    await house.add("first", "first")
    await eventually(lambda: model.waiting > 0)
    for user in range(8):
        await house.add("t", *(f"user{user} {number}" for number in range(BATCH // 2)), user_id=f"user{user}")
    await eventually(lambda: not house.indexer._behind)
    model.go_on.set()
    await house.settled()
    users = [{text.rpartition(": ")[2].split()[0] for text in call} for call in model.calls[1:]]
    assert users == [{f"user{number + first}" for number in range(4)} for first in (0, 4, 0, 4)]


async def test_a_query_in_a_script_that_the_model_does_not_know_is_searched_by_words_and_told(
    house: House,
) -> None:
    await house.add("t1", "ሰላም ነው", "something else")
    await house.settled()
    assert (await house.search("ሰላም")).model == "fake-words"
    embedder(house).unknown = 0.6
    found = await house.search("ሰላም")
    assert ([hit.text for hit in found.hits], found.model) == (["ሰላም ነው"], None)
    assert found.degraded == [
        "the embedding model fake-words does not know the script of this query, which was searched by words alone"
    ]
