"""The files of the vault: what each should hold and holds, its versions, and what the ledger still lacks of them."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from recollect.domain.forgetting import USER, file_line, file_restored_line, forget_lane
from recollect.domain.identity import file_key
from recollect.domain.job import PURGE, file_lane
from recollect.domain.markdown.transcript import is_transcript
from recollect.domain.paths import file_name, is_entry_path, notes_folder, owner_of_path
from recollect.domain.vault_file import EMPTY, KnownFile
from recollect.errors import TooMuchQueued
from recollect.infra.journal.connector import Connection
from recollect.infra.journal.database import Database, write_transaction
from recollect.infra.journal.jobs import QueueingStore
from recollect.infra.journal.rows import NewJob, made, queue_jobs

_MOST_VERSIONS = 1000
"""Kept for each file; older ones are dropped. Only a file that is rewritten all the time, as a profile, has as many."""
_DIGITS = 32
"""Of a digest, which is enough to tell versions apart."""

ADD_VERSION = """
INSERT INTO written_files (file, digest, number) VALUES (?, ?, ?)
ON CONFLICT (file, digest) DO UPDATE SET number = excluded.number, gone = 0"""

ADD_OLD_VERSION = """
INSERT INTO written_files (file, digest, number) VALUES (?, ?, 0) ON CONFLICT (file, digest) DO NOTHING"""

IS_OLD = """
SELECT 1 FROM written_files w JOIN written_files n ON n.file = w.file AND n.number > w.number
WHERE w.file = ? AND w.digest = ?"""

LIFT = "UPDATE written_files SET gone = 0 WHERE file = ? AND digest = ? AND gone = 1 RETURNING file"

IS_CURRENT = "SELECT 1 FROM written_files WHERE file = ? AND digest = ?"

HAS_VERSIONS = "SELECT 1 FROM written_files WHERE file = ? AND gone = 0 LIMIT 1"

IS_DELETED = """
SELECT min(gone) AS is_deleted FROM written_files WHERE digest = :digest AND (file = :file OR :anywhere = 1)"""

MOVED_AWAY = "UPDATE written_files SET number = -1 WHERE file = ? AND digest = ?"
"""A rebuild, which does not know what is where, numbers them anew: then they may be anywhere."""

IS_ELSEWHERE = """
SELECT 1 FROM written_files
WHERE file = :file AND digest IN (substr(:raw, 1, 32), substr(:lf, 1, 32)) AND number < 0 AND NOT EXISTS (
    SELECT 1 FROM vault_files WHERE kind = :kind AND (path = :path OR digest IN (:raw, :lf)))"""

FILES = "SELECT path, kind, space, owner, revision, written, digest, announced FROM vault_files"

TOUCH = """
INSERT INTO vault_files (path, kind, space, owner, revision) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (path) DO UPDATE SET revision = CASE
    WHEN vault_files.revision < excluded.revision THEN excluded.revision ELSE vault_files.revision + 1 END"""

ADD_FILE = """
INSERT INTO vault_files (path, kind, space, owner) VALUES (?, ?, ?, ?) ON CONFLICT (path) DO NOTHING"""

IMPORTED = """
INSERT INTO vault_files (path, kind, space, owner, written, digest) VALUES (?, ?, ?, ?, 1, ?)
ON CONFLICT (path) DO UPDATE SET digest = excluded.digest, announced = NULL RETURNING revision, written"""

ANNOUNCE = "UPDATE vault_files SET announced = ? WHERE path = ?"

HOLDS = "UPDATE vault_files SET written = ?, digest = ?, announced = NULL WHERE path = ?"

UNWRITTEN = "UPDATE vault_files SET written = 0, digest = NULL, announced = NULL WHERE path = ?"


def record_version(connection: Connection, path: str, digest: str) -> None:
    """This version of a file is ours and the current one; those before it are old."""
    version = (file_key(path), digest[:_DIGITS])
    (newest,) = connection.one(
        "SELECT coalesce(max(number), 0) FROM written_files WHERE file = ?", version[:1]
    )
    if connection.one("SELECT 1 FROM written_files WHERE file = ? AND digest = ? AND gone = 1", version):
        add_to_ledger(connection, file_restored_line(*version))
    connection.run(ADD_VERSION, (*version, newest + 1))
    connection.run(
        "DELETE FROM written_files WHERE file = ? AND number <= ?", (version[0], newest + 1 - _MOST_VERSIONS)
    )


def retire_files(connection: Connection, paths: Iterable[str]) -> None:
    """These files were deleted or forgotten: no version of them may come back."""
    for file in map(file_key, paths):
        found = connection.all(
            "UPDATE written_files SET gone = 1 WHERE file = ? AND gone = 0 RETURNING digest", (file,)
        )
        if found:
            add_to_ledger(connection, file_line(file, [digest for (digest,) in found]))


def retire_version(connection: Connection, path: str, digest: str | None) -> None:
    """As `retire_files`, for a file that may be a person's: this version of it does not come back either.

    A note does not come back under any other name of its owner's notes; but whoever likes may have empty ones.
    """
    if digest is not None:
        record_version(connection, path, digest)
    retire_files(connection, [path])
    if digest not in (None, EMPTY) and (folder := notes_folder(path)) is not None:
        connection.run(ADD_VERSION, (file_key(folder), digest[:_DIGITS], 1))
        retire_files(connection, [folder])


def retire_versions(connection: Connection, path: str, digests: Iterable[str]) -> None:
    """As `retire_files`, with these versions, whether they were ours or a person's."""
    connection.many(ADD_OLD_VERSION, [(file_key(path), digest[:_DIGITS]) for digest in digests])
    retire_files(connection, [path])


def retire_removed(connection: Connection, path: str, digest: str) -> None:
    """As `retire_files`, with its last version, for a file that a person removed. One that never was ours may come back."""
    if connection.one(HAS_VERSIONS, (file_key(path),)):
        record_version(connection, path, digest)
        retire_files(connection, [path])


def move_versions(connection: Connection, path: str, to: str) -> None:
    """A person moved a file of ours: what it holds may come back to where it was, while it holds that."""
    row = connection.one("SELECT digest FROM vault_files WHERE path = ? AND digest IS NOT NULL", (path,))
    if row is not None and connection.one(HAS_VERSIONS, (file_key(path),)):
        retire_files(connection, [path])
        for place in (path, to):
            allow_versions(connection, place, row)
        connection.run(MOVED_AWAY, (file_key(path), row[0][:_DIGITS]))


def allow_versions(connection: Connection, path: str, digests: Iterable[str]) -> None:
    """These are versions of a file, and not deleted any more. The last one is the current one."""
    for digest in digests:
        record_version(connection, path, digest)
        version = (file_key(notes_folder(path) or path), digest[:_DIGITS])
        if connection.all(LIFT, version):
            add_to_ledger(connection, file_restored_line(*version))


PURGING = """
SELECT 1 FROM jobs WHERE lane = ? AND state IN ('queued', 'running') AND json_extract(payload_json, '$.step') = ?"""


def is_user_forgotten(connection: Connection, owner: str) -> bool:
    """Whether all that lies in a user's folder is going with it: they were forgotten."""
    return connection.one(PURGING, (forget_lane(owner), USER)) is not None


def require_folder(connection: Connection, owner: str) -> None:
    """Raises TooMuchQueued while what is written there would go with the folder of a forgotten user."""
    if is_user_forgotten(connection, owner):
        raise TooMuchQueued("this user is being forgotten; send this again when that is done")


def add_to_ledger(connection: Connection, *lines: str) -> None:
    """They are taken down after the transaction, and not if it is undone."""
    connection.many("INSERT INTO ledger_outbox (line) VALUES (?)", [(line,) for line in lines])


class FileVersions:
    """The versions of files that we wrote or took in. Mixin of stores of files."""

    _database: Database

    async def is_old_copy(self, path: str, *digests: str) -> bool:
        """Whether this is a version that the file had before its current one, or of a file that is deleted.

        Of `digests`, which are of the same text in several forms, the first one counts that is a version of the file.
        """
        file = file_key(path)
        for digest in dict.fromkeys(digest[:_DIGITS] for digest in digests):
            if await self._database.one(IS_OLD, (file, digest)) is not None:
                return True
            if await self._database.one(IS_CURRENT, (file, digest)) is not None:
                break
        return await self.is_deleted(path, *digests)

    async def has_versions(self, path: str) -> bool:
        """Whether we wrote or took in this file, and it was not deleted since."""
        return await self._database.one(HAS_VERSIONS, (file_key(path),)) is not None

    async def is_deleted(self, path: str, *digests: str) -> bool:
        """Whether this is a version of a file that was deleted or forgotten; `digests` are as above.

        What transcripts and entries hold is deleted wherever it lies, a note among all notes of its owner; anything
        else may be put elsewhere again.
        """
        anywhere = is_entry_path(path) or is_transcript(path)
        for digest in dict.fromkeys(digest[:_DIGITS] for digest in digests):
            for place in filter(None, (path, notes_folder(path))):
                bound = {"file": file_key(place), "digest": digest, "anywhere": anywhere}
                found = await self._database.one(IS_DELETED, bound)
                if found is not None and found["is_deleted"] is not None:
                    return bool(found["is_deleted"])
        return False

    async def is_leaving(self, path: str) -> bool:
        """Whether a file goes with its folder: its user was forgotten, and may have written it before."""
        owner = owner_of_path(path) or ""
        return await self._database.query(lambda connection: is_user_forgotten(connection, owner))

    async def is_purging(self) -> bool:
        """Whether files of what was forgotten are still being removed."""
        sql = "SELECT 1 FROM jobs WHERE kind = ? AND state IN ('queued', 'running') LIMIT 1"
        return await self._database.one(sql, (PURGE,)) is not None

    async def is_version(self, *digests: str) -> bool:
        """Whether any file ever was like this; `digests` are of the same text in several forms."""
        asked = json.dumps([digest[:_DIGITS] for digest in digests])
        sql = "SELECT 1 FROM written_files WHERE digest IN (SELECT value FROM json_each(?))"
        return await self._database.one(sql, (asked,)) is not None

    async def were_ours(self, paths: Collection[str], *, gone: bool = False) -> set[str]:
        """Those of these files that we wrote or took in at some time; with `gone`, that were deleted or forgotten."""
        keys = {file_key(path): path for path in paths}
        found = await self._database.read(
            "SELECT DISTINCT file FROM written_files WHERE file IN (SELECT value FROM json_each(?)) AND gone >= ?",
            (json.dumps(list(keys)), gone),
        )
        return {keys[row["file"]] for row in found}

    async def are_notes(self, paths: Collection[str]) -> set[str]:
        """Those of these files that are known as notes now."""
        sql = "SELECT path FROM notes WHERE path IN (SELECT value FROM json_each(?))"
        return {row["path"] for row in await self._database.read(sql, (json.dumps(list(paths)),))}

    async def retire(self, versions: Mapping[str, str]) -> None:
        """These files, by path and digest, are forgotten; to remove them is up to the caller."""

        def work(connection: Connection) -> None:
            for path, digest in versions.items():
                retire_version(connection, path, digest)

        await self._database.write(work)

    async def allow(self, path: str, *digests: str) -> None:
        """A person puts this there through the API, whatever was there before. The last of `digests` is the current one."""

        await self._database.write(lambda connection: allow_versions(connection, path, digests))


def touch(connection: Connection, kind: str, path: str, space: str, owner: str, revision: int) -> None:
    """What a file should hold has changed: it counts as unwritten. Its first revision is the one given."""
    connection.run(TOUCH, (path, kind, space, owner, revision))


def import_version(
    connection: Connection, kind: str, path: str, space: str, owner: str, digest: str
) -> tuple[int, int]:
    """A person's version of a file is known. Returns the revision of what it should hold, and of what it holds."""
    ((revision, written),) = connection.all(IMPORTED, (path, kind, space, owner, digest))
    return revision, written


def settle(connection: Connection, path: str) -> None:
    """The file holds all that it should."""
    connection.run("UPDATE vault_files SET written = revision WHERE path = ?", (path,))


def unwrite(connection: Connection, path: str) -> None:
    """The file has to be written, whatever it holds."""
    connection.run(UNWRITTEN, (path,))


def forget_file(connection: Connection, path: str) -> None:
    """Nothing is known of a file any longer, but that none of its versions may come back."""
    retire_files(connection, [path])
    connection.run("DELETE FROM vault_files WHERE path = ?", (path,))


def file_job(kind: str, space: str, path: str, run_at: int, **about: object) -> NewJob:
    """The job that settles a file. `about` makes it a job of its own, beside one that just settles it."""
    payload = json.dumps({"path": path, **about}, ensure_ascii=False)
    dedupe = ":".join(f"{name}={value}" for name, value in about.items())
    return NewJob(kind, file_lane(kind, path), space, None, run_at, payload, dedupe, owner_of_path(path))


class SqlVaultFiles(QueueingStore, FileVersions):
    """The files of one kind. A file that has to be written has a job that does it. Every call is one transaction."""

    kind: str
    """Also that of its jobs."""

    async def file(self, path: str) -> KnownFile | None:
        found = await self._database.one(f"{FILES} WHERE path = ? AND kind = ?", (path, self.kind))
        return None if found is None else made(KnownFile, found)

    async def is_deleted(self, path: str, *digests: str) -> bool:
        """Or moved away from here, and changed or deleted where it was moved to."""
        if await FileVersions.is_deleted(self, path, *digests):
            return True
        if is_entry_path(path) or is_transcript(path):
            return False
        bound = {"kind": self.kind, "path": path, "file": file_key(path)}
        bound |= {"raw": digests[0], "lf": digests[-1]}
        return await self._database.one(IS_ELSEWHERE, bound) is not None

    async def held(self) -> dict[str, str]:
        """The files that should be in the vault, with the digests of their last known content."""
        found = await self._database.read(
            "SELECT path, digest FROM vault_files WHERE kind = ? AND written = revision AND digest IS NOT NULL",
            (self.kind,),
        )
        return {row["path"]: row["digest"] for row in found}

    async def files(self) -> list[KnownFile]:
        """Every one, by path."""
        found = await self._database.read(f"{FILES} WHERE kind = ? ORDER BY path", (self.kind,))
        return [made(KnownFile, row) for row in found]

    async def space_of(self, owner: str) -> str | None:
        """The space of an owner's folder; None: no known owner has that folder."""
        folder = owner.partition("/")[0]
        if file_name(folder) == folder:
            return folder
        found = await self._database.read(
            "SELECT space FROM vault_files WHERE owner = ? UNION SELECT DISTINCT space FROM threads", (owner,)
        )
        return next((row["space"] for row in found if file_name(row["space"]) == folder), None)

    @write_transaction
    def announce(self, connection: Connection, file: KnownFile, digest: str, parts: Any = None) -> None:
        """Called before a file is written: after a crash, the new file is recognised as ours.

        A file that was forgotten meanwhile is not known again.
        `parts` are what its kind keeps of what the file is made of.
        """
        self._announced(connection, file, parts)
        if connection.run(ANNOUNCE, (file.announcing(digest), file.path)):
            record_version(connection, file.path, digest)

    @write_transaction
    def record(self, connection: Connection, file: KnownFile, digest: str, parts: Any = None) -> None:
        """Record that the file was written. What changed since its revision was read stays marked as unwritten."""
        connection.run(HOLDS, (file.revision, digest, file.path))
        self._recorded(connection, file, parts)

    @write_transaction
    def removed(self, connection: Connection, path: str) -> bool:
        """The file is gone. False if it should hold something by now: then it is marked to be written again."""
        if is_empty := self._is_empty(connection, path):
            self._forget(connection, path)
        else:
            self._unwrite(connection, path)
        return is_empty

    async def write_again(self, path: str) -> None:
        """Mark a file that was removed or emptied as unwritten, so that it is restored."""
        await self._database.write(lambda connection: self._unwrite(connection, path))
        await self.queue(path)

    async def queue(self, path: str, *, delay_ms: int = 0, **about: str) -> None:
        """Have a file settled, in turn with all else that is done to it. What it is `about` is in the job."""
        now = self._clock()

        def queue(connection: Connection) -> int | None:
            job = self._job(connection, path, now + delay_ms, about)
            return None if job is None else queue_jobs(connection, [job], now)

        await self._queue(queue)

    def _job(self, connection: Connection, path: str, run_at: int, about: Mapping[str, str]) -> NewJob | None:
        """The job that settles a file, if there is anything to settle."""
        row = connection.one("SELECT space FROM vault_files WHERE path = ?", (path,))
        return file_job(self.kind, path.partition("/")[0] if row is None else row[0], path, run_at, **about)

    def _announced(self, connection: Connection, file: KnownFile, parts: Any) -> None:
        """What its kind does in the same transaction; so do those that follow."""

    def _recorded(self, connection: Connection, file: KnownFile, parts: Any) -> None: ...

    def _is_empty(self, connection: Connection, path: str) -> bool:
        """Whether the file should hold nothing."""
        raise NotImplementedError

    def _forget(self, connection: Connection, path: str) -> None:
        """The file should not be there, and is not."""
        forget_file(connection, path)

    def _unwrite(self, connection: Connection, path: str) -> None:
        unwrite(connection, path)
