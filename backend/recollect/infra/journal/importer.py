"""Taking whole threads into an empty journal, and what one journal remembers of deletions into another."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from recollect.domain.access import ApiKey
from recollect.domain.boundary import BoundaryRules
from recollect.domain.forgetting import Remembered
from recollect.domain.identity import looks_made, place_of, thread_key, turn_digest, turn_number
from recollect.domain.job import BOUNDARY, TRANSCRIBE, cells_lane, vault_lane
from recollect.domain.model import Memcell, Thread, Turn
from recollect.domain.paths import owner_folder, transcript_path
from recollect.domain.vault_file import TRANSCRIPTS, StoredPart
from recollect.domain.webhook import Webhook
from recollect.infra.journal.audit_lines import ADD_AUDIT_LINE
from recollect.infra.journal.cells import insert_cell
from recollect.infra.journal.connector import Connection
from recollect.infra.journal.database import Database, write_transaction
from recollect.infra.journal.entry_changes import ADD_DELETION, ADD_GONE_CASE, deletion_row
from recollect.infra.journal.entry_rows import deletion_of
from recollect.infra.journal.files import ADD_PART
from recollect.infra.journal.forgotten_turns import ADD_TOMBSTONE
from recollect.infra.journal.keys import ADD_KEY, CLOSE, key_row
from recollect.infra.journal.rows import NewJob, insert_rows, queue_jobs
from recollect.infra.journal.turns import INSERT_TURNS, insert_thread, turn_row
from recollect.infra.journal.vault_files import FileVersions, record_version
from recollect.infra.journal.webhooks import ADD_WEBHOOK, webhook_row
from recollect.infra.ledger import Ledger

ADD_READ_FILE = """
INSERT INTO vault_files (path, kind, space, owner, written, digest, announced) VALUES (?, ?, ?, ?, ?, ?, ?)"""


class SqlImporter(FileVersions):
    """What the vault holds, as rows. Tombstones come before the threads they belong to."""

    def __init__(self, database: Database, *, clock: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock

    @write_transaction
    def add_thread(
        self,
        connection: Connection,
        thread: Thread,
        turns: list[Turn],
        cells: list[Memcell],
        parts: list[StoredPart],
    ) -> None:
        now = self._clock()
        updated = max([thread.created, *(turn.timestamp for turn in turns)])
        thread_pk = insert_thread(
            connection,
            replace(thread, updated=updated, turn_count=len(turns)),
            last_number=max((turn_number(turn.turn_id) or 0 for turn in turns), default=0),
            lookalikes=sum(looks_made(turn.message_id) for turn in turns),
        ).pk
        insert_rows(connection, INSERT_TURNS, [_turn_row(thread_pk, turn) for turn in turns])
        connection.many(
            "UPDATE turns SET edited = 1 WHERE thread_pk = ? AND position = ?",
            [(thread_pk, turn_number(turn.turn_id)) for turn in turns if turn.edited],
        )
        placed = connection.all("SELECT position, pk FROM turns WHERE thread_pk = ?", (thread_pk,))
        pks = {row["position"]: row["pk"] for row in placed}
        celled = _insert_cells(connection, thread_pk, thread, turns, cells, pks, now)
        _insert_buffer(connection, thread_pk, thread, turns, pks, celled)
        if len(celled) < len(turns):
            # As if its messages had come when they were said. Where nothing waits, a look finds that out.
            closes_at = updated + BoundaryRules.gap_ms
            connection.run("UPDATE threads SET closes_at = ? WHERE pk = ?", (closes_at, thread_pk))
        owner = owner_folder(thread.space, thread.user_id)
        for part in parts:
            path = transcript_path(*thread.ref, part.part)
            places = (part.first_position, part.last_position, part.header_revision)
            connection.run(ADD_PART, (thread_pk, part.part, path, *places))
            file = (path, TRANSCRIPTS, thread.space, owner, int(part.digest is not None))
            connection.run(ADD_READ_FILE, (*file, part.digest, part.announced))
            if version := part.digest or part.announced:
                record_version(connection, path, version)
        key = thread_key(thread.ref)
        jobs = [
            NewJob(BOUNDARY, cells_lane(key), thread.space, thread.ref, now),
            NewJob(TRANSCRIBE, vault_lane(key), thread.space, thread.ref, now),
        ]
        queue_jobs(connection, jobs, now)

    @write_transaction
    def add_remembered(self, connection: Connection, remembered: Remembered) -> None:
        """Before all else: it says what must not be imported."""
        connection.many(ADD_TOMBSTONE, sorted(remembered.tombstones))
        connection.many(
            ADD_DELETION,
            [deletion_row(space, owner, each) for (space, _), (owner, each) in remembered.deletions.items()],
        )
        connection.many(ADD_GONE_CASE, [(entry_id,) for entry_id in remembered.gone_cases])
        connection.many(
            "INSERT INTO written_files (file, digest, number, gone) VALUES (?, ?, ?, ?)",
            [(*version, number, gone) for number, (version, gone) in enumerate(remembered.versions.items())],
        )

    async def add_keys(self, keys: list[tuple[ApiKey, str]], closed_at: int | None) -> None:
        """With their hashes, and the mark that requests without a key are refused."""

        def work(connection: Connection) -> None:
            connection.many(ADD_KEY, [key_row(key, secret_hash) for key, secret_hash in keys])
            if closed_at is not None:
                connection.run(CLOSE, (closed_at,))

        await self._database.write(work)

    async def add_webhooks(self, webhooks: list[Webhook]) -> None:
        await self._database.execute_many(ADD_WEBHOOK, map(webhook_row, webhooks))

    async def add_audit_lines(self, lines: list[str]) -> None:
        await self._database.execute_many(ADD_AUDIT_LINE, ((line,) for line in lines))


class SqlLedgerOutbox:
    """Brings the ledger up to the journal."""

    def __init__(self, database: Database, ledger: Ledger) -> None:
        self._database = database
        self.ledger = ledger
        self._draining = asyncio.Lock()

    async def drain(self) -> None:
        """Every deletion that is committed is in the ledger when this returns; all of them where it was missing.

        One after another: of a deletion and its undoing, the last line counts. A kill may leave lines there twice.
        """
        async with self._draining:
            waiting = await self._database.read("SELECT number, line FROM ledger_outbox ORDER BY number")
            lines: Sequence[str] = [line for _, line in waiting]
            if not await self.ledger.is_there():
                lines = (await self.remembered()).lines()
            elif not waiting:
                return
            await self.ledger.append(lines)
            if waiting:
                await self._database.execute("DELETE FROM ledger_outbox WHERE number <= ?", (waiting[-1][0],))

    async def remembered(self) -> Remembered:
        """All that the journal knows of what was deleted or forgotten, and of versions of files."""
        return await self._database.query(_remembered)


def _remembered(connection: Connection) -> Remembered:
    found = Remembered()
    sql = "SELECT space, user_id, thread_key, message_key, number FROM tombstones"
    found.tombstones = {
        (space, user_id, thread, message, number)
        for space, user_id, thread, message, number in connection.all(sql)
    }
    for row in connection.all("SELECT * FROM buried_entries"):
        found.deletions[row["space"], row["entry_id"]] = row["owner"], deletion_of(row)
    for file, digest, gone in connection.all("SELECT file, digest, gone FROM written_files ORDER BY number"):
        found.versions[file, digest] = bool(gone)
    found.gone_cases = {entry_id for (entry_id,) in connection.all("SELECT entry_id FROM gone_cases")}
    found.a_key_existed = connection.one("SELECT 1 FROM api_keys LIMIT 1") is not None
    return found


def _turn_row(thread_pk: int, turn: Turn) -> tuple[object, ...]:
    digest = turn_digest(turn, turn.message_id)
    return turn_row(
        thread_pk, place_of(turn), turn.message_id, turn, turn.skip_reason, turn.timestamp, digest
    )


def _insert_cells(
    connection: Connection,
    thread_pk: int,
    thread: Thread,
    turns: list[Turn],
    cells: list[Memcell],
    pks: dict[int, int],
    now: int,
) -> set[str]:
    """Returns the turns that are in a cell. A turn that two cells claim goes to the first."""
    by_id = {turn.turn_id: turn for turn in turns if turn.skip_reason is None}
    celled: set[str] = set()
    for cell in cells:
        members = [turn_id for turn_id in cell.turn_ids if turn_id in by_id and turn_id not in celled]
        if not members:
            continue
        celled.update(members)
        numbers = [turn_number(turn_id) or 0 for turn_id in members]
        insert_cell(
            connection,
            thread_pk,
            thread.ref,
            Memcell(cell.memcell_id, tuple(members), cell.reason),
            [(pks[number], by_id[name].message_id) for number, name in zip(numbers, members, strict=True)],
            max(numbers),
            now,
            transcribed=not cell.links,  # Whether these still lead anywhere is not known yet.
        )
    return celled


def _insert_buffer(
    connection: Connection,
    thread_pk: int,
    thread: Thread,
    turns: list[Turn],
    pks: dict[int, int],
    celled: set[str],
) -> None:
    connection.many(
        "INSERT INTO unprocessed_buffer (turn_pk, thread_pk, space, session_id, message_id) VALUES (?, ?, ?, ?, ?)",
        [
            (pks[turn_number(turn.turn_id) or 0], thread_pk, thread.space, thread.thread_id, turn.message_id)
            for turn in turns
            if turn.turn_id not in celled and turn.skip_reason is None
        ],
    )
