"""Reading a thread from any place in it: the turns around one, and on from there in both directions."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.http_client import Home, opened

Told = tuple[list[str], str | None, str | None]


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with opened(tmp_path / "home") as home:
        await home.add("t1", *(f"turn {number}" for number in range(1, 11)))
        yield home


async def told(home: Home, **query: Any) -> Told:
    """The turns' ids, `next` and `newer`."""
    answer = (await home.client.get("/api/v1/threads/t1/turns", params=query)).raise_for_status().json()
    return [turn["turn_id"] for turn in answer["turns"]], answer.get("next"), answer.get("newer")


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ({"around": "t-5", "max_turns": 4}, (["t-3", "t-4", "t-5", "t-6"], "t-3", "t-6")),
        ({"around": "t-1", "max_turns": 4}, (["t-1", "t-2"], None, "t-2")),
        ({"around": "t-10", "max_turns": 4}, (["t-8", "t-9", "t-10"], "t-8", None)),
        ({"around": "t-99", "max_turns": 4}, (["t-9", "t-10"], "t-9", None)),
        ({"around": "t-5"}, ([f"t-{number}" for number in range(1, 11)], None, None)),
        ({"around": "t-5", "max_turns": 10**30}, ([f"t-{number}" for number in range(1, 11)], None, None)),
        ({"around": "t-5", "max_turns": 0}, ([], None, None)),
        ({"after": "t-6", "max_turns": 2}, (["t-7", "t-8"], "t-7", "t-8")),
        ({"after": "t-8"}, (["t-9", "t-10"], "t-9", None)),
        ({"after": "t-10"}, ([], None, None)),
    ],
)
async def test_an_answer_says_where_to_go_on_where_there_is_more(
    home: Home, query: dict[str, Any], answer: Told
) -> None:
    assert await told(home, **query) == answer


async def test_around_a_turn_that_was_forgotten_are_its_neighbours(home: Home) -> None:
    (await home.client.delete("/api/v1/threads/t1/turns/t-3")).raise_for_status()
    assert await told(home, around="t-3", max_turns=2) == (["t-2", "t-4"], "t-2", "t-4")
    assert await told(home, after="t-3", max_turns=1) == (["t-4"], "t-4", "t-4")


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ({"around": "nonsense"}, 404, "around"),
        ({"after": "nonsense"}, 404, "after"),
        ({"around": "t-1", "before": "t-1"}, 422, "around"),
    ],
)
async def test_what_is_no_place_is_refused_by_name(
    home: Home, query: dict[str, str], status: int, field: str
) -> None:
    answer = await home.client.get("/api/v1/threads/t1/turns", params=query)
    assert (answer.status_code, answer.json()["error"]["field"]) == (status, field)


async def test_another_users_turns_are_not_there(home: Home) -> None:
    answer = await home.client.get("/api/v1/threads/t1/turns", params={"around": "t-5", "user_id": "eve"})
    assert answer.status_code == 404
