"""What an add writes, by the drivers alone: the same rows, by the same statements, in a journal's own tables."""

import asyncio
import itertools
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Protocol

import psycopg
from load import Figures, figures, message
from small_servers import PRAGMAS

from recollect.domain.job import BOUNDARY, TRANSCRIBE
from recollect.domain.model import NewTurn
from recollect.infra.journal.connector import Connector
from recollect.infra.journal.postgres import PostgresConnector
from recollect.infra.journal.postgres_connection import in_postgres_words
from recollect.infra.journal.rows import QUEUE_JOBS, UNLESS_QUEUED
from recollect.infra.journal.sqlite import SqliteConnector
from recollect.infra.journal.turns import ADVANCE_THREAD, BUFFER_NEW_TURNS, INSERT_TURNS, turn_row

_INSERT_THREAD = "INSERT INTO threads (pk, space, thread_id, user_id, created, updated) VALUES (?, 'default', ?, 'me', 0, 0)"
_INSERT_TURN = f"{INSERT_TURNS} VALUES ({','.join('?' * 17)})"
_INSERT_JOBS = f"{QUEUE_JOBS} VALUES ({','.join('?' * 10)}), ({','.join('?' * 10)}) {UNLESS_QUEUED}"
_DIGEST = bytes(32)


class Driver(Protocol):
    def execute(self, sql: Any, parameters: Any = (), /) -> Any: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...


class Bare:
    """A journal's tables, and one connection or several that write into them."""

    def __init__(self, connect: Callable[[], Driver], words: Callable[[str], Any], at_once: int) -> None:
        self._connect, self._words, self._at_once = connect, words, at_once
        self._threads = itertools.count(1)

    def adds(self, clients: int, requests: int, *, grouped: bool) -> Figures:
        """Each client adds one message after another. Either each add has a commit of its own, by as many connections
        as the database lets write at once, or one commit holds an add of every client.
        """
        with ExitStack() as stack:
            connections = 1 if grouped else min(clients, self._at_once)
            drivers = [stack.enter_context(closing(self._connect())) for _ in range(connections)]
            threads = [next(self._threads) for _ in range(clients)]
            for thread in threads:
                drivers[0].execute(self._words(_INSERT_THREAD), (thread, f"bare-{thread}"))
            drivers[0].commit()
            started = time.perf_counter()
            if grouped:
                latencies = self._in_groups(drivers[0], threads, requests // clients)
            else:
                latencies = self._one_by_one(drivers, threads, requests // clients)
            return figures(latencies, time.perf_counter() - started)

    def _in_groups(self, driver: Driver, threads: list[int], each: int) -> list[float]:
        latencies = []
        for number in range(1, each + 1):
            begun = time.perf_counter()
            for thread in threads:
                self._add(driver, thread, number)
            driver.commit()
            latencies += [time.perf_counter() - begun] * len(threads)
        return latencies

    def _one_by_one(self, drivers: list[Driver], threads: list[int], each: int) -> list[float]:
        locks = [threading.Lock() for _ in drivers]

        def client(place: int) -> list[float]:
            driver, lock = drivers[place % len(drivers)], locks[place % len(drivers)]
            latencies = []
            for number in range(1, each + 1):
                begun = time.perf_counter()
                with lock:
                    self._add(driver, threads[place], number)
                    driver.commit()
                latencies.append(time.perf_counter() - begun)
            return latencies

        with ThreadPoolExecutor(len(threads)) as clients:
            return [seconds for found in clients.map(client, range(len(threads))) for seconds in found]

    def _add(self, driver: Driver, thread: int, number: int) -> None:
        given = message(number)
        turn = NewTurn(given["role"], given["content"], given["timestamp"], given["sender_id"])
        now, name = given["timestamp"], f"bare-{thread}"
        row = turn_row(thread, number, f"m_{name}_{number}", turn, None, now, _DIGEST)
        jobs = [
            (kind, f"{kind} {name}", "", "default", "me", name, None, "{}", now, now)
            for kind in (BOUNDARY, TRANSCRIBE)
        ]
        driver.execute(self._words(_INSERT_TURN), row)
        driver.execute(self._words(BUFFER_NEW_TURNS), ("default", name, thread, number - 1))
        driver.execute(self._words(ADVANCE_THREAD), (number, 1, 1, 0, now, now, thread))
        driver.execute(self._words(_INSERT_JOBS), [value for job in jobs for value in job])


def bare_sqlite(path: Path) -> Bare:
    """One connection at a time: SQLite has one writer."""

    def connect() -> Driver:
        driver = sqlite3.connect(path, check_same_thread=False)
        for pragma in PRAGMAS:
            driver.execute(f"PRAGMA {pragma}")
        return driver

    _make_tables(SqliteConnector(path))
    return Bare(connect, str, at_once=1)


def bare_postgres(url: str) -> Bare:
    _make_tables(PostgresConnector(url))
    return Bare(lambda: psycopg.connect(url), lambda sql: in_postgres_words(sql)[0], at_once=100)


def _make_tables(connector: Connector) -> None:
    async def make() -> None:
        await connector.open()
        await connector.close()

    asyncio.run(make())
