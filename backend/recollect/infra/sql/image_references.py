"""Which images the turns of a user's threads refer to."""

from recollect.infra.sql.database import Database
from recollect.memory.images import references_in

REFERRING = """
SELECT t.parts_json FROM turns t JOIN threads h ON h.pk = t.thread_pk
WHERE h.space = ? AND h.user_id = ? AND t.parts_json LIKE '%vault:images/%'"""


class SqlImageReferences:
    """Asked when something was forgotten, and only for users who have images."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def referred(self, space: str, user_id: str) -> set[str]:
        found = await self._database.read(REFERRING, (space, user_id))
        return {name for row in found for name in references_in(row["parts_json"])}
