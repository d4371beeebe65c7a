"""Several servers on one journal: one leads, the others pass requests on, and take over when it goes."""

import json
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from recollect.infra.object_stores import objects_at
from tests.buckets import PLACES, ObjectTexts, new_url
from tests.chatting import joined, post, say, streamed, text_of, with_backend
from tests.http_client import add, bearer, contents, drained, message, turns
from tests.members import TAKEN_OVER_SECONDS, Members
from tests.postgres import Cluster, own_cluster
from tests.processes import Server, StandInModel, recollect, recollect_json, wait_until
from tests.standins.standin_engines import StandInEngine
from tests.stress.utils import asked_and_answered, overlaps


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with own_cluster() as cluster:
        yield cluster


@pytest.fixture
def place() -> str:
    """Where the files are."""
    return "s3"


@pytest.fixture
def settings(cluster: Cluster, tmp_path: Path, place: str) -> dict[str, str]:
    return {"RECOLLECT_DATABASE_URL": cluster.url(str(tmp_path)), "RECOLLECT_FILES_URL": new_url(place)}


@pytest.fixture
def members(settings: dict[str, str], tmp_path: Path) -> Iterator[Members]:
    with Members(tmp_path, settings) as members:
        yield members


def test_one_leads_and_every_other_answers_the_same(members: Members) -> None:
    members.start("one")
    assert members.leader() == "one"
    two = members.start("two")
    add(two.client, "t1", [message("tea", message_id="m1")])
    assert contents(members.running["one"].client, "t1") == ["tea"]
    assert contents(two.client, "t1") == ["tea"]
    assert (members.role("one"), members.role("two")) == ("leads", "stands by")
    assert two.client.get("/health").json()["status"] == "ok"
    missing = two.client.get("/api/v1/threads/none")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")
    assert "recollect_leads 0.0" in two.client.get("/metrics").text
    assert "recollect_leads 1.0" in members.running["one"].client.get("/metrics").text


@pytest.mark.parametrize("place", PLACES)
def test_a_standby_takes_over_from_one_that_was_killed_and_from_one_that_ends(
    members: Members, settings: dict[str, str]
) -> None:
    settings |= {"RECOLLECT_MEMORIZE__PAUSE_SECONDS": "0"}
    files = ObjectTexts(objects_at(settings["RECOLLECT_FILES_URL"]))
    members.start("one")
    assert members.leader() == "one"
    two = members.start("two")
    add(two.client, "t1", [message("tea", message_id="m1")])
    members.kill("one")
    add(two.client, "t1", [message("milk", 1, message_id="m2")])  # Waits until somebody leads.
    assert members.leader() == "two"
    one = members.start("one")
    assert contents(one.client, "t1") == ["tea", "milk"]
    assert two.stop() == 0
    members.running.pop("two")
    add(one.client, "t1", [message("honey", 2, message_id="m3")])
    assert contents(one.client, "t1") == ["tea", "milk", "honey"]
    assert members.leader() == "one"
    drained(one.client)
    (part,) = [path for path in files if "/threads/" in path]
    assert [line for line in files[part].splitlines() if line.startswith("> ")] == [
        "> tea",
        "> milk",
        "> honey",
    ]
    assert recollect_json(one.home, "verify")["ok"]


def test_a_worker_leads_first_and_keeps_the_key_of_the_deployment(members: Members, tmp_path: Path) -> None:
    members.start("worker")
    assert members.leader() == "worker"
    one = members.start("one")
    made = recollect_json(
        tmp_path / "one", "keys", "create"
    )  # By the command line, through a server that stands by.
    assert one.client.get("/api/v1/threads").status_code == 401
    assert one.client.get("/metrics").status_code == 401
    key = {"Authorization": f"Bearer {made['secret']}"}
    assert one.client.get("/api/v1/threads", headers=key).status_code == 200
    assert "recollect_leads 0.0" in one.client.get("/metrics", headers=key).text
    members.kill("worker")
    assert one.client.get("/api/v1/threads").status_code == 401
    assert one.client.get("/api/v1/threads", headers=key).status_code == 200
    assert members.leader() == "one"


def test_a_stream_is_followed_and_ended_through_another_server(
    members: Members, settings: dict[str, str], model: StandInModel
) -> None:
    settings |= with_backend(model.base_url)
    one, two = members.start("one"), members.start("two")
    members.leader()
    with streamed(two.client, "t1", "Tell me of Ada Lovelace") as first:
        next(first)
        with joined(one.client, "t1", user_id="ann") as second:
            assert text_of(list(first)) == text_of(list(second)) != ""
    say(one.client, "t1", "And more?")


def test_an_answer_is_resumed_and_cancelled_through_other_servers(
    members: Members, settings: dict[str, str], model: StandInModel
) -> None:
    settings |= with_backend(model.base_url)
    words = [f"word{number}" for number in range(1000)]
    model.control(chunk_delay_seconds=0.1, answer=" ".join(words), only="chat")
    leader = members.start("one")
    assert members.leader() == "one"
    two, three = members.start("two"), members.start("three")
    with streamed(two.client, "t1", "Count") as told:
        begun = [next(told) for _ in range(4)]
    with joined(three.client, "t1", user_id="ann", after=begun[-1]["id"]) as rest:
        resumed = [next(rest) for _ in range(4)]
        path = "/api/v1/threads/t1/cancel"
        stopped = two.client.post(path, json={"user_id": "ann"}).raise_for_status().json()
        resumed += rest
    (answer,) = [turn for turn in turns(leader.client, "t1") if turn["role"] == "assistant"]
    assert (answer["status"], stopped["cancelled"]) == ("partial", [answer["turn_id"]])
    assert text_of(begun) + text_of(resumed) == answer["content"]
    assert len(answer["content"].split()) < len(words)


def test_messages_through_two_servers_take_turns_and_one_that_is_sent_twice_is_one(
    members: Members, settings: dict[str, str], model: StandInModel
) -> None:
    settings |= with_backend(model.base_url)
    model.control(chunk_delay_seconds=0.05)
    before = len(model.log())
    members.start("one")
    assert members.leader() == "one"
    clients = [members.running["one"].client, members.start("two").client, members.start("three").client]

    def ask(number: int) -> str:
        client = clients[number % len(clients)]
        answer = post(client, "t1", f"Who is Ada Lovelace? {number % 4}", key=f"k{number % 4}")
        turn: str = answer.raise_for_status().json()["user_turn"]["turn_id"]
        return turn

    with ThreadPoolExecutor(12) as pool:
        told = list(pool.map(ask, range(12)))
    assert told == told[:4] * 3
    assert len(set(told)) == 4
    seen = asked_and_answered(turns(clients[2], "t1"))
    assert seen[1::2] == [("assistant", "complete")] * 4
    assert sorted(words for _, words in seen[::2]) == [
        f"Who is Ada Lovelace? {number}" for number in range(4)
    ]
    assert overlaps(model.log()[before:]) == []


def test_a_chat_through_one_server_goes_before_the_background_work_of_another(
    members: Members, settings: dict[str, str], model: StandInModel
) -> None:
    settings |= with_backend(model.base_url, LLM__KIND="lmstudio")
    one, two = members.start("one"), members.start("two")
    members.leader()
    model.control("silent", times=1, only="memory")
    add(one.client, "t1", [message("I live in Porto.", message_id="m1")], user_id="ann")
    flush = {"session_id": "t1", "user_id": "ann", "timeout": 0.1}
    one.client.post("/api/v1/memory/flush", json=flush).raise_for_status()
    model.calls(in_flight=1)
    answer = say(two.client, "t2", "Who is Ada Lovelace?")
    assert answer["assistant_turn"]["content"] == "I see: Ada Lovelace"
    flushed = two.client.post("/api/v1/memory/flush", json={**flush, "timeout": 60}).raise_for_status().json()
    assert {each["state"] for cell in flushed["memcells"] for each in cell["strategies"]} <= {"done"}


def test_a_thread_keeps_its_slot_and_a_user_their_quota_whichever_server_is_asked(
    members: Members, settings: dict[str, str], tmp_path: Path, cluster: Cluster
) -> None:
    with StandInEngine("llama.cpp") as engine:
        settings |= with_backend(engine.base_url, QUOTAS__USER_REQUESTS="6")
        one, two = members.start("one"), members.start("two")
        members.leader()
        secret = recollect_json(tmp_path / "two", "keys", "create", "--user", "ann")["secret"]
        asked = [(one, "t1"), (two, "t2"), (two, "t1"), (one, "t2")]
        for server, thread in asked:
            server.client.headers |= bearer(secret)
            say(server.client, thread, f"I am in {thread}")
        chats = [body for body in engine.chats() if "id_slot" in body]
        slots = [body["id_slot"] for body in chats if "I am in" in str(body["messages"][-1])]
        assert (slots[:2], len({*slots})) == (slots[2:], 2)
        two.client.delete("/api/v1/threads/t1").raise_for_status()
        statuses = [each.client.get("/api/v1/whoami").status_code for each in [one, two] * 4]
        assert (429 in statuses[::2], 429 in statuses[1::2]) == (True, True)
    with cluster.inside(settings["RECOLLECT_DATABASE_URL"]) as journal:
        lines = [json.loads(line) for (line,) in journal.execute("SELECT line FROM audit_lines").fetchall()]
    assert [line["what"] for line in lines] == ["made a key", "deleted"]


def test_who_leaves_an_answer_through_another_server_ends_the_request_at_the_leader(
    members: Members, settings: dict[str, str], model: StandInModel
) -> None:
    settings |= with_backend(model.base_url)
    model.control(delay_seconds=30)
    one = members.start("one")
    members.leader()
    two = members.start("two")
    with (
        httpx2.Client(base_url=two.address, timeout=60, trust_env=False) as client,
        streamed(client, "t1", "Tell me of Ada Lovelace") as told,
    ):
        next(told)
    route = 'route="/api/v1/threads/{thread_id}/messages"'
    wait_until(lambda: route in one.client.get("/metrics").text, "the request has ended", seconds=10)


def test_a_request_without_a_host_is_answered_by_a_server_that_stands_by(members: Members) -> None:
    members.start("one")
    members.leader()
    two = members.start("two")
    host, port = two.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(b"GET /health/live HTTP/1.0\r\n\r\n")
        assert line.recv(100).startswith(b"HTTP/1.1 ")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(b"GET /api/v1/threads HTTP/1.0\r\n\r\n")
        assert line.recv(100).split(b" ")[1] in (b"200", b"400", b"403")


def test_a_restart_of_the_database_leaves_the_leader_and_loses_nothing(
    members: Members, cluster: Cluster
) -> None:
    one, two = members.start("one"), members.start("two")
    leader = members.leader()
    for number in range(4):
        if number == 2:
            cluster.stop(signal.SIGQUIT)
            cluster.start()
        add((one, two)[number % 2].client, "t1", [message(f"tea{number}", number, message_id=f"m{number}")])
    assert contents(two.client, "t1") == [f"tea{number}" for number in range(4)]
    assert members.leader() == leader


def test_one_that_is_frozen_is_overtaken_and_ends_when_it_wakes(members: Members, cluster: Cluster) -> None:
    one = members.start("one")
    assert members.leader() == "one"
    two = members.start("two")
    add(two.client, "t1", [message("tea", message_id="m1")])
    one.process.send_signal(signal.SIGSTOP)
    with cluster.operator() as driver:  # As its keepalives would, after a while.
        driver.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'recollect %'"
        )
    members.running.pop("one")
    assert members.leader() == "two"
    add(two.client, "t1", [message("milk", 1, message_id="m2")])
    one.process.send_signal(signal.SIGCONT)
    assert one.wait_for_end() == 1
    assert "another server leads now" in one.errors()
    assert contents(two.client, "t1") == ["tea", "milk"]


def test_an_older_server_passes_requests_on_and_never_leads_on_a_newer_schema(
    members: Members, settings: dict[str, str], cluster: Cluster
) -> None:
    members.start("one")
    assert members.leader() == "one"
    two = members.start("two")
    version = "UPDATE alembic_version SET version_num = %s || (SELECT version_num FROM alembic_version)"
    with cluster.inside(settings["RECOLLECT_DATABASE_URL"]) as journal:
        journal.execute(version, ("9",))  # As if the one that leads were newer, and had upgraded it.
        add(two.client, "t1", [message("tea", message_id="m1")])
        members.kill("one")
        told = "this server can only pass requests on"
        wait_until(lambda: told in two.errors(), "it has tried to lead", seconds=TAKEN_OVER_SECONDS)
        assert members.role("two") == "stands by"
        journal.execute("UPDATE alembic_version SET version_num = substr(version_num, 2)")
    members.start("one")
    assert members.leader() == "one"
    assert contents(two.client, "t1") == ["tea"]


def test_without_a_leader_requests_are_told_to_come_again(
    members: Members, settings: dict[str, str], cluster: Cluster
) -> None:
    settings["RECOLLECT_DATABASE_WAIT_SECONDS"] = "0.5"
    members.start("one")
    members.leader()
    two = members.start("two")
    cluster.stop()
    try:
        members.kill("one")
        body = {"session_id": "t1", "messages": [message("lost", message_id="m1")]}
        refused = two.client.post("/api/v1/memory/add", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
        assert refused.headers["Retry-After"] == "2"
        assert two.client.get("/health").status_code == 503
        assert two.client.get("/health/live").status_code == 200
    finally:
        cluster.start()
    assert members.leader() == "two"
    add(two.client, "t1", [message("kept", message_id="m2")])
    assert contents(two.client, "t1") == ["kept"]


def test_a_body_that_is_too_large_is_refused_by_either(members: Members) -> None:
    members.start("one")
    members.leader()
    two = members.start("two")
    body = json.dumps({"session_id": "t1", "messages": [message("x" * 9_000_000)]})
    given = {"Content-Type": "application/json"}
    refused = two.client.post(
        "/api/v1/memory/add", content=(part.encode() for part in (body,)), headers=given
    )
    assert refused.status_code == 413


def test_what_a_member_needs_is_said(settings: dict[str, str], tmp_path: Path) -> None:
    told = recollect(tmp_path, "worker", settings=settings)
    assert (told.returncode, "set RECOLLECT_MEMBER_URL" in told.stderr) == (1, True)
    alone = {"RECOLLECT_MEMBER_URL": "http://127.0.0.1:8600"}
    told = recollect(tmp_path, "serve", settings=alone)
    assert (told.returncode, "RECOLLECT_FILES_URL=s3://" in told.stderr) == (1, True)
    with Server(tmp_path / "alone", settings) as server:
        assert server.client.get("/health/live").json()["role"] is None
        told = recollect(tmp_path, "serve", settings=settings)
        assert "another server" in told.stderr


def test_a_header_lets_nobody_in_and_loops_nowhere(members: Members) -> None:
    members.start("one")
    members.leader()
    two = members.start("two")
    for server in members.running.values():
        given = {"X-Recollect-Forwarded": "open"}
        assert server.client.get("/api/v1/threads", headers=given).status_code in (401, 421)
    assert httpx2.get(f"{two.address}/api/v1/threads").status_code == 200


def test_a_backup_is_made_where_the_server_that_leads_runs(members: Members, tmp_path: Path) -> None:
    one = members.start("one")
    members.leader()
    two = members.start("two")
    add(one.client, "t1", [message("tea")])
    refused = recollect(two.home, "backup", str(tmp_path / "saved.tar.gz"))
    assert (refused.returncode, "the machine of the server that leads" in refused.stderr) == (1, True)
    assert not (one.home / "backups").exists()
    assert recollect_json(one.home, "backup", str(tmp_path / "saved.tar.gz"))["files"] > 1
