"""Homes of several servers are lost: what was said, edited, set and forgotten is in PostgreSQL and S3 alone."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from recollect.domain.images import data_url, image_name
from recollect.infra.journal.audit_lines import SqlAuditLines
from recollect.infra.s3_objects import S3Objects
from recollect.service.coordination import no_progress
from tests.buckets import ObjectTexts, go_back, new_url
from tests.chatting import prompt, say, with_backend
from tests.entry_house import fact
from tests.forgetting import entries
from tests.http_client import (
    Json,
    add,
    bearer,
    contents,
    coverage,
    drained,
    message,
    opened,
    thread_path,
    turns,
)
from tests.members import Members
from tests.postgres import Cluster, cluster_of_session
from tests.processes import Server, StandInModel, recollect, recollect_json, wait_until
from tests.remembering import texts
from tests.stress.utils import covered

ANN = "default/users/ann"
CAT = b"GIF89a a cat, as bytes and not as a picture"
IMAGE = image_name(CAT, "gif")
FORGOTTEN = "4711"
IN_A_HOME = {"recollect.lock", "index"}


@pytest.fixture
def cluster() -> Cluster:
    return cluster_of_session()


@pytest.fixture
def settings(cluster: Cluster, tmp_path: Path, model: StandInModel) -> dict[str, str]:
    return {
        **with_backend(model.base_url, VAULT__SWEEP_SECONDS="0.5"),
        "RECOLLECT_DATABASE_URL": cluster.url(str(tmp_path)),
        "RECOLLECT_FILES_URL": new_url(),
    }


@pytest.fixture
def members(settings: dict[str, str], tmp_path: Path) -> Iterator[Members]:
    with Members(tmp_path, settings) as members:
        yield members


def told(client: httpx2.Client, method: str, path: str, body: Json | None = None) -> Json:
    answer = client.request(method, f"/api/v1/{path}", json=body).raise_for_status()
    found: Json = answer.json() if answer.content else {}
    return found


def live(client: httpx2.Client) -> None:
    """Ann chats, shows an image, notes, corrects, deletes and forgets; a memory is made of what she said."""
    say(client, "t1", "I live in Berlin.", memory=True)
    add(client, "t2", [message("I like tea."), message(f"My PIN is {FORGOTTEN}.", 1)], user_id="ann")
    add(client, "t3", [message(f"It is {FORGOTTEN}.", 2)], user_id="ann")
    shown = {"type": "image_url", "image_url": {"url": data_url(IMAGE, CAT)}}
    told(
        client,
        "POST",
        "threads/t4/turns",
        {"user_id": "ann", "role": "user", "content": "", "parts": [shown]},
    )
    told(
        client, "POST", "memory/notes", {"user_id": "ann", "name": "ferry", "text": "The ferry leaves at 4."}
    )
    told(client, "PUT", "presets/brief", {"instructions": "Be brief."})
    told(client, "PATCH", "users/ann/preferences", {"time_zone": "Europe/Lisbon", "preset": "brief"})
    for text in ("Ann has a dog.", f"The PIN is {FORGOTTEN}."):
        told(client, "POST", "memory/entries", {"user_id": "ann", "kind": "facts", "text": text})
    told(client, "POST", "memory/flush", {"session_id": "t1", "user_id": "ann", "timeout": 30})
    drained(client)


def edit(files: ObjectTexts) -> None:
    """By hand, past the server: a message, a memory, and a note of its own."""
    for path in files:
        files[path] = files[path].replace("Berlin", "Lisbon").replace("has a dog", "has a cat")
    files[f"{ANN}/notes/by-hand.md"] = "Rua das Flores 7"


def forget(client: httpx2.Client) -> None:
    told(client, "DELETE", f"threads/t2/turns/{turns(client, 't2')[1]['turn_id']}?user_id=ann")
    told(client, "DELETE", "threads/t3?user_id=ann")
    entry = next(each for each in entries(client, "ann") if FORGOTTEN in each["text"])
    told(client, "DELETE", f"memory/entries/{entry['id']}?user_id=ann")
    drained(client)


def state(client: httpx2.Client) -> dict[str, Any]:
    """All that the server shows of it."""
    threads = told(client, "GET", "threads?user_id=ann")["threads"]
    answered = turns(client, "t1")[-1]["turn_id"]
    keys = told(client, "GET", "keys")
    found = told(client, "POST", "memory/search", {"user_id": "ann", "query": "Lisbon ferry Flores cat"})
    return {
        "threads": threads,
        "turns": {each["thread_id"]: turns(client, each["thread_id"]) for each in threads},
        "prompt": prompt(client, "t1", answered, user_id="ann"),
        "entries": entries(client, "ann"),
        "notes": told(client, "GET", "memory/notes?user_id=ann"),
        "presets": told(client, "GET", "presets"),
        "preferences": told(client, "GET", "users/ann/preferences"),
        "keys": [{name: key[name] for name in key if name != "last_used"} for key in keys["keys"]],
        "webhooks": told(client, "GET", "webhooks"),
        "image": client.get(thread_path("t4", "images", IMAGE)).raise_for_status().content,
        "coverage": coverage(client, user_id="ann"),
        "hits": sorted((hit["id"], hit["text"]) for hit in found["hits"]),
    }


def home_holds(server: Server) -> set[str]:
    return {path.name for path in server.home.iterdir()}


@pytest.mark.slow
def test_a_server_with_an_empty_home_has_all_that_the_lost_one_had(
    members: Members, settings: dict[str, str], cluster: Cluster
) -> None:
    files = ObjectTexts(S3Objects(settings["RECOLLECT_FILES_URL"]))
    one = members.start("one")
    members.leader()
    live(one.client)
    edit(files)
    wait_until(lambda: "I live in Lisbon." in contents(one.client, "t1"), "the edits are imported")
    forget(one.client)
    one.client.headers |= bearer(recollect_json(one.home, "keys", "create")["secret"])
    told(
        one.client,
        "POST",
        "webhooks",
        {"url": "https://example.org/x", "secret": "s", "events": ["turn.ended"]},
    )
    wait_until(lambda: is_indexed(one.client), "all is indexed")
    drained(one.client)
    before = state(one.client)
    for each in (
        "I live in Lisbon.",
        "Ann has a cat.",
        "Rua das Flores 7",
        "leaves at 4",
        "Be brief.",
        "Europe/Lisbon",
    ):
        assert each in str(before)
    assert FORGOTTEN not in str(before)
    add(one.client, "last", [message("Said at the last moment.")], user_id="bob")
    assert home_holds(one) <= IN_A_HOME
    members.kill("one")
    shutil.rmtree(one.home)

    two = members.start("two")
    two.client.headers = one.client.headers
    assert members.leader() == "two"
    assert contents(two.client, "last") == ["Said at the last moment."]
    drained(two.client)
    wait_until(lambda: is_indexed(two.client), "all is indexed again")
    assert state(two.client) == before
    covered(two.client)
    assert recollect_json(two.home, "verify")["ok"]
    assert recollect_json(two.home, "verify", "--forgotten")["ok"]
    assert home_holds(two) <= IN_A_HOME
    with cluster.inside(settings["RECOLLECT_DATABASE_URL"]) as journal:
        lines = [json.loads(line) for (line,) in journal.execute("SELECT line FROM audit_lines").fetchall()]
    audited = [line["what"] for line in lines if line["what"] != "read"]
    assert audited == [*["deleted"] * 3, "made a key", "made a webhook"]


@pytest.mark.slow
def test_of_the_files_alone_what_was_forgotten_stays_so_and_the_server_closed(
    members: Members, settings: dict[str, str], cluster: Cluster, tmp_path: Path
) -> None:
    files = ObjectTexts(S3Objects(settings["RECOLLECT_FILES_URL"]))
    one = members.start("one")
    members.leader()
    live(one.client)
    old = dict(files)
    forget(one.client)
    recollect_json(one.home, "keys", "create")
    members.kill("one")
    shutil.rmtree(one.home)
    go_back(files, old)

    settings["RECOLLECT_DATABASE_URL"] = cluster.url(f"{tmp_path} new")
    rebuilt = recollect(tmp_path / "operators", "rebuild", "--take", "--json", settings=settings)
    assert json.loads(rebuilt.stdout)["verification"]["ok"]
    two = members.start("two")
    assert members.leader() == "two"
    assert two.client.get("/api/v1/threads?user_id=ann").status_code == 401
    two.client.headers |= bearer(recollect_json(two.home, "keys", "create")["secret"])
    drained(two.client)
    assert contents(two.client, "t2") == ["I like tea."]
    assert two.client.get(thread_path("t3", "turns")).status_code == 404
    assert "Ann has a dog." in str(entries(two.client, "ann"))
    assert FORGOTTEN not in str(entries(two.client, "ann"))
    assert not [path for path in files if FORGOTTEN in files[path]]
    assert recollect_json(two.home, "verify", "--forgotten")["ok"]


def is_indexed(client: httpx2.Client) -> bool:
    counted = coverage(client)
    return bool(counted["indexed"] == counted["messages"] - counted["skipped"] - counted["forgotten"])


async def test_nothing_is_in_a_home_that_the_next_one_lacks(cluster: Cluster, tmp_path: Path) -> None:
    places = {
        "database_url": cluster.url(str(tmp_path)),
        "files_url": new_url(),
        "member_url": "http://127.0.0.1",
    }
    async with opened(tmp_path / "one", **places) as home:
        await home.add("t1", "I live in Lisbon.", f"My PIN is {FORGOTTEN}.", user_id="ann")
        await home.put(fact(1, "Ann has a cat."))
        await home.drain()
        key = await home.make_key()
        (await home.client.delete("/api/v1/threads/t1/turns/t-2?user_id=ann", headers=key)).raise_for_status()
        await home.drain()
        await home.app.search.indexer.settled()
        assert {path.name for path in (tmp_path / "one").iterdir()} <= IN_A_HOME
        counted = (await home.client.get("/api/v1/coverage", headers=key)).json()
    shutil.rmtree(tmp_path / "one")
    async with opened(tmp_path / "two", **places) as home:
        assert (await home.client.get("/api/v1/threads")).status_code == 401
        said = await home.client.get("/api/v1/threads/t1/turns?user_id=ann", headers=key)
        assert [turn["content"] for turn in said.json()["turns"]] == ["I live in Lisbon."]
        assert await texts(home, "facts") == ["Ann has a cat."]
        await home.app.search.indexer.settled()
        assert (await home.app.verifier.verify()).ok
        assert (await home.app.forgotten_verifier.verify(no_progress)).ok
        assert (await home.client.get("/api/v1/coverage", headers=key)).json() == counted
        assert len(await SqlAuditLines(home.app.database).all()) == 3
