"""The audit log of servers that share a journal."""

from alembic import op

revision = "0033"
down_revision = "0032"

DDL = ("CREATE TABLE audit_lines (number INTEGER PRIMARY KEY, line TEXT NOT NULL)",)


def upgrade() -> None:
    for statement in DDL:
        op.execute(statement)
