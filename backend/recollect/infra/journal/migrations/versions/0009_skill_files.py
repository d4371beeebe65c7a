"""What we wrote into the files of skills: the rest is a person's."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.execute("CREATE TABLE skill_files (path TEXT PRIMARY KEY, text TEXT, writing TEXT) WITHOUT ROWID")
