"""Moves the journal of a stopped home into PostgreSQL, or back into a file. Until the last step the old one counts."""

from dataclasses import dataclass

from recollect.errors import HomeUnusable
from recollect.infra.home_lock import HomeLock
from recollect.infra.journal.database import journal_connector
from recollect.infra.settings_file import write_first_setting
from recollect.infra.vault_read import sync
from recollect.service.coordination import Progress, now_ms
from recollect.settings import Settings, set_in_environment, settings_file

SQLITE = "sqlite"


@dataclass(frozen=True, slots=True)
class Migration:
    """What was moved, and what is left to do."""

    rows: int
    tables: int
    source: str
    target: str
    todo: str | None


async def migrate(settings: Settings, to: str, progress: Progress) -> Migration:
    """Copy every table, compare digests, and let `recollect.toml` name the copy from now on.

    A kill leaves the old journal in use; the same command goes on from there. Raises HomeUnusable where the target
    holds another journal.
    """
    lock = HomeLock(settings.home)
    lock.acquire()
    try:
        return await (_to_file(settings, progress) if to == SQLITE else _to_postgres(settings, to, progress))
    finally:
        lock.release()


async def _to_postgres(settings: Settings, url: str, progress: Progress) -> Migration:
    there = settings.model_copy(update={"database_url": url})
    if settings.postgres_url is not None or there.postgres_url is None:
        raise HomeUnusable(
            "--to is postgresql://… where the journal is a file, and sqlite where it is in PostgreSQL"
        )
    file = settings.journal_path
    if not file.exists():
        raise HomeUnusable(f"there is no journal at {file}; start the server on PostgreSQL straight away")
    connector = journal_connector(there)
    from recollect.infra.journal.moving import fill_postgres

    digests = await fill_postgres(file, connector, progress)
    todo = await _name(settings, url)
    file.replace(file.with_name(f"{file.stem}.migrated-{now_ms()}{file.suffix}"))
    return Migration(
        sum(each.rows for each in digests.values()), len(digests), str(file), connector.name, todo
    )


async def _to_file(settings: Settings, progress: Progress) -> Migration:
    if settings.postgres_url is None:
        raise HomeUnusable("the journal is a file already")
    file = settings.model_copy(update={"database_url": None}).journal_path
    if file.exists():
        raise HomeUnusable(f"there is a journal at {file} already; move it away first")
    connector = journal_connector(settings)
    from recollect.infra.journal.moving import copy_to_file

    beside = file.with_name(f"{file.name}.migrating")
    await connector.open()
    try:
        digests = await copy_to_file(connector, beside, progress)
    finally:
        await connector.close()
    beside.replace(file)
    sync(file.parent)
    todo = await _name(settings, None)
    return Migration(
        sum(each.rows for each in digests.values()), len(digests), connector.name, str(file), todo
    )


async def _name(settings: Settings, url: str | None) -> str | None:
    """Write the journal's address into `recollect.toml`; or say that the environment has to be changed."""
    if variable := set_in_environment(("database_url",)):
        return f"unset {variable}" if url is None else f"set {variable} to the new address"
    await write_first_setting(settings_file(settings.home), "database_url", url)
    return None
