"""What we wrote into the files of skills, how they were last seen, and how they were before."""

import json
import re
import sqlite3
from collections.abc import Callable, Iterable

from recollect.infra.sql.database import Database
from recollect.memory.known_entry import Actor
from recollect.memory.skill_record import BY_HAND, FROM_CASES, PastSkill, SeenSkill

_MOST_VERSIONS = 50
"""Of each file; the oldest ones go."""

ADD_VERSION = """
INSERT INTO skill_versions (path, revision, text, cases_json, actor, cause, at) VALUES (?, ?, ?, ?, ?, ?, ?)"""

# A case's id tells its space and its agent: no other has the same. Graves come back with a rebuild, the rest does not.
GONE_CASES = """
SELECT entry_id FROM (
    SELECT entry_id FROM gone_cases
    UNION SELECT entry_id FROM buried_entries WHERE kind = 'cases'
    UNION SELECT c.value FROM buried_entries b, json_each(b.turn_ids_json) c WHERE b.kind = 'skills')
WHERE entry_id NOT IN (SELECT entry_id FROM entries WHERE kind = 'cases')"""

NAMING_GONE_CASES = f"""
SELECT v.path, v.revision FROM skill_versions v LEFT JOIN skill_files f ON f.path = v.path
WHERE substr(v.path, 1, length(:below)) = :below AND EXISTS (
    SELECT 1 FROM json_each(v.cases_json) c WHERE c.value IN ({GONE_CASES})
    OR (f.text IS NOT NULL AND c.value NOT IN (SELECT entry_id FROM entries WHERE space = :space)))"""

_case_ids = re.compile(r"\bca-[0-9a-f]{12}\b").findall


class SqlSkillFiles:
    """One row a file: its text as it was written last, as it may have been written since, and as it was last seen."""

    def __init__(self, database: Database, *, clock: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock

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

        def write(connection: sqlite3.Connection) -> None:
            self._see(connection, path, text, "extraction", FROM_CASES)
            connection.execute("UPDATE skill_files SET text = ?, writing = NULL WHERE path = ?", (text, path))

        await self._database.write(write)

    async def see(self, path: str, text: str, actor: Actor = "person", cause: str = BY_HAND) -> None:
        """The file as it stands, and who made it so; what we announced is our own."""
        await self._database.write(lambda connection: self._see(connection, path, text, actor, cause))

    async def seen(self, below: str = "") -> list[SeenSkill]:
        """The files that should be there, in the order of their paths; with `below`, those in that folder."""
        found = await self._database.read(
            "SELECT path, coalesce(seen, text) AS text, max(revision, 1) AS revision FROM skill_files"
            " WHERE coalesce(seen, text) IS NOT NULL AND substr(path, 1, length(?)) = ? ORDER BY path",
            (below, below),
        )
        return [SeenSkill(row["path"], row["text"], row["revision"]) for row in found]

    async def versions(self, below: str) -> list[PastSkill]:
        """Of a file, or of all in a folder; the oldest first."""
        found = await self._database.read(
            "SELECT path, revision, text, actor, cause, at FROM skill_versions"
            " WHERE substr(path, 1, length(?)) = ? ORDER BY path, revision",
            (below, below),
        )
        return [PastSkill(**row) for row in found]

    async def forget_versions(self, space: str, below: str) -> None:
        """Those in a folder that name a case which was here and is forgotten; of files that we wrote, any that is gone."""
        gone = await self._database.read(NAMING_GONE_CASES, {"space": space, "below": below})
        if gone:
            rows = [(row["path"], row["revision"]) for row in gone]
            forget = "DELETE FROM skill_versions WHERE path = ? AND revision = ?"
            await self._database.write(lambda connection: connection.executemany(forget, rows).rowcount)

    async def gone_cases(self) -> frozenset[str]:
        """The ids of all that were here and are forgotten."""
        return frozenset(row["entry_id"] for row in await self._database.read(GONE_CASES))

    async def keep_gone(self, case_ids: Iterable[str]) -> None:
        """From the journal that was here before."""
        rows = [(case_id,) for case_id in case_ids]
        keep = "INSERT OR IGNORE INTO gone_cases (entry_id) VALUES (?)"
        await self._database.write(lambda connection: connection.executemany(keep, rows).rowcount)

    async def move(self, path: str, to: str) -> None:
        """A person gave the file another place: all that is known of it is known of that one."""

        def write(connection: sqlite3.Connection) -> None:
            for table in ("skill_files", "skill_versions"):
                connection.execute(f"DELETE FROM {table} WHERE path = ?", (to,))
                connection.execute(f"UPDATE {table} SET path = ? WHERE path = ?", (to, path))

        await self._database.write(write)

    async def forget(self, path: str) -> None:
        """The file and all that it held before."""

        def delete(connection: sqlite3.Connection) -> None:
            for table in ("skill_files", "skill_versions"):
                connection.execute(f"DELETE FROM {table} WHERE path = ?", (path,))

        await self._database.write(delete)

    def _see(self, connection: sqlite3.Connection, path: str, text: str, actor: Actor, cause: str) -> None:
        row = connection.execute(
            "SELECT seen, writing, revision, text FROM skill_files WHERE path = ?", (path,)
        ).fetchone()
        before, writing, revision, written = row or (None, None, 0, None)
        if before == text:
            return
        if writing == text:
            actor, cause = "extraction", FROM_CASES
        if before is not None:
            # A person may have taken them out of the file; its words are still those of the cases.
            cases = json.dumps(sorted({*_case_ids(before), *_case_ids(written or "")}))
            connection.execute(ADD_VERSION, (path, revision, before, cases, actor, cause, self._clock()))
        connection.execute(
            "INSERT INTO skill_files (path, seen, revision) VALUES (?, ?, ?)"
            " ON CONFLICT (path) DO UPDATE SET seen = excluded.seen, revision = excluded.revision",
            (path, text, revision + 1),
        )
        connection.execute(
            "DELETE FROM skill_versions WHERE path = ? AND revision <= ?", (path, revision - _MOST_VERSIONS)
        )
