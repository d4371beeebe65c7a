"""A real server that indexes, forgets and reindexes, killed at every step and at random moments.

After every restart the index catches up by itself, equals the vault, and search finds every message once.
"""

import random
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx2
import pytest

from recollect.infra.home_lock import current_holder
from tests.http_client import START, Json, add, bearer, contents, drained, message, thread_path
from tests.processes import Server, StandInModel, recollect_json, wait_until
from tests.searching import indexed, search, texts, with_server
from tests.stress.test_kills import BY_INDEX, Writer
from tests.stress.utils import SIGKILLED, covered, kill_under_load, used_until_killed

ROUNDS = 12
LAST_SECOND = 20_000
"""After the first message; no writer gets that far."""
USER = "me"


@pytest.fixture(scope="module")
def settings(running: StandInModel) -> dict[str, str]:
    return with_server(running.base_url)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]) -> Iterator[Path]:
    """One home over all fail points: damage done at one point would show at the next."""
    home = tmp_path_factory.mktemp("points") / "home"
    with Server(home, settings) as server:
        add(server.client, "first", [message("the first message")])
        indexed(server.client, embedded=True)
        assert server.stop() == 0
    yield home
    with Server(home, settings) as server:
        drained(server.client)
        equals_the_vault(home, settings)


def equals_the_vault(home: Path, settings: dict[str, str]) -> None:
    verified = recollect_json(home, "verify", settings=settings)
    assert (verified["problems"], verified["pending"]) == ([], 0)


@pytest.mark.parametrize("point", BY_INDEX)
def test_an_index_that_is_killed_at_this_step_catches_up(
    home: Path, settings: dict[str, str], point: str
) -> None:
    writer = Writer(point)
    forgotten: list[str] = []

    def add_forget_and_reindex(server: Server) -> None:
        for number in range(ROUNDS):
            if not writer.write(server.client):
                break
            forget_one(server.client, f"gone-{writer.name}-{number}", forgotten)
            reindex(home, server.client)

    given = {**settings, "RECOLLECT_FAIL_POINT": point}
    assert used_until_killed(home, given, add_forget_and_reindex) == SIGKILLED
    with Server(home, settings) as server:
        writer.settle(server.client)
        is_whole(server.client, [writer], forgotten)
        wait_until(lambda: len(generations(home)) == 1, "what a reindex left is discarded")


def forget_one(client: httpx2.Client, name: str, forgotten: list[str]) -> None:
    """A thread that was indexed, and is deleted."""
    add(client, name, [message(f"soon gone {name}")])
    indexed(client, session_id=name)
    client.delete(thread_path(name)).raise_for_status()
    forgotten.append(name)


def reindex(home: Path, client: httpx2.Client) -> None:
    """As the command line does; returns when it is done."""
    holder = current_holder(home)
    assert holder is not None
    answer = client.post("/api/v1/reindex", json={}, headers=bearer(holder.token)).raise_for_status()
    assert '"result"' in answer.text, answer.text


def generations(home: Path) -> list[Path]:
    return sorted(path for path in (home / "index").iterdir() if path.is_dir())


def number_of_entries(client: httpx2.Client) -> int:
    """What was made of the messages is searched beside them."""
    number = 0
    after: dict[str, str] = {}
    while True:
        query = {"user_id": USER, "limit": "1000", **after}
        page = client.get("/api/v1/memory/entries", params=query).raise_for_status().json()
        number += len(page["entries"])
        if "next" not in page:
            return number
        after = {"after": page["next"]}


def is_whole(client: httpx2.Client, writers: list[Writer], forgotten: list[str]) -> None:
    """Everything is indexed and embedded once, everything is found, and nothing that was forgotten is."""
    drained(client)
    counted = indexed(client, embedded=True)
    turns = counted["messages"] - counted["forgotten"] - counted["skipped"]
    there = turns + number_of_entries(client)

    def all_searched() -> bool:
        # Entries are indexed and embedded from their files, which `counted` does not follow.
        searched = search(client, "says", user_id=USER, mode="keyword")["searched"]
        assert searched["texts"] <= there, searched
        return bool(searched == {"texts": there, "embedded": there, "from_journal": 0})

    wait_until(all_searched, f"{there} texts are searched and embedded")
    for writer in writers:
        writer.finds_all(client)
        for thread in writer.acknowledged:
            assert sorted(found_in(client, thread)) == sorted(contents(client, thread))
    for name in forgotten:
        text = f"soon gone {name}"
        assert text not in texts(client, text, user_id=USER, top_k=100)


def found_in(client: httpx2.Client, thread: str) -> list[str]:
    """All that a search finds in a thread of Writer's, whose messages are a second apart."""
    asked: Json = {"user_id": USER, "thread_id": thread, "mode": "keyword", "top_k": 1000}
    found: list[str] = []
    for begin in range(START, START + 1000 * LAST_SECOND, 1000 * 900):
        found += texts(client, "says", since=begin, until=begin + 1000 * 900, **asked)
    return found


@pytest.mark.parametrize(
    ("kills", "seed"),
    [
        pytest.param(20, 1, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
        pytest.param(200, 2, marks=[pytest.mark.long, pytest.mark.timeout(3600)]),
    ],
)
def test_kills_at_random_while_indexing_and_reindexing_lose_and_double_nothing(
    tmp_path: Path, settings: dict[str, str], kills: int, seed: int
) -> None:
    home = tmp_path / "home"
    chance = random.Random(seed)
    writers = [Writer(f"w{number}") for number in range(2)]
    forgotten: list[str] = []
    for number in range(kills):
        with Server(home, settings) as server:
            covered(server.client)
            # Slowly, so that a thread stays within what one search gives.
            loads = [partial(writer.write_until_dead, server.address, pause=0.02) for writer in writers]
            forgetting = partial(forget_and_reindex, server, forgotten, number)
            kill_under_load(server, chance.uniform(0.1, 1.5), *loads, forgetting)
    with Server(home, settings) as server:
        for writer in writers:
            writer.settle(server.client)
        is_whole(server.client, writers, forgotten)
        equals_the_vault(home, settings)
        covered(server.client)
    assert len(generations(home)) == 1
    assert [error for writer in writers for error in writer.failed] == []
    shutil.rmtree(home)


def forget_and_reindex(server: Server, forgotten: list[str], number: int, stop: threading.Event) -> None:
    with httpx2.Client(base_url=server.address, timeout=30, trust_env=False) as client:
        count = 0
        while not stop.is_set():
            try:
                forget_one(client, f"gone-{number}-{count}", forgotten)
                reindex(server.home, client)
            except (httpx2.TransportError, TimeoutError):
                return
            count += 1
