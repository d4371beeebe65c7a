"""The audit log of a server whose home may be lost."""

from recollect.infra.journal.connector import Connection
from recollect.infra.journal.database import Database, write_transaction

LINES_KEPT = 250_000
"""About as much as the files of a home hold."""
ADD_AUDIT_LINE = "INSERT INTO audit_lines (line) VALUES (?)"
FORGET_OLD = "DELETE FROM audit_lines WHERE number <= (SELECT max(number) FROM audit_lines) - ?"


class SqlAuditLines:
    """The newest LINES_KEPT lines."""

    def __init__(self, database: Database, *, kept: int = LINES_KEPT) -> None:
        self._database = database
        self._kept = kept

    @write_transaction
    def append(self, connection: Connection, line: str) -> None:
        """The oldest goes in the same transaction."""
        connection.run(ADD_AUDIT_LINE, (line,))
        connection.run(FORGET_OLD, (self._kept,))

    async def all(self) -> list[str]:
        """The oldest first."""
        return [line for (line,) in await self._database.read("SELECT line FROM audit_lines ORDER BY number")]
