"""Backup: one file that holds a home as it was at one moment, proven to be readable."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from recollect.errors import Refused, StorageUnavailable
from recollect.memory.access import Caller
from recollect.memory.job import WRITES_FILES
from recollect.service.ports import Archiver, JobRunner, JournalCopier, Progress, Vault, no_progress

JOURNAL_NAME = "journal.db"


async def backup(
    caller: Caller,
    jobs: JobRunner,
    journal: JournalCopier,
    vault: Vault,
    archiver: Archiver,
    target: Path,
    files: Callable[[], dict[str, Path]],
    progress: Progress = no_progress,
) -> int:
    """Copy journal and vault into `target` while the server runs; returns how many files it holds.

    No file is written meanwhile, so the vault is what the journal says it is; messages are still taken in.
    """
    if not caller.local_operator:
        raise Refused("backups are made with 'recollect backup' on the machine that runs the server")
    if not vault.is_there():
        raise StorageUnavailable(
            "the vault is missing, and a backup without it would be none; bring it back first"
        )
    copy = target.with_name(target.name + ".journal")
    try:
        async with jobs.paused(WRITES_FILES):
            await journal.copy_to(copy)
            await archiver.pack(target, {JOURNAL_NAME: copy, **await asyncio.to_thread(files)}, progress)
    finally:
        copy.unlink(missing_ok=True)
    return await archiver.check(target, no_progress)
