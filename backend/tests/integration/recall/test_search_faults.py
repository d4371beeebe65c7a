"""Search when the embedder or the index fails: it goes on with what is left, says so, and recovers."""

import json
import shutil
import time
from pathlib import Path

import httpx2
import lancedb
import pytest

from tests.http_client import add, coverage, message
from tests.processes import Server, StandInModel, recollect, recollect_json, wait_until
from tests.searching import health, indexed, search, texts, with_server

pytestmark = pytest.mark.slow

QUERY_SECONDS = "0.3"
SAID = ["Marta moves to Porto", "that is lovely news", "she is a nurse", "the invoice is due"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def settings(model: StandInModel) -> dict[str, str]:
    return with_server(model.base_url, QUERY_SECONDS=QUERY_SECONDS, TIMEOUT_SECONDS="2")


def fill(client: httpx2.Client, user: str = "ann") -> None:
    add(client, f"of {user}", [message(text, number) for number, text in enumerate(SAID)], user_id=user)


def by_meaning(client: httpx2.Client) -> httpx2.Response:
    return client.post("/api/v1/memory/search", json={"query": "nurse", "user_id": "ann", "mode": "vector"})


def generations(home: Path) -> list[Path]:
    return sorted(path for path in (home / "index").iterdir() if path.is_dir())


@pytest.mark.parametrize(
    ("mode", "seconds", "said"),
    [
        ("error", 0, "answered 500"),
        ("silent", 0, f"within {QUERY_SECONDS} s"),
        ("answer", 5, f"within {QUERY_SECONDS} s"),
        ("wrong_dimensions", 0, "dimensions"),
        ("not_finite", 0, "not finite"),
        ("no_json", 0, "no embeddings"),
    ],
)
def test_an_embedder_that_fails_leaves_search_by_words_and_recovers(
    home: Path, model: StandInModel, mode: str, seconds: float, said: str
) -> None:
    with Server(home, settings(model)) as server:
        fill(server.client)
        indexed(server.client, embedded=True)
        model.control(mode, delay_seconds=seconds)
        began = time.monotonic()
        found = search(server.client, "Porto", user_id="ann")
        assert time.monotonic() - began < 1.5
        assert found["hits"][0]["text"] == SAID[0]
        assert said in found["degraded"][0]
        refused = by_meaning(server.client)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "embedder_unavailable")
        model.control()
        wait_until(lambda: by_meaning(server.client).status_code == 200, "it recovers", seconds=10)
        assert search(server.client, "Porto", user_id="ann")["degraded"] == []


def test_adds_never_wait_for_the_embedder_and_vectors_catch_up(home: Path, model: StandInModel) -> None:
    model.control("silent")
    with Server(home, settings(model)) as server:
        began = time.monotonic()
        for number in range(20):
            fill(server.client, f"user {number}")
        assert time.monotonic() - began < 2
        counted = indexed(server.client)
        assert (counted["indexed"], counted["embedded"]) == (80, 0)
        wait_until(lambda: "by words alone" in health(server.client), "health says so")
        found = search(server.client, "Porto", user_id="user 1")
        assert (found["hits"][0]["text"], found["hits"][0]["embedded"]) == (SAID[0], False)
        assert found["degraded"] != []
        model.control()
        indexed(server.client, embedded=True)
        wait_until(lambda: "words" not in health(server.client), "health is well again")


def test_a_text_the_model_refuses_is_never_counted_as_embedded(home: Path, model: StandInModel) -> None:
    model.control("refuse_text")
    with Server(home, settings(model)) as server:
        add(server.client, "t1", [message("an unspeakable thing", 1), message("a nurse", 2)], user_id="ann")
        wait_until(lambda: "refuse" in health(server.client), "health says so")
        wait_until(lambda: coverage(server.client)["embedded"], "the other one is embedded")
        counted = coverage(server.client)
        assert (counted["indexed"], counted["embedded"]) == (2, 1)
        assert texts(server.client, "unspeakable", user_id="ann")[0] == "an unspeakable thing"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, running: StandInModel) -> Path:
    """A stopped home of two users with a whole index."""
    running.control()
    home = tmp_path_factory.mktemp("template") / "home"
    with Server(home, settings(running)) as server:
        for user in ("ann", "bob"):
            fill(server.client, user)
        indexed(server.client, embedded=True)
        assert server.stop() == 0
    return home


@pytest.fixture
def filled(template: Path, home: Path) -> Path:
    shutil.copytree(template, home)
    return home


def no_index(home: Path) -> None:
    shutil.rmtree(home / "index")


def garbage_for_live(home: Path) -> None:
    (home / "index" / "live.json").write_text("{]", encoding="utf-8")


def another_format(home: Path) -> None:
    description = generations(home)[0] / "generation.json"
    described = json.loads(description.read_text(encoding="utf-8"))
    description.write_text(json.dumps({**described, "format": 999}), encoding="utf-8")


def truncated_data(home: Path) -> None:
    for file in generations(home)[0].rglob("*.lance"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:100])


def no_tables(home: Path) -> None:
    for folder in generations(home)[0].glob("*.lance"):
        shutil.rmtree(folder)


@pytest.mark.parametrize("damage", [no_index, garbage_for_live, another_format, truncated_data, no_tables])
def test_a_damaged_index_hides_nothing_and_is_made_again(
    filled: Path, model: StandInModel, damage: object
) -> None:
    assert callable(damage)
    damage(filled)
    with Server(filled, settings(model)) as server:
        client = server.client
        for user in ("ann", "bob"):
            found = search(client, "Porto lovely nurse invoice", user_id=user, mode="keyword")
            assert {hit["text"] for hit in found["hits"]} == set(SAID)
        wait_until(lambda: search(client, "Porto", user_id="ann")["degraded"] == [], "all is embedded again")
        indexed(client, embedded=True)
        wait_until(lambda: health(client) == "", "health is well")
        assert server.stop() == 0
    assert len(generations(filled)) == 1
    assert index_problems(filled, model) == []


def index_problems(home: Path, model: StandInModel) -> list[str]:
    done = recollect(home, "verify", "--json", settings=settings(model))
    return [problem for problem in json.loads(done.stdout)["problems"] if "index" in problem]


def test_what_is_changed_in_the_index_verifying_says_so_and_reindexing_mends_it(
    filled: Path, model: StandInModel
) -> None:
    for path in generations(filled)[0].glob("*.lance"):
        lancedb.connect(path.parent).open_table(path.stem).update(values={"words": "something else"})
    assert index_problems(filled, model) != []
    recollect_json(filled, "reindex", settings=settings(model))
    assert index_problems(filled, model) == []


def test_damaged_owners_are_counted_whom_nobody_searches(filled: Path, model: StandInModel) -> None:
    truncated_data(filled)
    with Server(filled, settings(model)) as server:
        damaged = "recollect_index_damaged 2.0"
        wait_until(lambda: damaged in server.client.get("/metrics").text, "damage is counted")


def test_an_index_that_cannot_be_written_is_a_problem_that_health_names(
    filled: Path, model: StandInModel
) -> None:
    with Server(filled, settings(model)) as server:
        shutil.move(filled / "index", filled / "elsewhere")
        (filled / "index").symlink_to("/proc/self/fdinfo")  # Where nobody can write, root neither.
        add(server.client, "of ann", [message("found all the same", 9)], user_id="ann")
        wait_until(lambda: "index cannot be written" in health(server.client), "health says so")
        wait_until(
            lambda: texts(server.client, "found same", user_id="ann", mode="keyword"), "found", seconds=3
        )
        add(server.client, "of ann", [message("another hedgehog", 9)], user_id="ann")
        wait_until(
            lambda: texts(server.client, "hedgehog", user_id="ann", mode="keyword"), "found", seconds=3
        )
        (filled / "index").unlink()
        shutil.move(filled / "elsewhere", filled / "index")
        indexed(server.client, embedded=True, seconds=60)
        wait_until(lambda: health(server.client) == "", "health is well")
