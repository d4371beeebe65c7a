"""Threads as a page lists them, turns from any place in one, and ids that no address can hold."""

import json
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from recollect.domain.model import Append, NewTurn
from tests.http_client import START, Home, Json, message, opened
from tests.processes import Server

Told = tuple[list[str], str | None, str | None]
DOTS = pytest.mark.parametrize("dots", [".", ".."])
SAID = {"user_id": "ann", "messages": [message("Hello")]}


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


async def test_an_archived_thread_is_listed_apart_until_it_is_brought_back(home: Home) -> None:
    for name in ("a", "b"):
        await make(home, name)
    for archived in (True, None):
        answer = await home.client.patch("/api/v1/threads/a", json={"archived": archived})
        assert answer.json()["archived"] is bool(archived)
        apart = ["a"] if archived else []
        assert ids(await listed(home, archived="true")) == apart
        assert sorted(ids(await listed(home, archived="false"))) == sorted({"a", "b"} - set(apart))
        assert sorted(ids(await listed(home))) == ["a", "b"]
    answer = await home.client.get("/api/v1/threads", params={"archived": True})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "archived")


async def test_a_thread_is_exported_whole(home: Home) -> None:
    await make(home, "a", "Porto")
    lines = [message(f"line {number}", number) for number in range(120)]
    added = {"session_id": "a", "user_id": "ann", "messages": lines}
    (await home.client.post("/api/v1/memory/add", json=added)).raise_for_status()
    told = (await home.client.get("/api/v1/threads/a/export", params={"format": "json"})).json()
    assert [turn["content"] for turn in told["turns"]] == [f"line {number}" for number in range(120)]
    written = await home.client.get("/api/v1/threads/a/export")
    assert written.headers["content-type"] == "text/markdown; charset=utf-8"
    assert written.text.startswith("# Porto\n")
    assert written.text.count("line ") == 120
    assert (await home.client.get("/api/v1/threads/a/export?user_id=bob")).status_code == 404


async def test_recent_threads_come_page_by_page(home: Home) -> None:
    for number in range(5):
        await make(home, f'odd "{number}" / id')
    pages = await home.pages("threads", "threads", limit=2, user_id="ann", order="recent")
    assert [len(page) for page in pages] == [2, 2, 1]
    assert sorted(thread["thread_id"] for page in pages for thread in page) == [
        f'odd "{number}" / id' for number in range(5)
    ]


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


async def test_without_keys_one_is_the_operator(home: Home) -> None:
    answer = await home.client.get("/api/v1/whoami")
    assert answer.json() == {"space": "default", "user_id": None, "default_user": "me"}


# --- turns from any place in a thread -------------------------------------------------------------------------


@pytest.fixture
async def long(home: Home) -> Home:
    await home.add("t1", *(f"turn {number}" for number in range(1, 11)))
    return home


async def told(long: Home, **query: Any) -> Told:
    """The turns' ids, `next` and `newer`."""
    answer = (await long.client.get("/api/v1/threads/t1/turns", params=query)).raise_for_status().json()
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
    long: Home, query: dict[str, Any], answer: Told
) -> None:
    assert await told(long, **query) == answer


async def test_around_a_turn_that_was_forgotten_are_its_neighbours(long: Home) -> None:
    (await long.client.delete("/api/v1/threads/t1/turns/t-3")).raise_for_status()
    assert await told(long, around="t-3", max_turns=2) == (["t-2", "t-4"], "t-2", "t-4")
    assert await told(long, after="t-3", max_turns=1) == (["t-4"], "t-4", "t-4")


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ({"around": "nonsense"}, 404, "around"),
        ({"after": "nonsense"}, 404, "after"),
        ({"around": "t-1", "before": "t-1"}, 422, "around"),
    ],
)
async def test_what_is_no_place_is_refused_by_name(
    long: Home, query: dict[str, str], status: int, field: str
) -> None:
    answer = await long.client.get("/api/v1/threads/t1/turns", params=query)
    assert (answer.status_code, answer.json()["error"]["field"]) == (status, field)


# --- ids that no address can hold ------------------------------------------------------------------------------


async def threads_of(home: Home) -> list[str]:
    return ids((await home.client.get("/api/v1/threads", params={"order": "recent"})).json())


def asked_as_it_stands(server: Server, method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
    """Most clients take dots out of a path; this one, like `curl --path-as-is`, leaves them in it."""
    with closing(HTTPConnection(urlsplit(server.address).netloc, timeout=30)) as connection:
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@DOTS
@pytest.mark.parametrize(
    ("route", "field", "body"),
    [
        ("threads", "thread_id", {"user_id": "ann"}),
        ("memory/add", "session_id", SAID),
    ],
)
async def test_a_body_opens_no_thread_by_it(
    home: Home, dots: str, route: str, field: str, body: Json
) -> None:
    answer = await home.client.post(f"/api/v1/{route}", json={**body, field: dots})
    error = answer.json()["error"]
    assert (answer.status_code, error["field"]) == (422, field)
    assert "no address can hold" in error["message"]
    assert await threads_of(home) == []


@DOTS
async def test_a_client_of_openais_protocol_opens_no_thread_by_it(home: Home, dots: str) -> None:
    body: Json = {"messages": [{"role": "user", "content": "Hello"}]}
    named = await home.client.post("/v1/chat/completions", json=body, headers={"X-Recollect-Thread": dots})
    told = await home.client.post("/v1/chat/completions", json={**body, "metadata": {"thread_id": dots}})
    assert [named.status_code, told.status_code] == [400, 400]
    assert await threads_of(home) == []


async def test_a_thread_from_before_is_listed_read_and_deleted_but_a_path_opens_none(tmp_path: Path) -> None:
    turn = NewTurn(role="user", content="Hello", timestamp=START, sender_id="ann")
    async with opened(tmp_path / "home") as home:
        for dots in (".", ".."):
            await home.app.THREADS.append(Append("default", dots, (turn,), "ann"))
        assert sorted(await threads_of(home)) == [".", ".."]
    with Server(tmp_path / "home") as server:
        for dots in (".", ".."):
            path = f"/api/v1/threads/{dots}"
            _, read = asked_as_it_stands(server, "GET", f"{path}/turns")
            assert [turn["content"] for turn in read["turns"]] == ["Hello"]
            deleted = asked_as_it_stands(server, "DELETE", path)
            assert deleted == (200, {"thread_id": dots, "forgotten": 1})
            for said in ("turns", {"role": "user", "content": "Hello"}), ("messages", {"content": "Hello"}):
                status, answer = asked_as_it_stands(server, "POST", f"{path}/{said[0]}", said[1])
                assert (status, answer["error"]["field"]) == (422, "thread_id")
        assert asked_as_it_stands(server, "GET", "/api/v1/threads") == (200, {"threads": []})
