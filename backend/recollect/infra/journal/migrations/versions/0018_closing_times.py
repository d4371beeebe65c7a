"""When what is left of a thread in the buffer is closed at the latest."""

from alembic import op

revision = "0018"
down_revision = "0017"

STATEMENTS = (
    "ALTER TABLE threads ADD COLUMN closes_at INTEGER",
    """
    UPDATE threads SET closes_at = waiting.last + 1800000 FROM (
        SELECT b.thread_pk, max(t.accepted) AS last FROM unprocessed_buffer b JOIN turns t ON t.pk = b.turn_pk
        GROUP BY b.thread_pk
    ) waiting WHERE waiting.thread_pk = threads.pk""",
    "CREATE INDEX threads_to_close ON threads (closes_at) WHERE closes_at IS NOT NULL",
    "CREATE INDEX threads_waiting ON threads (space, user_id, closes_at) WHERE closes_at IS NOT NULL",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
