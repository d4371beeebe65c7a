"""Rebuild a journal from its vault."""

import sqlite3
from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from recollect.domain.access import ApiKey
from recollect.domain.forgetting import ForgottenNumbers, Remembered
from recollect.domain.identity import key_within_user, place_of, text_digest, turn_number
from recollect.domain.markdown.transcript import ParsedPart, is_rendered, is_transcript, parse_part
from recollect.domain.model import Memcell, Thread, ThreadRef, TranscriptPart, Turn
from recollect.domain.paths import copies_last, is_own_name, is_people_file, thread_folder
from recollect.domain.people import Preset, read_people_file
from recollect.domain.vault_file import StoredPart, text_digests
from recollect.domain.webhook import Webhook
from recollect.errors import HomeUnusable, RecollectError
from recollect.failpoints import FailPoints
from recollect.infra.files import files_of
from recollect.infra.home_lock import HomeLock
from recollect.infra.job_engine import JobEngine
from recollect.infra.journal.audit_lines import SqlAuditLines
from recollect.infra.journal.connection import remove_log
from recollect.infra.journal.coverage import SqlCoverage
from recollect.infra.journal.database import Database, journal_connector
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.journal.identity import home_id
from recollect.infra.journal.importer import SqlImporter, SqlLedgerOutbox
from recollect.infra.journal.keys import SqlKeyStore
from recollect.infra.journal.people import SqlPresetStore
from recollect.infra.journal.sqlite import SqliteConnector
from recollect.infra.journal.threads import SqlThreadStore
from recollect.infra.journal.webhooks import SqlWebhookStore
from recollect.infra.ledger import remembered_in
from recollect.infra.vault import Vault
from recollect.service.coordination import Progress, no_progress, now_ms
from recollect.service.recall.indexer import Indexer
from recollect.service.vault.entry_files import EntryFiles, Places, import_entries, read_deletions
from recollect.service.vault.people_files import PeopleFiles
from recollect.service.vault.reader import without_copies
from recollect.service.vault.sweep import VaultSweep
from recollect.service.vault.transcripts import Transcriber
from recollect.service.verify import Verification, Verifier
from recollect.settings import Settings

_JOURNAL_ONLY = ("jobs", "receipts", "histories of entries and skills", "incognito threads", "API keys")
_CANNOT_TELL = "versions of files (without a journal, old copies of existing files can't be told from edits)"
_NO_LEDGER = "deletions (without a ledger, old copies of deleted files can't be told from edits either)"


@dataclass(slots=True)
class RebuildReport:
    """What was rebuilt, and what could not be."""

    threads: int = 0
    turns: int = 0
    memcells: int = 0
    forgotten: int = 0
    presets: int = 0
    preferences: int = 0
    entries: int = 0
    problems: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Kinds of data that only the journal holds."""


@dataclass(frozen=True, slots=True)
class OpenedHome:
    """The parts of an open home that are used here."""

    jobs: JobEngine
    coverage: SqlCoverage
    threads: SqlThreadStore
    keys: SqlKeyStore
    webhooks: SqlWebhookStore
    outbox: SqlLedgerOutbox
    audit_lines: SqlAuditLines
    vault_sweep: VaultSweep
    transcriber: Transcriber
    people_files: PeopleFiles
    entry_files: EntryFiles
    verifier: Verifier
    indexer: Indexer
    home_id: Callable[[], Awaitable[str]]


OpenHome = Callable[[Settings], AbstractAsyncContextManager[OpenedHome]]


async def rebuild_home(
    settings: Settings, open_home: OpenHome, progress: Progress = no_progress, *, take: bool = False
) -> tuple[RebuildReport, Verification]:
    """Rebuild the journal from the vault. A healthy journal first writes its pending files.

    Raises HomeUnusable, and changes nothing, if the vault is missing or holds less than a healthy journal, or says that
    it belongs to another home, unless with `take`.
    """
    fail_points = FailPoints(settings.fail_point)
    connector = journal_connector(settings)
    new_path = _path_beside(settings)
    database = Database(SqliteConnector(new_path))
    old = _OldJournal()

    async def named() -> str:
        return await home_id(database, old.home_id)

    files = files_of(settings, fail_points, named, takes_over=take)
    vault, ledger = files.vault, files.ledger
    if not await vault.exists():
        raise HomeUnusable(f"there is no vault at {vault.place} to rebuild from; bring it back first")
    if await connector.exists():
        await _settle_old_journal(old, settings, open_home)
    lock = HomeLock(settings.home)
    lock.acquire()
    try:
        if await connector.exists():
            await connector.open()  # Until it is replaced, nobody else writes to it.
        _remove_journal(new_path)
        await database.open()
        await vault.open(expected=False)
        importer = SqlImporter(database, clock=now_ms)
        recorded = await ledger.content()
        remembered = remembered_in(recorded or b"")
        known = set(remembered.lines())
        remembered.add(old.remembered or Remembered())
        report = await rebuild(vault, importer, fail_points, progress, remembered)
        await rebuild_people(vault, SqlPresetStore(database, clock=now_ms), report, old.people_files)
        entry_files = SqlEntryFileStore(database, clock=now_ms)
        deleted = frozenset(remembered.deletions)
        report.entries, problems = await import_entries(vault, entry_files, deleted, old.places)
        report.problems += problems
        if old.remembered is None:
            old.lost += [_CANNOT_TELL] if recorded is not None else [_CANNOT_TELL, _NO_LEDGER]
            old.lost += [] if settings.member_url is None else ["the audit log"]
            old.closed_at = now_ms() if remembered.a_key_existed else old.closed_at
        await ledger.append([line for line in remembered.lines() if line not in known])
        await importer.add_keys(old.keys, old.closed_at)
        await importer.add_webhooks(old.webhooks)
        await importer.add_audit_lines(old.audit_lines)
        await database.close()
        if report.turns < old.turns:
            raise HomeUnusable(
                f"the vault holds {report.turns} turns and the journal {old.turns}: nothing was changed. "
                "Bring the missing files back, or write them again with 'recollect verify --repair'."
            )
        await connector.close()
        await connector.take(new_path, replaces=True)
        fail_points.reach("rebuild.swapped")
    finally:
        await database.close()
        await connector.close()
        lock.release()
    report.lost = old.lost
    async with open_home(settings) as home, home.jobs.paused():
        await _write_pending(home)
        await home.vault_sweep.sweep()  # The index drops what files of the vault no longer hold.
        await home.indexer.settled()
        return report, await home.verifier.verify()


async def _write_pending(home: OpenedHome) -> int:
    """Bring the vault up to the journal, with every hand edit taken in. Returns how many turns it should hold."""
    turns = 0
    await home.vault_sweep.sweep()
    restore = home.transcriber.reports.goes_back()
    for space in await home.coverage.spaces():
        for thread in await home.threads.list_threads(space=space):
            await home.transcriber.catch_up(thread.ref, restore=restore)
            await home.transcriber.transcribe(thread.ref)
            turns += 0 if thread.incognito else thread.turn_count
    await home.people_files.settle_all()
    await home.entry_files.settle_all()
    return turns


@dataclass(slots=True)
class _OldJournal:
    """What a rebuild keeps of the journal that it replaces, and what is lost."""

    keys: list[tuple[ApiKey, str]] = field(default_factory=list)
    webhooks: list[Webhook] = field(default_factory=list)
    audit_lines: list[str] = field(default_factory=list)
    closed_at: int | None = None
    home_id: str | None = None
    turns: int = 0
    remembered: Remembered | None = None
    """None where it can't be read."""
    places: Places = field(default_factory=dict)
    people_files: set[str] = field(default_factory=set)
    lost: list[str] = field(default_factory=lambda: list(_JOURNAL_ONLY))


async def _settle_old_journal(old: "_OldJournal", settings: Settings, open_home: OpenHome) -> None:
    """Write what only the journal has to the vault, and read its keys. A damaged journal is renamed."""
    try:
        async with open_home(settings) as home:
            async with home.jobs.paused():
                old.turns = await _write_pending(home)
            old.keys, old.closed_at = await home.keys.list_with_hashes(), home.keys.closed_at
            old.lost.remove("API keys")
            old.webhooks, old.audit_lines = await home.webhooks.all(), await home.audit_lines.all()
            old.remembered = await home.outbox.remembered()
            old.places = await home.entry_files.taker.store.places()
            old.home_id = await home.home_id() if settings.files_url is not None else None
            old.people_files = {file.path for file in await home.people_files.store.files()}
    except RecollectError as error:
        is_damaged = isinstance(error.__cause__, sqlite3.DatabaseError) or "damaged" in str(error)
        if settings.postgres_url is not None or not is_damaged:
            raise
        aside = settings.journal_path.with_name(f"journal.damaged-{now_ms()}.db")
        settings.journal_path.replace(aside)
        _remove_journal(settings.journal_path)
        old.lost.append(
            f"messages that were not yet in the vault (the damaged journal is kept as {aside.name})"
        )


def _path_beside(settings: Settings) -> Path:
    """Of the new journal, which is a file until it is complete."""
    old = settings.journal_path if settings.postgres_url is None else settings.home / "journal.db"
    return old.with_name(f"{old.name}.rebuilding")


def _remove_journal(path: Path) -> None:
    path.unlink(missing_ok=True)
    remove_log(path)


async def rebuild(
    vault: Vault,
    builder: SqlImporter,
    fail_points: FailPoints,
    progress: Progress = no_progress,
    remembered: Remembered | None = None,
) -> RebuildReport:
    """Read every transcript, tombstone and deletion of the vault into an empty journal, after what is `remembered`."""
    report = RebuildReport()
    folders: dict[str, list[str]] = {}
    remembered = Remembered() if remembered is None else remembered
    files = await vault.list_files()
    for path in filter(is_transcript, files):
        folders.setdefault(str(PurePosixPath(path).parent), []).append(path)
    report.problems += await read_deletions(vault, files, remembered)
    await builder.add_remembered(remembered)
    report.forgotten = len(remembered.tombstones)
    _, copies = await without_copies(builder, files, ours=is_own_name)
    report.problems += [f"{path}: a conflict copy of a sync tool; it was left out" for path in copies]
    tombstones = remembered.forgotten_numbers()
    taken: set[ThreadRef] = set()
    misplaced: list[str] = []
    for done, folder in enumerate(folders, 1):
        gathered = await _gather(vault, folder, folders[folder])
        if gathered.is_misplaced:
            misplaced.append(folder)
        else:
            await _import_thread(gathered, taken, tombstones, builder, report)
        progress(done, len(folders))
    # A copy must not take the place of the thread it is a copy of, so these come last.
    for folder in misplaced:
        gathered = await _gather(vault, folder, folders[folder])
        await _import_thread(gathered, taken, tombstones, builder, report)
    fail_points.reach("rebuild.imported")
    return report


async def rebuild_people(
    vault: Vault, people: SqlPresetStore, report: RebuildReport, known: Collection[str] = ()
) -> None:
    """Read every preset and all preferences into an empty journal. Of two with one name a `known` file counts."""
    listed, _ = await without_copies(people, await vault.list_files(), ours=is_own_name)
    files = sorted(filter(is_people_file, listed), key=lambda path: (path not in known, copies_last(path)))
    for path in files:
        text = await vault.read(path) or ""
        try:
            if await people.is_deleted(path, *text_digests(text)):
                raise ValueError("it was deleted; this copy was left out")
            holds, _ = read_people_file(path, text)
            if (other := await people.path_of(holds)) is not None:
                raise ValueError(f"{other} has the same name; this one was left out")
        except ValueError as error:
            report.problems.append(f"{path}: {error}")
            continue
        await people.apply_file(path, holds, text_digest(text))
        report.presets += isinstance(holds, Preset)
        report.preferences += not isinstance(holds, Preset)


async def _gather(vault: Vault, folder: str, paths: list[str]) -> "_Gathered":
    gathered = _Gathered(folder)
    for path in sorted(paths, key=lambda path: int(PurePosixPath(path).stem)):
        text = await vault.read(path) or ""
        gathered.take(path, parse_part(text), text)
    return gathered


async def _import_thread(
    gathered: "_Gathered",
    taken: set[ThreadRef],
    tombstones: ForgottenNumbers,
    builder: SqlImporter,
    report: RebuildReport,
) -> None:
    thread, folder = gathered.thread, gathered.folder
    report.problems += gathered.problems
    if thread is None:
        report.problems.append(
            f"{folder}: no part has readable front matter; the thread could not be brought back"
        )
        return
    if thread.ref in taken:
        report.problems.append(f"{folder}: the same thread lies elsewhere too; this copy was left out")
        return
    taken.add(thread.ref)
    key = key_within_user(thread.space, thread.thread_id)
    forgotten = gathered.forget(tombstones.get((thread.space, thread.user_id, key), ()))
    if forgotten:
        report.problems.append(f"{folder}: {forgotten} turns were forgotten and are not brought back")
    if forgotten and not gathered.turns:
        return
    parts = gathered.parts
    if gathered.is_misplaced:
        report.problems.append(f"{folder}: its front matter names a place elsewhere; it is written there")
        parts = [replace(part, digest=None) for part in parts]
    await builder.add_thread(thread, gathered.turns, gathered.cells, parts)
    report.threads += 1
    report.turns += len(gathered.turns)
    report.memcells += len(gathered.cells)


def _is_canonical(parsed: ParsedPart, text: str) -> bool:
    if parsed.thread is None:
        return False
    return is_rendered(text, TranscriptPart(parsed.thread, parsed.part, parsed.turns, parsed.memcells))


@dataclass(slots=True)
class _Gathered:
    """One thread, as its parts are read one after another."""

    folder: str
    thread: Thread | None = None
    turns: list[Turn] = field(default_factory=list)
    cells: list[Memcell] = field(default_factory=list)
    parts: list[StoredPart] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _message_ids: set[str] = field(default_factory=set)

    def take(self, path: str, parsed: ParsedPart, text: str) -> None:
        self.problems += [f"{path}:{problem.line}: {problem.message}" for problem in parsed.problems]
        if self.thread is None or parsed.part == 1:
            self.thread = parsed.thread or self.thread
        numbers = []
        for turn in parsed.turns:
            number = turn_number(turn.turn_id)
            if number is None or turn.turn_id in self._seen:
                self.problems.append(
                    f"{path}: turn {turn.turn_id} is there twice or has no number; the first is kept"
                )
                continue
            self._seen.add(turn.turn_id)
            self.turns.append(self._with_own_id(path, turn, number))
            numbers.append(number)
        self.cells += parsed.memcells
        first = self.parts[-1].last_position + 1 if self.parts else 1
        last = max(numbers, default=first - 1)
        part = StoredPart(int(PurePosixPath(path).stem), first, last, 1, text_digest(text))
        if parsed.problems or parsed.unknown or parsed.aliases:
            # Not all of it was read: it is kept beside when the part is written again.
            part = replace(part, digest=None)
        elif not _is_canonical(parsed, text):
            # Saved with other line ends, say: all of it was read, and it is written again in our form.
            part = replace(part, digest=None, announced=part.digest)
        self.parts.append(part)

    def forget(self, numbers: Collection[int]) -> int:
        """An old copy may hold turns that were forgotten since: they go. Returns how many."""
        gone = [turn for turn in self.turns if place_of(turn) in numbers]
        self.turns = [turn for turn in self.turns if turn not in gone]
        self.parts = [
            replace(part, digest=None, announced=part.digest or part.announced)
            if any(part.first_position <= place_of(turn) <= part.last_position for turn in gone)
            else part
            for part in self.parts
        ]
        return len(gone)

    def _with_own_id(self, path: str, turn: Turn, number: int) -> Turn:
        """Two turns must not share a message id; the later one gets a new one and keeps its words."""
        if turn.message_id in self._message_ids:
            self.problems.append(f"{path}: turn {turn.turn_id} has another's message id; it gets a new one")
            turn = replace(turn, message_id=f"{turn.message_id}~{number}")
        self._message_ids.add(turn.message_id)
        return turn

    @property
    def is_misplaced(self) -> bool:
        thread = self.thread
        return thread is not None and thread_folder(*thread.ref) != self.folder
