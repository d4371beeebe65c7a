"""Who gets in, and how far: hosts, origins, keys, users and spaces."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recollect.entrypoints.http.server import openapi_document
from tests.http_client import Home, Json, bearer, client_of, message, opened, thread_path
from tests.processes import Server, recollect, recollect_json


async def add(client: httpx2.AsyncClient, session: str, text: str, **fields: Any) -> httpx2.Response:
    body = {"session_id": session, "messages": [message(text)], **fields}
    return await client.post("/api/v1/memory/add", json=body)


class TestHosts:
    @pytest.mark.parametrize(
        "host", ["127.0.0.1", "127.0.0.1:8600", "localhost", "LocalHost:99", "[::1]", "[::1]:8600"]
    )
    async def test_a_name_of_this_machine_is_let_in(self, home: Home, host: str) -> None:
        assert (await home.client.get("/health", headers={"Host": host})).status_code == 200

    @pytest.mark.parametrize(
        "host",
        [
            "evil.example",
            "evil.example:8600",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[::2]",
            "",
        ],
    )
    async def test_any_other_name_is_refused(self, home: Home, host: str) -> None:
        answer = await home.client.get("/api/v1/threads", headers={"Host": host})
        assert (answer.status_code, answer.json()["error"]["field"]) == (403, "Host")

    async def test_a_foreign_host_can_store_nothing(self, home: Home) -> None:
        body = {"session_id": "t1", "messages": [message("x")]}
        await home.client.post("/api/v1/memory/add", json=body, headers={"Host": "evil.example"})
        assert (await home.coverage())["messages"] == 0

    async def test_a_name_in_the_settings_is_let_in(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "home", allowed_hosts=["Memory.Example"]) as home:
            answer = await home.client.get("/health", headers={"Host": "memory.example:443"})
        assert answer.status_code == 200

    async def test_the_address_the_server_listens_on_is_let_in(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "home", host="127.0.0.2") as home:
            answer = await home.client.get("/health", headers={"Host": "127.0.0.2:8600"})
        assert answer.status_code == 200

    async def test_liveness_is_for_known_hosts_too(self, home: Home) -> None:
        answer = await home.client.get("/health/live", headers={"Host": "evil.example"})
        assert answer.status_code == 403


class TestOrigins:
    @pytest.mark.parametrize(
        "origin",
        ["http://127.0.0.1:8600", "HTTP://127.0.0.1:8600", "http://127.0.0.1:8600/", "http://[::1]:8600"],
    )
    async def test_the_servers_own_page_is_let_in(self, home: Home, origin: str) -> None:
        headers = {"Host": "[::1]:8600" if "[" in origin else "127.0.0.1:8600", "Origin": origin}
        assert (await home.client.get("/health", headers=headers)).status_code == 200

    @pytest.mark.parametrize(
        "origin",
        [
            "http://evil.example",
            "http://127.0.0.1:9999",
            "http://127.0.0.1",
            "null",
            "",
            "http://[",
            "file://",
            "http://127.0.0.1:8600.evil.example",
        ],
    )
    async def test_any_other_origin_is_refused(self, home: Home, origin: str) -> None:
        headers = {"Host": "127.0.0.1:8600", "Origin": origin}
        answer = await home.client.get("/api/v1/threads", headers=headers)
        assert (answer.status_code, answer.json()["error"]["field"]) == (403, "Origin")

    async def test_an_origin_in_the_settings_is_let_in(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "home", allowed_origins=["https://app.example/"]) as home:
            answer = await home.client.get("/health", headers={"Origin": "https://APP.example"})
        assert answer.status_code == 200


class TestKeys:
    async def test_without_keys_everybody_on_this_machine_is_the_operator_of_default(
        self, home: Home
    ) -> None:
        await home.add("of-ann", "one", user_id="ann")
        await home.add("of-bob", "two", user_id="bob")
        listed = (await home.client.get("/api/v1/threads")).json()["threads"]
        assert {thread["thread_id"] for thread in listed} == {"of-ann", "of-bob"}

    async def test_without_keys_a_clients_placeholder_does_no_harm(self, home: Home) -> None:
        assert (await home.client.get("/api/v1/threads", headers=bearer("sk-none"))).status_code == 200

    @pytest.mark.parametrize(
        "headers", [{}, bearer("wrong"), bearer("rk_wrong"), {"Authorization": "Basic eDp5"}]
    )
    async def test_after_the_first_key_a_request_without_one_is_refused(
        self, home: Home, headers: dict[str, str]
    ) -> None:
        await home.make_key()
        answer = await home.client.get("/api/v1/threads", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "key_required")
        assert answer.headers["www-authenticate"] == "Bearer"

    async def test_after_the_first_key_nothing_is_stored_without_one(self, home: Home) -> None:
        await home.make_key()
        assert (await add(home.client, "t1", "x")).status_code == 401
        async with home.keyed() as client:
            assert (await client.get("/api/v1/coverage")).json()["messages"] == 0

    async def test_after_the_first_key_liveness_stays_open(self, home: Home) -> None:
        await home.make_key()
        assert (await home.client.get("/health/live")).status_code == 200

    async def test_health_names_no_thread_and_no_user_to_those_without_a_key(self, home: Home) -> None:
        await home.make_key()
        async with home.keyed("ann") as client, home.app.jobs.paused():
            await add(client, "very-private", "x")
            await home.app.database.write(
                lambda connection: (
                    connection.execute(
                        "UPDATE jobs SET error = 'users/ann/threads/very-private/0001.md cannot be written'"
                    ).rowcount
                )
            )
            shown = (await home.client.get("/health")).text
        assert "very-private" not in shown

    async def test_a_key_in_any_case_of_bearer_opens(self, home: Home) -> None:
        headers = {name: value.replace("Bearer", "bearer") for name, value in (await home.make_key()).items()}
        answer = await home.client.get("/api/v1/threads", headers=headers)
        assert answer.status_code == 200

    async def test_a_revoked_key_is_refused_at_once(self, home: Home) -> None:
        await home.make_key()
        operator = bearer(home.app.lock.token)
        made = (await home.client.post("/api/v1/keys", json={"user_id": "ann"}, headers=operator)).json()
        async with client_of(home.app, **bearer(made["secret"])) as client:
            assert (await client.get("/api/v1/threads")).status_code == 200
            await home.client.delete(f"/api/v1/keys/{made['key_id']}", headers=operator)
            assert (await client.get("/api/v1/threads")).status_code == 401

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("POST", "/api/v1/keys", {}),
            ("GET", "/api/v1/keys", None),
            ("DELETE", "/api/v1/keys/k_1", None),
            ("POST", "/api/v1/verify", {}),
            ("POST", "/api/v1/backup", None),
        ],
    )
    @pytest.mark.parametrize("who", ["nobody in particular", "a space's key", "a user's key"])
    async def test_operators_work_is_for_the_local_operator_alone(
        self, home: Home, who: str, method: str, path: str, body: Json | None
    ) -> None:
        if who == "nobody in particular":
            answer = await home.client.request(method, path, json=body)
        else:
            async with home.keyed("ann" if who == "a user's key" else None) as client:
                answer = await client.request(method, path, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "refused")


THREAD_PARAMETERS = {"thread_id", "session_id"}


def routes_that_take_a_thread() -> Iterator[tuple[str, str]]:
    """Out of the OpenAPI document, so that a new one is covered or fails here."""
    document = openapi_document()
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
        await add(alice, "alices", "a secret of Alice's")
        await alice.post("/api/v1/memory/flush", json={"session_id": "alices"})
        await add(alice, "alices", "another secret")
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
        await add(bob, "bobs", "x")
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
        await add(bob, "bobs", "x")
        assert (await bob.get("/api/v1/coverage")).json()["messages"] == 1

    async def test_jobs_show_ones_own_threads_alone_page_by_page(
        self, home: Home, alice: httpx2.AsyncClient, bob: httpx2.AsyncClient
    ) -> None:
        async with home.app.jobs.paused():
            await add(alice, "alices", "more")
            await add(bob, "bobs", "x")
            listed = [
                (await bob.get("/api/v1/jobs", params={"limit": limit})).json()["jobs"] for limit in (100, 1)
            ]
        assert [{job["thread_id"] for job in page} for page in listed] == [{"bobs"}, {"bobs"}]

    async def test_anothers_job_is_answered_as_one_that_never_was(
        self, home: Home, alice: httpx2.AsyncClient, bob: httpx2.AsyncClient
    ) -> None:
        async with home.app.jobs.paused():
            await add(alice, "alices", "more")
            (job, *_) = (await alice.get("/api/v1/jobs")).json()["jobs"]
            theirs = await bob.post(f"/api/v1/jobs/{job['job_id']}/retry")
        nobodys = await bob.post("/api/v1/jobs/999999/retry")
        assert (theirs.status_code, nobodys.status_code) == (404, 404)
        assert theirs.text.replace(str(job["job_id"]), "N") == nobodys.text.replace("999999", "N")

    async def test_a_key_of_the_space_sees_every_user_of_it(
        self, home: Home, bob: httpx2.AsyncClient
    ) -> None:
        await add(bob, "bobs", "x")
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

    async def test_one_thread_id_in_two_spaces_is_two_threads(
        self, red: httpx2.AsyncClient, blue: httpx2.AsyncClient
    ) -> None:
        await add(red, "t1", "said in red")
        await add(blue, "t1", "said in blue")
        (turn,) = (await red.get("/api/v1/threads/t1/turns")).json()["turns"]
        assert turn["content"] == "said in red"

    async def test_the_same_message_id_in_two_spaces_is_no_duplicate(
        self, red: httpx2.AsyncClient, blue: httpx2.AsyncClient
    ) -> None:
        body = {"session_id": "t1", "messages": [message("x", message_id="m1")]}
        statuses = [
            (await client.post("/api/v1/memory/add", json=body)).json()["receipts"][0]["status"]
            for client in (red, blue)
        ]
        assert statuses == ["accepted", "accepted"]

    async def test_another_space_sees_nothing_of_it(
        self, home: Home, red: httpx2.AsyncClient, blue: httpx2.AsyncClient
    ) -> None:
        async with home.app.jobs.paused():
            await add(red, "t1", "said in red")
            for path in ("threads/t1", "threads/t1/turns"):
                assert (await blue.get(f"/api/v1/{path}")).status_code == 404
            for path in ("threads", "jobs"):
                assert (await blue.get(f"/api/v1/{path}")).json() == {path: []}
            assert (await blue.get("/api/v1/coverage")).json()["messages"] == 0

    async def test_forgetting_in_one_space_leaves_the_other(
        self, home: Home, red: httpx2.AsyncClient, blue: httpx2.AsyncClient
    ) -> None:
        await add(red, "t1", "said in red")
        await add(blue, "t1", "said in blue")
        await home.drain()
        await red.delete("/api/v1/threads/t1")
        await home.drain()
        assert (await blue.get("/api/v1/threads/t1")).json()["turn_count"] == 1
        assert [path.parts[-6] for path in home.app.settings.vault_path.rglob("0001.md")] == ["blue"]


class TestKeysFromTheCommandLine:
    def test_a_key_is_made_listed_and_revoked(self, tmp_path: Path) -> None:
        made = recollect_json(tmp_path / "home", "keys", "create", "--user", "ann", "--name", "laptop")
        (listed,) = recollect_json(tmp_path / "home", "keys", "list")["keys"]
        assert listed == {name: value for name, value in made.items() if name != "secret"}
        assert (listed["space"], listed["user_id"], listed["name"]) == ("default", "ann", "laptop")
        assert recollect(tmp_path / "home", "keys", "revoke", made["key_id"]).returncode == 0
        (listed,) = recollect_json(tmp_path / "home", "keys", "list")["keys"]
        assert listed["revoked"] is not None

    def test_a_secret_is_nowhere_under_the_home(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        with Server(home) as server:
            secret = recollect_json(home, "keys", "create")["secret"].encode()
            server.client.get("/api/v1/threads", headers=bearer(secret.decode())).raise_for_status()
            found = [path for path in home.rglob("*") if path.is_file() and secret in path.read_bytes()]
            logged = secret.decode() in server.errors()
        assert (found, logged) == ([], False)

    def test_keys_made_and_revoked_while_the_server_runs_count_at_once(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        with Server(home) as server:
            made = recollect_json(home, "keys", "create", "--space", "red", "--user", "ann")
            headers = bearer(made["secret"])
            assert server.client.get("/api/v1/threads").status_code == 401
            assert server.client.get("/api/v1/threads", headers=headers).status_code == 200
            recollect_json(home, "keys", "create")
            recollect(home, "keys", "revoke", made["key_id"])
            assert server.client.get("/api/v1/threads", headers=headers).status_code == 401

    def test_the_lock_file_with_the_operators_token_is_its_owners_alone(self, tmp_path: Path) -> None:
        with Server(tmp_path / "home"):
            assert (tmp_path / "home" / "recollect.lock").stat().st_mode & 0o077 == 0

    def test_the_server_does_not_open_to_the_world_without_a_key(self, tmp_path: Path) -> None:
        refused = recollect(tmp_path / "home", "serve", "--host", "0.0.0.0", "--port", "0")
        assert refused.returncode == 1
        assert "without API keys" in refused.stderr
        assert "Traceback" not in refused.stderr

    def test_the_server_opens_to_the_world_with_a_key(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        secret = recollect_json(home, "keys", "create")["secret"]
        with Server(home, arguments=["--host", "0.0.0.0"]) as server:
            assert server.client.get("/api/v1/threads").status_code == 401
            assert server.client.get("/api/v1/threads", headers=bearer(secret)).status_code == 200
