"""Conditions of indexes compare: a column of 0 and 1 is a number, and no condition by itself, in other databases."""

from alembic import op

revision = "0029"
down_revision = "0028"

INDEXES = {
    "threads_listed": "threads (space, user_id, pinned DESC, updated DESC, thread_id DESC) WHERE one_shot = 0",
    "turns_asking": "turns (thread_pk, position) WHERE asks = 1",
    "entries_of_category": "entries (space, owner, kind, category, when_ms) WHERE holds = 1",
    "entries_of_person": "entries (space, owner, kind) WHERE pinned = 1 OR edited = 1",
}


def upgrade() -> None:
    for name, index in INDEXES.items():
        op.execute(f"DROP INDEX {name}")
        op.execute(f"CREATE INDEX {name} ON {index}")
