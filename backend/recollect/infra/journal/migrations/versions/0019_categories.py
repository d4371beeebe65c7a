"""Entries are found by their category; what they were found by before, subject, attribute and matter, is dropped."""

from alembic import op

revision = "0019"
down_revision = "0018"

DDL = (
    "DROP INDEX entries_of_subject",
    "DROP INDEX entries_of_matter",
    "ALTER TABLE entries DROP COLUMN subject_key",
    "ALTER TABLE entries DROP COLUMN attribute_key",
    "ALTER TABLE entries DROP COLUMN matter_key",
    "ALTER TABLE entries ADD COLUMN category TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX entries_of_category ON entries (space, owner, kind, category, when_ms) WHERE holds",
)


def upgrade() -> None:
    for statement in DDL:
        op.execute(statement)
