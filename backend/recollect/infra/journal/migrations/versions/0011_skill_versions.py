"""Skills as they were last seen in the vault, and as they were before."""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.execute("ALTER TABLE skill_files ADD COLUMN seen TEXT")
    op.execute("ALTER TABLE skill_files ADD COLUMN revision INTEGER NOT NULL DEFAULT 0")
    op.execute(
        "CREATE TABLE skill_versions (path TEXT NOT NULL, revision INTEGER NOT NULL, text TEXT NOT NULL,"
        " cases_json TEXT NOT NULL, actor TEXT NOT NULL, cause TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (path, revision)) WITHOUT ROWID"
    )
