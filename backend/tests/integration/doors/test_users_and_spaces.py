"""How far a key leads: users and spaces see nothing of each other."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recollect.app import open_home
from recollect.domain.model import ThreadRef
from recollect.entrypoints.http.server import create_api
from recollect.service.rebuild import rebuild_home
from tests.files_under import files_under
from tests.http_client import (
    COMPLETIONS,
    Home,
    Json,
    add_one,
    client_of,
    completion,
    message,
    opened,
    thread_path,
)
from tests.processes import StandInModel

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
"""Routes that open a thread which the user does not have."""


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
        assert named.status_code == 403
        nobodys = await call(bob, route, "nobodys")
        assert theirs.status_code == nobodys.status_code
        if route in OPENING:
            (turns, *rest) = [
                (await bob.get(f"/api/v1/threads/{name}/turns")).json() for name in ("alices", "nobodys")
            ]
            assert [turn["turn_id"] for turn in turns["turns"]] == [t["turn_id"] for t in rest[0]["turns"]]
            return
        assert theirs.text.replace("alices", "ID") == nobodys.text.replace("nobodys", "ID")
        if route == ("GET", "/api/v1/coverage"):
            assert (theirs.status_code, theirs.json()["messages"], theirs.json()["forgotten"]) == (200, 0, 0)
        else:
            assert theirs.status_code == 404

    @pytest.mark.parametrize("route", ROUTES, ids=" ".join)
    async def test_without_keys_a_user_who_is_named_is_kept_to_his_own_threads(
        self, home: Home, route: tuple[str, str]
    ) -> None:
        await home.add("alices", "a secret of Alice's", user_id="alice")
        answer = await call(home.client, route, "alices", user_id="bob")
        assert "secret" not in answer.text
        if route not in OPENING:
            assert answer.status_code == 404 or answer.json()["messages"] == 0
        alices = await home.client.get("/api/v1/threads/alices/turns", params={"user_id": "alice"})
        assert [turn["content"] for turn in alices.json()["turns"]] == ["a secret of Alice's"]

    @pytest.mark.parametrize("after", ["alices", "nobodys"])
    async def test_a_list_cannot_be_paged_from_anothers_thread(
        self, bob: httpx2.AsyncClient, after: str
    ) -> None:
        answer = await bob.get("/api/v1/threads", params={"after": after})
        assert (answer.status_code, answer.json()["error"]["message"]) == (
            404,
            f"there is no thread {after!r}",
        )

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


TWO = {"ann": "Porto", "bob": "Oslo"}
"""Two users who use the same ids for everything, and the city of each."""


class TestTwoUsersWithOneThreadId:
    async def test_neither_notices_the_other_at_any_door_and_one_is_forgotten_without_the_other(
        self, tmp_path: Path, model: StandInModel
    ) -> None:
        settings = {"llm": {"base_url": model.base_url}}
        async with opened(tmp_path / "home", **settings) as home:
            clients = {user: client_of(home.app, **await home.make_key(user)) for user in TWO}
            async with clients["ann"] as ann, clients["bob"] as bob:
                seen = [await self._live(client, city) for client, city in ((ann, "Porto"), (bob, "Oslo"))]
                await home.drain()
                await home.app.search.indexer.settled()
                assert seen[0] == seen[1]
                told = {
                    "ann": await self._everything(home, ann, "ann"),
                    "bob": await self._everything(home, bob, "bob"),
                }
                for user, other in (("ann", "bob"), ("bob", "ann")):
                    assert TWO[user] in told[user]
                    assert TWO[other] not in told[user]
                await self._holds(home)
                for thread in ("t1", "c1"):
                    (await bob.delete(f"/api/v1/threads/{thread}")).raise_for_status()
                await home.drain()
                assert "Porto" in await self._everything(home, ann, "ann")
                assert (await bob.get("/api/v1/threads/t1")).status_code == 404
                files = files_under(tmp_path / "home").items()
                assert [path for path, content in files if b"Oslo" in content and path.suffix != ".db"] == []
                await self._holds(home)

    async def _live(self, client: httpx2.AsyncClient, city: str) -> list[Any]:
        """Everything under the same ids; returns what must not depend on who came first."""
        opened = await client.post("/api/v1/threads", json={"thread_id": "t1", "title": "chat"})
        again = await client.post("/api/v1/threads", json={"thread_id": "t1"})
        added = await add_one(client, "t1", f"I live in {city}.", message_id="m1")
        turn = {"role": "user", "content": f"{city} is by the sea.", "message_id": "m2"}
        appended = await client.post("/api/v1/threads/t1/turns", json=turn)
        key = {"Idempotency-Key": "k"}
        body = {"content": f"What is {city} like?"}
        chats = [await client.post("/api/v1/threads/t1/messages", json=body, headers=key) for _ in range(2)]
        streamed = await client.get("/api/v1/threads/t1/stream")
        door = await client.post(
            COMPLETIONS, json=completion(f"And {city}?"), headers={"X-Recollect-Thread": "t1"}
        )
        flushed = await client.post("/api/v1/memory/flush", json={"session_id": "t1", "timeout": 30})
        chat = await client.post(
            COMPLETIONS, json=completion(f"Is {city} big?"), headers={"X-OpenWebUI-Chat-Id": "c1"}
        )
        statuses = [
            each.status_code
            for each in (opened, again, added, appended, *chats, streamed, door, chat, flushed)
        ]
        turn_ids = [each.json()["assistant_turn"]["turn_id"] for each in chats]
        return [
            statuses,
            turn_ids,
            added.json()["receipts"][0]["status"],
            [each.headers["X-Recollect-Thread"] for each in (door, chat)],
            bool(flushed.json()["memcells"]),  # How many are left to close depends on the pauses.
        ]

    async def _everything(self, home: Home, client: httpx2.AsyncClient, user: str) -> str:
        """All that a user is told at the doors, and all that is written down for them."""
        paths = ["threads", "coverage?session_id=t1", "jobs", "cache", "memory/entries", "threads/t1/stream"]
        paths += [
            f"threads/{thread}{more}" for thread in ("t1", "c1") for more in ("", "/turns?receipts=true")
        ]
        answers = [(await client.get(f"/api/v1/{path}")).raise_for_status().text for path in paths]
        turns = (await client.get("/api/v1/threads/t1/turns")).json()["turns"]
        prompts = [
            (await client.get(f"/api/v1/threads/t1/turns/{turn['turn_id']}/prompt")).raise_for_status().text
            for turn in turns
            if turn["role"] == "assistant"
        ]
        assert len(prompts) == 2
        queries: list[Json] = [{"query": "sea", "thread_id": "t1"}, {"query": "Porto Oslo", "neighbours": 2}]
        for query in queries:
            search = await client.post("/api/v1/memory/search", json={"user_id": user, **query})
            answers.append(search.raise_for_status().text)
        folder = home.app.settings.vault_path / "default" / "users" / user
        files = [path.read_text() for path in folder.rglob("*.md")]
        assert (folder / "threads" / "t1" / "0001.md").exists()
        return "\n".join([*answers, *prompts, *files])

    async def _holds(self, home: Home) -> None:
        await home.app.search.indexer.settled()
        assert (await home.app.verifier.verify()).problems == []
        assert (await home.app.forgotten_verifier.verify()).problems == []

    async def test_an_operator_is_told_to_name_one(self, home: Home) -> None:
        for user in TWO:
            await home.add("t1", f"of {user}", user_id=user)
        routes = [route for route in ROUTES if route != ("POST", "/api/v1/memory/search")]
        for route in routes:
            answer = await call(home.client, route, "t1")
            if route == ("POST", "/api/v1/threads"):
                assert answer.json()["user_id"] == "me"
                await home.client.delete("/api/v1/threads/t1", params={"user_id": "me"})
                continue
            error = answer.json()["error"]
            told = (answer.status_code, error["code"], error["field"])
            assert told == (409, "ambiguous_thread", "user_id"), route
        for user in TWO:
            query = {"user_id": user}
            (turn,) = (await home.client.get("/api/v1/threads/t1/turns", params=query)).json()["turns"]
            assert turn["content"] == f"of {user}"
        await home.client.delete("/api/v1/threads/t1", params={"user_id": "bob"})
        counted = (await home.client.get("/api/v1/coverage", params={"session_id": "t1"})).json()
        assert (counted["messages"], counted["forgotten"]) == (1, 0), "of Ann's, the only one that is left"
        await home.add("t1", "again", user_id="bob")
        for order in ("created", "recent"):
            listed = await home.pages("threads", "threads", limit=1, order=order)
            assert sorted(each["user_id"] for (each,) in listed) == ["ann", "bob"]

    async def test_messages_without_a_user_go_to_the_only_owner_else_to_me(self, home: Home) -> None:
        await home.add("anns", "one", user_id="ann")
        await home.add("anns", "two")
        await home.add("new", "three")
        owners = {
            each["thread_id"]: each["user_id"] for (each,) in await home.pages("threads", "threads", limit=1)
        }
        assert owners == {"anns": "ann", "new": "me"}

    async def test_the_vault_alone_brings_both_back(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "home") as home:
            for user, city in TWO.items():
                await home.add("t1", f"I live in {city}.", f"{city} is by the sea.", user_id=user)
                body = {"session_id": "t1", "user_id": user}
                (await home.client.post("/api/v1/memory/flush", json=body)).raise_for_status()
            await home.drain()
            before = await self._told(home)
            settings = home.app.settings
        for path in (tmp_path / "home").glob("journal.db*"):
            path.unlink()
        report, verification = await rebuild_home(settings, open_home)
        assert (report.threads, report.problems, verification.problems) == (2, [], [])
        async with opened(tmp_path / "home") as home:
            await home.drain()
            assert await self._told(home) == before

    async def _told(self, home: Home) -> list[Any]:
        told: list[Any] = []
        for user in TWO:
            query = {"user_id": user}
            turns = (await home.client.get("/api/v1/threads/t1/turns", params=query)).json()["turns"]
            cells = await home.app.cells.list_cells(ThreadRef("default", user, "t1"))
            entries = (await home.client.get("/api/v1/memory/entries", params=query)).json()["entries"]
            told.append((turns, cells, [(entry["id"], entry["text"]) for entry in entries]))
        return told


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
