"""Opening the SQLite file: read-only connections, and the schema brought up to date."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection

from recollect.errors import SchemaTooNew, SchemaTooOld

T = TypeVar("T")
_AT_ONCE = 4


class Readers:
    """What is asked runs as a whole on one of the threads: a question of several statements costs one hop."""

    def __init__(self, path: Path, busy_ms: int) -> None:
        self._path = path
        self._busy_ms = busy_ms
        self._own = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="journal-reader")

    async def run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """What `operation` returns; all of its statements see the journal as it is at one moment."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, operation)

    async def run_one(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """For an operation of one statement: it is at one moment by itself."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run_one, operation)

    def close(self) -> None:
        """Waits for what is being read."""
        self._threads.shutdown()
        for connection in self._connections:
            connection.close()

    def _run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._connection()
        connection.execute("BEGIN")
        try:
            return operation(connection)
        finally:
            if connection.in_transaction:  # A failing disk ends it itself, and its error must not be hidden.
                connection.execute("ROLLBACK")

    def _run_one(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        return operation(self._connection())

    def _connection(self) -> sqlite3.Connection:
        known: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if known is not None:
            return known
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._connections.append(connection)
        for pragma in (f"busy_timeout = {self._busy_ms}", "query_only = ON"):
            connection.execute(f"PRAGMA {pragma}")
        # SQLite's own lower() knows the letters of English alone.
        connection.create_function("casefold", 1, _casefolded, deterministic=True)
        self._own.connection = connection
        return connection


def _casefolded(text: str | None) -> str | None:
    return None if text is None else text.casefold()


HEAD = "0014"
"""The newest revision under migrations/versions; a test holds the two against each other."""
OLDEST = "0014"
"""The first revision under migrations/versions: a journal of an older one has no way up."""


def upgrade_schema(connection: Connection) -> bool:
    """Upgrade within the caller's transaction. True when anything changed.

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
            "Start the last version before the schema was squashed once; "
            f"it upgrades the journal to {OLDEST}."
        )
    _run_alembic(connection)
    return True


def current_revision(connection: Connection) -> str | None:
    table = connection.exec_driver_sql(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"
    ).first()
    if table is None:
        return None
    revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return None if revision is None else str(revision)


def _run_alembic(connection: Connection) -> None:
    # Imported here: a start with a current schema needs none of it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)


def migrations_folder() -> Path:
    return Path(str(resources.files("recollect.infra.journal") / "migrations"))
