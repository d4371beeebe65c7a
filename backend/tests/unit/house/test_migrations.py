"""The schema of the journal: made once, the one that homes have, and refused where no migration leads to it."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from recollect.domain.identity import file_key, text_digest
from recollect.domain.paths import transcript_path
from recollect.errors import RecollectError, SchemaTooNew, SchemaTooOld
from recollect.infra.journal.connection import (
    HEAD,
    OLDEST,
    current_revision,
    migrations_folder,
    upgrade_schema,
)
from recollect.infra.journal.database import Database

GOLDEN = Path(__file__).parents[2] / "golden" / "schema-0014.sql"
REFUSED = [("0001", SchemaTooOld, OLDEST), ("0013", SchemaTooOld, OLDEST), ("9999", SchemaTooNew, HEAD)]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as connection:
        yield connection


def test_the_code_knows_the_first_and_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    scripts = ScriptDirectory.from_config(config)
    assert (scripts.get_base(), scripts.get_current_head()) == (OLDEST, HEAD)


def test_an_empty_file_is_brought_up_to_date(connection: sqlite3.Connection) -> None:
    assert current_revision(connection) is None
    assert upgrade_schema(connection)
    assert current_revision(connection) == HEAD


@pytest.fixture
def at_0014() -> Iterator[sqlite3.Connection]:
    """A journal as a home at 0014 has it."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in (
            GOLDEN.read_text().replace("CREATE TABLE sqlite_sequence(name,seq);\n", "").split(";\n")
        ):
            connection.execute(statement)
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.execute("INSERT INTO alembic_version VALUES ('0014')")
        yield connection


def test_an_empty_journal_gets_the_schema_that_upgraded_homes_have(
    connection: sqlite3.Connection, at_0014: sqlite3.Connection
) -> None:
    schemas = []
    for each in (connection, at_0014):
        upgrade_schema(each)
        made = each.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND tbl_name != 'alembic_version' ORDER BY rowid"
        )
        schemas.append([without_spaces(sql) for (sql,) in made])
    assert schemas[0] == schemas[1]


def test_keys_of_a_home_at_0014_keep_their_powers_and_close_the_server(at_0014: sqlite3.Connection) -> None:
    at_0014.execute("INSERT INTO api_keys VALUES ('k_1', 'default', NULL, NULL, 'a', 7, 9)")
    at_0014.execute("INSERT INTO api_keys VALUES ('k_2', 'default', 'ann', NULL, 'b', 8, 9)")
    upgrade_schema(at_0014)
    scopes = at_0014.execute("SELECT scopes FROM api_keys ORDER BY key_id").fetchall()
    assert scopes == [("read write delete admin",), ("read write delete",)]
    assert at_0014.execute("SELECT name, at FROM marks").fetchall() == [("closed", 7)]


def test_a_home_at_0014_that_never_had_a_key_stays_open(at_0014: sqlite3.Connection) -> None:
    upgrade_schema(at_0014)
    assert at_0014.execute("SELECT * FROM marks").fetchall() == []


def test_the_files_of_a_home_at_0014_are_known_as_versions_of_theirs(at_0014: sqlite3.Connection) -> None:
    part, facts, preset = map(text_digest, ("a part", "facts", "a preset"))
    thread = "INSERT INTO threads (pk, space, user_id, thread_id, created, updated) VALUES (1, 'default', 'ann', 't1', 0, 0)"
    for statement in (
        thread,
        f"INSERT INTO transcript_parts VALUES (1, 2, 1, 1, 1, '{part}', NULL)",
        f"INSERT INTO entry_files (path, space, owner, digest) VALUES ('facts.md', 'default', 'o', '{facts}')",
        f"INSERT INTO people (space, kind, key, path, digest) VALUES ('d', 'preset', 'k', 'preset.md', '{preset}')",
        "INSERT INTO skill_files (path, text) VALUES ('SKILL.md', 'a skill')",
    ):
        at_0014.execute(statement)
    upgrade_schema(at_0014)
    assert set(at_0014.execute("SELECT file, digest, gone FROM written_files")) == {
        (file_key(path), text_digest(text)[:32], 0)
        for path, text in {
            transcript_path("default", "ann", "t1", 2): "a part",
            "facts.md": "facts",
            "preset.md": "a preset",
            "SKILL.md": "a skill",
        }.items()
    }


def without_spaces(sql: str) -> str:
    """White space is one blank, and none beside brackets and commas."""
    return re.sub(r" ?([(),]) ?", r"\1", " ".join(sql.split()))


def test_a_schema_that_is_up_to_date_is_left_alone(connection: sqlite3.Connection) -> None:
    upgrade_schema(connection)
    assert not upgrade_schema(connection)


def test_an_upgrade_that_fails_leaves_nothing(connection: sqlite3.Connection) -> None:
    def refuse(action: int, what: str | None, *_: str | None) -> int:
        is_refused = action == sqlite3.SQLITE_CREATE_TABLE and what == "jobs"
        return sqlite3.SQLITE_DENY if is_refused else sqlite3.SQLITE_OK

    connection.set_authorizer(refuse)
    with pytest.raises(sqlite3.DatabaseError):
        upgrade_schema(connection)
    connection.set_authorizer(None)
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


async def test_a_journal_opened_twice_is_upgraded_once(tmp_path: Path) -> None:
    schema = []
    for _ in range(2):
        database = Database(tmp_path / "journal.db")
        await database.open()
        schema.append(await database.read("SELECT * FROM sqlite_master ORDER BY name"))
        await database.close()
    assert schema[0] == schema[1]


def journal_of(path: Path, revision: str) -> bytes:
    """A journal with that revision; its bytes."""
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("CREATE TABLE alembic_version (version_num TEXT)")
        raw.execute("INSERT INTO alembic_version VALUES (?)", (revision,))
    raw.close()
    return path.read_bytes()


@pytest.mark.parametrize(("revision", "error", "known"), REFUSED)
async def test_a_schema_from_which_no_migration_leads_on_is_refused_with_both_versions_and_left_as_it_is(
    tmp_path: Path, revision: str, error: type[RecollectError], known: str
) -> None:
    before = journal_of(tmp_path / "journal.db", revision)
    database = Database(tmp_path / "journal.db")
    with pytest.raises(error) as caught:
        await database.open()
    await database.close()
    assert revision in caught.value.message
    assert known in caught.value.message
    assert (tmp_path / "journal.db").read_bytes() == before


def test_a_journal_that_is_too_old_is_refused_with_the_way_up(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
    connection.execute("INSERT INTO alembic_version VALUES ('0013')")
    with pytest.raises(SchemaTooOld, match="Start commit 2e36fcf of Recollect on this home once"):
        upgrade_schema(connection)
