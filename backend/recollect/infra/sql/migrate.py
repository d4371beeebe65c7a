"""Brings a journal's schema up to date, or refuses one from the future."""

from importlib import resources
from pathlib import Path

from sqlalchemy import Connection

from recollect.errors import SchemaTooNew

HEAD = "0014"
"""The newest revision under migrations/versions; a test holds the two against each other."""


def upgrade_schema(connection: Connection) -> bool:
    """Upgrade within the caller's transaction. True when anything changed."""
    current = current_revision(connection)
    if current == HEAD:
        return False
    if current is not None and current > HEAD:
        raise SchemaTooNew(
            f"the journal has schema {current}; this version of Recollect knows schemas up to {HEAD}. "
            "Install the newer Recollect that wrote it, or restore a backup from before the upgrade."
        )
    _run_alembic(connection)
    return True


def current_revision(connection: Connection) -> str | None:
    table = connection.exec_driver_sql(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"
    ).first()
    if table is None:
        return None
    revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return None if revision is None else str(revision)


def _run_alembic(connection: Connection) -> None:
    # Imported here: a start with a current schema needs none of it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)


def migrations_folder() -> Path:
    return Path(str(resources.files("recollect.infra.sql") / "migrations"))
