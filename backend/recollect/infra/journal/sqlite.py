"""The journal in one SQLite file: group commit, urgent writes, readers, and errors in words."""

import asyncio
import logging
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from recollect.domain.forgetting import Looked
from recollect.errors import Unavailable
from recollect.failpoints import FailPoints
from recollect.infra.journal.connection import SqliteConnection, remains, translated, upgrade_schema
from recollect.infra.journal.connector import Connection, Operation

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


GROUP_LIMIT = 256


@dataclass(slots=True)
class Pending:
    """An operation that waits, and then what came of it."""

    operation: Callable[[SqliteConnection], Any]
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


class SqliteConnector:
    """Opened once per process: a single writer with group commit, and readers that can only read.

    Writes run on one thread, straight on the driver's connection. Writers that arrive while a commit is under way share
    the next one, so `synchronous=FULL` costs one fsync per group and not per message.
    """

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

    async def outside_transaction(self, operation: Callable[[SqliteConnection], T]) -> T:
        """Run `operation` on the writer, between two groups and outside any transaction."""
        return await self._submit(operation, alone=True)

    async def read(self, operation: Operation[T], *, snapshot: bool = True) -> T:
        if self._readers is None:
            raise Unavailable("the journal is closed")
        try:
            return await self._readers.run(operation, snapshot=snapshot)
        except sqlite3.Error as error:
            raise translated(error) from error

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
            raise translated(error) from error
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
            pending.error = translated(error)
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
            failure = translated(error)
            if isinstance(failure, Unavailable):
                self._last_failure = failure.message
            for pending in group:
                pending.error = failure
        self.groups += 1
        self.operations += len(group)
        _settle_soon(group)


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
        pending.error = translated(error) if isinstance(error, sqlite3.Error) else error
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
