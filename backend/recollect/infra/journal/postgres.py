"""The journal in PostgreSQL: one connection writes, a few read, and a restart of the database costs retries alone."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from recollect.domain.forgetting import Looked
from recollect.errors import Unavailable
from recollect.failpoints import FailPoints
from recollect.infra.journal.connector import Leader, Operation
from recollect.infra.journal.group_commit import GroupCommit
from recollect.infra.journal.moving import copy_to_file, fill_postgres
from recollect.infra.journal.postgres_connection import (
    UNDER_WAY,
    Driver,
    PostgresConnection,
    connected,
    is_lost,
    parsed,
    translated,
)
from recollect.infra.journal.postgres_schema import current_revision, holds_rows
from recollect.infra.journal.postgres_writer import PostgresTransactions, wait_for

T = TypeVar("T")
_READERS = 4
_LONGEST_READ = 600.0
_LAST_SECONDS = 5.0
"""For what is still being read when the journal is closed."""
_VACUUM_WAITS = "1s"
"""So long writes and reads wait for who reads a table that is written again."""
_TABLES = "SELECT format('%I', tablename) FROM pg_tables WHERE schemaname = current_schema() ORDER BY 1"


class PostgresReaders:
    """What is asked runs as a whole on one of the threads, each of which has a connection of its own."""

    def __init__(self, url: str, name: str, *, wait_seconds: float) -> None:
        self._url = url
        self._name = name
        self._wait_seconds = wait_seconds
        self._own = threading.local()
        self._drivers: set[Driver] = set()
        self._is_away = False
        self._threads = ThreadPoolExecutor(_READERS, thread_name_prefix="journal-reader")

    async def run(self, operation: Operation[T], *, snapshot: bool) -> T:
        """What `operation` returns. Where the connection broke, it is asked once more, as soon as there is another."""
        loop, until = asyncio.get_running_loop(), time.monotonic() + self._wait_seconds
        return await loop.run_in_executor(self._threads, self._run, operation, snapshot, until)

    def close(self) -> None:
        """Waits for what is being read, where it is soon done."""
        for driver in self._drivers:
            driver.patience = _LAST_SECONDS
        self._threads.shutdown()
        for driver in self._drivers:
            driver.close()

    def _run(self, operation: Operation[T], snapshot: bool, until: float) -> T:
        driver: Driver | None = getattr(self._own, "driver", None)
        if driver is not None:
            try:
                return _read(driver, operation, snapshot)
            except psycopg.Error as error:
                if not is_lost(driver, error):
                    raise
            self._own.driver = None
            driver.close()
            self._drivers.discard(driver)
        level = logging.INFO if self._is_away else logging.WARNING  # Many wait; one of them says so.
        self._is_away = True
        wait_for(self._connect, self._name, until, level=level)
        return _read(self._own.driver, operation, snapshot)

    def _connect(self) -> None:
        read_only = "SET default_transaction_read_only = on"
        driver = connected(self._url, self._name, application="recollect reader", settings=read_only)
        driver.patience = _LONGEST_READ
        self._own.driver = driver
        self._drivers.add(driver)
        self._is_away = False


def _read(driver: Driver, operation: Operation[T], snapshot: bool) -> T:
    connection = PostgresConnection(driver, {})
    if not snapshot:
        return operation(connection)
    driver.execute(b"BEGIN ISOLATION LEVEL REPEATABLE READ", prepare=False)
    try:
        return operation(connection)
    finally:
        if (
            driver.info.transaction_status in UNDER_WAY
        ):  # Its error must not be hidden by that of a broken connection.
            driver.execute(b"ROLLBACK", prepare=False)


class PostgresConnector:
    """Opened once per process. A second server on the same journal is refused, as a second one in a home is.

    `leader` is what the others are told of this process, where there may be others.

    While PostgreSQL is away, writes and reads wait for `wait_seconds`; then they raise Unavailable. What was written
    is kept once, whatever the moment at which the connection broke.
    """

    def __init__(
        self,
        url: str,
        *,
        durable: bool = True,
        wait_seconds: float = 20.0,
        fail_points: FailPoints | None = None,
        leader: Leader | None = None,
    ) -> None:
        self._url = url
        self._leader = leader
        self.name = name_of(url)
        self.engine = f"PostgreSQL {_place(parsed(url))}"
        self._durable = durable
        self._wait_seconds = wait_seconds
        self._commits = GroupCommit(fail_points)
        self._transactions: PostgresTransactions | None = None
        self._readers: PostgresReaders | None = None

    @property
    def groups(self) -> int:
        return self._commits.groups

    @property
    def operations(self) -> int:
        return self._commits.operations

    async def exists(self) -> bool:
        """A schema without a row is none: what was to fill it may have been killed."""

        def look() -> bool:
            drivers: list[Driver] = []

            def connect() -> None:
                drivers.append(connected(self._url, self.name, application="recollect", is_start=True))

            wait_for(connect, self.name, time.monotonic() + self._wait_seconds)
            with drivers[0] as driver:
                return current_revision(driver) is not None and holds_rows(driver)

        try:
            return await asyncio.to_thread(look)
        except psycopg.Error as error:
            raise translated(error, self.name) from error

    async def open(self) -> None:
        transactions = PostgresTransactions(
            self._url,
            self.name,
            durable=self._durable,
            wait_seconds=self._wait_seconds,
            leader=self._leader,
        )
        opening = asyncio.ensure_future(asyncio.to_thread(transactions.open))
        try:
            await asyncio.shield(opening)
        except psycopg.Error as error:
            raise translated(error, self.name) from error
        except asyncio.CancelledError:
            await asyncio.gather(opening, return_exceptions=True)
            if opening.exception() is None:
                await asyncio.to_thread(transactions.close)
            raise
        self._transactions = transactions
        self._readers = PostgresReaders(self._url, self.name, wait_seconds=self._wait_seconds)
        self._commits.start(transactions)

    async def close(self) -> None:
        if self._transactions is not None:
            self._transactions.hurry()
        await self._commits.stop()
        readers, self._readers = self._readers, None
        if readers is not None:
            await asyncio.to_thread(readers.close)
        transactions, self._transactions = self._transactions, None
        if transactions is not None:
            await asyncio.to_thread(transactions.close)

    def problem(self) -> str | None:
        return self._commits.problem()

    async def write(self, operation: Operation[T], *, urgent: bool = False) -> T:
        return await self._commits.submit(operation, urgent=urgent)

    async def outside_transaction(self, operation: Callable[[PostgresConnection], T]) -> T:
        """Run `operation` on the writer, between two groups and outside any transaction."""
        return await self._commits.submit(operation, alone=True)

    async def read(self, operation: Operation[T], *, snapshot: bool = True) -> T:
        if self._readers is None:
            raise Unavailable("the journal is closed")
        try:
            return await self._readers.run(operation, snapshot=snapshot)
        except psycopg.Error as error:
            raise translated(error, self.name) from error

    async def copy_to(self, file: Path) -> None:
        await copy_to_file(self, file, lambda done, total: None)

    async def take(self, file: Path, *, replaces: bool = False) -> None:
        await fill_postgres(file, self, lambda done, total: None, replaces=replaces)
        await asyncio.to_thread(file.unlink)

    async def damage(self) -> list[str]:
        """PostgreSQL checks references itself, and tells of broken pages when it reads them."""
        return []

    async def overwrite(self) -> None:
        """Every table is written again, without what was deleted; the old files go with the next checkpoint.

        Raises Unavailable while somebody reads one of them for long: everybody else would wait behind it.
        """

        def rewrite(connection: PostgresConnection) -> None:
            (usual,) = connection.one("SELECT current_setting('lock_timeout')")
            connection.run(f"SET lock_timeout = '{_VACUUM_WAITS}'")
            try:
                for (table,) in connection.all(_TABLES):
                    connection.driver.execute(f"VACUUM FULL {table}".encode(), prepare=False)
            except psycopg.errors.LockNotAvailable as error:
                told = "somebody is reading the journal; it is written again when they are done"
                raise Unavailable(told) from error
            finally:
                if not connection.driver.closed:
                    connection.run(f"SET lock_timeout = '{usual}'")

        await self.outside_transaction(rewrite)

    async def fold_log(self) -> None:
        """The log is the server's: it is recycled as `max_wal_size` and the archiving that was set up have it."""

    async def remains(self) -> list[Looked]:
        """What the server keeps beside the tables, its log and backups of it, is its operator's."""
        return []


def name_of(url: str) -> str:
    """An address without its password. Raises HomeUnusable where it is none."""
    parts = parsed(url)
    user = f"{parts['user']}@" if parts.get("user") else ""
    return f"postgresql://{user}{_place(parts)}"


def _place(parts: dict[str, Any]) -> str:
    port = f":{parts['port']}" if parts.get("port") else ""
    host = parts.get("host") or parts.get("hostaddr") or "localhost"
    return f"{host}{port}/{parts.get('dbname') or ''}"
