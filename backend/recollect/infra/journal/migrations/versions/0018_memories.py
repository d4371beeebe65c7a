"""Closing times of threads, blocks of epochs, calls of models, categories of facts, and digests of deleted ones."""

from alembic import op

revision = "0018"
down_revision = "0017"

CLOSING_TIMES = (
    "ALTER TABLE threads ADD COLUMN closes_at INTEGER",
    """
    UPDATE threads SET closes_at = waiting.last + 1800000 FROM (
        SELECT b.thread_pk, max(t.accepted) AS last FROM unprocessed_buffer b JOIN turns t ON t.pk = b.turn_pk
        GROUP BY b.thread_pk
    ) waiting WHERE waiting.thread_pk = threads.pk""",
    "CREATE INDEX threads_to_close ON threads (closes_at) WHERE closes_at IS NOT NULL",
    "CREATE INDEX threads_waiting ON threads (space, user_id, closes_at) WHERE closes_at IS NOT NULL",
)
EPOCH_BLOCKS = ("ALTER TABLE epochs ADD COLUMN blocks_from INTEGER NOT NULL DEFAULT 0",)
MODEL_CALLS = (
    "ALTER TABLE model_answers ADD COLUMN known_json TEXT NOT NULL DEFAULT '{}'",
    "ALTER TABLE model_answers ADD COLUMN failed_calls INTEGER NOT NULL DEFAULT 0",
)
CATEGORIES = (
    "DROP INDEX entries_of_subject",
    "DROP INDEX entries_of_matter",
    "ALTER TABLE entries DROP COLUMN subject_key",
    "ALTER TABLE entries DROP COLUMN attribute_key",
    "ALTER TABLE entries DROP COLUMN matter_key",
    "ALTER TABLE entries ADD COLUMN category TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX entries_of_category ON entries (space, owner, kind, category, when_ms) WHERE holds",
)
DELETED_STATEMENTS = (
    "ALTER TABLE buried_entries ADD COLUMN statement TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE buried_entries ADD COLUMN said INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX buried_entries_by_statement ON buried_entries (space, owner, statement) WHERE statement != ''",
)


def upgrade() -> None:
    for statement in (*CLOSING_TIMES, *EPOCH_BLOCKS, *MODEL_CALLS, *CATEGORIES, *DELETED_STATEMENTS):
        op.execute(statement)
