"""Chat: epochs, frozen context blocks, prompts as they were sent, requests by their keys."""

from alembic import op

revision = "0005"
down_revision = "0004"

DDL = """
CREATE INDEX turns_open ON turns (thread_pk, position) WHERE status IN ('queued', 'streaming');
CREATE INDEX turns_of_system ON turns (thread_pk, position) WHERE role = 'system';
CREATE TABLE epochs (
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    first_position INTEGER NOT NULL,
    reason TEXT NOT NULL,
    system_digest TEXT NOT NULL,
    backend TEXT NOT NULL,
    revision INTEGER NOT NULL,
    summary TEXT,
    opened INTEGER NOT NULL,
    PRIMARY KEY (thread_pk, number)
) WITHOUT ROWID;
CREATE TABLE summaries (
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
    epoch INTEGER NOT NULL,
    cut INTEGER NOT NULL,
    digest TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (thread_pk, epoch)
) WITHOUT ROWID;
CREATE TABLE context_blocks (
    turn_pk INTEGER PRIMARY KEY REFERENCES turns (pk) ON DELETE CASCADE,
    text TEXT NOT NULL,
    memories_json TEXT NOT NULL DEFAULT '[]'
);
CREATE TABLE prompts (
    turn_pk INTEGER PRIMARY KEY REFERENCES turns (pk) ON DELETE CASCADE,
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    base INTEGER,
    shared INTEGER NOT NULL,
    rest BLOB NOT NULL,
    new_from INTEGER NOT NULL,
    payload_json TEXT,
    detail_json TEXT NOT NULL,
    at INTEGER NOT NULL
);
CREATE INDEX prompts_of_thread ON prompts (thread_pk, position);
CREATE TABLE chat_requests (
    thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE,
    idempotency_key TEXT NOT NULL,
    digest BLOB NOT NULL,
    answer INTEGER NOT NULL,
    PRIMARY KEY (thread_pk, idempotency_key)
) WITHOUT ROWID;
"""


def upgrade() -> None:
    for statement in DDL.split(";\n"):
        if statement.strip():
            op.execute(statement)
