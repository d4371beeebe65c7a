"""The index against the vault: neither a vault that is away nor files that were tampered with lose a text unnoticed."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest

from tests.http_client import add, coverage, message
from tests.processes import Server, StandInModel, recollect, recollect_json, wait_until
from tests.searching import delete_index, health, indexed, search, texts, with_server

pytestmark = pytest.mark.slow

SAID = ["Marta moves to Porto", "that is lovely news"]
NOTES_MISSING = "some notes are not indexed yet and are not found"


@pytest.fixture(scope="module")
def model() -> Iterator[StandInModel]:
    with StandInModel() as running:
        yield running


@pytest.fixture(scope="module")
def settings(model: StandInModel) -> dict[str, str]:
    return with_server(model.base_url)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, settings: dict[str, str]) -> Path:
    """A stopped home of ann, who has messages and a note, and bob, who has a note alone."""
    home = tmp_path_factory.mktemp("template") / "home"
    with Server(home, settings) as server:
        add(server.client, "t1", [message(text, number) for number, text in enumerate(SAID)], user_id="ann")
        for user, word in (("ann", "pangolin"), ("bob", "pergola")):
            notes = home / "vault" / "default" / "users" / user / "notes"
            notes.mkdir(parents=True, exist_ok=True)
            (notes / "n.md").write_text(f"the {word} note\n", encoding="utf-8")
        wait_until(lambda: finds_notes(server), "notes are seen")
        indexed(server.client, embedded=True)
        # Vectors of notes come last, and are in no count: a whole index holds them.
        wait_until(lambda: "recollect_embedded_texts 4.0" in server.client.get("/metrics").text, "embedded")
        assert server.stop() == 0
    return home


@pytest.fixture
def home(template: Path, tmp_path: Path) -> Path:
    copied: Path = shutil.copytree(template, tmp_path / "home")
    return copied


def finds_notes(server: Server) -> bool:
    asked = (("ann", "pangolin"), ("bob", "pergola"))
    return all(texts(server.client, word, user_id=user, mode="keyword") for user, word in asked)


def verified(home: Path, settings: dict[str, str]) -> list[str]:
    done = recollect(home, "verify", settings=settings)
    return [line for line in done.stdout.splitlines() if "index" in line and "PROBLEM" in line]


def test_reindexing_while_the_vault_is_away_is_refused_and_loses_no_note(
    home: Path, settings: dict[str, str]
) -> None:
    with Server(home, settings) as server:
        (home / "vault").rename(home / "away")
        refused = recollect(home, "reindex", settings=settings)
        assert (refused.returncode, "vault is missing" in refused.stderr) == (1, True)
        assert finds_notes(server)
        (home / "away").rename(home / "vault")
        recollect_json(home, "reindex", settings=settings)
        assert finds_notes(server)
    assert verified(home, settings) == []


def test_notes_are_found_once_the_vault_is_back_whatever_became_of_the_index(
    home: Path, settings: dict[str, str]
) -> None:
    (home / "vault").rename(home / "away")
    shutil.rmtree(home / "index")
    with Server(home, settings) as server:
        found = search(server.client, "pangolin", user_id="ann", mode="keyword")
        assert (found["hits"], found["degraded"]) == ([], [NOTES_MISSING])
        indexed(server.client, embedded=True)
        wait_until(lambda: "notes are missing from search" in health(server.client), "health says so")
        (home / "away").rename(home / "vault")
        wait_until(lambda: finds_notes(server), "notes are found", seconds=60)
        wait_until(lambda: health(server.client) == "", "health is well")
    assert verified(home, settings) == []


def test_an_index_that_is_deleted_under_a_running_server_is_made_anew(
    home: Path, settings: dict[str, str]
) -> None:
    with Server(home, settings) as server:
        assert finds_notes(server)
        delete_index(home)
        add(server.client, "t1", [message("a wombat", 9)], user_id="ann")
        indexed(server.client, embedded=True)
        wait_until(lambda: finds_notes(server), "notes are found")
        wait_until(lambda: health(server.client) == "", "health is well")
    assert verified(home, settings) == []


def test_reindexing_helps_where_the_index_was_deleted(home: Path, settings: dict[str, str]) -> None:
    with Server(home, settings) as server:
        delete_index(home)
        recollect_json(home, "reindex", settings=settings)
        assert finds_notes(server)
        assert set(texts(server.client, "Porto lovely", user_id="ann", mode="keyword")) >= set(SAID)
    assert verified(home, settings) == []


def test_damage_is_found_and_mended_before_anybody_searches(home: Path, settings: dict[str, str]) -> None:
    for file in (home / "index").rglob("*.lance"):
        if file.is_file():
            file.write_bytes(bytes(file.stat().st_size))
    with Server(home, settings) as server:
        damaged = "recollect_index_damaged 2.0"
        wait_until(lambda: damaged in server.client.get("/metrics").text, "damage is counted")
        indexed(server.client, embedded=True)
        wait_until(lambda: health(server.client) == "", "health is well")
        assert finds_notes(server)
        assert coverage(server.client)["indexed"] == len(SAID)
    assert verified(home, settings) == []


def anns_table(home: Path) -> Any:
    """The larger one."""
    (generation,) = (path for path in (home / "index").iterdir() if path.is_dir())
    database = lancedb.connect(generation)
    tables = [database.open_table(path.stem) for path in generation.glob("*.lance")]
    return max(tables, key=lambda table: table.count_rows())


def other_words(table: Any) -> None:
    table.update(where="type = 'turn'", values={"words": "something else"})


def other_text(table: Any) -> None:
    table.update(where="type = 'note'", values={"text": "something else"})


def other_owner(table: Any) -> None:
    table.update(where="type = 'note'", values={"owner": "default/users/bob"})


def doubled(table: Any) -> None:
    table.add(table.to_arrow().slice(0, 1))


def no_vectors(table: Any) -> None:
    replace_vectors(table, lambda vectors: pa.nulls(len(vectors), vectors.type))


def other_order(table: Any) -> None:
    replace_vectors(table, lambda vectors: vectors.take([*range(1, len(vectors)), 0]))


def replace_vectors(table: Any, change: Any) -> None:
    read = table.to_arrow()
    column = read.schema.get_field_index("vector")
    vectors = change(read["vector"].combine_chunks())
    table.add(
        read.set_column(column, read.schema.field(column), vectors), mode="overwrite", on_bad_vectors="null"
    )


@pytest.mark.parametrize(
    "tamper",
    [
        other_words,
        pytest.param(other_text, marks=pytest.mark.long),
        pytest.param(other_owner, marks=pytest.mark.long),
        pytest.param(doubled, marks=pytest.mark.long),
        pytest.param(no_vectors, marks=pytest.mark.long),
        other_order,
    ],
)
def test_whatever_is_changed_in_the_index_verifying_says_so_and_reindexing_mends_it(
    home: Path, settings: dict[str, str], model: StandInModel, tamper: Any
) -> None:
    tamper(anns_table(home))
    assert verified(home, settings) != []
    recollect_json(home, "reindex", settings=settings)
    assert verified(home, settings) == []
    with Server(home, settings) as server:
        found = search(server.client, "Marta moves to Porto", user_id="ann", mode="vector")
        assert (found["hits"][0]["text"], found["degraded"]) == (SAID[0], [])
