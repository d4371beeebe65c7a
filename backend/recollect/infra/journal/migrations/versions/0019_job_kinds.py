"""Plain names for two kinds of jobs."""

from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.execute("UPDATE jobs SET kind = 'transcript_edits' WHERE kind = 'take_in'")
    op.execute("UPDATE jobs SET kind = 'deletions' WHERE kind = 'graves'")
