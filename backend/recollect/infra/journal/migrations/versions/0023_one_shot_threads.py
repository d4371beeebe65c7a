"""Threads of single calls that named none, and an index for the list of the others."""

from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.execute("ALTER TABLE threads ADD COLUMN one_shot INTEGER NOT NULL DEFAULT 0")
    op.execute(
        "CREATE INDEX threads_listed ON threads (space, user_id, pinned DESC, updated DESC, thread_id DESC)"
        " WHERE NOT one_shot"
    )
