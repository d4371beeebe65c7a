"""The texts of notes that came through the API, so that they can be restored."""

from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.execute("ALTER TABLE notes ADD COLUMN text TEXT")
