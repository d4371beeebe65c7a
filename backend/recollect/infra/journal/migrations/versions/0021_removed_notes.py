"""The texts of notes that a person removed a moment ago, in case the vault turns out to go back in time."""

from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.execute(
        "CREATE TABLE removed_notes (path TEXT PRIMARY KEY, owner TEXT NOT NULL, digest TEXT NOT NULL,"
        " text TEXT NOT NULL, removed_at INTEGER NOT NULL)"
    )
