"""Chains: digests by which a conversation is known that a client resends."""

from alembic import op

revision = "0006"
down_revision = "0005"

DDL = """
ALTER TABLE threads ADD COLUMN chained INTEGER NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN chained_revision INTEGER NOT NULL DEFAULT 0;
CREATE INDEX threads_behind_in_chains ON threads (space, user_id)
    WHERE chained < last_number OR chained_revision != revision;
CREATE TABLE chains (
    turn_pk INTEGER NOT NULL REFERENCES turns (pk) ON DELETE CASCADE,
    thread_pk INTEGER NOT NULL,
    position INTEGER NOT NULL,
    before INTEGER,
    said BLOB NOT NULL,
    chain BLOB NOT NULL,
    pair BLOB,
    answered INTEGER NOT NULL,
    silent INTEGER NOT NULL,
    PRIMARY KEY (turn_pk, chain)
) WITHOUT ROWID;
CREATE INDEX chains_by_place ON chains (thread_pk, position);
CREATE INDEX chains_by_chain ON chains (chain);
CREATE INDEX chains_by_pair ON chains (pair) WHERE pair IS NOT NULL;
"""


def upgrade() -> None:
    for statement in DDL.split(";\n"):
        if statement.strip():
            op.execute(statement)
