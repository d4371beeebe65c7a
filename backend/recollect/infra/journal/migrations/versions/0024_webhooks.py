"""Webhooks, and what was delivered to them lately."""

from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.execute(
        "CREATE TABLE webhooks (webhook_id TEXT PRIMARY KEY, space TEXT NOT NULL, user_id TEXT, url TEXT NOT NULL,"
        " secret TEXT NOT NULL, events TEXT NOT NULL, created INTEGER NOT NULL) WITHOUT ROWID"
    )
    op.execute(
        "CREATE TABLE webhook_deliveries (pk INTEGER PRIMARY KEY, webhook_id TEXT NOT NULL REFERENCES webhooks"
        " (webhook_id) ON DELETE CASCADE, delivery_id TEXT NOT NULL UNIQUE, event TEXT NOT NULL,"
        " tries INTEGER NOT NULL, at INTEGER NOT NULL)"
    )
    op.execute("CREATE INDEX webhook_deliveries_of ON webhook_deliveries (webhook_id, pk)")
