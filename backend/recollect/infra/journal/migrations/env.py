"""Runs migrations on the connection that the caller opened and holds in a transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
