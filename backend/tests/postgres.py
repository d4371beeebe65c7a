"""A real PostgreSQL of the tests' own: Debian's, in a temporary folder, as an ordinary user, ended by its pid."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from recollect.infra.journal.connector import Connection, Operation
from recollect.infra.journal.database import Database
from recollect.infra.journal.postgres import PostgresConnector
from tests.cut_line import CutLine

PROGRAMS = max(
    Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), default=None
)
NEEDED = "there is no PostgreSQL in /usr/lib/postgresql: apt-get install postgresql"
OWNER = "recollect"
"""Owns the databases, and is no superuser."""


class Cluster:
    """One server, which can be killed and started again. `url` gives each name a schema of its own."""

    def __init__(self, *settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="recollect-postgres-"))
        self._whose: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
        if self._whose:
            shutil.chown(self.folder, **self._whose)
        self.port = free_port()
        self._settings = (*settings, f"unix_socket_directories={self.folder}", "listen_addresses=127.0.0.1")
        self._server: subprocess.Popen[bytes] | None = None
        self._known: set[str] = set()
        login = ("--auth-local=trust", "--auth-host=scram-sha-256", "-U", "postgres")
        # Where words are in another order than their bytes.
        language = ("--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US", "-E", "UTF8")
        self._run("initdb", "-D", self.folder / "data", *login, *language, "-N")
        self.start()
        with self.operator() as driver:
            driver.execute(f"CREATE ROLE {OWNER} LOGIN PASSWORD 'hunter2'")
            driver.execute(f"CREATE DATABASE journals OWNER {OWNER}")

    def start(self) -> None:
        """Until it takes connections."""
        options: list[str] = [word for setting in self._settings for word in ("-c", setting)]
        self._server = subprocess.Popen(
            [_programs() / "postgres", "-D", self.folder / "data", "-p", str(self.port), *options],
            **self._quiet,
        )
        ready = (self.folder / "data" / "postmaster.pid", "ready")
        while not (ready[0].is_file() and ready[1] in ready[0].read_text(encoding="utf-8")):
            assert self._server.poll() is None, "PostgreSQL ended at its start"
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends it as `pg_ctl stop -m fast` does, SIGQUIT as `-m immediate`, and SIGKILL with no word."""
        assert self._server is not None
        children = _children(self._server.pid) if how is signal.SIGKILL else []
        self._server.send_signal(how)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, how)
        self._server.wait(60)

    def remove(self) -> None:
        if self._server is not None and self._server.poll() is None:
            self.stop()
        shutil.rmtree(self.folder)

    def operator(self) -> psycopg.Connection[Any]:
        """As the superuser, to look behind the journal."""
        connected: psycopg.Connection[Any] = psycopg.connect(
            host=str(self.folder), port=self.port, user="postgres", dbname="postgres", autocommit=True
        )
        return connected

    def inside(self, url: str) -> psycopg.Connection[Any]:
        """A connection of its own to a journal."""
        connected: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        return connected

    def url(self, name: str, *, loopback: bool = False) -> str:
        """Of a journal of its own: a schema, empty when its name comes for the first time."""
        schema = "j_" + re.sub(r"\W", "_", name)[-50:].lower()
        host = "127.0.0.1" if loopback else quote(str(self.folder), safe="")
        database = f"postgresql://{OWNER}:hunter2@{host}:{self.port}/journals"
        if schema not in self._known:
            with self.inside(database) as driver:
                driver.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}".encode())
            self._known.add(schema)
        return f"{database}?options=-csearch_path%3D{schema}"

    @property
    def _quiet(self) -> dict[str, Any]:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        return {"cwd": self.folder, **quiet, **self._whose}

    def _run(self, program: str, *arguments: str | Path) -> None:
        subprocess.run([_programs() / program, *arguments], check=True, **self._quiet)


def _programs() -> Path:
    assert PROGRAMS is not None
    return PROGRAMS


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def _children(pid: int) -> list[int]:
    told = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return [int(child) for child in told.split()]


_CLUSTERS: list[Cluster] = []


def cluster_of_session() -> Cluster:
    """One for all tests of this process: started for the first that needs it, ended with the session."""
    if PROGRAMS is None:
        if os.environ.get("CI"):
            pytest.fail(NEEDED)
        pytest.skip(NEEDED)
    if not _CLUSTERS:
        _CLUSTERS.append(Cluster("fsync=off", "max_connections=200"))
    return _CLUSTERS[0]


def end_clusters() -> None:
    while _CLUSTERS:
        _CLUSTERS.pop().remove()


@contextlib.contextmanager
def own_cluster(*settings: str) -> Iterator[Cluster]:
    """For a test that kills it."""
    if PROGRAMS is None:
        cluster_of_session()
    cluster = Cluster(*settings)
    try:
        yield cluster
    finally:
        cluster.remove()


def journal_of(path: Path) -> PostgresConnector:
    """The journal that stands for a file: `--deployment=cluster` gives it to the stores."""
    return PostgresConnector(cluster_of_session().url(str(path)))


TABLE = "CREATE TABLE words (word TEXT NOT NULL CHECK (word != 'bad'))"


@contextlib.asynccontextmanager
async def opened(url: str, wait_seconds: float = 30.0) -> AsyncIterator[Database]:
    database = Database(PostgresConnector(url, wait_seconds=wait_seconds))
    await database.open()
    try:
        yield database
    finally:
        await database.close()


def insert(word: str, then: Exception | None = None) -> Operation[str]:
    def operation(connection: Connection) -> str:
        connection.run("INSERT INTO words VALUES (?)", (word,))
        if then is not None:
            raise then
        return word

    return operation


async def words(database: Database) -> Counter[str]:
    return Counter(row["word"] for row in await database.read("SELECT word FROM words"))


def through(line: CutLine, url: str, cluster: Cluster) -> str:
    return url.replace(f":{cluster.port}/", f":{line.port}/")
