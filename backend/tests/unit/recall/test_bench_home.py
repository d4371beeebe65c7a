"""What a search returns, as the measurement of recall counts it."""

import pytest
from recall_home import Doors
from recall_measure import Query
from recall_metrics import score


class Answering:
    """A client whose search finds an episode, a fact and a note."""

    async def call(self, method: str, path: str, **given: object) -> dict[str, object]:
        found = [("episodes", "e" * 400, ["m1", "m2"]), ("facts", "f" * 300, ["m1"]), ("note", "n", [])]
        return {
            "hits": [
                {"type": kind, "text": text, "message_ids": ids, "said": ["s" * 100] * (kind == "facts")}
                for kind, text, ids in found
            ],
            "degraded": [],
        }


@pytest.fixture
def doors() -> Doors:
    return Doors(None, Answering(), 50)  # type: ignore[arg-type]


async def test_a_fact_stands_for_its_messages_and_an_episode_for_none_and_their_texts_count(
    doors: Doors,
) -> None:
    answer = await doors.ask(Query("ann", "what?", 0))
    assert [hit.message_ids for hit in answer.hits] == [(), ("m1",), ()]
    assert score(answer.hits, frozenset(["m2"])).at_20 == 0
    assert sum(len(hit.text) for hit in answer.hits) == 801
    assert score(answer.hits[:1], frozenset(["m1"])).at_5 == 0
    assert score(answer.hits, frozenset(["m1"])).reciprocal_rank == 1
