"""How far the index has got, which notes there are, and which turns a person edited."""

from alembic import op

revision = "0002"
down_revision = "0001"

DDL = """
ALTER TABLE turns ADD COLUMN edited INTEGER NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
CREATE TABLE index_generations (
    name TEXT PRIMARY KEY
) WITHOUT ROWID;
CREATE TABLE index_progress (
    generation TEXT NOT NULL,
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
    words_to INTEGER NOT NULL DEFAULT 0,
    vectors_to INTEGER NOT NULL DEFAULT 0,
    header_revision INTEGER NOT NULL DEFAULT 0,
    revision INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (generation, thread_pk)
) WITHOUT ROWID;
CREATE TABLE notes (
    path TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    digest TEXT NOT NULL,
    modified INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX notes_by_owner ON notes (owner, path);
CREATE TABLE indexed_notes (
    generation TEXT NOT NULL,
    path TEXT NOT NULL,
    owner TEXT NOT NULL,
    digest TEXT NOT NULL,
    embedded INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (generation, path)
) WITHOUT ROWID;
"""


def upgrade() -> None:
    for statement in DDL.split(";\n"):
        if statement.strip():
            op.execute(statement)
