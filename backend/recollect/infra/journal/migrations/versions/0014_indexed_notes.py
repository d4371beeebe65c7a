"""What of an owner's notes is indexed, and what of it waits to be embedded, is found without reading all owners'."""

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.execute("CREATE INDEX indexed_notes_of_owner ON indexed_notes (generation, owner, embedded)")
