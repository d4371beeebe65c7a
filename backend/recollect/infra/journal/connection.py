"""The journal's SQLite file: a connection, its errors, its schema, its copy, and what deleted rows leave in it."""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any

from recollect.domain.forgetting import Looked
from recollect.errors import SchemaTooNew, SchemaTooOld, StorageUnavailable, Unavailable
from recollect.infra.journal.connector import Parameters, Row


class SqliteConnection(sqlite3.Connection):
    """One of the writer's, or of a reader's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.row_factory = sqlite3.Row
        self.kept: dict[str, Any] = {}

    def run(self, sql: str, parameters: Parameters = (), /) -> int:
        return self.execute(sql, parameters).rowcount

    def many(self, sql: str, rows: Iterable[Row | Sequence[Any]], /) -> None:
        self.executemany(sql, rows)

    def one(self, sql: str, parameters: Parameters = (), /) -> Any:
        return self.execute(sql, parameters).fetchone()

    def all(self, sql: str, parameters: Parameters = (), /) -> list[Row]:
        return self.execute(sql, parameters).fetchall()


_DISK = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_IOERR: "the disk fails",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
}
_HELD = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def translated(error: Exception) -> Exception:
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


def copy_journal(path: Path, to: Path) -> None:
    """SQLite's own online backup, on connections of its own; durable when it returns."""
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
    with to.open("rb") as copied:
        os.fsync(copied.fileno())


def remove_log(path: Path) -> None:
    """What SQLite keeps beside a closed journal, if it was killed."""
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


HEAD = "0033"
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


_MOST_BYTES = 1 << 30
"""A larger journal is not read into memory."""


def remains(connection: SqliteConnection) -> list[Looked]:
    """Whether the log is folded in, and the pages that are free hold nothing but zeros."""
    (overwrites,) = connection.one("PRAGMA secure_delete")
    busy, frames, _ = connection.one("PRAGMA wal_checkpoint(TRUNCATE)")
    looked = [
        Looked("deleted rows overwritten (secure_delete)", 1, int(overwrites != 1)),
        Looked("log folded into the journal", 1, int(bool(busy) or frames > 0)),
    ]
    (pages,) = connection.one("PRAGMA page_count")
    (size,) = connection.one("PRAGMA page_size")
    if pages * size <= _MOST_BYTES:
        free = list(free_pages(connection.serialize(), size))
        looked.append(Looked("free pages of the journal", len(free), sum(any(page) for page in free)))
    return looked


def free_pages(image: bytes, size: int) -> Iterator[bytes]:
    """What stands on the pages of SQLite's free list, but for the list itself and the numbers of pages it had."""
    pages = len(image) // size

    def number(place: int) -> int:
        return int.from_bytes(image[place : place + 4], "big")

    trunk = number(32)
    while trunk:
        start = (trunk - 1) * size
        count = number(start + 4)
        words = range(start + 8 + 4 * count, start + size, 4)
        yield b"".join(image[place : place + 4] for place in words if number(place) > pages)
        for leaf in range(count):
            page = (number(start + 8 + 4 * leaf) - 1) * size
            yield image[page : page + size]
        trunk = number(start)
