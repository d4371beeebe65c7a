"""Which notes there are, as they were last seen in the vault."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from recollect.infra.sql.database import Database
from recollect.memory.note import Note

KNOWN = "SELECT path, owner, digest, modified FROM notes ORDER BY path"

OF_OWNER = "SELECT path, owner, digest, modified FROM notes WHERE owner = ? ORDER BY path"

AT_PATHS = """
SELECT path, owner, digest, modified FROM notes WHERE path IN (SELECT value FROM json_each(?)) ORDER BY path"""

SEEN = """
INSERT INTO notes (path, owner, digest, modified) VALUES (?, ?, ?, ?)
ON CONFLICT (path) DO UPDATE SET owner = excluded.owner, digest = excluded.digest, modified = excluded.modified"""


class SqlNoteStore:
    """The notes of the vault, by their path."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def known(self, owner: str | None = None) -> list[Note]:
        return await (self._found(KNOWN, ()) if owner is None else self._found(OF_OWNER, (owner,)))

    async def at(self, paths: Collection[str]) -> list[Note]:
        """Those of these that are known."""
        return await self._found(AT_PATHS, (json.dumps(list(paths)),))

    async def seen(self, note: Note) -> None:
        row = (note.path, note.owner, note.digest, note.modified)
        await self._database.write(lambda connection: connection.execute(SEEN, row).rowcount)

    async def gone(self, paths: Iterable[str]) -> None:
        rows = [(path,) for path in paths]
        await self._database.write(
            lambda connection: connection.executemany("DELETE FROM notes WHERE path = ?", rows).rowcount
        )

    async def _found(self, sql: str, bound: tuple[Any, ...]) -> list[Note]:
        return [note_of(row) for row in await self._database.read(sql, bound)]


def note_of(row: Mapping[str, Any]) -> Note:
    return Note(row["path"], row["owner"], row["digest"], row["modified"])
