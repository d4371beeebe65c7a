"""Known facts by the short ids of a stored answer's prompt, and how often a model was asked in vain."""

from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.execute("ALTER TABLE model_answers ADD COLUMN known_json TEXT NOT NULL DEFAULT '{}'")
    op.execute("ALTER TABLE model_answers ADD COLUMN failed_calls INTEGER NOT NULL DEFAULT 0")
