"""The versions of files that we wrote, from the current ones on, and what the ledger has yet to take down."""

from collections.abc import Iterator

from alembic import op
from sqlalchemy import Connection

from recollect.domain.identity import file_key, text_digest
from recollect.domain.paths import transcript_path

revision = "0016"
down_revision = "0015"

DDL = (
    """
    CREATE TABLE written_files (
        file TEXT NOT NULL,
        digest TEXT NOT NULL,
        number INTEGER NOT NULL,
        gone INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (file, digest)
    ) WITHOUT ROWID""",
    "CREATE INDEX written_files_by_digest ON written_files (digest)",
    "CREATE TABLE ledger_outbox (number INTEGER PRIMARY KEY, line TEXT NOT NULL)",
)


def upgrade() -> None:
    for statement in DDL:
        op.execute(statement)
    connection = op.get_bind()
    for path, digest in _current(connection):
        connection.exec_driver_sql(
            "INSERT OR IGNORE INTO written_files (file, digest, number) VALUES (?, ?, 1)",
            (file_key(path), digest[:32]),
        )


def _current(connection: Connection) -> Iterator[tuple[str, str]]:
    """The path and the digest of each file as it was written or taken in last. Notes have no versions."""
    for *named, digest in connection.exec_driver_sql(
        "SELECT space, user_id, thread_id, part, digest FROM transcript_parts p JOIN threads h ON h.pk = p.thread_pk"
        " WHERE digest IS NOT NULL"
    ).fetchall():
        yield transcript_path(*named), digest
    for table in ("entry_files", "people"):
        found = f"SELECT path, digest FROM {table} WHERE digest IS NOT NULL"
        yield from map(tuple, connection.exec_driver_sql(found).fetchall())
    for path, text in connection.exec_driver_sql(
        "SELECT path, text FROM skill_files WHERE text IS NOT NULL"
    ).fetchall():
        yield path, text_digest(text)
