"""What of each thread stands in the vault already, and what has yet to be written."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from recollect.errors import Unavailable
from recollect.infra.sql.database import Database
from recollect.infra.sql.rows import THREAD_COLUMNS, TURN_COLUMNS, memcell_of, thread_of, turn_of
from recollect.memory.model import Memcell
from recollect.memory.transcript_state import PlacedTurn, StoredPart, TranscriptState

PARTS = "SELECT part, first_position, last_position, header_revision, digest, writing FROM transcript_parts"

STALE_PARTS = f"""
{PARTS} p WHERE thread_pk = :pk AND (
    digest IS NULL OR (part = 1 AND header_revision != :revision)
    OR EXISTS (SELECT 1 FROM memcell m WHERE m.thread_pk = :pk AND m.transcribed = 0
        AND m.last_position BETWEEN p.first_position AND p.last_position)
) ORDER BY part"""


class SqlTranscriptStore:
    """Bookkeeping of transcripts: a part is recorded before and after its file is put in place."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def state(self, space: str, thread_id: str) -> TranscriptState | None:
        """None for a thread that is gone."""
        found = await self._database.read(
            f"SELECT pk, header_revision, {THREAD_COLUMNS} FROM threads WHERE space = ? AND thread_id = ?",
            (space, thread_id),
        )
        if not found:
            return None
        pk, revision = found[0]["pk"], found[0]["header_revision"]
        last = await self._database.read(f"{PARTS} WHERE thread_pk = ? ORDER BY part DESC LIMIT 1", (pk,))
        stale = await self._database.read(STALE_PARTS, {"pk": pk, "revision": revision})
        return TranscriptState(
            thread=thread_of(found[0]),
            header_revision=revision,
            last_part=_part_of(last[0]) if last else None,
            stale_parts=tuple(_part_of(row) for row in stale),
        )

    async def turns(
        self, space: str, thread_id: str, first: int, last: int | None = None, limit: int = -1
    ) -> list[PlacedTurn]:
        """Turns that are final, by their place in the thread, `first` and `last` included."""
        found = await self._database.read(
            f"SELECT {TURN_COLUMNS} FROM turns WHERE thread_pk ="
            " (SELECT pk FROM threads WHERE space = ? AND thread_id = ?)"
            " AND position >= ? AND position <= ? AND status NOT IN ('queued', 'streaming')"
            " ORDER BY position LIMIT ?",
            (space, thread_id, first, 2**62 if last is None else last, limit),
        )
        return [PlacedTurn(row["position"], turn_of(row)) for row in found]

    async def cells(self, space: str, thread_id: str, first: int, last: int) -> list[Memcell]:
        """The memcells whose last turn stands between these places."""
        found = await self._database.read(
            "SELECT memcell_id, turn_ids_json, reason FROM memcell WHERE thread_pk ="
            " (SELECT pk FROM threads WHERE space = ? AND thread_id = ?)"
            " AND last_position BETWEEN ? AND ? ORDER BY last_position",
            (space, thread_id, first, last),
        )
        return [memcell_of(row) for row in found]

    async def parts(self, space: str, thread_id: str) -> list[StoredPart]:
        found = await self._database.read(
            f"{PARTS} WHERE thread_pk = (SELECT pk FROM threads WHERE space = ? AND thread_id = ?) ORDER BY part",
            (space, thread_id),
        )
        return [_part_of(row) for row in found]

    async def any_parts(self) -> bool:
        return bool(
            await self._database.read("SELECT 1 FROM transcript_parts WHERE digest IS NOT NULL LIMIT 1")
        )

    async def announce(self, space: str, thread_id: str, part: StoredPart) -> None:
        """Before the file is put in place: if we die then, what stands there is known to be ours."""
        await self._database.write(
            lambda connection: connection.execute(
                "INSERT INTO transcript_parts (thread_pk, part, first_position, last_position, header_revision,"
                " writing) SELECT pk, ?, ?, ?, ?, ? FROM threads WHERE space = ? AND thread_id = ?"
                " ON CONFLICT (thread_pk, part) DO UPDATE SET writing = excluded.writing",
                (
                    part.part, part.first_position, part.last_position, part.header_revision, part.writing,
                    space, thread_id,
                ),
            ).rowcount
        )  # fmt: skip

    async def record(self, space: str, thread_id: str, part: StoredPart, cells: Sequence[Memcell]) -> None:
        """After the file is in place."""

        def store(connection: sqlite3.Connection) -> None:
            row = connection.execute(
                "SELECT pk FROM threads WHERE space = ? AND thread_id = ?", (space, thread_id)
            ).fetchone()
            if row is None:
                return
            connection.execute(
                "UPDATE transcript_parts SET first_position = ?, last_position = ?, header_revision = ?,"
                " digest = ?, writing = NULL WHERE thread_pk = ? AND part = ?",
                (
                    part.first_position, part.last_position, part.header_revision, part.digest, row[0], part.part,
                ),
            )  # fmt: skip
            connection.executemany(
                "UPDATE memcell SET transcribed = 1 WHERE thread_pk = ? AND memcell_id = ?",
                [(row[0], cell.memcell_id) for cell in cells],
            )

        await self._database.write(store)

    async def forget_part(self, space: str, thread_id: str, part: int) -> None:
        """The file is gone: whatever stands there next is not ours until we have written it."""
        await self._database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE transcript_parts SET digest = NULL, writing = NULL WHERE part = ? AND thread_pk ="
                    " (SELECT pk FROM threads WHERE space = ? AND thread_id = ?)",
                    (part, space, thread_id),
                ).rowcount
            )
        )

    async def forget_parts(self, space: str, user_id: str, thread_id: str) -> None:
        """All files of a user's thread are gone; what the thread holds now has yet to be written."""

        def forget(connection: sqlite3.Connection) -> None:
            mine = "(SELECT pk FROM threads WHERE space = ? AND user_id = ? AND thread_id = ?)"
            bound = (space, user_id, thread_id)
            connection.execute(f"DELETE FROM transcript_parts WHERE thread_pk = {mine}", bound)
            connection.execute(f"UPDATE memcell SET transcribed = 0 WHERE thread_pk = {mine}", bound)

        await self._database.write(forget)

    async def tombstones(self, space: str, user_id: str, thread_key: str) -> list[tuple[int, str]]:
        """(turn number, message key) of all that was forgotten in a user's thread."""
        found = await self._database.read(
            "SELECT number, message_key FROM tombstones WHERE space = ? AND user_id = ? AND thread_key = ?"
            " ORDER BY number",
            (space, user_id, thread_key),
        )
        return [(row["number"], row["message_key"]) for row in found]

    async def fold_log(self) -> None:
        """Fold the write-ahead log into the file and empty it, so that nothing forgotten stays in it."""
        busy, *_ = await self._database.outside_transaction(
            lambda connection: connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        )
        if busy:
            raise Unavailable("somebody is reading the journal; its log is emptied when they are done")


def _part_of(row: Any) -> StoredPart:
    return StoredPart(
        part=row["part"],
        first_position=row["first_position"],
        last_position=row["last_position"],
        header_revision=row["header_revision"],
        digest=row["digest"],
        writing=row["writing"],
    )
