"""The schema of the journal: brought up to date once, and refused where it is from the future."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine

from recollect.domain.entries.entry import EPISODES, FACTS, KnownEntry
from recollect.domain.entries.matters import matter_key
from recollect.domain.model import Entry
from recollect.errors import SchemaTooNew
from recollect.infra.journal.connection import HEAD, current_revision, migrations_folder, upgrade_schema
from recollect.infra.journal.database import Database

COLUMNS = {
    "threads": {"space", "thread_id", "user_id", "title", "tags_json", "preset", "backend", "incognito"},
    "turns": {
        "message_id", "role", "sender_id", "content", "parts_json", "tool_calls_json", "tool_call_id",
        "reasoning", "parent_id", "model", "timestamp", "status", "skip_reason",
    },
    "unprocessed_buffer": {"session_id", "message_id"},
    "memcell": {"session_id", "message_ids_json"},
    "jobs": {"kind", "lane", "state", "attempts", "run_at", "error"},
    "receipts": {"subject", "stage"},
    "tombstones": {"space", "thread_key", "message_key"},
    "api_keys": {"space", "user_id", "hash", "revoked"},
}  # fmt: skip


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    engine = create_engine(f"sqlite:///{tmp_path}/journal.db")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_the_code_knows_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_an_empty_file_is_brought_up_to_date(connection: Connection) -> None:
    assert current_revision(connection) is None
    assert upgrade_schema(connection)
    assert current_revision(connection) == HEAD


def test_a_schema_that_is_up_to_date_is_left_alone(connection: Connection) -> None:
    upgrade_schema(connection)
    assert not upgrade_schema(connection)


def test_an_upgrade_that_is_rolled_back_leaves_nothing(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")
    upgrade_schema(connection)
    connection.exec_driver_sql("ROLLBACK")
    assert connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar() == 0


@pytest.mark.parametrize("table", COLUMNS)
def test_every_table_of_the_design_is_there_with_its_columns(connection: Connection, table: str) -> None:
    upgrade_schema(connection)
    columns = {row[1] for row in connection.exec_driver_sql(f"PRAGMA table_info({table})")}
    assert columns >= COLUMNS[table]


async def test_a_journal_opened_twice_is_upgraded_once(tmp_path: Path) -> None:
    schema = []
    for _ in range(2):
        database = Database(tmp_path / "journal.db")
        await database.open()
        schema.append(await database.read("SELECT * FROM sqlite_master ORDER BY name"))
        await database.close()
    assert schema[0] == schema[1]


async def test_a_newer_schema_is_refused_with_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE alembic_version (version_num TEXT)")
        raw.execute("INSERT INTO alembic_version VALUES ('9999')")
    raw.close()
    database = Database(path)
    with pytest.raises(SchemaTooNew) as caught:
        await database.open()
    await database.close()
    assert "9999" in caught.value.message
    assert HEAD in caught.value.message


async def test_a_newer_schema_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE alembic_version (version_num TEXT)")
        raw.execute("INSERT INTO alembic_version VALUES ('9999')")
    raw.close()
    database = Database(path)
    with pytest.raises(SchemaTooNew):
        await database.open()
    await database.close()
    with sqlite3.connect(path) as raw:
        tables = raw.execute("SELECT name FROM sqlite_master").fetchall()
    raw.close()
    assert tables == [("alembic_version",)]


def test_entries_from_before_are_found_by_what_they_are_about(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    config.attributes["connection"] = connection
    command.upgrade(config, "0012")
    told = {"subject": "Ann", "attribute": "likes", "value": "tea"}
    odd = {"subject": None, "attribute": "likes", "value": 3}
    for pk, kind, extra in (
        (1, FACTS, told),
        (2, FACTS, {}),
        (3, EPISODES, told),
        (4, FACTS, odd),
        (5, FACTS, []),
    ):
        connection.exec_driver_sql(
            "INSERT INTO entries (pk, space, owner, entry_id, kind, when_ms, path, title, text, links_json, by,"
            " extra_json, subject_key, attribute_key, text_key, cell, strategy, holds, pinned, edited, updated, size)"
            " VALUES (?, 'default', 'o', ?, ?, 1, 'p', '', 'Ann likes tea.', '[]', '', ?, '', '', '', '', '', 1, 0, 0, 1, 1)",
            (pk, f"e{pk}", kind, json.dumps(extra)),
        )
    assert upgrade_schema(connection)
    entry = Entry("e1", "", "Ann likes tea.", 1, (), "", told)
    stored = connection.exec_driver_sql("SELECT matter_key FROM entries ORDER BY pk").scalars().all()
    assert stored == [matter_key(KnownEntry("default", "o", FACTS, entry)), "", "", "", ""]
    assert len(stored[0]) == 24
