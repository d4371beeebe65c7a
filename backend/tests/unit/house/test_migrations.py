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

from recollect.domain.chat import ContextBlock
from recollect.domain.entries.entry import PastSkill, SeenSkill, Source
from recollect.domain.identity import text_digest
from recollect.domain.model import ThreadRef, Turn
from recollect.domain.paths import transcript_path
from recollect.domain.people import Preferences, Preset
from recollect.domain.vault_file import KnownFile, StoredPart
from recollect.errors import RecollectError, SchemaTooNew, SchemaTooOld
from recollect.infra.journal import connection as journal_connection
from recollect.infra.journal.chat_rows import path_of
from recollect.infra.journal.connection import (
    HEAD,
    OLDEST,
    current_revision,
    migrations_folder,
    upgrade_schema,
)
from recollect.infra.journal.database import Database
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SqlEntryFileStore, SqlSkillFiles
from recollect.infra.journal.files import SqlTranscriptStore
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.journal.sqlite import SqliteConnector

GOLDEN = Path(__file__).parents[2] / "golden" / "schema-0026.sql"
ANN = "default/users/ann"
CODER = "default/agents/coder"
SKILLS = f"{CODER}/skills"
MEMORIES = {
    f"{'a' * 32}:t-12": "d1",
    "fa-1": "d2",
    f"{ANN}/notes/C# and: x.md#3": "",
    "default/agents/a/skills/#1/SKILL.md": "",
}
ROWS_OF_0026 = (
    f"INSERT INTO entry_files VALUES ('{ANN}/facts/2026-05-08.md', 'default', '{ANN}', 1700000000000, 7, 'd1', 'd2 d3')",
    """INSERT INTO people VALUES ('default', 'preset', 'calm', '{"name": "Calm", "instructions": "Be calm."}', 3,
        'default/presets/calm.md', 0, NULL, NULL)""",
    f"""INSERT INTO people VALUES ('default', 'preferences', 'ann', '{{"auto_memory": false}}', 2,
        '{ANN}/preferences.md', 2, 'd4', NULL)""",
    "INSERT INTO threads (pk, space, user_id, thread_id, created, updated) VALUES (7, 'default', 'ann', 't 1', 0, 0)",
    "INSERT INTO transcript_parts VALUES (7, 1, 1, 2, 3, 'd5', 'd6'), (7, 2, 3, 4, 1, NULL, 'd7')",
    f"INSERT INTO skill_files VALUES ('{SKILLS}/bake/SKILL.md', 'ours', 'next', 'seen', 4)",
    f"INSERT INTO skill_files VALUES ('{SKILLS}/new/SKILL.md', NULL, 'first', NULL, 0)",
    f"INSERT INTO skill_versions VALUES ('{SKILLS}/bake/SKILL.md', 3, 'was', '[]', 'person', 'by hand', 9)",
    """INSERT INTO turns (pk, thread_pk, position, message_id, role, sender_id, content, timestamp, status, accepted, digest)
        VALUES (8, 7, 1, 'm1', 'user', 'ann', 'hello', 0, 'complete', 0, x'00'),
        (9, 7, 2, 'm2', 'user', 'ann', 'again', 0, 'complete', 0, x'00')""",
    f"""INSERT INTO context_blocks VALUES (8, 'a block', '{json.dumps(MEMORIES)}'), (9, 'of before', '[]')""",
    f"""INSERT INTO entries VALUES (3, 'default', '{ANN}', 'fa-1', 'facts', 0, '', '', '', '[]', '', '{{}}', '', '', '', 1, 0, 0,
        1, 0, 0, NULL, NULL, '')""",
    "INSERT INTO entry_sources VALUES (3, 0, 'k', 't 1', 2, 'ann'), (3, 1, 'k', 'gone', 1, 'ann'), (4, 0, 'k', 't 1', 2, 'ann')",
)
REFUSED = [("0001", SchemaTooOld, OLDEST), ("0025", SchemaTooOld, OLDEST), ("9999", SchemaTooNew, HEAD)]


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


def test_the_first_migration_makes_the_schema_that_homes_have(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_connection, "HEAD", OLDEST)
    upgrade_schema(connection)
    made = connection.execute(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT IN ('sqlite_sequence', 'alembic_version')"
    )
    assert sorted(f"{without_spaces(sql)};" for (sql,) in made) == GOLDEN.read_text().splitlines()


async def test_what_a_home_of_0026_knows_is_known_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "home.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as old, monkeypatch.context() as patched:
        patched.setattr(journal_connection, "HEAD", "0026")
        upgrade_schema(old)
        for statement in ROWS_OF_0026:
            old.execute(statement)
    database = Database(SqliteConnector(path))
    await database.open()
    people = SqlPresetStore(database, clock=lambda: 1)
    assert await SqlEntryFileStore(database, clock=lambda: 1).files() == [
        KnownFile(
            f"{ANN}/facts/2026-05-08.md", "entries", "default", ANN, 1_700_000_000_000, 7, "d1", "d2 d3"
        )
    ]
    assert await people.files() == [
        KnownFile("default/presets/calm.md", "people", "default", "default/presets", 3),
        KnownFile(f"{ANN}/preferences.md", "people", "default", ANN, 2, 2, "d4"),
    ]
    assert await people.preset("default", "Calm") == Preset("default", "Calm", "Be calm.")
    assert await people.holds(f"{ANN}/preferences.md") == Preferences("default", "ann", auto_memory=False)
    transcripts = SqlTranscriptStore(database, clock=lambda: 1)
    thread = ThreadRef("default", "ann", "t 1")
    assert await transcripts.parts(thread) == [
        StoredPart(1, 1, 2, 3, "d5", "d6"),
        StoredPart(2, 3, 4, 1, None, "d7"),
    ]
    assert await transcripts.held() == {transcript_path(*thread, 1): "d5"}
    skills = SqlSkillFiles(database, clock=lambda: 1)
    bake, new = f"{SKILLS}/bake/SKILL.md", f"{SKILLS}/new/SKILL.md"
    seen, following, first = map(text_digest, ("seen", "next", "first"))
    assert await skills.files() == [
        KnownFile(bake, "skill_files", "default", CODER, 4, 4, seen, following),
        KnownFile(new, "skill_files", "default", CODER, 1, 0, None, first),
    ]
    assert (await skills.held(), await skills.seen()) == ({bake: seen}, [SeenSkill(bake, "seen", 4)])
    assert [await skills.last_written(bake, text) for text in ("seen", "next")] == ["ours", "next"]
    assert await skills.versions(bake) == [PastSkill(bake, 3, "was", "person", "by hand", 9)]
    (known,) = await SqlEntryStore(database, clock=lambda: 1).list_entries("default")
    assert known.sources == (Source("ann", "t 1", "t-2"),)
    said = Turn("t-3", "m3", "user", "ann", "now", 0)
    sent = await database.query(lambda connection: path_of(connection, 7, said, None, 10))
    assert [turn.block for turn in sent] == [ContextBlock("a block", MEMORIES), ContextBlock("of before")]
    await database.close()


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
        database = Database(SqliteConnector(tmp_path / "journal.db"))
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
    database = Database(SqliteConnector(tmp_path / "journal.db"))
    with pytest.raises(error) as caught:
        await database.open()
    await database.close()
    assert revision in caught.value.message
    assert known in caught.value.message
    assert (tmp_path / "journal.db").read_bytes() == before


def test_a_journal_that_is_too_old_is_refused_with_the_way_up(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
    connection.execute("INSERT INTO alembic_version VALUES ('0025')")
    with pytest.raises(SchemaTooOld, match="Start commit 3a761b78 of Recollect on this home once"):
        upgrade_schema(connection)
