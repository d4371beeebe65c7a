"""A PostgreSQL of the tests' own, and a connector to it: `make test-postgres` runs the stores on it.

What the journal's SQL takes for granted beyond what both databases have is in FUNCTIONS.
"""

import asyncio
import contextlib
import functools
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import psycopg.types.string
import pytest

from recollect.domain.forgetting import Looked
from recollect.errors import Unavailable
from recollect.infra.journal.connection import upgrade_schema
from recollect.infra.journal.connector import Connection, Operation, Parameters, Row

T = TypeVar("T")
PROGRAMS = Path("/usr/lib/postgresql/15/bin")
NEEDED = f"{PROGRAMS} is missing: install Debian's package postgresql-15 (apt-get install postgresql-15)"
_TOKEN = re.compile(r"'(?:[^']|'')*'|(?<![:\w]):([a-z_]\w*)|(\?)|\bINDEXED BY \w+|%")
_PRIMARY_KEY = re.compile(r"\b(pk|number) INTEGER PRIMARY KEY( AUTOINCREMENT)?")

FUNCTIONS = """
CREATE FUNCTION json_each(text) RETURNS TABLE (key text, value text) LANGUAGE sql AS $$
    SELECT (n - 1)::text, v FROM json_array_elements_text(
        CASE json_typeof($1::json) WHEN 'array' THEN $1::json ELSE '[]' END) WITH ORDINALITY AS listed (v, n)
    UNION ALL SELECT * FROM json_each_text(
        CASE json_typeof($1::json) WHEN 'object' THEN $1::json ELSE '{}' END) $$;
CREATE FUNCTION json_extract(text, path text) RETURNS text LANGUAGE sql AS $$
    SELECT $1::json #>> string_to_array(trim(BOTH '.' FROM translate(path, '$[]', '..')), '.') $$;
CREATE FUNCTION json_each(text, path text) RETURNS TABLE (key text, value text) LANGUAGE sql AS $$
    SELECT * FROM json_each(coalesce(json_extract($1, path), '[]')) $$;
CREATE FUNCTION json_array_length(text) RETURNS int LANGUAGE sql AS 'SELECT json_array_length($1::json)';
CREATE FUNCTION json_array_length(text, path text) RETURNS int LANGUAGE sql AS
    'SELECT json_array_length(json_extract($1, path)::json)';
CREATE FUNCTION json_array(VARIADIC "any") RETURNS json LANGUAGE internal AS 'json_build_array';
CREATE AGGREGATE json_group_array(anyelement) (
    SFUNC = json_agg_transfn, STYPE = internal, FINALFUNC = json_agg_finalfn);
CREATE FUNCTION instr(text, text) RETURNS int LANGUAGE sql AS 'SELECT strpos($1, $2)';
CREATE FUNCTION instr(bytea, bytea) RETURNS int LANGUAGE sql AS 'SELECT position($2 IN $1)';
CREATE FUNCTION casefold(text) RETURNS text LANGUAGE sql AS 'SELECT lower($1)';
CREATE CAST (text AS bigint) WITH INOUT AS IMPLICIT;
CREATE FUNCTION max(bigint, bigint) RETURNS bigint LANGUAGE sql STRICT AS 'SELECT greatest($1, $2)';
CREATE FUNCTION min(bigint, bigint) RETURNS bigint LANGUAGE sql STRICT AS 'SELECT least($1, $2)';
"""


class PostgresRow(tuple[Any, ...]):
    """Its values in order, by place and by the names of their columns."""

    names: tuple[str, ...] = ()

    def __getitem__(self, key: Any, /) -> Any:
        return super().__getitem__(self.names.index(key) if isinstance(key, str) else key)

    def keys(self) -> Iterable[str]:
        return self.names


def rows_of(cursor: psycopg.Cursor[Any]) -> Any:
    names = tuple(column.name for column in cursor.description or ())
    return type("PostgresRow", (PostgresRow,), {"names": names})


@functools.lru_cache(maxsize=2000)
def translated(sql: str) -> str:
    """With the driver's placeholders, and without what tells SQLite's planner which index to use."""

    def token(found: re.Match[str]) -> str:
        name, mark = found.groups()
        if name or mark:
            return f"%({name})s" if name else "%s"
        return "" if found[0].startswith("INDEXED") else found[0].replace("%", "%%")

    return _TOKEN.sub(token, sql)


class PostgresConnection:
    def __init__(self, driver: psycopg.Connection[Any], kept: dict[str, Any]) -> None:
        self.driver = driver
        self.kept = kept

    def run(self, sql: str, parameters: Parameters = (), /) -> int:
        return self._cursor(sql, parameters).rowcount

    def many(self, sql: str, rows: Iterable[Row | Sequence[Any]], /) -> None:
        for row in rows:
            self.run(sql, row)

    def one(self, sql: str, parameters: Parameters = (), /) -> Any:
        return self._cursor(sql, parameters).fetchone()

    def all(self, sql: str, parameters: Parameters = (), /) -> list[Row]:
        return self._cursor(sql, parameters).fetchall()

    def _cursor(self, sql: str, parameters: Parameters) -> psycopg.Cursor[Any]:
        bound: Any
        if isinstance(parameters, dict):
            bound = {name: _number(value) for name, value in parameters.items()}
        else:
            bound = [_number(value) for value in parameters]
        return self.driver.execute(translated(sql).encode(), bound)


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value


class PostgresConnector:
    """One connection writes and one reads, each on a thread of its own. A journal is a schema of the database."""

    def __init__(self, path: Path) -> None:
        self._schema = "j_" + re.sub(r"\W", "_", str(path))[-50:].lower()
        self._writer: psycopg.Connection[Any] | None = None
        self._reader: psycopg.Connection[Any] | None = None
        self._threads: list[ThreadPoolExecutor] = []
        self._kept: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        self.groups = 0
        self.operations = 0

    async def open(self) -> None:
        self._threads = [ThreadPoolExecutor(1) for _ in range(2)]
        self._writer, self._reader = (
            await asyncio.to_thread(self._connected),
            await asyncio.to_thread(self._connected),
        )
        self._reader.read_only = True

    async def close(self) -> None:
        for threads in self._threads:
            await asyncio.to_thread(threads.shutdown)
        for driver in (self._writer, self._reader):
            if driver is not None:
                driver.close()
        self._writer = self._reader = None

    def problem(self) -> str | None:
        return None if self._writer is not None else "the journal is closed"

    async def write(self, operation: Operation[T], *, urgent: bool = False) -> T:
        self.groups, self.operations = self.groups + 1, self.operations + 1
        return await self._run(0, self._writer, operation)

    async def read(self, operation: Operation[T], *, snapshot: bool = True) -> T:
        return await self._run(1, self._reader, operation)

    async def damage(self) -> list[str]:
        return []

    async def overwrite(self) -> None:
        """A table that was deleted from is vacuumed by PostgreSQL itself."""

    async def fold_log(self) -> None:
        """The log is the cluster's."""

    async def remains(self) -> list[Looked]:
        return []

    async def _run(self, thread: int, driver: psycopg.Connection[Any] | None, operation: Operation[T]) -> T:
        if driver is None:
            raise Unavailable("the journal is closed")

        def run() -> T:
            with driver.transaction():
                return operation(connection)

        connection: Connection = PostgresConnection(driver, self._kept[thread])
        return await asyncio.get_running_loop().run_in_executor(self._threads[thread], run)

    def _connected(self) -> psycopg.Connection[Any]:
        driver: psycopg.Connection[Any] = psycopg.connect(
            host=str(CLUSTER[0]), user="postgres", dbname="postgres", autocommit=True,
            cursor_factory=psycopg.ClientCursor, row_factory=rows_of,
        )  # fmt: skip
        driver.adapters.register_loader("json", psycopg.types.string.TextLoader)
        known = driver.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (self._schema,)).fetchone()
        if known is None:
            driver.execute(f"CREATE SCHEMA {self._schema}".encode())
        driver.execute(f"SET search_path TO {self._schema}, public".encode())
        if known is None:
            driver.execute(schema().encode())
        driver.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return driver


@functools.cache
def schema() -> str:
    """What the migrations make, in PostgreSQL's words."""

    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        upgrade_schema(made)
        found = made.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
            " ORDER BY type = 'index', name != 'threads', rowid"
        ).fetchall()
    sql = ";\n".join(sql for (sql,) in found)
    sql = _PRIMARY_KEY.sub(r"\1 BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY", sql)
    sql = re.sub(r"\bINTEGER\b", "BIGINT", sql.replace(" WITHOUT ROWID", "").replace(" BLOB", " BYTEA"))
    return re.sub(r"\((\w+ IS NOT NULL)\)", r"(\1)::int", sql)


CLUSTER: list[Path] = []
"""The folder of the one that runs, which holds its socket."""


def start() -> Callable[[], None]:
    """Start a cluster in a folder of its own, never as root; returns what ends it."""
    if not PROGRAMS.is_dir():
        raise pytest.UsageError(NEEDED)
    whose: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="recollect-postgres-"))
    if whose:
        shutil.chown(folder, **whose)
    quiet: dict[str, Any] = {
        "cwd": folder,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        **whose,
    }
    made: list[str | Path] = [
        "-D",
        folder / "data",
        "-A",
        "trust",
        "-U",
        "postgres",
        "--locale=C",
        "-E",
        "UTF8",
        "-N",
    ]
    subprocess.run([PROGRAMS / "initdb", *made], check=True, **quiet)
    settings = ("fsync=off", "listen_addresses=", f"unix_socket_directories={folder}")
    options: list[str] = [word for setting in settings for word in ("-c", setting)]
    server = subprocess.Popen([PROGRAMS / "postgres", "-D", folder / "data", *options], **quiet)

    def stop() -> None:
        server.send_signal(signal.SIGINT)
        server.wait(30)
        shutil.rmtree(folder)

    try:
        _add_functions(folder, server)
    except BaseException:
        stop()
        raise
    CLUSTER.append(folder)
    return stop


def _add_functions(folder: Path, server: "subprocess.Popen[bytes]") -> None:
    """As soon as it listens."""
    for _ in range(200):
        with contextlib.suppress(psycopg.OperationalError):
            with psycopg.connect(host=str(folder), user="postgres", dbname="postgres") as driver:
                driver.execute(FUNCTIONS.encode())
            return
        assert server.poll() is None, "PostgreSQL ended at its start"
        time.sleep(0.05)
    raise TimeoutError("PostgreSQL does not listen")
