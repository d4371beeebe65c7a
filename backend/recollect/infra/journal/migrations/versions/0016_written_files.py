"""The versions of files that we wrote, and what the ledger has yet to take down."""

from alembic import op

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
