"""Quotas over HTTP: whose they are, what is told, and what they never touch."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recollect.app import open_app
from recollect.domain.paths import owner_folder
from recollect.service.access.quotas import Quotas
from recollect.service.coordination import now_ms
from recollect.settings import Settings
from tests.eventually import eventually
from tests.http_client import Home, add_one, bearer, client_of, error_of, message, opened
from tests.processes import StandInModel
from tests.remembering import entries, flush, said, tell
from tests.talking import talking

MEBIBYTE = 1024 * 1024
SEARCH = "/api/v1/memory/search"


class Seconds:
    """A clock that stands still until it is told to move."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def stop_the_clock(home: Home) -> Seconds:
    """Count the home's quotas by a clock of the test's."""
    clock, app = Seconds(), home.app
    app.quotas = Quotas(app.settings.quotas, app.metrics, on_loopback=True, clock=clock)
    return clock


@asynccontextmanager
async def limited(folder: Path, **quotas: int) -> AsyncIterator[tuple[Home, Seconds]]:
    async with opened(folder / "home", quotas=quotas) as home:
        yield home, stop_the_clock(home)


async def search(client: httpx2.AsyncClient, user: str) -> httpx2.Response:
    return await client.post(SEARCH, json={"user_id": user, "query": "anything"})


async def statuses(client: httpx2.AsyncClient, user: str, number: int) -> list[int]:
    return [(await search(client, user)).status_code for _ in range(number)]


async def metric(home: Home, line: str) -> float:
    text = (await home.client.get("/metrics", headers=bearer(home.app.lock.token))).raise_for_status().text
    return float(next(each for each in text.splitlines() if each.startswith(line)).rpartition(" ")[2])


async def fill(home: Home, user: str, size: int) -> Path:
    """So many bytes of the user's lie in the vault, and have been measured."""
    file = home.app.settings.vault_path / owner_folder("default", user) / "images" / "large"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size)
    home.app.quotas.count_disk("default", user, MEBIBYTE)
    await home.app.quotas.measure(home.app.vault)
    return file


class TestRequests:
    async def test_past_a_users_quota_it_is_429_and_the_time_told_is_enough(self, tmp_path: Path) -> None:
        async with limited(tmp_path, user_requests=3) as (home, clock):
            assert await statuses(home.client, "ann", 3) == [200] * 3
            refused = await search(home.client, "ann")
            assert (refused.status_code, error_of(refused)["code"]) == (429, "over_quota")
            assert "RECOLLECT_QUOTAS__USER_REQUESTS" in error_of(refused)["message"]
            wait = int(refused.headers["Retry-After"])
            clock.now += wait - 1
            assert (await search(home.client, "ann")).status_code == 429
            clock.now += 1
            assert await statuses(home.client, "ann", 2) == [200, 429]

    async def test_the_audit_log_names_the_user_whose_quota_refused_an_operator(self, tmp_path: Path) -> None:
        async with limited(tmp_path, user_requests=1) as (home, _), home.keyed() as space:
            assert await statuses(space, "ann", 2) == [200, 429]
            assert (await space.get("/api/v1/threads?user_id=ann")).status_code == 429
            log = (tmp_path / "home/audit.log").read_text().splitlines()
        refused = [line for line in map(json.loads, log) if line["status"] == 429]
        assert [line.get("user") for line in refused] == ["ann", "ann"]

    async def test_a_user_has_one_bucket_for_all_keys_and_ways_to_be_named(self, tmp_path: Path) -> None:
        async with (
            limited(tmp_path, user_requests=4) as (home, _),
            home.keyed("ann") as own,
            home.keyed() as space,
        ):
            answers = [
                await own.get("/api/v1/whoami"),
                await space.get("/api/v1/threads?user_id=ann"),
                await space.get("/api/v1/threads", headers={"X-OpenWebUI-User-Id": "ann"}),
                await space.post(SEARCH, json={"query": "x"}, headers={"X-Recollect-User": "ann"}),
                await own.get("/api/v1/whoami"),
            ]
            assert [each.status_code for each in answers] == [200, 200, 200, 200, 429]

    async def test_who_a_body_names_counts_and_not_who_a_header_hints_at(self, tmp_path: Path) -> None:
        async with limited(tmp_path, user_requests=1) as (home, _):
            hint = {"X-OpenWebUI-User-Id": "the front end"}
            for user in ("ann", "bob"):
                found = await home.client.post(SEARCH, json={"user_id": user, "query": "x"}, headers=hint)
                assert found.status_code == 200
            assert await statuses(home.client, "the front end", 2) == [200, 429]

    async def test_a_keys_bucket_holds_for_all_users_behind_it_and_for_no_other_key(
        self, tmp_path: Path
    ) -> None:
        async with (
            limited(tmp_path, key_requests=3) as (home, _),
            home.keyed() as one,
            home.keyed() as other,
        ):
            found = [(await search(one, user)).status_code for user in ("ann", "bob", "cleo", "dora")]
            assert found == [200, 200, 200, 429]
            assert await statuses(other, "ann", 1) == [200]

    async def test_a_user_who_floods_takes_nothing_from_others_behind_the_same_key(
        self, tmp_path: Path
    ) -> None:
        async with limited(tmp_path, user_requests=2, key_requests=5) as (home, _), home.keyed() as space:
            assert (await statuses(space, "ann", 20)).count(429) == 18
            assert await statuses(space, "bob", 2) == [200, 200]

    async def test_health_and_the_command_line_are_never_limited(self, tmp_path: Path) -> None:
        async with limited(tmp_path, user_requests=1, key_requests=1) as (home, _):
            assert (await home.client.get("/api/v1/threads")).status_code == 200
            assert (await home.client.get("/api/v1/threads")).status_code == 429
            for path in ("/health", "/health/live"):
                assert {(await home.client.get(path)).status_code for _ in range(5)} == {200}
            operator = bearer(home.app.lock.token)
            for _ in range(5):
                answer = await home.client.get("/api/v1/threads?user_id=ann", headers=operator)
                assert answer.status_code == 200

    async def test_guessing_keys_fills_no_bucket_and_costs_no_valid_key_a_request(
        self, tmp_path: Path
    ) -> None:
        async with limited(tmp_path, key_requests=2) as (home, _), home.keyed() as space:
            for number in range(50):
                guess = await search_with(home, f"rk_{number}")
                assert guess.status_code == 401
            assert len(home.app.quotas._buckets["key_requests"]) == 0
            assert await statuses(space, "ann", 2) == [200, 200]

    async def test_on_loopback_nothing_is_limited_unless_it_is_set(self, tmp_path: Path) -> None:
        async with opened(tmp_path / "home") as home:
            assert await metric(home, 'recollect_quota{quota="user_requests"}') == 0
        async with opened(tmp_path / "home", host="0.0.0.0") as home:
            assert await metric(home, 'recollect_quota{quota="user_requests"}') > 0

    async def test_refusals_are_counted_by_quota_and_name_nobody(self, tmp_path: Path) -> None:
        async with limited(tmp_path, user_requests=1) as (home, _):
            assert await statuses(home.client, "ann-the-flooder", 4) == [200, 429, 429, 429]
            assert await metric(home, 'recollect_over_quota_total{quota="user_requests"}') == 3
            text = (await home.client.get("/metrics", headers=bearer(home.app.lock.token))).text
            assert "ann-the-flooder" not in text


async def search_with(home: Home, secret: str) -> httpx2.Response:
    return await home.client.post(SEARCH, json={"user_id": "ann", "query": "x"}, headers=bearer(secret))


class TestBytes:
    async def test_past_a_users_quota_a_body_is_429_and_requests_without_one_pass(
        self, tmp_path: Path
    ) -> None:
        async with limited(tmp_path, user_bytes=4_000) as (home, clock), home.keyed("ann") as ann:
            assert (await add_one(ann, "t1", "x" * 3_000)).status_code == 202
            refused = await add_one(ann, "t1", "x" * 3_000)
            assert (refused.status_code, error_of(refused)["code"]) == (429, "over_quota")
            assert "RECOLLECT_QUOTAS__USER_BYTES" in error_of(refused)["message"]
            assert (await ann.get("/api/v1/threads")).status_code == 200
            clock.now += int(refused.headers["Retry-After"])
            assert (await add_one(ann, "t1", "x" * 3_000)).status_code == 202

    async def test_a_refused_body_is_not_read(self, tmp_path: Path) -> None:
        asked = False

        async def body() -> AsyncIterator[bytes]:
            nonlocal asked
            asked = True
            yield b"{}"

        headers = {"Content-Type": "application/json", "Content-Length": "2"}
        async with limited(tmp_path, user_requests=1) as (home, _), home.keyed("ann") as ann:
            assert (await ann.get("/api/v1/threads")).status_code == 200
            refused = await ann.post(SEARCH, content=body(), headers=headers)
            assert (refused.status_code, asked) == (429, False)

    async def test_a_body_without_a_length_counts_as_it_arrives_for_key_and_user(
        self, tmp_path: Path
    ) -> None:
        async def body() -> AsyncIterator[bytes]:
            for _ in range(3):
                yield b" " * 1_000
            yield b'{"user_id": "ann", "query": "x"}'

        headers = {"Content-Type": "application/json"}
        async with limited(tmp_path, user_bytes=3_000) as (home, _):
            # Larger than the quota: it passes while the bucket is full, and has to be paid off.
            assert (await home.client.post(SEARCH, content=body(), headers=headers)).status_code == 200
            assert (await search(home.client, "ann")).status_code == 429
            assert (await search(home.client, "bob")).status_code == 200
        async with limited(tmp_path, key_bytes=3_000) as (home, _):
            assert (await home.client.post(SEARCH, content=body(), headers=headers)).status_code == 200
            assert (await search(home.client, "bob")).status_code == 429


class TestDisk:
    async def test_without_space_a_user_stores_nothing_and_reads_and_deletes(self, tmp_path: Path) -> None:
        async with limited(tmp_path, user_disk_mb=1) as (home, _), home.keyed("ann") as ann:
            receipt = (await add_one(ann, "t1", "stored before")).raise_for_status().json()["receipts"][0]
            await fill(home, "ann", 2 * MEBIBYTE)
            refused = await add_one(ann, "t1", "stored after")
            assert (refused.status_code, error_of(refused)["code"]) == (429, "disk_quota_used")
            assert "delete something first" in error_of(refused)["message"]
            assert 0 < int(refused.headers["Retry-After"]) <= 30
            note = {"name": "stored-after", "text": "x"}
            assert (await ann.post("/api/v1/memory/notes", json=note)).status_code == 429
            assert (await ann.get("/api/v1/threads/t1")).json()["turn_count"] == 1
            assert (await search(ann, "ann")).status_code == 200
            assert (await ann.post("/api/v1/threads/t1/cancel")).status_code == 200
            gone = await ann.delete(f"/api/v1/threads/t1/turns/{receipt['turn_id']}")
            assert gone.status_code == 200

    async def test_once_something_is_deleted_it_stores_again(self, tmp_path: Path) -> None:
        async with limited(tmp_path, user_disk_mb=1) as (home, _):
            file = await fill(home, "ann", 2 * MEBIBYTE)
            body = {"session_id": "t1", "user_id": "ann", "messages": [message("x")]}
            assert (await home.client.post("/api/v1/memory/add", json=body)).status_code == 429
            file.unlink()
            await home.app.quotas.measure(home.app.vault)
            assert (await home.client.post("/api/v1/memory/add", json=body)).status_code == 202

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("memory/add", {"session_id": "t1", "messages": [message("x")]}),
            ("threads/t1/turns", {"role": "user", "content": "x"}),
        ],
    )
    async def test_the_owner_of_a_thread_counts_where_nobody_is_named(
        self, tmp_path: Path, path: str, body: dict[str, Any]
    ) -> None:
        async with limited(tmp_path, user_disk_mb=1) as (home, _):
            for user in ("ann", "bob"):
                thread = {"thread_id": "t1" if user == "ann" else "t2", "user_id": user}
                (await home.client.post("/api/v1/threads", json=thread)).raise_for_status()
            home.app.quotas.unmeasured.clear()
            assert (await home.client.post(f"/api/v1/{path}", json=body)).status_code in (201, 202)
            assert home.app.quotas.unmeasured == {("default", "ann")}
            await fill(home, "ann", 2 * MEBIBYTE)
            assert (await home.client.post(f"/api/v1/{path}", json=body)).status_code == 429
            others = {**body, "session_id": "t2"} if "session_id" in body else body
            answer = await home.client.post(f"/api/v1/{path.replace('t1', 't2')}", json=others)
            assert answer.status_code in (201, 202)


class TestChat:
    async def test_openais_clients_are_told_in_their_own_words(
        self, tmp_path: Path, model: StandInModel
    ) -> None:
        async with talking(tmp_path, model, quotas={"user_requests": 1, "user_disk_mb": 1}) as talk:
            home = Home(talk.app, talk.client)
            stop_the_clock(home)

            async def complete(user: str) -> httpx2.Response:
                body = {"model": "recollect", "user": user, "messages": [{"role": "user", "content": "hi"}]}
                return await talk.client.post("/v1/chat/completions", json=body)

            assert (await complete("ann")).status_code == 200
            refused = await complete("ann")
            assert (refused.status_code, refused.headers["Retry-After"]) == (429, "60")
            told = refused.json()["error"]
            assert (told["type"], told["code"]) == ("rate_limit_error", "rate_limit_exceeded")
            await fill(home, "bob", 2 * MEBIBYTE)
            full = await complete("bob")
            assert (full.status_code, full.json()["error"]["code"]) == (429, "insufficient_quota")
            assert full.headers["x-should-retry"] == "false"

    async def test_who_names_nobody_there_is_the_user_me(self, tmp_path: Path, model: StandInModel) -> None:
        async with talking(tmp_path, model, quotas={"user_requests": 1}) as talk:
            stop_the_clock(Home(talk.app, talk.client))
            body = {"model": "recollect", "messages": [{"role": "user", "content": "hi"}]}
            found = [await talk.client.post("/v1/chat/completions", json=body) for _ in range(2)]
            assert [each.status_code for each in found] == [200, 429]


async def test_past_the_quota_of_model_calls_a_users_memories_wait_and_others_are_made(
    tmp_path: Path, model: StandInModel
) -> None:
    model.control(only="boundaries", answer={"reasoning": "", "boundaries": [], "should_wait": True})
    later = 0
    settings = Settings(
        home=tmp_path / "home",
        embedding={"kind": "none"},
        llm={"base_url": model.base_url, "model": "stand-in"},
        quotas={"user_model_calls": 20},
    )
    async with open_app(settings, clock=lambda: now_ms() + later) as app, client_of(app) as client:
        home = Home(app, client)
        seconds = stop_the_clock(home)
        for _ in range(20):
            app.quotas.model_call("default", "ann")()
        for user in ("ann", "bob"):
            await tell(home, user, said(user=user), user_id=user)
        assert (await flush(home, "ann", 0.5))["status"] == "pending"
        assert (await flush(home, "bob"))["status"] == "done"
        owners = {entry.owner for entry in await entries(home)}
        assert owners == {owner_folder("default", "bob")}
        (waits,) = await jobs_in_trouble(client, "ann")
        assert "20 background model calls a day are allowed for this user" in waits["error"]
        assert (waits["state"], waits["attempts"]) == ("queued", 0)
        assert "1 job waits after an error or for a quota" in str((await client.get("/health")).json())
        assert await metric(home, 'recollect_over_quota_total{quota="user_model_calls"}') >= 1
        seconds.now += 86_400
        later = 86_400_000
        app.jobs.notify(0)
        assert await app.jobs.wait_for(waits["job_id"], 60)
        assert (await flush(home, "ann"))["status"] == "done"
        owners = {entry.owner for entry in await entries(home)}
        assert owners == {owner_folder("default", user) for user in ("ann", "bob")}


async def jobs_in_trouble(client: httpx2.AsyncClient, user: str) -> list[dict[str, Any]]:
    """As soon as there are any."""
    found: list[dict[str, Any]] = []

    async def are_there() -> bool:
        told = (await client.get(f"/api/v1/jobs?user_id={user}")).json()["jobs"]
        found[:] = [job for job in told if job["error"]]
        return bool(found)

    await eventually(are_there)
    return found
