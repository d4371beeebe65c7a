"""Presets of spaces, preferences of users, and the files in which they stand."""

from alembic import op

revision = "0004"
down_revision = "0003"

DDL = """
CREATE TABLE people (
    space TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    value_json TEXT,
    revision INTEGER NOT NULL DEFAULT 1,
    path TEXT NOT NULL UNIQUE,
    written INTEGER NOT NULL DEFAULT 0,
    digest TEXT,
    writing TEXT,
    PRIMARY KEY (space, kind, key)
) WITHOUT ROWID;
"""


def upgrade() -> None:
    for statement in DDL.split(";\n"):
        if statement.strip():
            op.execute(statement)
