"""Keys with scopes, an expiry and their last use; and the mark that closes a server once a key has existed."""

from alembic import op

revision = "0015"
down_revision = "0014"

STATEMENTS = (
    "ALTER TABLE api_keys ADD COLUMN expires INTEGER",
    "ALTER TABLE api_keys ADD COLUMN scopes TEXT NOT NULL DEFAULT 'read write delete'",
    "ALTER TABLE api_keys ADD COLUMN last_used INTEGER",
    "ALTER TABLE api_keys ADD COLUMN replaced_by TEXT",
    "UPDATE api_keys SET scopes = 'read write delete admin' WHERE user_id IS NULL",
    "CREATE TABLE marks (name TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID",
    "INSERT INTO marks (name, at) SELECT 'closed', created FROM api_keys ORDER BY created LIMIT 1",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)
