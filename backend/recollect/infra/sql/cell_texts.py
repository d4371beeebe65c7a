"""Memcells with their turns, for extraction."""

import json
import sqlite3
from collections.abc import Sequence

from recollect.infra.sql.database import Database
from recollect.infra.sql.rows import THREAD_COLUMNS, TURN_COLUMNS, named_rows, rows, thread_of, turn_of
from recollect.memory.identity import thread_key, turn_number
from recollect.memory.model import Turn
from recollect.memory.stored_cell import StoredCell

_LOOK_BACK = 200
"""A prompt holds hardly more messages before the cell."""

CELL = f"""
SELECT h.pk, c.turn_ids_json, {", ".join("h." + name.strip() for name in THREAD_COLUMNS.split(","))}
FROM memcell c JOIN threads h ON h.pk = c.thread_pk WHERE h.space = ? AND h.thread_id = ? AND c.memcell_id = ?"""

CELLS_OF_OWNER = """
SELECT c.memcell_id, h.thread_id FROM memcell c JOIN threads h ON h.pk = c.thread_pk
WHERE h.space = :space AND (:user_id IS NULL OR h.user_id = :user_id) AND (:thread_id IS NULL OR h.thread_id = :thread_id)
ORDER BY c.pk"""

RECALLED = """
SELECT b.text FROM turns t JOIN context_blocks b ON b.turn_pk = t.pk
WHERE t.thread_pk = :pk AND t.position BETWEEN :first AND :last AND b.memories_json NOT IN ('[]', '{}')
UNION ALL SELECT summary FROM epochs WHERE thread_pk = :pk AND summary IS NOT NULL"""

PARTS = """
SELECT part, first_position, last_position FROM transcript_parts
WHERE thread_pk = :pk AND digest IS NOT NULL AND last_position >= :first AND first_position <= :last"""


class SqlCellTexts:
    """Reads; never writes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def cell(self, space: str, thread_id: str, memcell_id: str) -> StoredCell | None:
        """None where it is no longer there, or not as it was closed."""
        found = await self._database.read(CELL, (space, thread_id, memcell_id))
        if not found:
            return None
        return await self._stored(space, thread_id, memcell_id, json.loads(found[0]["turn_ids_json"]))

    async def stretch(self, space: str, thread_id: str, turn_ids: Sequence[str]) -> StoredCell | None:
        """Some turns of a thread, as if they were a cell; its id names the thread and the last of them."""
        if not turn_ids:
            return None
        name = f"{thread_key(space, thread_id)[:16]}-{turn_ids[-1]}"
        return await self._stored(space, thread_id, name, turn_ids)

    async def cells_of(
        self, space: str, user_id: str | None = None, thread_id: str | None = None
    ) -> list[tuple[str, str]]:
        """The ids of threads and memcells, in the order in which they were closed."""
        bound = {"space": space, "user_id": user_id, "thread_id": thread_id}
        return [
            (row["thread_id"], row["memcell_id"]) for row in await self._database.read(CELLS_OF_OWNER, bound)
        ]

    async def _stored(
        self, space: str, thread_id: str, memcell_id: str, turn_ids: Sequence[str]
    ) -> StoredCell | None:
        places = sorted(place for place in map(turn_number, turn_ids) if place is not None)

        def read(connection: sqlite3.Connection) -> StoredCell | None:
            heads = rows(
                connection,
                f"SELECT pk, {THREAD_COLUMNS} FROM threads WHERE space = ? AND thread_id = ?",
                (space, thread_id),
            )
            if not heads or not places:
                return None
            marks = ",".join("?" * len(places))
            stored = named_rows(
                connection,
                f"SELECT {TURN_COLUMNS} FROM turns WHERE thread_pk = ? AND position IN ({marks}) ORDER BY position",
                (heads[0]["pk"], *places),
            )
            turns = tuple(turn_of(row) for row in stored)
            bound = {"pk": heads[0]["pk"], "first": places[0] - _LOOK_BACK, "last": places[-1]}
            parts = rows(connection, PARTS, {**bound, "first": places[0]})
            holding = {turn.turn_id: part for turn in turns if (part := _part_of(turn, parts)) is not None}
            texts = dict.fromkeys(row["text"] for row in named_rows(connection, RECALLED, bound))
            return StoredCell(memcell_id, thread_of(heads[0]), turns, holding, "\n".join(texts))

        return await self._database.query(read)


def _part_of(turn: Turn, parts: Sequence[dict[str, int]]) -> int | None:
    place = turn_number(turn.turn_id) or 0
    holding = [row["part"] for row in parts if row["first_position"] <= place <= row["last_position"]]
    return max(holding, default=None)
