"""Files of entries and of skills: what each holds, what is still to be written to it, and its earlier versions."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from recollect.domain.entries.entry import (
    BY_HAND,
    FROM_CASES,
    Actor,
    EntryChange,
    FiledEntry,
    PastSkill,
    SeenSkill,
)
from recollect.domain.identity import file_key, key_within_user, text_digest, turn_number
from recollect.domain.job import ENTRIES, file_lane
from recollect.domain.model import ThreadRef
from recollect.domain.paths import file_name, owner_of_path
from recollect.domain.vault_file import SKILL_FILES, KnownFile
from recollect.infra.journal.connector import Connection, Row
from recollect.infra.journal.database import read_transaction, write_transaction
from recollect.infra.journal.entry_changes import ADD_LEAVING, EntryWriter, drop_leaving, forget_entry_file
from recollect.infra.journal.entry_rows import SELECT_ENTRIES, known_of
from recollect.infra.journal.prompts import end_quoting_epochs
from recollect.infra.journal.rows import queue_jobs
from recollect.infra.journal.vault_files import (
    ADD_FILE,
    SqlVaultFiles,
    file_job,
    forget_file,
    import_version,
    move_versions,
    record_version,
    retire_versions,
    settle,
    touch,
    unwrite,
)


@dataclass(frozen=True, slots=True)
class FileParts:
    """What a file of entries is made of."""

    sections: Mapping[str, str]
    """By their ids: the digests of the sections that are new in it."""
    gone: Collection[str] = ()
    """The ids of entries whose sections go from it."""


class SqlEntryFileStore(SqlVaultFiles):
    """Files of entries, what each should hold, and which owners and threads their paths name."""

    kind = ENTRIES

    async def entries_in(self, path: str) -> list[FiledEntry]:
        """The entries that belong in a file, oldest first."""
        found = await self._database.read(
            f"{SELECT_ENTRIES} WHERE e.path = ? ORDER BY e.when_ms, e.entry_id", (path,)
        )
        return [_filed(row) for row in found]

    async def places(self) -> dict[tuple[str, str], str]:
        """By space and id: the file of each entry."""
        found = await self._database.read("SELECT space, entry_id, path FROM entries")
        return {(row["space"], row["entry_id"]): row["path"] for row in found}

    async def contents(self, path: str) -> tuple[list[FiledEntry], frozenset[str]]:
        """The entries that belong in a file, and the ids of those whose sections have to go from it.

        An entry that is removed between the two reads is still among the first: its section goes next time.
        """
        here = await self.entries_in(path)
        return here, await self.leaving(path) - {each.known.entry_id for each in here}

    async def leaving(self, path: str) -> frozenset[str]:
        """Ids of those whose sections have to go from a file."""
        found = await self._database.read("SELECT entry_id FROM leaving_entries WHERE path = ?", (path,))
        return frozenset(row["entry_id"] for row in found)

    def _announced(self, connection: Connection, file: KnownFile, parts: FileParts) -> None:
        connection.many(
            "UPDATE entries SET filing = ? WHERE path = ? AND entry_id = ?",
            [(digest, file.path, entry_id) for entry_id, digest in parts.sections.items()],
        )

    def _recorded(self, connection: Connection, file: KnownFile, parts: FileParts) -> None:
        connection.run(
            "UPDATE entries SET filed = filing, filing = NULL WHERE path = ? AND filing IS NOT NULL",
            (file.path,),
        )
        drop_leaving(connection, file.path, parts.gone)

    def _is_empty(self, connection: Connection, path: str) -> bool:
        return connection.one("SELECT 1 FROM entries WHERE path = ? LIMIT 1", (path,)) is None

    def _forget(self, connection: Connection, path: str) -> None:
        forget_entry_file(connection, path)

    def _unwrite(self, connection: Connection, path: str) -> None:
        unwrite(connection, path)
        connection.run("UPDATE entries SET filed = NULL, filing = NULL WHERE path = ?", (path,))

    async def record_edits(
        self,
        path: str,
        digest: str,
        change: EntryChange,
        filed: Mapping[str, str],
        *,
        settled_at: int | None = None,
        delay_ms: int = 0,
        leaving: Collection[str] = (),
    ) -> None:
        """What a person wrote is known, and their file is known to hold it.

        `filed` are the digests of its sections. The file is written in `delay_ms`, unless with this change it holds
        all that it did not hold at the revision `settled_at`. Sections of `leaving` ids have to go from it.
        """

        def record_edits(connection: Connection) -> tuple[set[str], int | None]:
            now = self._clock()
            before = connection.one("SELECT revision FROM vault_files WHERE path = ?", (path,))
            writer = EntryWriter(connection, change, now, {path: delay_ms})
            due = writer.apply()
            if leaving:
                connection.many(
                    ADD_LEAVING,
                    [(path, entry_id) for entry_id in leaving],
                )
                touch(connection, ENTRIES, path, change.space, change.owner, now)
            revision, written = import_version(connection, ENTRIES, path, change.space, change.owner, digest)
            record_version(connection, path, digest)
            connection.many(
                "UPDATE entries SET filed = ?, filing = NULL WHERE path = ? AND entry_id = ?",
                [(digest, path, entry_id) for entry_id, digest in filed.items()],
            )
            if settled_at is not None and settled_at == (0 if before is None else before[0]):
                _settle(connection, path)
            elif revision != written:
                later = queue_jobs(connection, [file_job(ENTRIES, change.space, path, now + delay_ms)], now)
                due = later if due is None else min(due, later)
            return writer.changed, due

        self._on_entries(change.owner, await self._change(record_edits))

    async def thread_of(self, space: str, thread_folder: str) -> ThreadRef | None:
        """The thread whose transcript is in a folder."""
        user, name = thread_folder.split("/")[2], thread_folder.rpartition("/")[2]
        where, parameters = "space = ?", [space]
        if file_name(name) == name:
            where, parameters = f"{where} AND thread_id = ?", [*parameters, name]
        elif file_name(user) == user:
            where, parameters = f"{where} AND user_id = ?", [*parameters, user]
        found = await self._database.read(f"SELECT thread_id, user_id FROM threads WHERE {where}", parameters)
        for row in found:
            if file_name(row["thread_id"]) == name and file_name(row["user_id"]) == user:
                return ThreadRef(space, row["user_id"], row["thread_id"])
        return None

    async def is_forgotten(self, space: str, thread_folder: str, turn_id: str) -> bool:
        """Whether the turn of a thread, which may be forgotten as a whole, has a tombstone."""
        user, name = thread_folder.split("/")[2], thread_folder.rpartition("/")[2]
        thread = await self.thread_of(space, thread_folder)
        key = key_within_user(space, name if thread is None else thread.thread_id)
        found = await self._database.read(
            "SELECT user_id FROM tombstones WHERE space = ? AND thread_key = ? AND number = ?",
            (space, key, turn_number(turn_id)),
        )
        return any(file_name(row["user_id"]) == user for row in found)


def _filed(row: Row) -> FiledEntry:
    digests = [digest for digest in (row["filed"], row["filing"]) if digest is not None]
    return FiledEntry(known_of(row), frozenset(digests), was_there=row["filed"] is not None)


def _settle(connection: Connection, path: str) -> None:
    settle(connection, path)
    connection.run("DELETE FROM leaving_entries WHERE path = ?", (path,))
    connection.run(
        "DELETE FROM jobs WHERE lane = ? AND kind = ? AND dedupe = '' AND state = 'queued'",
        (file_lane(ENTRIES, path), ENTRIES),
    )


_MOST_VERSIONS = 50
"""Of each file; the oldest ones go."""

ADD_VERSION = """
INSERT INTO skill_versions (path, revision, text, cases_json, actor, cause, at) VALUES (?, ?, ?, ?, ?, ?, ?)"""

# A case's id tells its space and its agent: no other has the same.
GONE_CASES = """
SELECT entry_id FROM (
    SELECT entry_id FROM gone_cases
    UNION SELECT entry_id FROM buried_entries WHERE kind = 'cases'
    UNION SELECT c.value FROM buried_entries b, json_each(b.turn_ids_json) c WHERE b.kind = 'skills'
) gone WHERE entry_id NOT IN (SELECT entry_id FROM entries WHERE kind = 'cases')"""

NAMING_GONE_CASES = f"""
SELECT v.path, v.revision FROM skill_versions v LEFT JOIN skill_files f ON f.path = v.path
WHERE substr(v.path, 1, length(:below)) = :below AND EXISTS (
    SELECT 1 FROM json_each(v.cases_json) c WHERE c.value IN ({GONE_CASES})
    OR (f.text IS NOT NULL AND c.value NOT IN (SELECT entry_id FROM entries WHERE space = :space)))"""

WHOSE_CASES = """
SELECT e.entry_id, e.owner, min(h.user_id) AS user_id FROM entries e JOIN entry_sources s ON s.entry_pk = e.pk
JOIN threads h ON h.pk = s.thread_pk
WHERE e.kind = 'cases' AND e.entry_id IN (SELECT value FROM json_each(?))
GROUP BY e.pk HAVING min(h.user_id) = max(h.user_id)"""

SKILL_TEXTS = "SELECT path, seen FROM skill_files WHERE seen IS NOT NULL ORDER BY path"

SKILL_VERSIONS = """
SELECT text FROM skill_versions WHERE path = :path
UNION SELECT seen FROM skill_files WHERE path = :path AND seen IS NOT NULL"""

WAS_OURS = """
SELECT 1 FROM written_files WHERE file = ?
UNION SELECT 1 FROM entries WHERE kind = 'cases' AND entry_id IN (SELECT value FROM json_each(?))"""

KNOWN_SKILL = """
SELECT s.seen, s.writing, s.text, f.revision FROM skill_files s JOIN vault_files f ON f.path = s.path
WHERE s.path = ?"""

_case_ids = re.compile(r"\bca-[0-9a-f]{12}\b").findall


@dataclass(frozen=True, slots=True)
class SkillParts:
    """A version of a skill's file that was made, and by whom."""

    text: str
    actor: Actor = "extraction"
    cause: str = FROM_CASES


class SqlSkillFiles(SqlVaultFiles):
    """The texts of each file: as it was written last, as it may have been written since, and as it was last seen."""

    kind = SKILL_FILES

    async def file_at(self, path: str) -> KnownFile:
        """The file as it is known, or one of which nothing is known yet."""
        owner = owner_of_path(path) or ""
        known = await self.file(path) or KnownFile(path, self.kind, "", owner)
        return replace(known, space=await self.space_of(owner) or owner.partition("/")[0])

    async def last_written(self, path: str, current: str | None) -> str | None:
        """Our last version of the file: the announced one if it is the `current` text, else the recorded one."""
        found = await self._database.one("SELECT text, writing FROM skill_files WHERE path = ?", (path,))
        if found is None:
            return None
        ours: str | None = found["writing"] if found["writing"] == current else None
        return found["text"] if ours is None else ours

    def _announced(self, connection: Connection, file: KnownFile, parts: SkillParts | None) -> None:
        connection.run(ADD_FILE, (file.path, file.kind, file.space, file.owner))
        if file.digest is not None:
            record_version(connection, file.path, file.digest)
        if parts is not None and parts.actor == "extraction":
            connection.run(
                "INSERT INTO skill_files (path, writing) VALUES (?, ?)"
                " ON CONFLICT (path) DO UPDATE SET writing = excluded.writing",
                (file.path, parts.text),
            )

    def _recorded(self, connection: Connection, file: KnownFile, parts: SkillParts | None) -> None:
        if parts is not None:
            self._see(connection, file, parts)

    def _is_empty(self, connection: Connection, path: str) -> bool:
        """A skill is its file: what is not there holds nothing."""
        return True

    def _forget(self, connection: Connection, path: str) -> None:
        """The file, all that it held before, and the epochs of chats that were offered it.

        What a person wrote in a skill of ours does not come back either; a skill that is all their own may.
        """
        texts = [text for (text,) in connection.all(SKILL_VERSIONS, {"path": path})]
        cases = json.dumps(_case_ids("\n".join(texts)))
        if connection.one(WAS_OURS, (file_key(path), cases)) is not None:
            retire_versions(connection, path, map(text_digest, texts))
        forget_file(connection, path)
        for (space,) in connection.all("SELECT DISTINCT space FROM threads"):
            if file_name(space) == path.partition("/")[0]:
                end_quoting_epochs(connection, space, None, [path])
        for table in ("skill_files", "skill_versions"):
            connection.run(f"DELETE FROM {table} WHERE path = ?", (path,))

    async def is_purging(self) -> bool:
        """Purges leave these files to whoever makes skills: an old copy of a deleted one goes at once."""
        return False

    async def is_old_copy(self, path: str, *digests: str) -> bool:
        """What we wrote last is none: a person who puts it back undoes their own change."""
        row = await self._database.one("SELECT text, writing FROM skill_files WHERE path = ?", (path,))
        ours = () if row is None else (row["text"], row["writing"])
        if digests[0] in [text_digest(text) for text in ours if text is not None]:
            return False
        return await SqlVaultFiles.is_old_copy(self, path, *digests)

    async def see(self, path: str, text: str) -> None:
        """Record what is in the file: a version that we announced is ours, any other a person's."""
        file, parts = await self.file_at(path), SkillParts(text, "person", BY_HAND)
        await self._database.write(lambda connection: self._see(connection, file, parts))

    async def seen(self, below: str = "") -> list[SeenSkill]:
        """The files that should be there, in the order of their paths; with `below`, those in that folder."""
        found = await self._database.read(
            "SELECT s.path, s.seen AS text, f.revision FROM skill_files s JOIN vault_files f ON f.path = s.path"
            " WHERE s.seen IS NOT NULL AND substr(s.path, 1, length(?)) = ? ORDER BY s.path",
            (below, below),
        )
        return [SeenSkill(**row) for row in found]

    @read_transaction
    def of_users(self, connection: Connection) -> dict[str, list[str]]:
        """By the folders of users: the files of skills whose cases all came from threads of that user."""
        named = {path: _case_ids(text) for path, text in connection.all(SKILL_TEXTS)}
        cases = json.dumps([case_id for ids in named.values() for case_id in ids])
        users = {
            case_id: f"{owner.partition('/')[0]}/users/{file_name(user_id)}"
            for case_id, owner, user_id in (connection.all(WHOSE_CASES, (cases,)) if named else ())
        }
        found: dict[str, list[str]] = {}
        for path, ids in named.items():
            whose = {users.get(case_id) for case_id in ids}
            if len(whose) == 1 and (user := whose.pop()) is not None:
                found.setdefault(user, []).append(path)
        return found

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
            forget = "DELETE FROM skill_versions WHERE path = ? AND revision = ?"
            await self._database.execute_many(forget, [(row["path"], row["revision"]) for row in gone])

    async def gone_cases(self) -> frozenset[str]:
        """The ids of all that were here and are forgotten."""
        return frozenset(row["entry_id"] for row in await self._database.read(GONE_CASES))

    @write_transaction
    def move(self, connection: Connection, path: str, to: str) -> None:
        """A person gave the file another place: all that is known of it is known of that one."""
        move_versions(connection, path, to)
        for table in ("vault_files", "skill_files", "skill_versions"):
            connection.run(f"DELETE FROM {table} WHERE path = ?", (to,))
            connection.run(f"UPDATE {table} SET path = ? WHERE path = ?", (to, path))

    def _see(self, connection: Connection, file: KnownFile, parts: SkillParts) -> None:
        row = connection.one(KNOWN_SKILL, (file.path,))
        before, writing, written, revision = row or (None, None, None, 0)
        actor, cause = parts.actor, parts.cause
        if writing == parts.text:
            actor, cause = "extraction", FROM_CASES
            connection.run(
                "UPDATE skill_files SET text = writing, writing = NULL WHERE path = ?", (file.path,)
            )
        if before == parts.text:
            return
        if before is not None:
            # A person may have taken them out of the file; its words are still those of the cases.
            cases = json.dumps(sorted({*_case_ids(before), *_case_ids(written or "")}))
            connection.run(ADD_VERSION, (file.path, revision, before, cases, actor, cause, self._clock()))
            touch(connection, self.kind, file.path, file.space, file.owner, 1)
        import_version(connection, self.kind, file.path, file.space, file.owner, text_digest(parts.text))
        settle(connection, file.path)
        connection.run(
            "INSERT INTO skill_files (path, seen) VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET seen = excluded.seen",
            (file.path, parts.text),
        )
        connection.run(
            "DELETE FROM skill_versions WHERE path = ? AND revision <= ?",
            (file.path, revision - _MOST_VERSIONS),
        )
