"""Messages in which a person only asks, as the model says that reads them."""

from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.execute("ALTER TABLE turns ADD COLUMN asks INTEGER NOT NULL DEFAULT 0")
    op.execute("CREATE INDEX turns_asking ON turns (thread_pk, position) WHERE asks")
