"""Webhooks over HTTP: who may have them, what they are told, and what becomes of deliveries that fail."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from recollect.infra.job_engine import JobEngine
from tests.eventually import eventually
from tests.http_client import Home, Json, opened, thread_path
from tests.processes import Server, StandInModel, recollect, recollect_json
from tests.receiver import SECRET, Receiver
from tests.unit.made_entries import known

WEBHOOKS = "/api/v1/webhooks"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver
        assert receiver.problems == []


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with opened(tmp_path / "home", webhooks={"allow_private": True, "max_attempts": 2}) as home:
        yield home


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries come at once."""
    monkeypatch.setattr(JobEngine, "_jittered", lambda self, delay_ms: delay_ms // 500)


async def hook(home: Home, receiver: Receiver, **fields: object) -> str:
    body = {"url": receiver.url, "secret": SECRET, **fields}
    made = await home.client.post(WEBHOOKS, json=body)
    assert made.status_code == 201, made.text
    return str(made.json()["webhook_id"])


async def log_of(home: Home, webhook_id: str) -> list[Json]:
    answer = await home.client.get(f"{WEBHOOKS}/{webhook_id}/deliveries")
    found: list[Json] = answer.raise_for_status().json()["deliveries"]
    return found


async def test_a_webhook_is_told_of_turns_memories_and_what_is_forgotten_by_ids_alone(
    tmp_path: Path, model: StandInModel, receiver: Receiver
) -> None:
    settings = {"llm": {"base_url": model.base_url}, "webhooks": {"allow_private": True}}
    async with opened(tmp_path / "home", **settings) as home:
        await hook(home, receiver)
        said = {"user_id": "ann", "content": "my cat is called Quillfeather"}
        answer = await home.client.post(thread_path("t1", "messages"), json=said)
        turn = answer.raise_for_status().json()["assistant_turn"]
        await home.put(known("fa-1", "Ann has a cat, Quillfeather.", turns=("t-1",)))
        await eventually(lambda: receiver.of("turn.ended") and receiver.of("memory.made"))
        (ended,) = receiver.of("turn.ended")
        assert (ended["user_id"], ended["thread_id"], ended["turn_id"]) == ("ann", "t1", turn["turn_id"])
        assert (ended["status"], ended["model"]) == ("complete", turn["model"])
        assert {"user_id": "ann", "owner": "users/ann", "entry_id": "fa-1", "kind": "facts"}.items() <= (
            receiver.of("memory.made")[0].items()
        )
        await home.client.delete(thread_path("t1", "turns/t-1"), params={"user_id": "ann"})
        await home.client.delete(thread_path("t1"), params={"user_id": "ann"})
        await home.client.delete("/api/v1/users/ann")
        await eventually(lambda: len(receiver.of("forgotten")) == 3)
        turns, thread, user = sorted(receiver.of("forgotten"), key=lambda data: data["at"])
        assert (turns["what"], turns["thread_id"], "t-1" in turns["turn_ids"]) == ("turns", "t1", True)
        assert (thread["what"], thread["thread_id"], user["what"], user["user_id"]) == (
            "thread", "t1", "user", "ann",
        )  # fmt: skip
        assert turns["entry_ids"] == ["fa-1"]
        assert "Quillfeather" not in json.dumps(receiver.accepted)


async def test_a_user_has_webhooks_on_their_own_events_and_sees_no_others(
    home: Home, receiver: Receiver
) -> None:
    async with home.keyed() as operator, home.keyed("ann") as ann, home.keyed("bob") as bob:
        body = {"url": receiver.url, "secret": SECRET, "events": ["memory.made"]}
        whole = (await operator.post(WEBHOOKS, json=body)).json()
        mine = (await ann.post(WEBHOOKS, json=body)).json()
        assert (whole["user_id"], mine["user_id"], "secret" in mine) == (None, "ann", False)
        assert (await ann.post(WEBHOOKS, json={**body, "user_id": "bob"})).status_code == 403
        assert [each["webhook_id"] for each in (await ann.get(WEBHOOKS)).json()["webhooks"]] == [
            mine["webhook_id"]
        ]
        assert (await bob.get(WEBHOOKS)).json() == {"webhooks": []}
        assert SECRET not in (await operator.get(WEBHOOKS)).text
        path = f"{WEBHOOKS}/{mine['webhook_id']}"
        for method, address in (("GET", path), ("DELETE", path), ("GET", f"{path}/deliveries")):
            assert (await bob.request(method, address)).status_code == 404
        await home.put(known("fa-1"), known("fa-2", owner="default/users/bob"))
        await home.drain()
        told = [data["entry_id"] for data in receiver.of("memory.made")]
        assert sorted(told) == ["fa-1", "fa-1", "fa-2"]
        assert [each["state"] for each in (await ann.get(f"{path}/deliveries")).json()["deliveries"]] == [
            "delivered"
        ]
        assert (await ann.delete(path)).status_code == 200
        assert (await ann.get(path)).status_code == 404
        log = (home.app.settings.home / "audit.log").read_text()
        assert ("made a webhook" in log, "deleted a webhook" in log, SECRET in log) == (True, True, False)


def test_the_command_line_adds_tries_and_removes_webhooks(tmp_path: Path, receiver: Receiver) -> None:
    settings = {"RECOLLECT_WEBHOOKS__ALLOW_PRIVATE": "true"}
    with Server(tmp_path, settings):
        added = recollect_json(tmp_path, "webhooks", "add", receiver.url, "--user", "ann")
        name, receiver.secret = added["webhook_id"], added["secret"]
        listed = recollect(tmp_path, "webhooks", "list", "--user", "ann")
        assert (name in listed.stdout, added["secret"] in listed.stdout) == (True, False)
        tried = recollect(tmp_path, "webhooks", "test", name)
        assert (tried.returncode, "accepted" in tried.stdout) == (0, True)
        assert [data["user_id"] for data in receiver.of("test")] == ["ann"]
        receiver.accepts = lambda number, told: False
        assert recollect(tmp_path, "webhooks", "test", name).returncode == 1
        assert recollect_json(tmp_path, "webhooks", "log", name) == {"deliveries": []}
        assert recollect(tmp_path, "webhooks", "remove", name).returncode == 0
        assert recollect_json(tmp_path, "webhooks", "list") == {"webhooks": []}


async def test_a_delivery_that_fails_holds_up_no_other_is_dead_in_the_end_and_can_be_retried(
    home: Home, impatient: None
) -> None:
    healed = False
    with Receiver(lambda _, told: healed or told["data"]["entry_id"] == "fa-2") as receiver:
        receiver.status = 302
        webhook_id = await hook(home, receiver)
        await home.put(known("fa-1"), known("fa-2", "Ann likes tea."))
        await home.drain()
        assert [data["entry_id"] for data in receiver.of("memory.made")] == ["fa-2"]
        dead, delivered = await log_of(home, webhook_id)
        assert (dead["state"], dead["tries"]) == ("dead", 2)
        assert dead["error"] == "DeliveryFailed: the receiver answered 302"
        assert (delivered["state"], delivered["tries"]) == ("delivered", 1)
        healed = True
        await home.client.post(f"/api/v1/jobs/{dead['job_id']}/retry")
        await home.drain()
        assert receiver.ids[-1] == dead["delivery_id"]
        assert receiver.tries[dead["delivery_id"]] == 3
        assert [each["state"] for each in await log_of(home, webhook_id)] == ["delivered", "delivered"]


async def test_who_is_forgotten_leaves_no_webhook_and_nothing_to_be_delivered_but_that(
    home: Home, receiver: Receiver
) -> None:
    whole = await hook(home, receiver)
    await hook(home, receiver, user_id="ann")
    async with home.app.jobs.paused(["delivery"]):
        await home.put(known("fa-1"))
        assert len(await log_of(home, whole)) == 1
        await home.client.delete("/api/v1/users/ann")
        assert [each["event"] for each in await log_of(home, whole)] == ["forgotten"]
        found = (await home.client.get(WEBHOOKS)).json()["webhooks"]
        assert [each["webhook_id"] for each in found] == [whole]
    await home.drain()
    assert [data["what"] for data in receiver.of("forgotten")] == ["user"]


INSIDE, SCHEME = "must not lead to this machine", "must begin with https:"
REFUSED_URLS = {
    "https://127.0.0.1/x": INSIDE, "https://10.1.2.3/x": INSIDE, "https://169.254.169.254/latest": INSIDE,
    "https://[::1]/x": INSIDE, "https://2130706433/x": INSIDE, "https://localhost/x": INSIDE,
    "http://93.184.216.34/x": SCHEME, "ftp://93.184.216.34/x": SCHEME, "nonsense": SCHEME,
    "https://user@93.184.216.34/x": "without a user", "https://93.184.216.34:0/x": "a port from 1",
    "https://example.com:0/x": "a port from 1", "https://example.com:99999/x": "ort",
}  # fmt: skip


async def test_no_webhook_leads_into_the_network_unless_that_is_allowed(home: Home, tmp_path: Path) -> None:
    async with opened(tmp_path / "closed") as closed:
        for url, words in REFUSED_URLS.items():
            answer = await closed.client.post(WEBHOOKS, json={"url": url, "secret": SECRET})
            error = answer.json()["error"]
            assert (answer.status_code, error["field"]) == (422, "url")
            assert words in error["message"], url
            assert "data:" not in error["message"]
    for url in ("http://127.0.0.1:0/x", "http://127.0.0.1:99999/x", "ftp://127.0.0.1/x"):
        answer = await home.client.post(WEBHOOKS, json={"url": url, "secret": SECRET})
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, "url")


ALLOWED = {"RECOLLECT_WEBHOOKS__ALLOW_PRIVATE": "true", "RECOLLECT_JOBS__WORKERS": "16"}


def deliver_until_a_kill(folder: Path, receiver: Receiver, webhooks: int, kill_at: int) -> None:
    """One event for that many webhooks; the server is killed right after so many deliveries."""
    with Server(folder, {**ALLOWED, "RECOLLECT_FAIL_POINT": f"webhook.sent:{kill_at}"}) as server:
        body = {"url": receiver.url, "secret": SECRET, "events": ["memory.made"]}
        for _ in range(webhooks):
            server.client.post(WEBHOOKS, json=body).raise_for_status()
        entry = {"user_id": "ann", "text": "Ann lives in Berlin."}
        server.client.post("/api/v1/memory/entries", json=entry).raise_for_status()
        server.wait_for_end()


def half(number: int, told: Json) -> bool:
    return number % 2 == 0


async def test_every_delivery_arrives_through_failures_and_a_kill(tmp_path: Path, impatient: None) -> None:
    with Receiver(half) as receiver:
        deliver_until_a_kill(tmp_path / "home", receiver, 6, 2)
        assert 2 <= len(receiver.ids) < 6
        async with opened(tmp_path / "home", webhooks={"allow_private": True}) as home:
            await home.drain()
    assert (receiver.problems, len(set(receiver.ids))) == ([], 6)
    assert len(receiver.ids) > 6, "what was not known to be delivered comes again, with the same id"
