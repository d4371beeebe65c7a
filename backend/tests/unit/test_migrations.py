"""The schema of the journal: brought up to date once, and refused where it is from the future."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine

from recollect.errors import SchemaTooNew
from recollect.infra.sql.database import Database
from recollect.infra.sql.migrate import HEAD, current_revision, migrations_folder, upgrade_schema

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
