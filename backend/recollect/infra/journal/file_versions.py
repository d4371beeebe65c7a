"""The versions of vault files that are ours, so that an old copy is told from an edit; and what the ledger still lacks."""

import json
from collections.abc import Collection, Iterable, Mapping

from recollect.domain.forgetting import file_line, file_restored_line
from recollect.domain.identity import file_key
from recollect.domain.job import PURGE
from recollect.domain.markdown.transcript import is_transcript
from recollect.domain.paths import is_entry_path, notes_folder
from recollect.domain.vault_file import EMPTY
from recollect.infra.journal.connector import Connection
from recollect.infra.journal.database import Database

_MOST_VERSIONS = 1000
"""Kept for each file; older ones are dropped. Only a file that is rewritten all the time, as a profile, has as many."""
_DIGITS = 32
"""Of a digest, which is enough to tell versions apart."""

ADD_VERSION = """
INSERT INTO written_files (file, digest, number) VALUES (?, ?, ?)
ON CONFLICT (file, digest) DO UPDATE SET number = excluded.number, gone = 0"""

IS_OLD = """
SELECT 1 FROM written_files w JOIN written_files n ON n.file = w.file AND n.number > w.number
WHERE w.file = ? AND w.digest = ?"""

LIFT = "UPDATE written_files SET gone = 0 WHERE file = ? AND digest = ? AND gone RETURNING file"

IS_CURRENT = "SELECT 1 FROM written_files WHERE file = ? AND digest = ?"

HAS_VERSIONS = "SELECT 1 FROM written_files WHERE file = ? AND NOT gone LIMIT 1"

IS_DELETED = """
SELECT min(gone) AS is_deleted FROM written_files WHERE digest = :digest AND (file = :file OR :anywhere)"""


def record_version(connection: Connection, path: str, digest: str) -> None:
    """This version of a file is ours and the current one; those before it are old."""
    version = (file_key(path), digest[:_DIGITS])
    (newest,) = connection.one(
        "SELECT coalesce(max(number), 0) FROM written_files WHERE file = ?", version[:1]
    )
    if connection.one("SELECT 1 FROM written_files WHERE file = ? AND digest = ? AND gone", version):
        add_to_ledger(connection, file_restored_line(*version))
    connection.run(ADD_VERSION, (*version, newest + 1))
    connection.run(
        "DELETE FROM written_files WHERE file = ? AND number <= ?", (version[0], newest + 1 - _MOST_VERSIONS)
    )


def retire_files(connection: Connection, paths: Iterable[str]) -> None:
    """These files were deleted or forgotten: no version of them may come back."""
    for file in map(file_key, paths):
        found = connection.all(
            "UPDATE written_files SET gone = 1 WHERE file = ? AND NOT gone RETURNING digest", (file,)
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


def retire_removed(connection: Connection, path: str, digest: str) -> None:
    """As `retire_files`, with its last version, for a file that a person removed. One that never was ours may come back."""
    if connection.one(HAS_VERSIONS, (file_key(path),)):
        record_version(connection, path, digest)
        retire_files(connection, [path])


def allow_versions(connection: Connection, path: str, digests: Iterable[str]) -> None:
    """These are versions of a file, and not deleted any more. The last one is the current one."""
    for digest in digests:
        record_version(connection, path, digest)
        version = (file_key(notes_folder(path) or path), digest[:_DIGITS])
        if connection.all(LIFT, version):
            add_to_ledger(connection, file_restored_line(*version))


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
