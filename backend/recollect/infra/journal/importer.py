"""Taking whole threads into an empty journal."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace

from recollect.domain.access import ApiKey
from recollect.domain.forgetting import TombstoneFile
from recollect.domain.identity import looks_made, place_of, thread_key, turn_digest, turn_number
from recollect.domain.job import BOUNDARY, TRANSCRIBE, cells_lane, vault_lane
from recollect.domain.model import Memcell, Thread, Turn
from recollect.domain.vault_file import StoredPart
from recollect.infra.journal.cells import insert_cell
from recollect.infra.journal.database import Database, write_transaction
from recollect.infra.journal.forget_prompts import ADD_TOMBSTONE
from recollect.infra.journal.people import ADD_KEY, CLOSE, key_row
from recollect.infra.journal.rows import NewJob, insert_rows, queue_jobs
from recollect.infra.journal.turns import INSERT_TURNS, insert_thread, turn_row


class SqlImporter:
    """What the vault holds, as rows. Tombstones come before the threads they belong to."""

    def __init__(self, database: Database, *, clock: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock

    @write_transaction
    def add_thread(
        self,
        connection: sqlite3.Connection,
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
        connection.executemany(
            "UPDATE turns SET edited = 1 WHERE thread_pk = ? AND position = ?",
            [(thread_pk, turn_number(turn.turn_id)) for turn in turns if turn.edited],
        )
        pks = dict(
            connection.execute("SELECT position, pk FROM turns WHERE thread_pk = ?", (thread_pk,)).fetchall()
        )
        celled = _insert_cells(connection, thread_pk, thread, turns, cells, pks, now)
        _insert_buffer(connection, thread_pk, thread, turns, pks, celled)
        connection.executemany(
            "INSERT INTO transcript_parts (thread_pk, part, first_position, last_position, header_revision,"
            " digest, writing) VALUES (?, ?, ?, ?, 1, ?, ?)",
            [
                (thread_pk, item.part, item.first_position, item.last_position, item.digest, item.writing)
                for item in parts
            ],
        )
        key = thread_key(thread.space, thread.thread_id)
        jobs = [
            NewJob(BOUNDARY, cells_lane(key), thread.space, thread.thread_id, now),
            NewJob(TRANSCRIBE, vault_lane(key), thread.space, thread.thread_id, now),
        ]
        queue_jobs(connection, jobs, now)

    async def add_tombstones(self, file: TombstoneFile) -> None:
        rows = [(file.space, file.user_id, file.thread_key, key, number) for number, key in file.messages]
        await self._database.execute_many(ADD_TOMBSTONE, rows)

    async def add_keys(self, keys: list[tuple[ApiKey, str]], closed_at: int | None) -> None:
        """With their hashes, and the mark that requests without a key are refused."""

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(ADD_KEY, [key_row(key, secret_hash) for key, secret_hash in keys])
            if closed_at is not None:
                connection.execute(CLOSE, (closed_at,))

        await self._database.write(work)


def _turn_row(thread_pk: int, turn: Turn) -> tuple[object, ...]:
    digest = turn_digest(turn, turn.message_id)
    return turn_row(
        thread_pk, place_of(turn), turn.message_id, turn, turn.skip_reason, turn.timestamp, digest
    )


def _insert_cells(
    connection: sqlite3.Connection,
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
            (thread.space, thread.thread_id),
            Memcell(cell.memcell_id, tuple(members), cell.reason),
            [(pks[number], by_id[name].message_id) for number, name in zip(numbers, members, strict=True)],
            max(numbers),
            now,
            transcribed=True,
        )
    return celled


def _insert_buffer(
    connection: sqlite3.Connection,
    thread_pk: int,
    thread: Thread,
    turns: list[Turn],
    pks: dict[int, int],
    celled: set[str],
) -> None:
    connection.executemany(
        "INSERT INTO unprocessed_buffer (turn_pk, thread_pk, space, session_id, message_id) VALUES (?, ?, ?, ?, ?)",
        [
            (pks[turn_number(turn.turn_id) or 0], thread_pk, thread.space, thread.thread_id, turn.message_id)
            for turn in turns
            if turn.turn_id not in celled and turn.skip_reason is None
        ],
    )
