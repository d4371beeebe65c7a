"""Copies a whole journal between a file and PostgreSQL, in one transaction, and compares what is on both sides."""

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import islice
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from recollect.errors import HomeUnusable
from recollect.infra.journal.connection import HEAD, current_revision, upgrade_schema
from recollect.infra.journal.connector import Connection, Connector
from recollect.infra.journal.postgres_connection import Driver, PostgresConnection, without_nul
from recollect.infra.journal.postgres_schema import holds_rows
from recollect.infra.journal.sqlite import SqliteConnector

Progress = Callable[[int, int], None]
_BATCH = 1000
_NUMBERED = """
SELECT a.attrelid::regclass::text, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attidentity != ''"""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    columns: tuple[str, ...]


@dataclass(slots=True)
class Digest:
    """Of the rows of a table, in whatever order they come."""

    rows: int = 0
    sum: int = 0

    def add(self, row: Iterable[Any]) -> None:
        self.rows += 1
        of_row = hashlib.sha256(repr(tuple(row)).encode()).digest()
        self.sum = (self.sum + int.from_bytes(of_row)) % (1 << 256)


Digests = dict[str, Digest]


async def fill_postgres(
    file: Path, connector: Connector, progress: Progress, *, replaces: bool = False
) -> Digests:
    """Bring the file to today's schema, open the journal and copy; both are closed when it returns."""
    old = SqliteConnector(file)
    await old.open()
    await old.close()
    await connector.open()
    try:
        return await copy_to_postgres(file, connector, progress, replaces=replaces)
    finally:
        await connector.close()


async def copy_to_postgres(
    file: Path, connector: Connector, progress: Progress, *, replaces: bool = False
) -> Digests:
    """Fill an empty journal, or find that it holds the same already.

    Where it holds something else, that goes in the same transaction if the file `replaces` it; else HomeUnusable is raised.
    """

    def copy(connection: Connection) -> Digests:
        assert isinstance(connection, PostgresConnection)
        with closing(_opened(file)) as source:
            tables, total = _tables(source), _count(source)
            if replaces:
                connection.run(f"TRUNCATE {', '.join(table.name for table in tables)}")
            if holds_rows(connection.driver):
                there = {table.name: _digest(_rows(connection.driver, table)) for table in tables}
                held = {table.name: _digest(_rows(source, table)) for table in tables}
                if held == there:
                    return held
                raise HomeUnusable(f"the journal at {connector.name} is not empty; nothing was copied")
            copied: Digests = {}
            for table in tables:
                copied[table.name] = Digest()
                done = sum(each.rows for each in copied.values())
                _fill_postgres(
                    connection.driver,
                    table,
                    _counted(source, table, copied[table.name], done, total, progress),
                )
            _continue_numbers(connection.driver, source)
            _compare(copied, {table.name: _digest(_rows(connection.driver, table)) for table in tables})
            return copied

    return await connector.write(copy)


async def copy_to_file(connector: Connector, file: Path, progress: Progress) -> Digests:
    """Write the journal, as it is at one moment, into a new SQLite file; durable when it returns."""

    def copy(connection: Connection) -> Digests:
        assert isinstance(connection, PostgresConnection)
        file.unlink(missing_ok=True)
        with closing(sqlite3.connect(file, isolation_level=None)) as target:
            target.execute("PRAGMA synchronous = FULL")
            upgrade_schema(target)
            tables, copied = _tables(target), Digests()
            counts = {table.name: _count_of(connection.driver, table) for table in tables}
            target.execute("BEGIN")
            for table in tables:
                copied[table.name] = Digest()
                done, total = sum(each.rows for each in copied.values()), sum(counts.values())
                rows = _counted(connection.driver, table, copied[table.name], done, total, progress)
                target.executemany(_insert(table), rows)
            _continue_jobs(connection.driver, target)
            target.execute("COMMIT")
            _compare(copied, {table.name: _digest(_rows(target, table)) for table in tables})
        return copied

    return await connector.read(copy)


def _opened(file: Path) -> sqlite3.Connection:
    """A journal of a stopped server, as this version has it."""
    source = sqlite3.connect(file, isolation_level=None)
    if (found := current_revision(source)) != HEAD:
        source.close()
        raise HomeUnusable(f"the journal {file} has schema {found}, not {HEAD}: start the server on it once")
    return source


def _tables(connection: sqlite3.Connection) -> list[Table]:
    """Those that others refer to come first."""
    listed = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name != 'alembic_version'"
    ).fetchall()
    order: TopologicalSorter[str] = TopologicalSorter()
    for (name,) in sorted(listed):
        keys = connection.execute(f"PRAGMA foreign_key_list({name})").fetchall()
        order.add(name, *(key[2] for key in keys if key[2] != name))
    return [
        Table(name, tuple(column[1] for column in connection.execute(f"PRAGMA table_info({name})")))
        for name in order.static_order()
    ]


def _count(connection: sqlite3.Connection) -> int:
    counts = (
        connection.execute(f"SELECT count(*) FROM {each.name}").fetchone() for each in _tables(connection)
    )
    return sum(count for (count,) in counts)


def _count_of(driver: Driver, table: Table) -> int:
    found = driver.execute(f"SELECT count(*) FROM {table.name}".encode()).fetchone()
    return int(found[0]) if found else 0


def _rows(side: sqlite3.Connection | Driver, table: Table) -> Iterator[tuple[Any, ...]]:
    """Never more than a batch in memory. A NUL in a file's texts is what PostgreSQL keeps for it."""
    select = f"SELECT {', '.join(table.columns)} FROM {table.name}"
    if isinstance(side, sqlite3.Connection):
        for row in side.execute(select):
            yield tuple(without_nul(value) if isinstance(value, str) else value for value in row)
        return
    with side.cursor(name="copying") as cursor:
        cursor.itersize = _BATCH
        cursor.execute(select.encode())
        for row in cursor:
            yield tuple(row)


def _counted(
    side: sqlite3.Connection | Driver, table: Table, digest: Digest, done: int, total: int, progress: Progress
) -> Iterator[tuple[Any, ...]]:
    rows = _rows(side, table)
    while batch := list(islice(rows, _BATCH)):
        for row in batch:
            digest.add(row)
            yield row
        progress(done + digest.rows, total)


def _digest(rows: Iterable[tuple[Any, ...]]) -> Digest:
    digest = Digest()
    for row in rows:
        digest.add(row)
    return digest


def _compare(left: Digests, right: Digests) -> None:
    if unequal := [name for name in left if left[name] != right[name]]:
        raise HomeUnusable(f"the copy differs from the journal in {', '.join(unequal)}; nothing was changed")


def _insert(table: Table) -> str:
    return f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({', '.join('?' * len(table.columns))})"


def _fill_postgres(driver: Driver, table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
    columns = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table.name), columns)
    try:
        with driver.cursor().copy(statement) as copy:
            for row in rows:
                copy.write_row(row)
    except psycopg.DataError as error:
        told = error.diag.message_primary or error
        raise HomeUnusable(f"PostgreSQL can't hold what is in {table.name}: {told}") from error


def _continue_numbers(driver: Driver, source: sqlite3.Connection) -> None:
    """Numbers that were given away once are not given again."""
    jobs = source.execute("SELECT seq FROM sqlite_sequence WHERE name = 'jobs'").fetchone()
    for table, column in driver.execute(_NUMBERED).fetchall():
        given = jobs[0] if jobs and table.rpartition(".")[2] == "jobs" else 0
        driver.execute(
            f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'),"
            f" greatest(%s, (SELECT max({column}) FROM {table}), 1))".encode(),
            (given,),
        )


def _continue_jobs(driver: Driver, target: sqlite3.Connection) -> None:
    found = driver.execute("SELECT last_value FROM jobs_pk_seq").fetchone()
    target.execute("DELETE FROM sqlite_sequence WHERE name = 'jobs'")
    target.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('jobs', ?)", (found[0] if found else 0,))
