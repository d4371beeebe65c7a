"""The schema of the journal: made once, the one that homes have, and refused where no migration leads to it."""

import inspect
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from recollect.domain.identity import file_key, key_within_user, text_digest, thread_key
from recollect.domain.job import DELETIONS, PURGE, TRANSCRIPT_EDITS
from recollect.domain.model import ThreadRef
from recollect.domain.paths import transcript_path
from recollect.errors import RecollectError, SchemaTooNew, SchemaTooOld
from recollect.infra.journal import connection as journal_connection
from recollect.infra.journal.connection import (
    HEAD,
    OLDEST,
    current_revision,
    migrations_folder,
    upgrade_schema,
)
from recollect.infra.journal.database import Database
from recollect.infra.journal.entries import SqlEntryStore

GOLDEN = Path(__file__).parents[2] / "golden" / "schema-0014.sql"
REFUSED = [("0001", SchemaTooOld, OLDEST), ("0013", SchemaTooOld, OLDEST), ("9999", SchemaTooNew, HEAD)]


@pytest.fixture(autouse=True)
def migrations_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere new journals are copies of the first one."""
    monkeypatch.setattr(journal_connection, "_run_alembic", inspect.unwrap(journal_connection._run_alembic))


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


def test_jobs_of_a_home_at_0014_have_the_kinds_of_today(at_0014: sqlite3.Connection) -> None:
    kinds = {"take_in": TRANSCRIPT_EDITS, "graves": DELETIONS, "purge": PURGE}
    for kind in kinds:
        at_0014.execute(
            "INSERT INTO jobs (kind, lane, space, run_at, created) VALUES (?, 'l', 'default', 0, 0)", (kind,)
        )
    upgrade_schema(at_0014)
    assert [kind for (kind,) in at_0014.execute("SELECT kind FROM jobs ORDER BY pk")] == [*kinds.values()]


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


OLD_KEY = "958122029fd33ca79f943896e15748eb"
"""Of the thread t1 of the space default, as it was until 0016."""
ROWS = {
    "threads": "(pk, space, thread_id, user_id, title, created, updated, last_number, turn_count, forgotten)"
    " VALUES (7, 'default', 't1', 'ann', 'Porto', 1, 2, 3, 2, 1), (9, 'work', 't1', 'bob', NULL, 1, 2, 1, 1, 0)",
    "turns": "(pk, thread_pk, position, message_id, role, sender_id, content, timestamp, status, accepted, digest)"
    " VALUES (1, 7, 1, 'm1', 'user', 'ann', 'a', 1, 'complete', 1, x'00'),"
    " (2, 7, 2, 'm2', 'user', 'ann', 'b', 1, 'complete', 1, x'00'),"
    " (3, 9, 1, 'm1', 'user', 'bob', 'c', 1, 'complete', 1, x'00')",
    "unprocessed_buffer": "VALUES (7, 2, 'default', 't1', 'm2')",
    "memcell": "VALUES (1, 'c-1', 7, 'default', 't1', '[\"m1\"]', '[\"t-1\"]', 1, 'gap', 1, 1)",
    "memcell_turns": "VALUES (1, 1)",
    "transcript_parts": "VALUES (7, 1, 1, 2, 1, 'd', NULL)",
    "receipts": "VALUES (1, 7, 'c-1', 'celled', '{}', 1)",
    "tombstones": f"VALUES ('default', 'ann', '{OLD_KEY}', 'k', 3)",
    "index_progress": "VALUES ('g', 7, 2, 2, 1, 0, 0)",
    "epochs": "VALUES (7, 1, 1, 'first', 's', 'b', 0, NULL, 1)",
    "summaries": "VALUES (7, 1, 1, 'd', 'words')",
    "context_blocks": "VALUES (1, 'block', '{}')",
    "prompts": "VALUES (2, 7, 2, 1, NULL, 0, x'00', 0, NULL, '{}', 1)",
    "chat_requests": "VALUES (7, 'k', x'00', 2)",
    "chains": "VALUES (1, 7, 1, NULL, x'00', x'01', NULL, 0, 0)",
    "entries": "(pk, space, owner, entry_id, kind, when_ms, path, title, text, links_json, by, extra_json, subject_key,"
    " attribute_key, text_key, cell, strategy, holds, pinned, edited, updated, size) VALUES"
    " (1, 'default', 'default/users/ann', 'fa-1', 'facts', 1, 'p', 't', 'x', '[]', 'facts', '{}', '', '', 'k', 'c-1',"
    " 'facts', 1, 0, 0, 1, 1)",
    "entry_sources": f"VALUES (1, 0, '{OLD_KEY}', 't1', 1)",
    "model_answers": f"VALUES ('default', 'c-1', 'memcell', 'd', '{OLD_KEY}', 'a', 'm', '{{}}', 1),"
    f" ('default', '{OLD_KEY[:16]}-t-2', 'case', 'd', '{OLD_KEY}', 'a', 'm', '{{}}', 1)",
    "jobs": "(pk, kind, lane, space, thread_id, payload_json, run_at, created) VALUES"
    f" (1, 'boundary', 'cells:{OLD_KEY}', 'default', 't1', '{{}}', 1, 1),"
    " (2, 'strategy', 'skill:default/agents/agent', 'default', 't1',"
    ' \'{"causes": [{"thread": "t1", "cell": "c-1", "entries": []}]}\', 1, 1),'
    f" (3, 'purge', 'forget:{OLD_KEY}', 'default', 't1', '{{\"user_id\": \"eve\", \"cells\": [[\"t1\", \"c-1\"]]}}', 1, 1),"
    " (4, 'entries', 'entries:p', 'default', NULL, '{}', 1, 1)",
}
"""What a home at 0014 to 0016 may hold, by table."""


@pytest.fixture
def old_home(tmp_path: Path, at_0014: sqlite3.Connection) -> Path:
    """A journal at 0014 with rows that refer to each other."""
    for table, rows in ROWS.items():
        at_0014.execute(f"INSERT INTO {table} {rows}")
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as copy:
        at_0014.backup(copy)
    return path


def rows_of(connection: sqlite3.Connection) -> dict[str, int]:
    return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ROWS}


async def test_an_entry_of_an_old_home_can_be_read_and_has_no_category_yet(old_home: Path) -> None:
    database = Database(old_home)
    await database.open()
    known = await SqlEntryStore(database, clock=lambda: 1).get("default", "fa-1")
    columns = [row["name"] for row in await database.read("PRAGMA table_info(entries)", ())]
    await database.close()
    assert known is not None
    assert (known.entry.text, known.category) == ("x", "")
    assert {"subject_key", "attribute_key", "matter_key"}.isdisjoint(columns)


async def test_threads_get_owners_and_no_row_of_any_table_is_lost(old_home: Path) -> None:
    with closing(sqlite3.connect(old_home)) as connection:
        before = rows_of(connection)
    database = Database(old_home)
    await database.open()
    assert await database.write(lambda each: each.execute("PRAGMA foreign_keys").fetchone()) == (1,)
    await database.close()
    with closing(sqlite3.connect(old_home)) as connection:
        assert rows_of(connection) == before
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        told = "SELECT pk, title, last_number FROM threads WHERE space = 'default' AND user_id = 'ann' AND thread_id = 't1'"
        assert connection.execute(told).fetchall() == [(7, "Porto", 3)]
        connection.execute(
            "INSERT INTO threads (space, thread_id, user_id, created, updated) VALUES ('default', 't1', 'bob', 1, 1)"
        )


async def test_keys_of_threads_are_computed_again_wherever_one_is_stored(old_home: Path) -> None:
    database = Database(old_home)
    await database.open()
    await database.close()
    key, eves = (thread_key(ThreadRef("default", user, "t1")) for user in ("ann", "eve"))
    with closing(sqlite3.connect(old_home)) as connection:
        sources = connection.execute("SELECT user_id, thread_id, thread_key FROM entry_sources").fetchall()
        answers = connection.execute(
            "SELECT a.cell, h.space, h.user_id, h.thread_id FROM model_answers a JOIN threads h ON h.pk = a.thread_pk"
        ).fetchall()
        jobs = connection.execute("SELECT user_id, lane, payload_json FROM jobs ORDER BY pk").fetchall()
        tombstones = connection.execute("SELECT thread_key FROM tombstones").fetchall()
    assert sources == [("ann", "t1", key)]
    assert sorted(answers) == sorted((cell, "default", "ann", "t1") for cell in ("c-1", f"{key[:16]}-t-2"))
    assert tombstones == [(key_within_user("default", "t1"),)] == [(OLD_KEY,)]
    assert [(user_id, lane) for user_id, lane, _ in jobs] == [
        ("ann", f"cells:{key}"),
        ("ann", "skill:default/agents/agent"),
        ("eve", f"forget:{eves}"),
        (None, "entries:p"),
    ]
    assert json.loads(jobs[1][2])["causes"] == [{"user": "ann", "thread": "t1", "cell": "c-1", "entries": []}]
    assert json.loads(jobs[2][2])["cells"] == [["ann", "t1", "c-1"]]


VERSION = ["fa-1", "t", "x", 1, ["threads/t1/0001#^t-2", "episodes/2026-05-08#^ep-1"], "facts", {}]
KEY = thread_key(ThreadRef("default", "ann", "t1"))
OF_0025 = {
    "receipts": "(thread_pk, subject, stage, detail_json, at) VALUES (7, 'c-1', 'facts', '1', 1), (7, 'c-1', 'facts', '2', 1),"
    " (7, 't-2', 'mem0', '3', 1), (7, 'conversation', 'metadata', '4', 1), (9, 'c-1', 'facts', '5', 1), (7, 't-3', 'mem0', '6', 1)",
    "unprocessed_buffer": "VALUES (7, 12, 'default', 't1', 'm9')",
    "chat_requests": "VALUES (7, 'of a gone answer', x'00', 3)",
    "model_answers": "(space, cell, name, prompt_digest, thread_key, answer, model, usage_json, at) VALUES"
    f" ('default', 'c-2', 'memcell', 'd', '{KEY}', 'a', 'm', '{{}}', 1),"
    " ('default', 'c-3', 'memcell', 'd', 'of a gone thread', 'a', 'm', '{}', 1)",
    "entry_history": f"VALUES (3, 1, 1, '{json.dumps(VERSION)}', 'person', 'c', 1), (4, 1, 2, NULL, 'person', 'c', 1)",
}
OF_0025["strategy_counts"] = "VALUES ('facts:default/users/ann', 'facts', 3)"
OF_0025["jobs"] = (
    "(pk, kind, lane, space, payload_json, run_at, created) VALUES"
    " (11, 'strategy', 'profile:o', 'default', '{\"strategy\": \"profile\", \"owner\": \"o\"}', 1, 1),"
    " (12, 'entries', 'entries:q', 'default', '{\"path\": \"default/users/ann/facts/2026-05-08.md\"}', 1, 1)"
)
"""More rows of a home at 0025; some name what is gone."""


@pytest.fixture
def at_0025(old_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(old_home, isolation_level=None)) as connection:
        with monkeypatch.context() as patched:
            patched.setattr(journal_connection, "HEAD", "0025")
            upgrade_schema(connection)
        assert current_revision(connection) == "0025"
        for table, rows in OF_0025.items():
            connection.execute(f"INSERT INTO {table} {rows}")
        yield connection


def test_rows_of_a_home_at_0025_keep_their_subjects_and_those_of_nothing_go(
    at_0025: sqlite3.Connection,
) -> None:
    upgrade_schema(at_0025)
    assert at_0025.execute("PRAGMA foreign_key_check").fetchall() == []
    assert {
        name: at_0025.execute(sql).fetchall()
        for name, sql in {
            "receipts": "SELECT thread_pk, turn_pk, memcell_pk, stage, detail_json FROM receipts ORDER BY detail_json",
            "buffer": "SELECT thread_pk, turn_pk FROM unprocessed_buffer",
            "requests": "SELECT thread_pk, idempotency_key, answer_pk FROM chat_requests",
            "answers": "SELECT thread_pk, cell FROM model_answers ORDER BY cell DESC",
            "history": "SELECT pk FROM entry_history ORDER BY pk",
            "sources": "SELECT * FROM version_sources ORDER BY source",
            "counts": "SELECT * FROM strategy_counts",
            "jobs": "SELECT pk, owner FROM jobs WHERE owner IS NOT NULL ORDER BY pk",
        }.items()
    } == {
        "receipts": [
            (None, None, 1, "facts", "2"),
            (None, 2, None, "mem0", "3"),
            (7, None, None, "metadata", "4"),
            (None, None, 1, "celled", "{}"),
        ],
        "buffer": [(7, 2)],
        "requests": [(7, "k", 2)],
        "answers": [(7, "c-2"), (7, "c-1"), (7, f"{KEY[:16]}-t-2")],
        "history": [(3,), (4,)],
        "sources": [(3, "default/users/ann/threads/t1", 2), (3, "ep-1", 0)],
        "counts": [("default/users/ann", "facts", 3)],
        "jobs": [(11, "o"), (12, "default/users/ann")],
    }


def test_what_rows_of_a_home_at_0025_are_about_takes_them_along(at_0025: sqlite3.Connection) -> None:
    upgrade_schema(at_0025)
    at_0025.execute("PRAGMA foreign_keys = ON")
    at_0025.execute("DELETE FROM turns WHERE pk = 2")
    counts = rows_of(at_0025)
    assert [counts[table] for table in ("unprocessed_buffer", "chat_requests", "receipts")] == [0, 0, 3]
    at_0025.execute("DELETE FROM threads WHERE pk = 7")
    counts = rows_of(at_0025)
    assert [counts[table] for table in ("model_answers", "receipts", "memcell", "turns")] == [0, 0, 0, 1]


def test_a_kill_while_threads_get_owners_leaves_the_home_as_it_was(old_home: Path, tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    killed.mkdir()

    def copy_files(action: int, what: str | None, *_: str | None) -> int:
        """What the disk holds in the middle of it: all a kill would leave."""
        if action == sqlite3.SQLITE_DROP_TABLE and what == "threads":
            for path in tmp_path.glob("old.db*"):
                (killed / path.name).write_bytes(path.read_bytes())
        return sqlite3.SQLITE_OK

    with closing(sqlite3.connect(old_home, isolation_level=None)) as connection:
        before = list(connection.iterdump())
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA cache_size = 1")
        connection.set_authorizer(copy_files)
        upgrade_schema(connection)
        connection.set_authorizer(None)
    with closing(sqlite3.connect(killed / "old.db", isolation_level=None)) as connection:
        assert current_revision(connection) == "0014"
        assert list(connection.iterdump()) == before
        assert upgrade_schema(connection)
        assert connection.execute("SELECT count(*) FROM turns").fetchone() == (3,)


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
