"""How far a key leads: users and spaces see nothing of each other."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from recollect.entrypoints.http.server import create_api
from tests.http_client import Home, Json, add_one, message, thread_path

THREAD_PARAMETERS = {"thread_id", "session_id"}


def routes_that_take_a_thread() -> Iterator[tuple[str, str]]:
    """Out of the OpenAPI document, so that a new one is covered or fails here."""
    document = create_api().openapi()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            names = {parameter["name"] for parameter in operation.get("parameters", [])}
            names |= _body_fields(document, operation)
            if names & THREAD_PARAMETERS:
                yield method.upper(), path


def _body_fields(document: Json, operation: Json) -> set[str]:
    content = operation.get("requestBody", {}).get("content", {})
    reference = content.get("application/json", {}).get("schema", {}).get("$ref", "")
    schema = document["components"]["schemas"].get(reference.rpartition("/")[2], {})
    return set(schema.get("properties", {}))


ROUTES = list(routes_that_take_a_thread())
BODIES: dict[tuple[str, str], Json] = {
    ("POST", "/api/v1/threads"): {},
    ("PATCH", "/api/v1/threads/{thread_id}"): {"title": "taken over"},
    ("POST", "/api/v1/threads/{thread_id}/turns"): {"role": "user", "content": "intruding"},
    ("POST", "/api/v1/threads/{thread_id}/messages"): {"content": "intruding"},
    ("POST", "/api/v1/memory/add"): {"messages": [message("intruding")]},
    ("POST", "/api/v1/memory/flush"): {},
    ("POST", "/api/v1/memory/search"): {"query": "secret"},
    ("POST", "/api/v1/memory/reprocess"): {},
}
"""What a route needs besides the thread. A new route with a body must be given one here."""
OPENING = {
    ("POST", "/api/v1/threads"),
    ("POST", "/api/v1/threads/{thread_id}/turns"),
    ("POST", "/api/v1/threads/{thread_id}/messages"),
    ("POST", "/api/v1/memory/add"),
}
"""Routes that open a thread which is not there; ids are unique in a space, so another's is refused."""


async def call(
    client: httpx2.AsyncClient, route: tuple[str, str], thread: str, **more: str
) -> httpx2.Response:
    method, path = route
    if "{thread_id}" in path:
        url, query, body = thread_path(thread) + path.partition("{thread_id}")[2], {}, BODIES.get(route)
    elif method == "GET":
        url, query, body = path, {"session_id": thread}, None
    else:
        named = ("/api/v1/threads", "/api/v1/memory/search", "/api/v1/memory/reprocess")
        name = "thread_id" if path in named else "session_id"
        url, query, body = path, {}, {**BODIES[route], name: thread}
    if body is None:
        return await client.request(method, url, params={**query, **more})
    return await client.request(method, url, params=query, json={**body, **more})


class TestUsers:
    @pytest.fixture
    async def alice(self, home: Home) -> AsyncIterator[httpx2.AsyncClient]:
        async with home.keyed("alice") as client:
            yield client

    @pytest.fixture
    async def bob(self, home: Home, alice: httpx2.AsyncClient) -> AsyncIterator[httpx2.AsyncClient]:
        """He has a key of his own, and Alice has a thread with three messages, one of them flushed."""
        await add_one(alice, "alices", "a secret of Alice's")
        await alice.post("/api/v1/memory/flush", json={"session_id": "alices"})
        await add_one(alice, "alices", "another secret")
        async with home.keyed("bob") as client:
            yield client

    @pytest.mark.parametrize("route", ROUTES, ids=" ".join)
    async def test_anothers_thread_is_answered_as_one_that_never_was_and_stays_as_it_was(
        self, alice: httpx2.AsyncClient, bob: httpx2.AsyncClient, route: tuple[str, str]
    ) -> None:
        async def seen() -> tuple[Any, Any, Any]:
            coverage = (await alice.get("/api/v1/coverage")).json()
            del coverage["indexed"], coverage["embedded"]  # They grow by themselves.
            thread = (await alice.get("/api/v1/threads/alices")).json()
            return coverage, thread, (await alice.get("/api/v1/threads/alices/turns")).json()

        before = await seen()
        theirs = await call(bob, route, "alices")
        named = await call(bob, route, "alices", user_id="alice")
        assert await seen() == before
        assert "secret" not in theirs.text + named.text
        assert named.status_code == 404
        if route == ("GET", "/api/v1/coverage"):
            assert (theirs.status_code, theirs.json()["messages"], theirs.json()["forgotten"]) == (200, 0, 0)
        else:
            assert theirs.status_code == 404
        if route not in OPENING:
            nobodys = await call(bob, route, "nobodys")
            assert (theirs.status_code, theirs.text.replace("alices", "ID")) == (
                nobodys.status_code,
                nobodys.text.replace("nobodys", "ID"),
            )

    @pytest.mark.parametrize("route", ROUTES, ids=" ".join)
    async def test_without_keys_a_user_who_is_named_is_kept_to_his_own_threads(
        self, home: Home, route: tuple[str, str]
    ) -> None:
        await home.add("alices", "a secret of Alice's", user_id="alice")
        answer = await call(home.client, route, "alices", user_id="bob")
        assert "secret" not in answer.text
        assert answer.status_code == 404 or answer.json()["messages"] == 0

    async def test_a_list_shows_ones_own_threads_alone(
        self, alice: httpx2.AsyncClient, bob: httpx2.AsyncClient
    ) -> None:
        await add_one(bob, "bobs", "x")
        listed = (await bob.get("/api/v1/threads")).json()["threads"]
        assert [thread["thread_id"] for thread in listed] == ["bobs"]

    @pytest.mark.parametrize("after", ["alices", "nobodys"])
    async def test_a_list_cannot_be_paged_from_anothers_thread(
        self, bob: httpx2.AsyncClient, after: str
    ) -> None:
        answer = await bob.get("/api/v1/threads", params={"after": after})
        assert (answer.status_code, answer.json()["error"]["message"]) == (
            404,
            f"there is no thread {after!r}",
        )

    async def test_coverage_counts_ones_own_messages_alone(self, bob: httpx2.AsyncClient) -> None:
        await add_one(bob, "bobs", "x")
        assert (await bob.get("/api/v1/coverage")).json()["messages"] == 1

    async def test_jobs_show_ones_own_threads_alone_page_by_page(
        self, home: Home, alice: httpx2.AsyncClient, bob: httpx2.AsyncClient
    ) -> None:
        async with home.app.jobs.paused():
            await add_one(alice, "alices", "more")
            await add_one(bob, "bobs", "x")
            listed = [
                (await bob.get("/api/v1/jobs", params={"limit": limit})).json()["jobs"] for limit in (100, 1)
            ]
        assert [{job["thread_id"] for job in page} for page in listed] == [{"bobs"}, {"bobs"}]

    async def test_anothers_job_is_answered_as_one_that_never_was(
        self, home: Home, alice: httpx2.AsyncClient, bob: httpx2.AsyncClient
    ) -> None:
        async with home.app.jobs.paused():
            await add_one(alice, "alices", "more")
            (job, *_) = (await alice.get("/api/v1/jobs")).json()["jobs"]
            theirs = await bob.post(f"/api/v1/jobs/{job['job_id']}/retry")
        nobodys = await bob.post("/api/v1/jobs/999999/retry")
        assert (theirs.status_code, nobodys.status_code) == (404, 404)
        assert theirs.text.replace(str(job["job_id"]), "N") == nobodys.text.replace("999999", "N")

    async def test_a_key_of_the_space_sees_every_user_of_it(
        self, home: Home, bob: httpx2.AsyncClient
    ) -> None:
        await add_one(bob, "bobs", "x")
        async with home.keyed() as operator:
            listed = (await operator.get("/api/v1/threads")).json()["threads"]
        assert {thread["thread_id"] for thread in listed} == {"alices", "bobs"}


class TestSpaces:
    @pytest.fixture
    async def red(self, home: Home) -> AsyncIterator[httpx2.AsyncClient]:
        async with home.keyed(space="red") as client:
            yield client

    @pytest.fixture
    async def blue(self, home: Home) -> AsyncIterator[httpx2.AsyncClient]:
        async with home.keyed(space="blue") as client:
            yield client

    async def test_one_thread_id_and_one_message_id_in_two_spaces_are_two(
        self, red: httpx2.AsyncClient, blue: httpx2.AsyncClient
    ) -> None:
        for client, text in ((red, "said in red"), (blue, "said in blue")):
            added = await add_one(client, "t1", text, message_id="m1")
            assert added.json()["receipts"][0]["status"] == "accepted"
        (turn,) = (await red.get("/api/v1/threads/t1/turns")).json()["turns"]
        assert turn["content"] == "said in red"

    async def test_another_space_sees_nothing_of_it(
        self, home: Home, red: httpx2.AsyncClient, blue: httpx2.AsyncClient
    ) -> None:
        async with home.app.jobs.paused():
            await add_one(red, "t1", "said in red")
            for path in ("threads/t1", "threads/t1/turns"):
                assert (await blue.get(f"/api/v1/{path}")).status_code == 404
            for path in ("threads", "jobs"):
                assert (await blue.get(f"/api/v1/{path}")).json() == {path: []}
            assert (await blue.get("/api/v1/coverage")).json()["messages"] == 0

    async def test_forgetting_in_one_space_leaves_the_other(
        self, home: Home, red: httpx2.AsyncClient, blue: httpx2.AsyncClient
    ) -> None:
        await add_one(red, "t1", "said in red")
        await add_one(blue, "t1", "said in blue")
        await home.drain()
        await red.delete("/api/v1/threads/t1")
        await home.drain()
        assert (await blue.get("/api/v1/threads/t1")).json()["turn_count"] == 1
        assert [path.parts[-6] for path in home.app.settings.vault_path.rglob("0001.md")] == ["blue"]
