"""Keys over HTTP: a server that stays closed, expiry, scopes, last use, rotation, streams, and the audit log."""

import asyncio
import hashlib
import json
import logging
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recollect.app import App, open_app
from recollect.domain.access import Caller
from recollect.domain.identity import key_within_user
from recollect.entrypoints.http.server import private_socket
from recollect.errors import StorageUnavailable
from recollect.infra.journal.audit_lines import SqlAuditLines
from recollect.service.access.audit import AuditFile, AuditLog
from recollect.settings import Settings
from tests.fakes import START, FakeClock
from tests.http_client import ADDRESS, Home, Json, bearer, client_of, message, opened, thread_path
from tests.processes import StandInModel
from tests.talking import talking
from tests.unit.made_entries import known

HOUR = 3_600_000


async def status(home: Home, key: Json | None, path: str = "/api/v1/threads", method: str = "GET") -> int:
    headers = {} if key is None else bearer(key["secret"])
    return (await home.client.request(method, path, headers=headers)).status_code


@asynccontextmanager
async def clocked(home: Path, clock: FakeClock) -> AsyncIterator[Home]:
    """A home in this process, with a clock that the test moves."""
    settings = Settings(home=home, embedding={"kind": "none"}, llm={"discover": False})
    async with open_app(settings, clock=clock) as app, client_of(app) as client:
        yield Home(app, client)


class TestAClosedServer:
    async def test_after_the_last_key_is_revoked_nobody_comes_in_without_one_even_after_a_restart(
        self, tmp_path: Path
    ) -> None:
        async with opened(tmp_path / "home", allowed_hosts=["memory.example"]) as home:
            await home.add("t1", "private", user_id="ann")
            key = await home.new_key()
            revoked = (await home.operate("DELETE", f"keys/{key['key_id']}")).json()
            assert revoked["keys_left"] == 0
            assert await status(home, None) == 401
            assert await status(home, None, "/api/v1/users/ann", "DELETE") == 401
        async with opened(tmp_path / "home") as home:
            assert await status(home, None, "/api/v1/threads/t1/turns") == 401

    async def test_the_operator_opens_it_and_the_next_key_closes_it_again(self, home: Home) -> None:
        key = await home.new_key()
        await home.operate("DELETE", f"keys/{key['key_id']}")
        opened = await home.operate("POST", "keys/open")
        assert (opened.status_code, opened.json()["closed"]) == (200, False)
        assert await status(home, None) == 200
        await home.new_key()
        assert await status(home, None) == 401

    async def test_it_is_not_opened_while_a_key_is_in_force_nor_by_a_key(self, home: Home) -> None:
        key = await home.new_key()
        refused = await home.operate("POST", "keys/open")
        assert (refused.status_code, key["key_id"] in refused.text) == (409, True)
        assert await status(home, key, "/api/v1/keys/open", "POST") == 403


class TestExpiry:
    async def test_an_expired_key_is_refused_as_an_unknown_one_and_only_the_log_knows_better(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        clock = FakeClock()
        async with clocked(tmp_path / "home", clock) as home:
            key = await home.new_key(user_id="ann", expires=START + HOUR)
            assert await status(home, key) == 200
            clock.advance(HOUR)
            with caplog.at_level(logging.WARNING, "recollect.access"):
                expired, unknown = [
                    await home.client.get("/api/v1/threads", headers=bearer(secret))
                    for secret in (key["secret"], "rk_unknown")
                ]
        assert (expired.status_code, expired.json()) == (401, unknown.json())
        warned = [record.message for record in caplog.records if record.levelno == logging.WARNING]
        assert warned == [f"a request used the key {key['key_id']}, which has expired"]

    async def test_a_key_that_would_have_expired_already_is_not_made(self, home: Home) -> None:
        refused = await home.operate("POST", "keys", expires=START)
        assert (refused.status_code, refused.json()["error"]["field"]) == (422, "expires")


class TestWhoManagesThem:
    """The operator of a space, over HTTP and on the page; the command line on the server's machine all of them."""

    async def test_without_keys_the_first_one_is_made_on_loopback_and_closes_the_server(
        self, home: Home
    ) -> None:
        made = (await home.client.post("/api/v1/keys", json={"name": "first"})).raise_for_status().json()
        assert await status(home, None, "/api/v1/keys") == 401
        assert await status(home, made, "/api/v1/keys") == 200

    async def test_a_spaces_admin_key_manages_its_own_space_alone(self, home: Home) -> None:
        ours, theirs = await home.new_key(), await home.new_key()
        other = (await home.operate("POST", "keys", space="other")).json()
        headers = bearer(ours["secret"])
        listed = (await home.client.get("/api/v1/keys", headers=headers)).json()["keys"]
        assert {key["key_id"] for key in listed} == {ours["key_id"], theirs["key_id"]}
        assert await status(home, ours, f"/api/v1/keys/{other['key_id']}", "DELETE") == 404
        elsewhere = await home.client.post("/api/v1/keys", json={"space": "other"}, headers=headers)
        assert (elsewhere.status_code, elsewhere.json()["error"]["field"]) == (403, "space")
        assert await status(home, ours, f"/api/v1/keys/{theirs['key_id']}", "DELETE") == 200
        assert await status(home, theirs) == 401

    async def test_nobody_makes_a_key_that_may_do_more_than_their_own(self, home: Home) -> None:
        limited = await home.new_key(scopes=["read", "admin"])
        users = await home.new_key(user_id="ann", scopes=["read", "admin"])
        whole = await home.new_key()
        body: Json = {"scopes": ["read", "delete"]}
        refused = await home.client.post("/api/v1/keys", json=body, headers=bearer(limited["secret"]))
        assert (refused.status_code, "delete" in refused.text) == (403, True)
        path = f"/api/v1/keys/{whole['key_id']}/rotate"
        rotated = await home.client.post(path, json={}, headers=bearer(limited["secret"]))
        assert rotated.status_code == 403
        for method in ("GET", "POST"):
            answer = await home.client.request(
                method, "/api/v1/keys", json=None if method == "GET" else {}, headers=bearer(users["secret"])
            )
            assert answer.status_code == 403

    async def test_the_operator_sees_who_has_chats(self, home: Home) -> None:
        for user in ("bob", "ann"):
            await home.add(f"{user}s", "Hello.", user_id=user)
        users = (await home.client.get("/api/v1/users", params={"limit": 1})).json()
        assert ([each["user_id"] for each in users["users"]], users["next"]) == (["ann"], "ann")
        rest = (await home.client.get("/api/v1/users", params={"after": "ann"})).json()
        assert [(each["user_id"], each["threads"]) for each in rest["users"]] == [("bob", 1)]
        assert "next" not in rest
        assert await status(home, await home.new_key(user_id="ann"), "/api/v1/users") == 403


class TestScopes:
    @pytest.mark.parametrize(
        ("scopes", "method", "path", "missing"),
        [
            (["write"], "GET", "/api/v1/threads", "read"),
            (["write"], "POST", "/api/v1/memory/search", "read"),
            (["read"], "POST", "/api/v1/memory/add", "write"),
            (["read"], "PATCH", "/api/v1/users/ann/preferences", "write"),
            (["write"], "PATCH", "/api/v1/users/ann/preferences", "read"),
            (["write"], "PATCH", "/api/v1/threads/t1", "read"),
            (["write"], "PATCH", "/api/v1/memory/entries/fa-1", "read"),
            (["write"], "POST", "/api/v1/memory/entries/fa-1/undo", "read"),
            (["read"], "POST", "/v1/chat/completions", "write"),
            (["write"], "POST", "/v1/chat/completions", "read"),
            (["write"], "POST", "/api/v1/threads/t%2F1/messages", "read"),
            (["read", "write"], "DELETE", "/api/v1/threads/t1", "delete"),
            (["read", "write", "delete"], "PUT", "/api/v1/presets/p", "admin"),
            (["read", "write", "delete"], "DELETE", "/api/v1/presets/p%0A", "admin"),
            (["read", "write", "delete"], "GET", "/api/v1/index", "admin"),
        ],
    )
    async def test_a_key_without_a_scope_that_a_route_needs_is_refused_by_its_name(
        self, home: Home, scopes: list[str], method: str, path: str, missing: str
    ) -> None:
        key = await home.new_key(scopes=scopes)
        bodies: Json = {
            "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}]},
            "/api/v1/threads/t%2F1/messages": {"content": "x"},
            "/api/v1/memory/search": {"user_id": "ann", "query": "x"},
            "/api/v1/memory/add": {"session_id": "t", "messages": []},
        }
        answer = await home.client.request(
            method, path, json=bodies.get(path, {}), headers=bearer(key["secret"])
        )
        assert answer.status_code == 403
        assert answer.json()["error"]["message"] == f"this key lacks the scope {missing}"

    async def test_a_users_key_has_all_but_admin_and_a_spaces_key_all(self, home: Home) -> None:
        made = [await home.new_key(user_id="ann"), await home.new_key()]
        assert [key["scopes"] for key in made] == [
            ["read", "write", "delete"],
            ["read", "write", "delete", "admin"],
        ]

    async def test_metrics_are_the_operators(self, home: Home) -> None:
        assert await status(home, None, "/metrics") == 200
        users, limited, spaces = [
            await home.new_key(**body)
            for body in ({"user_id": "ann", "scopes": ["read", "admin"]}, {"scopes": ["read"]}, {})
        ]
        local = {"secret": home.app.lock.token}
        found = [await status(home, key, "/metrics") for key in (None, users, limited, spaces, local)]
        assert found == [401, 403, 403, 200, 200]


class TestLastUse:
    async def test_it_is_listed_at_once_kept_over_a_restart_and_no_request_writes_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = FakeClock()
        async with clocked(tmp_path / "home", clock) as home:
            key = await home.new_key()
            written: list[Any] = []
            execute_many = home.app.database.execute_many

            async def noted(sql: str, rows: Any) -> Any:
                written.append(rows)
                return await execute_many(sql, rows)

            monkeypatch.setattr(home.app.database, "execute_many", noted)
            for _ in range(20):
                clock.advance(1)
                await status(home, key)
            assert await self.last_used(home) == START + 20
            assert await self.stored(home) is None
            for _ in range(2):
                await home.app.keys.write_uses()
            assert written == [[(START + 20, key["key_id"])]]
            assert await self.stored(home) == START + 20
            clock.advance(1)
            await status(home, key)
        async with clocked(tmp_path / "home", clock) as home:
            assert await self.last_used(home) == START + 21

    async def stored(self, home: Home) -> Any:
        """What a restart would find."""
        return (await home.app.database.read("SELECT last_used FROM api_keys"))[0]["last_used"]

    async def last_used(self, home: Home) -> int | None:
        (key,) = (await home.operate("GET", "keys")).json()["keys"]
        found: int | None = key["last_used"]
        return found


class TestRotation:
    async def test_the_new_key_has_the_same_powers_and_the_old_one_ends_after_the_overlap(
        self, tmp_path: Path
    ) -> None:
        clock = FakeClock()
        async with clocked(tmp_path / "home", clock) as home:
            old = await home.new_key(user_id="ann", scopes=["read"], expires=START + 90 * HOUR, name="phone")
            clock.advance(HOUR)
            new = (await home.operate("POST", f"keys/{old['key_id']}/rotate", overlap_seconds=3600)).json()
            kept = ("space", "user_id", "scopes", "name")
            assert [new[name] for name in kept] == [old[name] for name in kept]
            assert new["expires"] == START + 91 * HOUR
            assert [await status(home, key) for key in (old, new)] == [200, 200]
            assert (await home.operate("POST", f"keys/{old['key_id']}/rotate")).status_code == 422
            again = await home.operate("POST", f"keys/{old['key_id']}/rotate", overlap_seconds=0)
            assert (again.status_code, new["key_id"] in again.text) == (409, True)
            clock.advance(HOUR)
            assert [await status(home, key) for key in (old, new)] == [401, 200]


@asynccontextmanager
async def over_a_socket(app: App, secret: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client whose answers come piece by piece."""
    async with private_socket(app) as path:
        transport = httpx2.AsyncHTTPTransport(uds=path)
        async with httpx2.AsyncClient(
            transport=transport, base_url=ADDRESS, headers=bearer(secret), timeout=60
        ) as client:
            yield client


class TestStreams:
    @pytest.mark.parametrize(
        ("path", "body"),
        [
            (thread_path("t", "messages"), {"content": "one two three four", "stream": True}),
            (
                "/v1/chat/completions",
                {"messages": [{"role": "user", "content": "one two three four"}], "stream": True},
            ),
        ],
    )
    async def test_a_stream_ends_with_its_key(
        self, tmp_path: Path, model: StandInModel, path: str, body: Json
    ) -> None:
        model.control("stall")
        async with talking(tmp_path / "home", model) as talk:
            home = Home(talk.app, talk.client)
            key = await home.new_key(user_id="ann")
            async with (
                over_a_socket(home.app, key["secret"]) as client,
                client.stream("POST", path, json=body) as response,
            ):
                lines = response.aiter_lines()
                await anext(lines)
                await home.operate("DELETE", f"keys/{key['key_id']}")
                async with asyncio.timeout(20):
                    rest = [line async for line in lines]
        error = json.loads([line for line in rest if line][-1].removeprefix("data: "))["error"]
        assert error["code"] in ("key_required", "invalid_api_key")

    @pytest.mark.parametrize(
        ("method", "path", "body"), [("DELETE", "", {}), ("POST", "/rotate", {"overlap_seconds": 0})]
    )
    async def test_a_client_that_waits_for_the_whole_answer_is_told_so_too(
        self, tmp_path: Path, model: StandInModel, method: str, path: str, body: Json
    ) -> None:
        model.control("stall")
        async with talking(tmp_path / "home", model) as talk:
            home = Home(talk.app, talk.client)
            key = await home.new_key(user_id="ann")
            async with over_a_socket(home.app, key["secret"]) as client:
                asked = asyncio.create_task(client.post(thread_path("t", "messages"), json={"content": "x"}))
                await asyncio.to_thread(model.calls, in_flight=1)
                await home.operate(method, f"keys/{key['key_id']}{path}", **body)
                async with asyncio.timeout(20):
                    assert (await asked).status_code == 401


def audit_of(home: Home) -> list[Json]:
    path = home.app.settings.home / "audit.log"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return [json.loads(line) for line in path.read_text().splitlines()]


def told(line: Json, *names: str) -> list[Any]:
    return [line.get(name) for name in ("who", "what", *names, "status")]


class TestAudit:
    async def test_it_tells_who_read_and_deleted_what_of_whom_and_no_text(self, home: Home) -> None:
        await home.add("t1", "a private word", user_id="ann")
        spaces, anns = await home.new_key(), await home.new_key(user_id="ann")
        one, two = spaces["key_id"], anns["key_id"]
        search = {"user_id": "ann", "query": "a private word"}
        for key, method, path, body in (
            (spaces, "GET", "/api/v1/threads/t1/turns", None),
            (spaces, "POST", "/api/v1/memory/search", search),
            (spaces, "POST", "/v1/chat/completions", {}),
            (anns, "GET", "/api/v1/threads/t1/turns", None),
            (anns, "DELETE", "/api/v1/memory/entries/fa-none", None),
            (spaces, "DELETE", "/api/v1/threads/t1", None),
        ):
            await home.client.request(method, path, json=body, headers=bearer(key["secret"]))
        lines = [line for line in audit_of(home) if line["what"] in ("read", "deleted")]
        assert [told(line, "user", "thread", "entry") for line in lines] == [
            [one, "read", "ann", key_within_user("default", "t1"), None, 200],
            [one, "read", "ann", None, None, 200],
            [two, "deleted", "ann", None, "fa-none", 404],
            [one, "deleted", "ann", key_within_user("default", "t1"), None, 200],
        ]
        assert lines[0]["route"] == "/api/v1/threads/{thread_id}/turns"
        assert "private word" not in (home.app.settings.home / "audit.log").read_text()

    async def test_it_tells_of_whatever_answers_an_operator_with_somebodys_memory_but_for_openais_chats(
        self, home: Home
    ) -> None:
        await home.add("t1", "I live in Berlin.", user_id="ann")
        await home.put(known("fa-1"))
        spaces, anns = await home.new_key(), await home.new_key(user_id="ann")
        named = {"user_id": "ann"}
        asked: tuple[tuple[str, str, Json | None], ...] = (
            ("PATCH", "/api/v1/memory/entries/fa-1", {"pinned": True, **named}),
            ("POST", "/api/v1/memory/entries/fa-1/undo", named),
            ("GET", "/api/v1/memory/entries/fa-1/history", None),
            ("PATCH", "/api/v1/threads/t1", {"title": "home", **named}),
            ("PATCH", "/api/v1/users/ann/preferences", {}),
            ("POST", "/api/v1/memory/notes", {"name": "home", "text": "Berlin", "replace": True, **named}),
            ("POST", "/api/v1/threads/t1/messages", {"content": "where do I live?"}),
            ("POST", "/api/v1/threads/t2/messages", {"content": "where do I live?", **named}),
            ("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "user": "ann"}),
        )
        for key in (spaces, anns):
            for method, path, body in asked:
                await home.client.request(method, path, json=body, headers=bearer(key["secret"]))
        lines = [line for line in audit_of(home) if line["what"] != "made a key"]
        by, owner = spaces["key_id"], "users/ann"
        assert [[*told(line, "user", "entry"), line.get("owner")] for line in lines] == [
            [by, "changed", "ann", "fa-1", 200, owner],
            [by, "changed", "ann", "fa-1", 200, owner],
            [by, "read", None, "fa-1", 200, owner],
            [by, "changed", "ann", None, 200, None],
            [by, "changed", "ann", None, 200, None],
            [by, "changed", "ann", None, 201, None],
            [by, "chatted", "ann", None, 503, None],
            [by, "chatted", "ann", None, 503, None],
        ]

    async def test_a_thread_is_named_by_its_key_so_forgetting_leaves_nothing_of_its_id(
        self, home: Home
    ) -> None:
        await home.add("my quixel plans", "x", user_id="ann")
        key = bearer((await home.new_key())["secret"])
        path = thread_path("my quixel plans")
        search = {"user_id": "ann", "thread_id": "my quixel plans", "query": "x"}
        await home.client.get(f"{path}/turns", headers=key)
        await home.client.post("/api/v1/memory/search", json=search, headers=key)
        await home.client.delete(path, headers=key)
        lines = [line for line in audit_of(home) if "thread" in line]
        named = hashlib.sha256(b'["default","my quixel plans"]').hexdigest()[:32]
        assert [(line["what"], line["thread"]) for line in lines] == [
            ("read", named), ("read", named), ("deleted", named)
        ]  # fmt: skip
        assert "quixel" not in (home.app.settings.home / "audit.log").read_text()

    async def test_of_threads_with_one_id_it_tells_whose_was_meant(self, home: Home) -> None:
        await home.add("t1", "x", user_id="ann")
        headers = bearer((await home.new_key())["secret"])
        for query, hint in (("", {}), ("?user_id=bob", {}), ("", {"X-Recollect-User": "bob"})):
            await home.client.get(f"/api/v1/threads/t1{query}", headers=headers | hint)
        body = {"session_id": "t1", "user_id": "bob", "messages": [message("y")]}
        (await home.client.post("/api/v1/memory/add", json=body, headers=headers)).raise_for_status()
        await home.client.get("/api/v1/threads/t1", headers=headers)
        reads = [line for line in audit_of(home) if line["what"] == "read"]
        assert [(line.get("user"), line["status"]) for line in reads] == [
            ("ann", 200),
            ("bob", 404),
            ("bob", 404),
            (None, 409),
        ]

    async def test_it_tells_what_the_operator_did_with_keys_and_backups(self, home: Home) -> None:
        old = await home.new_key(user_id="ann")
        new = (await home.operate("POST", f"keys/{old['key_id']}/rotate", overlap_seconds=0)).json()
        await home.operate("DELETE", f"keys/{new['key_id']}")
        await home.operate("POST", "keys/open")
        await home.operate("POST", "backup")
        assert [told(line, "key", "new_key", "user") for line in audit_of(home)] == [
            ["local operator", "made a key", old["key_id"], None, "ann", 201],
            ["local operator", "rotated a key", old["key_id"], new["key_id"], "ann", 201],
            ["local operator", "revoked a key", new["key_id"], None, "ann", 200],
            ["local operator", "opened the server", None, None, None, 200],
            ["local operator", "backed up", None, None, None, 200],
        ]

    async def test_without_keys_reading_is_not_recorded_and_deleting_is(self, home: Home) -> None:
        await home.add("t1", "x", user_id="ann")
        for method in ("GET", "DELETE"):
            assert await status(home, None, "/api/v1/threads/t1", method) == 200
        assert [told(line, "user") for line in audit_of(home)] == [["no key", "deleted", "ann", 200]]

    async def test_its_files_are_bounded(self, tmp_path: Path) -> None:
        log = AuditLog(AuditFile(tmp_path, max_bytes=1000).append, FakeClock())
        for number in range(100):
            await log.write(Caller(), "deleted", number=number)
        sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
        assert sorted(sizes) == ["audit.log", *(f"audit.log.{number}" for number in range(1, 5))]
        assert max(sizes.values()) <= 1000
        lines = (tmp_path / "audit.log.1").read_text() + (tmp_path / "audit.log").read_text()
        assert json.loads(lines.splitlines()[-1])["number"] == 99

    async def test_one_of_several_servers_keeps_it_in_the_journal(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "home", member_url="http://127.0.0.1:8600") as home:
            key = await home.new_key(user_id="ann")
            (line,) = map(json.loads, await SqlAuditLines(home.app.database).all())
            assert told(line, "key", "user") == ["local operator", "made a key", key["key_id"], "ann", 201]
        assert not (tmp_path / "home/audit.log").exists()

    async def test_a_journal_that_does_not_answer_is_a_problem_and_no_error(self) -> None:
        async def append(line: str) -> None:
            raise StorageUnavailable("the journal does not answer")

        log = AuditLog(append, FakeClock())
        await log.write(Caller(), "deleted")
        assert log.problem() == "the audit log cannot be written: the journal does not answer"

    async def test_health_says_that_it_cannot_be_written(self, home: Home) -> None:
        (home.app.settings.home / "audit.log").mkdir()
        await home.new_key()
        assert "the audit log cannot be written" in (await home.client.get("/health")).text
