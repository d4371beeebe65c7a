"""Ids that no address can hold: no thread is opened by one; a thread that has one from before is listed, and can be deleted."""

import json
from collections.abc import AsyncIterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from recollect.domain.model import Append, NewTurn
from tests.http_client import START, Home, Json, message, opened
from tests.processes import Server

DOTS = pytest.mark.parametrize("dots", [".", ".."])
SAID = {"user_id": "ann", "messages": [message("Hello")]}


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with opened(tmp_path / "home") as home:
        yield home


async def threads_of(home: Home) -> list[str]:
    listed = (await home.client.get("/api/v1/threads", params={"order": "recent"})).json()["threads"]
    return [thread["thread_id"] for thread in listed]


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


@pytest.mark.parametrize("odd", ["...", "%2e", "%2e%2e", "a/b", "a?b", "a#b", "日本", "a b", "./.", "../x"])
async def test_any_other_text_opens_one(home: Home, odd: str) -> None:
    await home.add(odd, "Hello")
    assert await threads_of(home) == [odd]
