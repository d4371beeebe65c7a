"""The journal in one SQLite file: the connection that writes, and readers."""

import asyncio
import logging
import shutil
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from recollect.domain.forgetting import Looked
from recollect.errors import Unavailable
from recollect.failpoints import FailPoints
from recollect.infra.journal.connection import (
    SqliteConnection,
    copy_journal,
    remains,
    remove_log,
    translated,
    upgrade_schema,
)
from recollect.infra.journal.connector import Connection, Operation
from recollect.infra.journal.group_commit import GroupCommit, Outcome, Pending

T = TypeVar("T")
_AT_ONCE = 4
_BUSY_MS = 5000
_log = logging.getLogger("recollect.journal")


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


class SqliteTransactions:
    """The connection that writes. An error ends the transaction, and nothing of it is kept."""

    errors: type[Exception] = sqlite3.Error

    def __init__(self, connection: SqliteConnection) -> None:
        self.connection = connection

    def begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.connection.execute("COMMIT")

    def roll_back(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def is_open(self) -> bool:
        return self.connection.in_transaction

    def mark(self) -> None:
        self.connection.execute("SAVEPOINT operation")

    def release(self) -> None:
        self.connection.execute("RELEASE operation")

    def undo(self) -> None:
        self.connection.execute("ROLLBACK TO operation")

    def translated(self, error: Exception) -> Exception:
        return translated(error)

    def settle(self, error: Exception, group: list[Pending]) -> Outcome:
        self.roll_back()
        return Outcome.UNDONE


class SqliteConnector:
    """Opened once per process: a single writer with group commit, and readers that can only read.

    Writes run on one thread, straight on the driver's connection. Writers that arrive while a commit is under way share
    the next one, so `synchronous=FULL` costs one fsync per group and not per message.
    """

    def __init__(
        self, path: Path, *, synchronous: str = "FULL", fail_points: FailPoints | None = None
    ) -> None:
        self.path = path
        self.name = str(path)
        self.engine = f"SQLite {path}"
        self._synchronous = synchronous
        self._commits = GroupCommit(fail_points)
        self._connection: SqliteConnection | None = None
        self._readers: Readers | None = None

    @property
    def groups(self) -> int:
        return self._commits.groups

    @property
    def operations(self) -> int:
        return self._commits.operations

    async def exists(self) -> bool:
        return await asyncio.to_thread(self.path.exists)

    async def open(self) -> None:
        connection = await asyncio.to_thread(self._open_writer)
        self._readers = Readers(self.path, _BUSY_MS)
        self._commits.start(SqliteTransactions(connection))

    async def close(self) -> None:
        await self._commits.stop()
        readers, self._readers = self._readers, None
        if readers is not None:
            await asyncio.to_thread(readers.close)
        if self._connection is not None:
            await asyncio.to_thread(self._close_writer)

    def problem(self) -> str | None:
        return self._commits.problem()

    async def write(self, operation: Operation[T], *, urgent: bool = False) -> T:
        return await self._commits.submit(operation, urgent=urgent)

    async def outside_transaction(self, operation: Callable[[SqliteConnection], T]) -> T:
        """Run `operation` on the writer, between two groups and outside any transaction."""
        return await self._commits.submit(operation, alone=True)

    async def read(self, operation: Operation[T], *, snapshot: bool = True) -> T:
        if self._readers is None:
            raise Unavailable("the journal is closed")
        try:
            return await self._readers.run(operation, snapshot=snapshot)
        except sqlite3.Error as error:
            raise translated(error) from error

    async def copy_to(self, file: Path) -> None:
        await asyncio.to_thread(copy_journal, self.path, file)

    async def take(self, file: Path, *, replaces: bool = False) -> None:
        def move() -> None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            remove_log(self.path)  # It must not be taken for that of the new one.
            shutil.move(file, self.path)
            remove_log(file)

        await asyncio.to_thread(move)

    async def damage(self) -> list[str]:
        def check(connection: Connection) -> list[str]:
            found = [str(told) for (told,) in connection.all("PRAGMA quick_check(5)") if told != "ok"]
            keys = connection.all("PRAGMA foreign_key_check")
            return found + [f"a row of {row['table']} refers to nothing" for row in keys]

        return await self.read(check)

    async def overwrite(self) -> None:
        """SQLite overwrites the cells that are freed, but not the copies of them that are left in a page when it is
        split or merged with its neighbour. Only writing every page again does.
        """
        await self.outside_transaction(lambda connection: connection.run("VACUUM"))

    async def fold_log(self) -> None:
        fold = "PRAGMA wal_checkpoint(TRUNCATE)"
        busy, *_ = await self.outside_transaction(lambda connection: connection.one(fold))
        if busy:
            raise Unavailable("somebody is reading the journal; its log is emptied when they are done")

    async def remains(self) -> list[Looked]:
        return await self.outside_transaction(remains)

    def _open_writer(self) -> SqliteConnection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            connection = sqlite3.connect(
                self.path,
                isolation_level=None,
                check_same_thread=False,
                timeout=_BUSY_MS / 1000,
                factory=SqliteConnection,
            )
            try:
                self._prepare_writer(connection)
                upgrade_schema(connection)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise translated(error) from error
        self._connection = connection
        return connection

    def _close_writer(self) -> None:
        assert self._connection is not None
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            _log.warning("could not checkpoint the write-ahead log: %s; the next start does it", error)
        self._connection.close()
        self._connection = None

    def _prepare_writer(self, connection: SqliteConnection) -> None:
        for pragma in (
            "journal_mode = WAL",
            f"synchronous = {self._synchronous}",
            f"busy_timeout = {_BUSY_MS}",
            "foreign_keys = ON",
            "secure_delete = ON",
            f"journal_size_limit = {64 * 1024 * 1024}",
            "wal_autocheckpoint = 4000",
            "cache_size = -16000",
        ):
            connection.execute(f"PRAGMA {pragma}")
