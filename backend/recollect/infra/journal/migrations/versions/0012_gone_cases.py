"""Cases that were here and are forgotten: what names any other is not ours."""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.execute("CREATE TABLE gone_cases (entry_id TEXT PRIMARY KEY) WITHOUT ROWID")
