"""How many texts of a thread the embedding model has refused."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute("ALTER TABLE index_progress ADD COLUMN refused INTEGER NOT NULL DEFAULT 0")
