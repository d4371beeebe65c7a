"""Texts that the embedding model does not take: said truthfully, and tried again."""

from collections.abc import Sequence

from recollect.domain.recall.rows import Vectors
from recollect.errors import EmbedderUnavailable
from recollect.service.recall.embedding import PROBE
from recollect.service.recall.verify import meaning_problem
from tests.eventually import eventually
from tests.fakes import FakeEmbedder
from tests.unit.index_house import OWNER, House, Picky


class Failing(FakeEmbedder):
    """Answers with a server's error to whatever holds one of the `bad` words."""

    def __init__(self, *bad: str) -> None:
        super().__init__()
        self.bad = bad

    async def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = await super().embed(texts)
        if any(word in text for word in self.bad for text in texts if text != PROBE):
            raise EmbedderUnavailable("the embedding server answered 500")
        return vectors


def picky(house: House) -> Picky:
    assert isinstance(house.embedder, Picky)
    return house.embedder


async def refused(house: House) -> None:
    """Ann has a message and a passage of a note that are refused, among others."""
    await house.add("t1", "one", "unspeakable", "two")
    await house.write_note("n", "# A\nunspeakable\n# B\nfine")
    await house.settled()
    assert house.indexer.refused == 2


async def test_health_and_search_say_what_is_refused_also_after_a_restart(house: House) -> None:
    await refused(house)
    for _ in range(2):
        assert meaning_problem(house.indexer) == (
            "2 texts are found by words alone: the embedding model refuses them, and is asked again every hour"
        )
        assert (await house.search("one")).degraded == [
            "2 of 5 texts were refused by the embedding model and are found by words alone"
        ]
        await house.reopen()
        await house.settled()


async def test_what_was_refused_is_tried_again_at_the_start(house: House) -> None:
    await refused(house)
    picky(house).refused = "nothing"
    await house.reopen()
    await house.settled()
    assert await house.all_embedded()
    assert (house.indexer.refused, meaning_problem(house.indexer)) == (0, None)
    assert (await house.search("one")).degraded == []
    assert await house.whole()


async def test_the_next_try_comes_by_itself(house: House) -> None:
    await house.close()
    house.indexer._retry_seconds = 0.01
    await house.indexer.start()
    await house.add("t1", "unspeakable", "one")
    await eventually(lambda: house.indexer.refused == 1)
    picky(house).refused = "nothing"
    await eventually(house.all_embedded)


async def test_a_vector_whose_record_a_kill_took_counts_as_refused_no_more(house: House) -> None:
    await house.add("t1", "one", "unspeakable")
    await house.settled()
    await house.close()
    live = house.indexer.live.name
    stored = await house.store.load(live, OWNER)
    await house.store.set_vectors(live, OWNER, [row.row_id for row in stored.rows], stored.vectors + 1)
    await house.open()
    await house.settled()
    assert house.indexer.refused == 0


async def test_what_is_edited_while_it_is_tried_again_gets_the_vector_of_its_new_words(house: House) -> None:
    await house.add("t1", "one", "unspeakable")
    await house.settled()
    picky(house).refused = "nothing"
    picky(house).go_on.clear()
    house.indexer.try_refused_again()
    await eventually(lambda: picky(house).waiting)
    await house.edit("t1", 2, "new words")
    await eventually(lambda: house.holds({"one": True, "new words": False}))
    picky(house).go_on.set()
    await house.settled()
    assert await house.stored() == {"one": True, "new words": True}
    assert house.indexer.refused == 0
    assert await house.whole()


async def test_a_server_that_fails_at_everything_refuses_nothing(house: House) -> None:
    house.embedder = failing = Failing("one", "two")
    await house.reopen()
    await house.add("t1", "one", "two")
    await eventually(lambda: house.indexer.meaning_problem)
    assert house.indexer.refused == 0
    failing.bad = ()
    await house.settled()
    assert await house.stored() == {"one": True, "two": True}


async def test_one_text_that_a_server_always_fails_at_keeps_no_other_from_being_embedded(
    house: House,
) -> None:
    house.embedder = Failing("one")
    await house.reopen()
    await house.add("t1", "one", "two", "three")
    await house.settled()
    assert await house.stored() == {"one": False, "two": True, "three": True}
    assert house.indexer.refused == 1
