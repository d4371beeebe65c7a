"""Forgetting finds rows by their keys: memories of context blocks are rows, and no cascade scans a table."""

import json

from alembic import op

from recollect.domain.recall.rows import memory_key

revision = "0031"
down_revision = "0030"

DDL = (
    """
    CREATE TABLE block_memories (
        turn_pk INTEGER NOT NULL REFERENCES context_blocks (turn_pk) ON DELETE CASCADE,
        subject TEXT NOT NULL, part TEXT NOT NULL, digest TEXT NOT NULL,
        PRIMARY KEY (turn_pk, subject, part)
    ) WITHOUT ROWID""",
    "CREATE INDEX block_memories_by_subject ON block_memories (subject, part)",
    "CREATE INDEX index_progress_of_thread ON index_progress (thread_pk)",
    "CREATE INDEX removed_notes_of_owner ON removed_notes (owner, digest)",
    "CREATE INDEX jobs_of_thread ON jobs (thread_id, user_id, space) WHERE thread_id IS NOT NULL",
    "CREATE INDEX jobs_of_owner ON jobs (owner) WHERE owner IS NOT NULL",
)
ADD = "INSERT INTO block_memories VALUES (?, ?, ?, ?)"
BLOCKS = "SELECT turn_pk, memories_json FROM context_blocks"


def memories_in(held: str) -> list[tuple[str, str, str]]:
    """The oldest blocks have a list, of nothing."""
    memories = json.loads(held)
    return [(*memory_key(name), digest) for name, digest in memories.items()] if memories else []


def upgrade() -> None:
    run = op.get_bind().exec_driver_sql
    for statement in DDL:
        run(statement)
    for blocks in run(BLOCKS).partitions(1000):
        rows = [(turn_pk, *memory) for turn_pk, held in blocks for memory in memories_in(held)]
        if rows:
            run(ADD, rows)
    run("ALTER TABLE context_blocks DROP COLUMN memories_json")
