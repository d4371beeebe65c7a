"""Recall: what is forgotten is never shown, a budget holds for all that comes back, and nobody is held up."""

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from recollect.domain.access import Caller
from recollect.domain.recall.hits import STRETCH, Scope, Selection, tokens
from recollect.domain.recall.rank import Scores, score
from recollect.service.recall import search as recall
from recollect.service.recall.search import Found, Search
from tests.contract.journals import Journal
from tests.persons_vault import PersonsVault
from tests.unit.index_house import House

LONG = "The dog ran on. " + "Nothing much happened on that day. " * 400


@pytest.fixture
async def house(journal: Journal, vault: PersonsVault) -> AsyncIterator[House]:
    opened = House(journal, vault)
    await opened.open()
    yield opened
    await opened.close()


async def searched(house: House, query: str, neighbours: int = 0, **selection: Any) -> Found:
    given = Selection(**{"mode": "keyword", **selection})
    return await house.recall.search(Caller(), Search(query, "ann", selection=given, neighbours=neighbours))


@pytest.mark.parametrize("deleted", ["t1", "t2"])
async def test_a_message_that_repeats_a_forgotten_one_is_found_without_it(house: House, deleted: str) -> None:
    await house.add("t1", "The dog is in Porto")
    await house.add("t2", "the dog is in porto!")
    await house.settled()
    (both,) = (await searched(house, "dog")).hits
    await house.journal.delete(deleted)
    (hit,) = (await searched(house, "dog")).hits
    assert hit.row.thread_id == ({"t1", "t2"} - {deleted}).pop()
    assert len(both.message_ids) == 2
    assert hit.message_ids == list(hit.row.message_ids)


async def test_what_is_forgotten_leaves_its_place_to_the_next(house: House) -> None:
    await house.add("long", *(f"dog {n}" for n in range(60)))
    await house.add("t1", *(f"the dog of neighbour {n}" for n in range(5)))
    await house.settled()
    await house.journal.delete("long")
    hits = (await searched(house, "dog", top_k=4)).hits
    assert {hit.row.thread_id for hit in hits} == {"t1"}
    assert len(hits) == 4


async def test_a_stretch_shows_nothing_forgotten(house: House) -> None:
    await house.add("t1", "the dog barks", "a secret", "so it goes")
    await house.settled()
    await house.journal.execute("DELETE FROM turns WHERE position = 2")
    (hit,) = (await searched(house, "dog", scope=Scope(types=frozenset([STRETCH])))).hits
    assert "secret" not in hit.text
    assert "so it goes" in hit.text


async def test_neighbours_count_towards_the_budget(house: House) -> None:
    await house.add("t1", "short before", LONG, "the dog Rex", "short after", LONG)
    await house.settled()
    found = await searched(house, "rex", neighbours=2, max_tokens=100)
    around = [turn.content for turn in found.neighbours[0]]
    assert around == ["short before", "short after"]
    assert found.left_out == {"hits": 0, "neighbours": 2}
    shown = [found.hits[0].text, *around]
    assert sum(map(tokens, shown)) <= 100


async def test_what_is_left_of_a_budget_makes_passages_longer(house: House) -> None:
    await house.add("t1", LONG, "a dog")
    await house.settled()
    found = await searched(house, "dog", max_tokens=1000)
    spent = sum(tokens(hit.text) for hit in found.hits)
    assert 900 <= spent <= 1000
    (long,) = (hit for hit in found.hits if hit.passage is not None)
    assert long.row.text[slice(*long.passage or ())].strip() == long.text


@pytest.mark.parametrize(("text", "elsewhere"), [("a dog", False), ("dog " * 60_000, True)])
async def test_long_texts_are_ranked_off_the_event_loop(
    house: House, monkeypatch: pytest.MonkeyPatch, text: str, elsewhere: bool
) -> None:
    await house.add("t1", text)
    await house.settled()
    threads = []

    def watched(*given: Any, **named: Any) -> Scores:
        threads.append(threading.current_thread() is not threading.main_thread())
        return score(*given, **named)

    monkeypatch.setattr(recall, "score", watched)
    assert len((await searched(house, "dog")).hits) == 1
    assert threads == [elsewhere]


async def test_an_operator_who_names_an_agent_alone_is_told_whose_threads_were_searched(house: House) -> None:
    for hits in (0, 1):
        found = await house.recall.search(Caller(), Search("dog", agent_id="helper"))
        assert len(found.hits) == hits
        await house.add("t1", "the dog", user_id="me")
        await house.settled()
        assert any("the threads of the user me alone" in told for told in found.degraded)
    found = await house.recall.search(Caller(user_id="ann"), Search("dog", agent_id="helper"))
    assert found.degraded == []


async def test_an_embedding_model_that_hangs_leaves_whoever_is_in_a_hurry_a_search_by_words(
    house: House,
) -> None:
    await house.add("t1", "The dog is in Porto")
    await house.settled()
    assert house.embedder is not None
    house.embedder.go_on.clear()
    search = Search("dog", "ann", selection=Selection("hybrid"), embed_seconds=0.01)
    found = await house.recall.search(Caller(), search)
    house.embedder.go_on.set()
    assert [hit.text for hit in found.hits] == ["The dog is in Porto"]
    assert any("did not answer within 0.01 s" in each for each in found.degraded)
