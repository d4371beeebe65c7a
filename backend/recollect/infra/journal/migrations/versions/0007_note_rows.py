"""Index: how many rows and vectors each note has there, so that lost ones are missed."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.execute("ALTER TABLE indexed_notes ADD COLUMN rows INTEGER NOT NULL DEFAULT 0")
    op.execute("ALTER TABLE indexed_notes ADD COLUMN vectors INTEGER NOT NULL DEFAULT 0")
