"""From which turn on an epoch sends context blocks."""

from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.execute("ALTER TABLE epochs ADD COLUMN blocks_from INTEGER NOT NULL DEFAULT 0")
