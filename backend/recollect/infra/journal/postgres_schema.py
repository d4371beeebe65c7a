"""The journal's schema in PostgreSQL: what the migrations make, in its words, and the functions of SQLite that are used."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from recollect.errors import HomeUnusable, SchemaTooNew, SchemaTooOld
from recollect.infra.journal.connection import HEAD, migrations_folder, upgrade_schema
from recollect.infra.journal.postgres_connection import Driver, in_postgres_words

BASE = "0032"
"""The first schema that PostgreSQL has had. Later migrations run on both databases."""

_PRIMARY_KEY = re.compile(r"\b(pk|number) INTEGER PRIMARY KEY( AUTOINCREMENT)?")
_INTEGER_IN_DDL = re.compile(r"\bINTEGER\b")

FUNCTIONS = r"""
CREATE FUNCTION recollect_json(text) RETURNS json LANGUAGE sql IMMUTABLE AS $$
    SELECT (CASE WHEN strpos($1, '\u0000') = 0 THEN $1
        ELSE regexp_replace($1, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g') END)::json $$;
CREATE FUNCTION json_each(text) RETURNS TABLE (key bigint, value text) LANGUAGE sql IMMUTABLE AS $$
    SELECT place - 1, item FROM json_array_elements_text(recollect_json($1)) WITH ORDINALITY AS listed (item, place) $$;
CREATE FUNCTION json_extract(text, path text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT recollect_json($1) #>> string_to_array(trim(BOTH '.' FROM translate(path, '$[]', '..')), '.') $$;
CREATE FUNCTION json_each(text, path text) RETURNS TABLE (key bigint, value text) LANGUAGE sql IMMUTABLE AS $$
    SELECT place - 1, item FROM json_array_elements_text(
        recollect_json($1) #> string_to_array(trim(BOTH '.' FROM translate(path, '$[]', '..')), '.')
    ) WITH ORDINALITY AS listed (item, place) $$;
CREATE FUNCTION json_array_length(text) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT json_array_length($1::json)';
CREATE FUNCTION json_array_length(text, path text) RETURNS int LANGUAGE sql IMMUTABLE AS $$
    SELECT json_array_length($1::json #> string_to_array(trim(BOTH '.' FROM translate(path, '$[]', '..')), '.')) $$;
CREATE FUNCTION instr(text, text) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT strpos($1, $2)';
CREATE FUNCTION instr(bytea, bytea) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT position($2 IN $1)';
CREATE FUNCTION substr(text, bigint, bigint) RETURNS text LANGUAGE sql IMMUTABLE AS
    'SELECT pg_catalog.substr($1, $2::int, $3::int)';
CREATE FUNCTION max(bigint, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
    'SELECT CASE WHEN $1 IS NULL OR $2 IS NULL THEN NULL ELSE greatest($1, $2) END';
CREATE FUNCTION min(bigint, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS
    'SELECT CASE WHEN $1 IS NULL OR $2 IS NULL THEN NULL ELSE least($1, $2) END';
CREATE FUNCTION recollect_casefold(text) RETURNS text LANGUAGE sql IMMUTABLE AS
    'SELECT lower($1 COLLATE "{collation}")';
"""

WRITER = """
CREATE TABLE journal_writer (
    one BIGINT PRIMARY KEY CHECK (one = 1), token TEXT NOT NULL, sequence BIGINT NOT NULL, leader TEXT
) WITH (fillfactor = 20);
INSERT INTO journal_writer VALUES (1, '', 0)"""
"""Whose transactions may be committed, the number of the last one that was, and where its server is reached."""
_WRITER_BEFORE = "ALTER TABLE IF EXISTS journal_writer ADD COLUMN IF NOT EXISTS leader TEXT"
"""Of a version that had one server to a journal. It can live with the column."""


_TABLES = """
SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema()
AND tablename NOT IN ('alembic_version', 'journal_writer')"""


def current_revision(driver: Driver) -> str | None:
    if driver.execute("SELECT to_regclass('alembic_version')").fetchone()[0] is None:  # type: ignore[index]
        return None
    found = driver.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if found is None else str(found[0])


def holds_rows(driver: Driver) -> bool:
    """Whether there is anything in the journal's tables."""
    tables = [name for (name,) in driver.execute(_TABLES).fetchall()]
    asked = " OR ".join(f"EXISTS (SELECT FROM {name})" for name in tables)
    found = driver.execute(f"SELECT {asked}".encode()).fetchone()
    return bool(found and found[0])


def upgrade_postgres(driver: Driver, name: str, *, head: str = HEAD, migrations: Path | None = None) -> bool:
    """Make or upgrade the schema in one transaction. True when anything changed.

    Raises SchemaTooNew, SchemaTooOld or HomeUnusable, and changes nothing, where no way leads to `head`.
    """
    current = current_revision(driver)
    driver.execute(_WRITER_BEFORE)
    if current == head:
        return False
    if current is not None and current > head:
        raise SchemaTooNew(
            f"the journal at {name} has schema {current}; this version of Recollect knows schemas up to {head}. "
            "Install the newer Recollect that wrote it, or restore a backup from before the upgrade."
        )
    if current is not None and current < BASE:
        raise SchemaTooOld(f"the journal at {name} has schema {current}; there was none before {BASE}.")
    try:
        if current is None:
            with driver.transaction():
                _create(driver)
        else:
            _run_alembic(driver, head, migrations or migrations_folder())
    except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateFunction) as error:
        raise HomeUnusable(
            f"the database {name} holds tables that are not a journal's; give Recollect a database of its own, or a"
            " schema, with ?options=-csearch_path%3D<schema> at the end of RECOLLECT_DATABASE_URL"
        ) from error
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidSchemaName) as error:
        raise HomeUnusable(
            f"the user of {name} may not create tables there; make it the owner: ALTER DATABASE … OWNER TO …"
        ) from error
    return True


def _create(driver: Driver) -> None:
    """The newest schema at once."""
    icu = driver.execute("SELECT 1 FROM pg_collation WHERE collname = 'und-x-icu'").fetchone()
    driver.execute(FUNCTIONS.replace("{collation}", "und-x-icu" if icu else "default").encode())
    for statement in schema():
        driver.execute(statement.encode())
    driver.execute(WRITER.encode())
    driver.execute("INSERT INTO alembic_version VALUES (%s)", (HEAD,))


def schema() -> list[str]:
    """What the migrations make in an empty SQLite database, tables first."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        upgrade_schema(made)
        found = made.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
            " ORDER BY type = 'index', name != 'threads', rowid"
        ).fetchall()
    return [in_postgres_ddl(sql) for (sql,) in found]


def in_postgres_ddl(sql: str) -> str:
    """A statement of a migration. Texts are compared byte by byte, as in SQLite, whatever the database's language."""
    sql = _PRIMARY_KEY.sub(r"\1 BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY", sql)
    sql = _INTEGER_IN_DDL.sub("BIGINT", sql.replace(" WITHOUT ROWID", "").replace(" BLOB", " BYTEA"))
    sql = re.sub(r"\bTEXT\b", 'TEXT COLLATE "C"', sql)
    return re.sub(r"\((\w+ IS NOT NULL)\)", r"(\1)::int", sql)


def _run_alembic(driver: Driver, head: str, migrations: Path) -> None:
    """The migrations after the schema that is there, in one transaction."""
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import StaticPool, create_engine, event

    config = Config()
    config.set_main_option("script_location", str(migrations))
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: driver, poolclass=StaticPool, _initialize=False
    )

    @event.listens_for(engine, "before_cursor_execute", retval=True)
    def translate(_c: Any, _k: Any, sql: str, bound: Any, context: Any, _m: bool) -> tuple[str, Any]:
        if sql.lstrip()[:6].upper() in ("CREATE", "ALTER "):
            return in_postgres_ddl(sql), bound
        is_of_migration = context.compiled is None  # The others are SQLAlchemy's own.
        return (in_postgres_words(sql)[0].decode() if is_of_migration else sql), bound

    driver.set_autocommit(False)
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, head)
    finally:
        driver.set_autocommit(True)
