"""Threads as a page lists them, their turns with receipts, and second first messages. In this process, without a socket."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.http_client import Home, Json, message, opened


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with opened(tmp_path / "home") as home:
        yield home


async def make(home: Home, thread_id: str, title: str | None = None, user_id: str = "ann") -> None:
    body = {"thread_id": thread_id, "user_id": user_id, "title": title}
    assert (await home.client.post("/api/v1/threads", json=body)).status_code == 201


async def listed(home: Home, **query: str | int) -> Json:
    answer = await home.client.get("/api/v1/threads", params={"user_id": "ann", "order": "recent", **query})
    assert answer.status_code == 200
    found: Json = answer.json()
    return found


def ids(page: Json) -> list[str]:
    return [thread["thread_id"] for thread in page["threads"]]


async def test_a_pinned_thread_stands_first_until_it_is_unpinned(home: Home) -> None:
    for name in ("a", "b"):
        await make(home, name)
    first, second = ids(await listed(home))
    for pinned, expected in ((True, [second, first]), (None, [first, second])):
        answer = await home.client.patch(f"/api/v1/threads/{second}", json={"pinned": pinned})
        assert answer.json()["pinned"] is bool(pinned)
        assert ids(await listed(home)) == expected


async def test_recent_threads_come_page_by_page(home: Home) -> None:
    for number in range(5):
        await make(home, f'odd "{number}" / id')
    seen: list[str] = []
    page = await listed(home, limit=2)
    while True:
        seen += ids(page)
        if "next" not in page:
            break
        page = await listed(home, limit=2, after=page["next"])
    assert sorted(seen) == [f'odd "{number}" / id' for number in range(5)]


async def test_threads_are_found_by_title_within_the_user_alone(home: Home) -> None:
    await make(home, "a", "Ärger in Porto")
    await make(home, "b", "Lisbon")
    await make(home, "c", "ärger", user_id="bob")
    assert ids(await listed(home, title="ÄRGER")) == ["a"]
    assert len(ids(await listed(home, title=""))) == 2


@pytest.mark.parametrize("query", [{"after": "t1"}, {"after": "[1,2]"}, {"order": "created", "title": "x"}])
async def test_what_marks_no_page_is_refused(home: Home, query: dict[str, str]) -> None:
    answer = await home.client.get("/api/v1/threads", params={"order": "recent", **query})
    assert answer.status_code == 422
    assert answer.json()["error"]["field"] in query


async def test_one_turn_is_read_by_its_owner_alone(home: Home) -> None:
    body = {"session_id": "t1", "user_id": "ann", "messages": [message("hello")]}
    await home.client.post("/api/v1/memory/add", json=body)
    turns = "/api/v1/threads/t1/turns"
    assert (await home.client.get(f"{turns}/t-1", params={"user_id": "ann"})).json()["content"] == "hello"
    for turn, user in (("t-1", "bob"), ("t-9", "ann")):
        assert (await home.client.get(f"{turns}/{turn}", params={"user_id": user})).status_code == 404


async def test_without_keys_one_is_the_operator(home: Home) -> None:
    answer = await home.client.get("/api/v1/whoami")
    assert answer.json() == {"space": "default", "user_id": None, "default_user": "me"}
