"""The SQLite file: read-only connections, the queue of its writer, and the schema brought up to date."""

import asyncio
import os
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from recollect.errors import SchemaTooNew, SchemaTooOld
from recollect.infra.journal.connector import Connection, Parameters, Row

T = TypeVar("T")
_AT_ONCE = 4


class SqliteConnection(sqlite3.Connection):
    """Can hold what its transactions look up without a query."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row_factory = sqlite3.Row

    def run(self, sql: str, parameters: Parameters = (), /) -> int:
        return self.execute(sql, parameters).rowcount

    def many(self, sql: str, rows: Iterable[Row | Sequence[Any]], /) -> None:
        self.executemany(sql, rows)

    def one(self, sql: str, parameters: Parameters = (), /) -> Any:
        return self.execute(sql, parameters).fetchone()

    def all(self, sql: str, parameters: Parameters = (), /) -> list[Row]:
        return self.execute(sql, parameters).fetchall()


class Readers:
    """What is asked runs as a whole on one of the threads: a question of several statements costs one hop."""

    def __init__(self, path: Path, busy_ms: int) -> None:
        self._path = path
        self._busy_ms = busy_ms
        self._own = threading.local()
        self._connections: list[SqliteConnection] = []
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="journal-reader")

    async def run(self, operation: Callable[[Connection], T], *, snapshot: bool) -> T:
        """What `operation` returns. With `snapshot` all of its statements see the journal as it is at one moment.

        An operation of one statement needs none.
        """
        run = self._run_in_snapshot if snapshot else self._run
        return await asyncio.get_running_loop().run_in_executor(self._threads, run, operation)

    def close(self) -> None:
        """Waits for what is being read."""
        self._threads.shutdown()
        for connection in self._connections:
            connection.close()

    def _run(self, operation: Callable[[Connection], T]) -> T:
        return operation(self._connection())

    def _run_in_snapshot(self, operation: Callable[[Connection], T]) -> T:
        connection = self._connection()
        connection.execute("BEGIN")
        try:
            return operation(connection)
        finally:
            if connection.in_transaction:  # A failing disk ends it itself, and its error must not be hidden.
                connection.execute("ROLLBACK")

    def _connection(self) -> SqliteConnection:
        known: SqliteConnection | None = getattr(self._own, "connection", None)
        if known is not None:
            return known
        connection = sqlite3.connect(
            self._path, isolation_level=None, check_same_thread=False, factory=SqliteConnection
        )
        self._connections.append(connection)
        for pragma in (f"busy_timeout = {self._busy_ms}", "query_only = ON"):
            connection.execute(f"PRAGMA {pragma}")
        # SQLite's own lower() knows the letters of English alone.
        connection.create_function("casefold", 1, _casefolded, deterministic=True)
        self._own.connection = connection
        return connection


def _casefolded(text: str | None) -> str | None:
    return None if text is None else text.casefold()


GROUP_LIMIT = 256


@dataclass(slots=True)
class Pending:
    """An operation that waits, and then what came of it."""

    operation: Callable[["SqliteConnection"], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    alone: bool = False
    """It runs between two groups, outside any transaction."""
    urgent: bool = False
    result: Any = None
    error: BaseException | None = None


class WriteQueue:
    """Urgent operations and others, each in the order of their arrival, and by turns while both wait.

    Any thread puts in; one thread takes out.
    """

    def __init__(self) -> None:
        self._arrived: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._urgent: deque[Pending] = deque()
        self._others: deque[Pending] = deque()
        self._were_others_last = True
        self._is_closed = False

    def put(self, pending: Pending) -> None:
        self._arrived.put(pending)

    def close(self) -> None:
        """What is in it is still taken out."""
        self._arrived.put(None)

    def next_group(self) -> list[Pending] | None:
        """Waits for one; None where none will come any more."""
        self._sort_arrived()
        while not self._urgent and not self._others:
            if self._is_closed:
                return None
            self._sort(self._arrived.get())
            self._sort_arrived()
        if self._urgent and (self._were_others_last or not self._others):
            self._were_others_last = False
            return _taken(self._urgent)
        self._were_others_last = True
        return [self._others.popleft()] if self._others[0].alone else _taken(self._others)

    def is_any_urgent(self) -> bool:
        self._sort_arrived()
        return bool(self._urgent)

    def put_back(self, rest: Sequence[Pending]) -> None:
        """Of a group of others, which is ended before its end."""
        self._others.extendleft(reversed(rest))

    def _sort_arrived(self) -> None:
        while not self._arrived.empty():
            self._sort(self._arrived.get())

    def _sort(self, pending: Pending | None) -> None:
        if pending is None:
            self._is_closed = True
        else:
            (self._urgent if pending.urgent else self._others).append(pending)


def _taken(waiting: deque[Pending]) -> list[Pending]:
    group: list[Pending] = []
    while waiting and not waiting[0].alone and len(group) < GROUP_LIMIT:
        group.append(waiting.popleft())
    return group


def copy_journal(path: Path, to: Path) -> None:
    """SQLite's own online backup, on connections of its own; durable when it returns."""
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
    with to.open("rb") as copied:
        os.fsync(copied.fileno())


HEAD = "0028"
"""The newest revision under migrations/versions; a test holds the two against each other."""
OLDEST = "0026"
"""The first revision under migrations/versions: a journal of an older one has no way up."""


def upgrade_schema(connection: sqlite3.Connection) -> bool:
    """Upgrade in one transaction. True when anything changed.

    Raises SchemaTooNew or SchemaTooOld, and changes nothing, where no migration leads from the schema to HEAD.
    """
    current = current_revision(connection)
    if current == HEAD:
        return False
    if current is not None and current > HEAD:
        raise SchemaTooNew(
            f"the journal has schema {current}; this version of Recollect knows schemas up to {HEAD}. "
            "Install the newer Recollect that wrote it, or restore a backup from before the upgrade."
        )
    if current is not None and current < OLDEST:
        raise SchemaTooOld(
            f"the journal has schema {current}; this version of Recollect knows schemas from {OLDEST} on. "
            f"Start commit 3a761b78 of Recollect on this home once: it upgrades the journal to {OLDEST}."
        )
    _run_alembic(connection)
    return True


def current_revision(connection: sqlite3.Connection) -> str | None:
    table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"
    if connection.execute(table).fetchone() is None:
        return None
    found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if found is None else str(found[0])


def _run_alembic(driver: sqlite3.Connection) -> None:
    # Imported here: a start with a current schema needs none of it.
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import StaticPool, create_engine
    from sqlalchemy.exc import DBAPIError

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    engine = create_engine("sqlite://", creator=lambda: driver, poolclass=StaticPool)
    # Before the transaction, in which this has no effect: a table that is made again takes nothing with it.
    (enforced,) = driver.execute("PRAGMA foreign_keys").fetchone()
    driver.execute("PRAGMA foreign_keys = OFF")
    try:
        with engine.connect() as connection:
            config.attributes["connection"] = connection
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            command.upgrade(config, HEAD)
            connection.exec_driver_sql("COMMIT")
    except DBAPIError as error:
        raise error.orig or error from error
    finally:
        driver.execute(f"PRAGMA foreign_keys = {enforced}")


def migrations_folder() -> Path:
    return Path(str(resources.files("recollect.infra.journal") / "migrations"))
