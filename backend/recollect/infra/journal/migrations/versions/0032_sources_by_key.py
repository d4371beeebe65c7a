"""Sources of memories name their threads by key."""

from alembic import op

revision = "0032"
down_revision = "0031"

DDL = (
    """
    CREATE TABLE keyed_sources (
        entry_pk INTEGER NOT NULL REFERENCES entries (pk) ON DELETE CASCADE, place INTEGER NOT NULL,
        thread_pk INTEGER NOT NULL REFERENCES threads (pk) ON DELETE CASCADE, turn INTEGER NOT NULL,
        PRIMARY KEY (entry_pk, place)
    ) WITHOUT ROWID""",
    """
    INSERT INTO keyed_sources SELECT s.entry_pk, s.place, h.pk, s.turn
    FROM entry_sources s JOIN entries e ON e.pk = s.entry_pk
    JOIN threads h ON h.space = e.space AND h.user_id = s.user_id AND h.thread_id = s.thread_id""",
    "DROP TABLE entry_sources",
    "ALTER TABLE keyed_sources RENAME TO entry_sources",
    "CREATE INDEX entry_sources_by_turn ON entry_sources (thread_pk, turn)",
)


def upgrade() -> None:
    for statement in DDL:
        op.execute(statement)
