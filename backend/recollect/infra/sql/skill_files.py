"""What we wrote into the files of skills."""

from recollect.infra.sql.database import Database


class SqlSkillFiles:
    """One row a file: its text as it was written last, and as it may have been written since."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def last_written(self, path: str, current: str | None) -> str | None:
        """Of the two that we may have put there, the one that stands there now; else the one that surely did."""
        found = await self._database.read("SELECT text, writing FROM skill_files WHERE path = ?", (path,))
        if not found:
            return None
        text: str | None = found[0]["text"]
        writing: str | None = found[0]["writing"]
        return writing if writing is not None and writing == current else text

    async def announce(self, path: str, text: str) -> None:
        """Before it is written."""
        await self._database.write(
            lambda connection: (
                connection.execute(
                    "INSERT INTO skill_files (path, writing) VALUES (?, ?)"
                    " ON CONFLICT (path) DO UPDATE SET writing = excluded.writing",
                    (path, text),
                ).rowcount
            )
        )

    async def record(self, path: str, text: str) -> None:
        """It stands there."""
        await self._database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE skill_files SET text = ?, writing = NULL WHERE path = ?", (text, path)
                ).rowcount
            )
        )

    async def forget(self, path: str) -> None:
        await self._database.write(
            lambda connection: connection.execute("DELETE FROM skill_files WHERE path = ?", (path,)).rowcount
        )
