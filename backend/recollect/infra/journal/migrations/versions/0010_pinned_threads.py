"""Threads that stand above the others, and threads by when they were last used."""

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.execute("ALTER TABLE threads ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0")
    op.execute(
        "CREATE INDEX threads_by_use ON threads (space, user_id, pinned DESC, updated DESC, thread_id DESC)"
    )
