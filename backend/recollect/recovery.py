"""A home brought back: its journal from the vault, or all of it from a backup."""

import shutil
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from recollect.app import now_ms, open_app
from recollect.domain.access import ApiKey
from recollect.errors import HomeUnusable, RecollectError
from recollect.failpoints import FailPoints
from recollect.infra.archive import TarArchiver
from recollect.infra.home_lock import HomeLock
from recollect.infra.journal.database import Database
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SqlEntryFileStore, SqlSkillFiles
from recollect.infra.journal.importer import SqlImporter
from recollect.infra.journal.people import SqlPeopleStore
from recollect.infra.vault import Vault
from recollect.service.coordination import Progress, no_progress
from recollect.service.rebuild import RebuildReport, rebuild, rebuild_people
from recollect.service.vault.entry_import import import_entries, import_graves
from recollect.service.verify import Verification
from recollect.settings import MODELS, Settings


async def rebuild_home(
    settings: Settings, progress: Progress = no_progress
) -> tuple[RebuildReport, Verification]:
    """Bring the journal back from the vault. Over a healthy journal, first write what is still to be written.

    Raises HomeUnusable, and changes nothing, where the vault is missing or holds less than a healthy journal.
    """
    if not settings.vault_path.is_dir():
        raise HomeUnusable(f"there is no vault at {settings.vault_path} to rebuild from; bring it back first")
    old = await _settle_old_journal(settings) if settings.journal_path.exists() else _OldJournal()
    lock = HomeLock(settings.home)
    lock.acquire()
    try:
        fail_points = FailPoints(settings.fail_point)
        new_path = settings.journal_path.with_name(settings.journal_path.name + ".rebuilding")
        _remove_journal(new_path)
        database = Database(new_path)
        await database.open()
        vault = Vault(settings.vault_path)
        await vault.open(expected=False)
        importer = SqlImporter(database, clock=now_ms)
        report = await rebuild(vault, importer, fail_points, progress)
        await rebuild_people(vault, SqlPeopleStore(database, clock=now_ms), report)
        found = await import_entries(vault, SqlEntryFileStore(database, clock=now_ms))
        report.entries = found.entries
        await import_graves(vault, SqlEntryStore(database, clock=now_ms))
        report.problems += found.problems
        await importer.add_keys(old.keys)
        await SqlSkillFiles(database, clock=now_ms).keep_gone(old.gone_cases)
        await database.close()
        if report.turns < old.turns:
            raise HomeUnusable(
                f"the vault holds {report.turns} turns and the journal {old.turns}: nothing was changed. "
                "Bring the missing files back, or write them anew with 'recollect verify --repair'."
            )
        _swap_journal(new_path, settings.journal_path)
        fail_points.reach("rebuild.swapped")
    finally:
        lock.release()
    report.lost = old.lost
    async with open_app(settings) as app, app.jobs.paused():
        await app.search.indexer.settled()
        return report, await app.verifier.verify()


@dataclass(slots=True)
class _OldJournal:
    """What is carried over from the journal that a rebuild replaces, and what is not."""

    keys: list[tuple[ApiKey, str]] = field(default_factory=list)
    gone_cases: frozenset[str] = frozenset()
    """Whose words may stand in skills still."""
    turns: int = 0
    lost: list[str] = field(
        default_factory=lambda: [
            "jobs",
            "receipts",
            "histories of entries and skills",
            "incognito threads",
            "API keys",
        ]
    )


async def _settle_old_journal(settings: Settings) -> _OldJournal:
    """Write to the vault what only the journal has, and save the keys. A damaged journal is set aside."""
    old = _OldJournal()
    try:
        async with open_app(settings) as app:
            async with app.jobs.paused():
                for space in await app.coverage.spaces():
                    for thread in await app.THREADS.list_threads(space=space):
                        await app.transcriber.catch_up(space, thread.thread_id)
                        await app.transcriber.transcribe(space, thread.thread_id)
                        old.turns += 0 if thread.incognito else thread.turn_count
                await app.people_files.settle_all()
                await app.entry_files.settle_all()
            old.keys = await app.keys.list_with_hashes()
            old.lost.remove("API keys")
            old.gone_cases = await app.skill_files.gone_cases()
    except RecollectError as error:
        if not _is_damage(error):
            raise
        aside = settings.journal_path.with_name(f"journal.damaged-{now_ms()}.db")
        settings.journal_path.replace(aside)
        _remove_journal(settings.journal_path)
        old.lost.append(
            f"messages that were not yet in the vault (the damaged journal is kept as {aside.name})"
        )
    return old


def _is_damage(error: RecollectError) -> bool:
    return isinstance(error.__cause__, sqlite3.DatabaseError) or "damaged" in str(error)


def _swap_journal(new: Path, journal: Path) -> None:
    _remove_journal(journal, keep_main=True)
    new.replace(journal)
    _remove_journal(new)


def _remove_journal(path: Path, *, keep_main: bool = False) -> None:
    for suffix in ("-wal", "-shm") if keep_main else ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


async def restore_home(archive: Path, settings: Settings, progress: Progress = no_progress) -> Verification:
    """Unpack a backup into a home that does not exist yet or holds nothing but models, and prove it."""
    home = settings.home
    if settings.journal_path.exists():
        raise HomeUnusable(f"there is a journal at {settings.journal_path} already; move it away first")
    if home.exists() and any(path.name != MODELS for path in home.iterdir()):
        raise HomeUnusable(f"{home} is not empty; move it away, or choose another RECOLLECT_HOME")
    beside = home.with_name(home.name + ".restoring")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        await TarArchiver().unpack(archive, beside, progress)
        FailPoints(settings.fail_point).reach("restore.unpacked")
        if home.exists():
            if (home / MODELS).exists():
                (home / MODELS).replace(beside / MODELS)
            home.rmdir()
        beside.replace(home)
        if settings.database_url is not None:
            settings.journal_path.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(home / "journal.db", settings.journal_path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    async with open_app(settings) as app:
        return await app.verifier.verify()
