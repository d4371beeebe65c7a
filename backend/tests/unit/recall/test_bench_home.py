"""What a search returns, as the measurement of recall counts it."""

import pytest
from recall_home import Doors
from recall_measure import Query
from recall_metrics import score


class Answering:
    """A client whose search finds an entry and the turn it came from."""

    async def call(self, method: str, path: str, **given: object) -> dict[str, object]:
        found = [("facts", "f" * 400, ["m1"]), ("turn", "t" * 400, ["m1"]), ("note", "n", [])]
        return {
            "hits": [{"type": kind, "text": text, "message_ids": ids} for kind, text, ids in found],
            "degraded": [],
        }


@pytest.fixture
def doors() -> Doors:
    return Doors(None, Answering(), 50)  # type: ignore[arg-type]


async def test_an_entry_counts_by_the_messages_it_came_from_and_by_its_text(doors: Doors) -> None:
    answer = await doors.ask(Query("ann", "what?", 0))
    assert [hit.message_ids for hit in answer.hits] == [("m1",), ("m1",), ()]
    assert sum(len(hit.text) for hit in answer.hits) == 801
    assert score(answer.hits[:1], frozenset(["m1"])).at_5 == 1
