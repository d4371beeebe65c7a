"""One SQLite file: a single writer with group commit, and pooled readers that can only read.

Writes run on one thread, straight on the driver's connection: through the async stack every statement is a
hop between threads, which more than doubled the cost of an add. Writers that arrive while a commit is under
way share the next one, so `synchronous=FULL` costs one fsync per group and not per message.
"""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from recollect.errors import StorageUnavailable, Unavailable
from recollect.failpoints import FailPoints
from recollect.infra.journal.connection import Pending, Readers, SqliteConnection, WriteQueue, upgrade_schema
from recollect.infra.journal.connector import Connection, Parameters, Row

T = TypeVar("T")
P = ParamSpec("P")
Operation = Callable[[Connection], T]

_BUSY_MS = 5000
_log = logging.getLogger("recollect.journal")


class Database:
    """Opened once per process. `write` is durable when it returns; `read` sees every write before it."""

    def __init__(
        self, path: Path, *, synchronous: str = "FULL", fail_points: FailPoints | None = None
    ) -> None:
        self.path = path
        self._synchronous = synchronous
        self._fail_points = fail_points or FailPoints()
        self._waiting = WriteQueue()
        self._thread: threading.Thread | None = None
        self._connection: SqliteConnection | None = None
        self._readers: Readers | None = None
        self._last_failure: str | None = None
        self.groups = 0
        self.operations = 0

    async def open(self) -> None:
        await asyncio.to_thread(self._open_writer)
        self._readers = Readers(self.path, _BUSY_MS)
        self._waiting = WriteQueue()
        self._thread = threading.Thread(target=self._write_groups, name="journal-writer", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Finish the queued writes, checkpoint the write-ahead log, and close the file."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.close()
            await asyncio.to_thread(thread.join)
        readers, self._readers = self._readers, None
        if readers is not None:
            await asyncio.to_thread(readers.close)
        if self._connection is not None:
            await asyncio.to_thread(self._close_writer)

    def problem(self) -> str | None:
        """What kept the last write from being made, in words; None when it was made."""
        return self._last_failure if self._thread is not None else "the journal is closed"

    async def write(self, operation: Operation[T], *, urgent: bool = False) -> T:
        """Run `operation` in a transaction; it is committed and durable when this returns.

        An operation that raises is undone alone; its neighbours in the group are not affected. An urgent one goes
        ahead of others that wait, and never waits for more than one of them that has not begun.
        """
        return await self._submit(operation, urgent=urgent)

    async def execute(self, sql: str, parameters: Parameters = ()) -> int:
        """Write by one statement; returns how many rows it changed."""
        return await self.write(lambda connection: connection.run(sql, parameters))

    async def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Write by one statement, once for each row, in one transaction."""
        bound = list(rows)
        await self.write(lambda connection: connection.many(sql, bound))

    async def outside_transaction(self, operation: Callable[[SqliteConnection], T]) -> T:
        """Run `operation` on the writer, between two groups and outside any transaction."""
        return await self._submit(operation, alone=True)

    async def read(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """What one statement finds."""
        return await self._run_on_reader(lambda connection: connection.all(sql, parameters), snapshot=False)

    async def one(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """The first row that one statement finds."""
        return next(iter(await self.read(sql, parameters)), None)

    async def query(self, operation: Operation[T]) -> T:
        """Run `operation` on a connection that can only read; it sees one moment, and every write before it."""
        return await self._run_on_reader(operation, snapshot=True)

    async def _run_on_reader(self, operation: Operation[T], *, snapshot: bool) -> T:
        if self._readers is None:
            raise Unavailable("the journal is closed")
        try:
            return await self._readers.run(operation, snapshot=snapshot)
        except sqlite3.Error as error:
            raise _translated(error) from error

    async def _submit(
        self, operation: Callable[[SqliteConnection], T], *, alone: bool = False, urgent: bool = False
    ) -> T:
        if self._thread is None:
            raise Unavailable("the journal is closed")
        loop = asyncio.get_running_loop()
        pending = Pending(operation, loop.create_future(), loop, alone, urgent)
        self._waiting.put(pending)
        result: T = await pending.future
        return result

    def _open_writer(self) -> None:
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
            raise _translated(error) from error
        self._connection = connection

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

    def _write_groups(self) -> None:
        while (group := self._waiting.next_group()) is not None:
            if group[0].alone:
                self._run_outside(group[0])
            else:
                self._write_or_fail(group)

    def _write_or_fail(self, group: list[Pending]) -> None:
        """Whatever happens, everybody gets an answer and the writer lives on."""
        try:
            self._write_group(group)
        except Exception as error:  # noqa: BLE001 - raised where the callers wait
            _log.exception("unexpected error in the journal's writer")
            for pending in group:
                pending.error = pending.error or error
            _settle_soon(group)

    def _run_outside(self, pending: Pending) -> None:
        assert self._connection is not None
        try:
            pending.result = pending.operation(self._connection)
        except sqlite3.Error as error:
            pending.error = _translated(error)
        except Exception as error:  # noqa: BLE001 - raised where the caller waits
            pending.error = error
        _settle_soon([pending])

    def _write_group(self, group: list[Pending]) -> None:
        connection = self._connection
        assert connection is not None
        try:
            connection.execute("BEGIN IMMEDIATE")
            for place, pending in enumerate(group):
                if place and not pending.urgent and self._waiting.is_any_urgent():
                    self._waiting.put_back(group[place:])
                    del group[place:]
                    break
                if len(group) == 1:
                    _run_only(connection, pending)
                else:
                    _run_among_others(connection, pending)
            self._fail_points.reach("journal.in_transaction")
            if connection.in_transaction:
                connection.execute("COMMIT")
            self._fail_points.reach("journal.committed")
            self._last_failure = None
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            failure = _translated(error)
            if isinstance(failure, Unavailable):
                self._last_failure = failure.message
            for pending in group:
                pending.error = failure
        self.groups += 1
        self.operations += len(group)
        _settle_soon(group)


class _Store(Protocol):
    _database: Database


Store = TypeVar("Store", bound=_Store)
Method = Callable[Concatenate[Store, Connection, P], T]
AsyncMethod = Callable[Concatenate[Store, P], Coroutine[Any, Any, T]]


def write_transaction(method: Method[Store, P, T]) -> AsyncMethod[Store, P, T]:
    """Makes a store's method awaitable: it runs in `Database.write`, which gives it the connection."""

    @wraps(method)
    async def run(store: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store._database.write(lambda connection: method(store, connection, *args, **kwargs))  # noqa: SLF001

    return run


def read_transaction(method: Method[Store, P, T]) -> AsyncMethod[Store, P, T]:
    """Makes a store's method awaitable: it runs in `Database.query`, which gives it the connection."""

    @wraps(method)
    async def run(store: Store, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store._database.query(lambda connection: method(store, connection, *args, **kwargs))  # noqa: SLF001

    return run


def _run_only(connection: SqliteConnection, pending: Pending) -> None:
    try:
        pending.result = pending.operation(connection)
    except sqlite3.Error:
        raise
    except Exception as error:  # noqa: BLE001 - raised where the caller waits
        connection.execute("ROLLBACK")
        pending.error = error


def _run_among_others(connection: SqliteConnection, pending: Pending) -> None:
    connection.execute("SAVEPOINT operation")
    try:
        pending.result = pending.operation(connection)
    except Exception as error:
        if not connection.in_transaction:
            raise  # SQLite has undone the whole group, as it does when the disk is full.
        pending.error = _translated(error) if isinstance(error, sqlite3.Error) else error
        connection.execute("ROLLBACK TO operation")
    connection.execute("RELEASE operation")


def _settle_soon(group: list[Pending]) -> None:
    loop = group[0].loop
    if not loop.is_closed():
        loop.call_soon_threadsafe(_settle, group)


def _settle(group: list[Pending]) -> None:
    for pending in group:
        if pending.future.cancelled():
            continue
        if pending.error is None:
            pending.future.set_result(pending.result)
        else:
            pending.future.set_exception(pending.error)


_DISK = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_IOERR: "the disk fails",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
}
_HELD = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def _translated(error: sqlite3.Error) -> Exception:
    """What an operator can mend, in words; what is our own mistake, as it is."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _DISK:
        return StorageUnavailable(
            f"the journal cannot be written: {_DISK[code]}. Free some space or make it writable."
        )
    if code in _HELD:
        return Unavailable("the journal is held by another program; close it and try again")
    if code in _DAMAGED:
        return StorageUnavailable(
            "the journal is damaged. Stop the server and run 'recollect rebuild' to restore it."
        )
    return error
