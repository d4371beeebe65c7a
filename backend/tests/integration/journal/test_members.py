"""Several servers on one journal: one leads, the others pass requests on, and take over when it goes."""

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.buckets import new_url
from tests.chatting import joined, say, streamed, text_of, with_backend
from tests.http_client import add, contents, message
from tests.members import Members
from tests.postgres import Cluster, own_cluster
from tests.processes import Server, StandInModel, recollect, recollect_json, wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with own_cluster() as cluster:
        yield cluster


@pytest.fixture
def settings(cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    return {"RECOLLECT_DATABASE_URL": cluster.url(str(tmp_path)), "RECOLLECT_FILES_URL": new_url()}


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


def test_a_standby_takes_over_from_one_that_was_killed_and_from_one_that_ends(members: Members) -> None:
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
