"""Restore a home from a backup."""

import asyncio
import shutil
from pathlib import Path

from recollect.errors import HomeUnusable
from recollect.failpoints import FailPoints
from recollect.infra.archive import unpack
from recollect.infra.files import files_of
from recollect.infra.journal.database import Database, journal_connector
from recollect.infra.journal.identity import forget_home_id
from recollect.infra.journal.index import SqlIndexLedger
from recollect.service.coordination import Progress, no_progress
from recollect.service.rebuild import OpenHome
from recollect.service.verify import Verification
from recollect.settings import MODELS, Settings


async def _nobody() -> str:
    """What is restored is owned by the next home that opens it."""
    return ""


async def _name_again(database: Database) -> None:
    """The home that was saved may live on: this one must not take its files."""
    await database.open()
    try:
        await forget_home_id(database)
        # Nor an index beside them that went on after the backup.
        await SqlIndexLedger(database).keep_only("")
    finally:
        await database.close()


async def restore_home(
    archive: Path, settings: Settings, open_home: OpenHome, progress: Progress = no_progress
) -> Verification:
    """Unpack a backup into a home that does not exist or holds only models, and verify it."""
    folder = settings.home
    connector = journal_connector(settings)
    if await connector.exists():
        raise HomeUnusable(f"there is a journal at {connector.name} already; move it away first")
    if folder.exists() and any(path.name != MODELS for path in folder.iterdir()):
        raise HomeUnusable(f"{folder} is not empty; move it away, or choose another RECOLLECT_HOME")
    fail_points = FailPoints(settings.fail_point)
    vault = files_of(settings, fail_points, _nobody).vault
    if settings.files_url is not None and await vault.exists():
        raise HomeUnusable(f"{vault.place} holds files already; choose another place in RECOLLECT_FILES_URL")
    beside = folder.with_name(folder.name + ".restoring")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        await asyncio.to_thread(unpack, archive, beside, progress)
        fail_points.reach("restore.unpacked")
        if folder.exists():
            if (folder / MODELS).exists():
                (folder / MODELS).replace(beside / MODELS)
            folder.rmdir()
        beside.replace(folder)
        if settings.database_url is not None:
            await connector.take(folder / "journal.db")
        await _name_again(Database(connector))
        await vault.fill(settings.vault_path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    async with open_home(settings) as home:
        return await home.verifier.verify()
