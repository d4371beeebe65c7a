"""Which notes there are, as they were last seen in the vault."""

from collections.abc import Iterable

from recollect.infra.sql.database import Database
from recollect.memory.note import Note

KNOWN = "SELECT path, owner, digest, modified FROM notes WHERE :owner IS NULL OR owner = :owner ORDER BY path"

SEEN = """
INSERT INTO notes (path, owner, digest, modified) VALUES (?, ?, ?, ?)
ON CONFLICT (path) DO UPDATE SET owner = excluded.owner, digest = excluded.digest, modified = excluded.modified"""


class SqlNoteStore:
    """The notes of the vault, by their path."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def known(self, owner: str | None = None) -> list[Note]:
        found = await self._database.read(KNOWN, {"owner": owner})
        return [Note(row["path"], row["owner"], row["digest"], row["modified"]) for row in found]

    async def seen(self, note: Note) -> None:
        row = (note.path, note.owner, note.digest, note.modified)
        await self._database.write(lambda connection: connection.execute(SEEN, row).rowcount)

    async def gone(self, paths: Iterable[str]) -> None:
        rows = [(path,) for path in paths]
        await self._database.write(
            lambda connection: connection.executemany("DELETE FROM notes WHERE path = ?", rows).rowcount
        )
