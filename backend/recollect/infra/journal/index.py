"""The ledger of the index: which turns and notes each generation holds, by words and by meaning."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from recollect.domain.model import Note, ThreadRef
from recollect.domain.paths import owner_folder
from recollect.domain.recall.rows import Expected, ThreadProgress
from recollect.infra.journal.connector import Connection, Row
from recollect.infra.journal.database import Database, read_transaction, write_transaction
from recollect.infra.journal.rows import IS_NAMED_THREAD, THREAD_COLUMNS, made, thread_of

_columns = ", ".join(f"t.{name.strip()}" for name in THREAD_COLUMNS.split(","))

# A turn that is still being written, and all that follows it, waits.
_LAST_FINAL = """coalesce((
    SELECT min(position) - 1 FROM turns WHERE thread_pk = t.pk AND status IN ('queued', 'streaming')
), t.last_number)"""

_IS_STALE = """p.thread_pk IS NOT NULL AND p.words_to > 0
    AND (p.header_revision != t.header_revision OR p.revision != t.revision)"""

_PROGRESS = f"""
SELECT t.pk, t.header_revision, t.revision, {_LAST_FINAL} AS last_position,
    coalesce(p.words_to, 0) AS words_to, coalesce(p.vectors_to, 0) AS vectors_to,
    coalesce(p.refused, 0) AS refused,
    {_IS_STALE} AS is_stale,
    {_columns}
FROM threads t LEFT JOIN index_progress p ON p.thread_pk = t.pk AND p.generation = :generation
WHERE t.incognito = 0"""

_BEHIND = f"""{_PROGRESS} AND t.pk > :after AND (
    t.last_number > coalesce(p.words_to, 0) OR p.vectors_to < p.words_to OR ({_IS_STALE})
) ORDER BY t.pk LIMIT :limit"""

# The number of a thread that was deleted can be another's by now.
_AS_SEEN = f"pk = :thread_pk AND revision = :revision AND {IS_NAMED_THREAD}"

# What was edited is embedded again from the first text without a vector on: none of those before was refused.
_RECORD_WORDS = f"""
INSERT INTO index_progress (generation, thread_pk, words_to, vectors_to, header_revision, revision)
SELECT :generation, pk, :words_to, min(:vectors_to, :words_to), :header_revision, :revision FROM threads
WHERE {_AS_SEEN}
ON CONFLICT (generation, thread_pk) DO UPDATE SET words_to = excluded.words_to, vectors_to = excluded.vectors_to,
    refused = CASE WHEN index_progress.revision = excluded.revision
        AND index_progress.header_revision = excluded.header_revision THEN index_progress.refused ELSE 0 END,
    header_revision = excluded.header_revision, revision = excluded.revision"""

# Not past an edit that came meanwhile: its words have to be embedded again.
_RECORD_VECTORS = f"""
UPDATE index_progress SET vectors_to = min(:vectors_to, words_to), refused = max(0, refused + :refused)
WHERE generation = :generation AND revision = :revision AND thread_pk = (SELECT pk FROM threads WHERE {_AS_SEEN})"""

USERS_BEHIND = """
SELECT t.space, t.user_id FROM json_each(:users) a CROSS JOIN threads t
LEFT JOIN index_progress p ON p.generation = :generation AND p.thread_pk = t.pk
JOIN turns u ON u.thread_pk = t.pk AND u.pk > :since
    AND u.position > coalesce(CASE WHEN :by_meaning = 1 THEN p.vectors_to ELSE p.words_to END, 0)
WHERE t.space = json_extract(a.value, '$[0]') AND t.user_id = json_extract(a.value, '$[1]') AND t.incognito = 0
    AND t.last_number > coalesce(CASE WHEN :by_meaning = 1 THEN p.vectors_to ELSE p.words_to END, 0)
GROUP BY t.space, t.user_id HAVING count(*) >= :limit"""

# All that Python calls blank; SQLite's own idea of it is the space alone.
_BLANK = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())

_COUNT = f"""
SELECT count(*) AS number FROM turns u JOIN threads t ON t.pk = u.thread_pk
JOIN index_progress p ON p.thread_pk = t.pk AND p.generation = :generation
WHERE t.space = :space AND t.user_id = :user_id AND u.skip_reason IS NULL AND u.position <= p.words_to
    AND trim(u.content, '{_BLANK}') != ''"""

# Where a turn was edited, its rows are being written again, and their vectors come later.
_COUNT_VECTORS = f"""
SELECT coalesce(sum(max(0, number - refused)), 0) AS number FROM (
    SELECT p.refused, count(*) AS number FROM turns u JOIN threads t ON t.pk = u.thread_pk
    JOIN index_progress p ON p.thread_pk = t.pk AND p.generation = :generation
    WHERE t.space = :space AND t.user_id = :user_id AND u.skip_reason IS NULL AND u.position <= p.vectors_to
        AND p.header_revision = t.header_revision AND p.revision = t.revision
        AND trim(u.content, '{_BLANK}') != ''
    GROUP BY t.pk, p.refused
) counted"""

# Of a file of entries, the revision of the entries tells what is indexed. Its text is read only where a person wrote
# something else into it: then its digest does, too.
_FILED = "f.revision || coalesce(' ' || n.digest, '')"


def _sources(owners: str = "true") -> str:
    return f"""
SELECT path, owner, digest, modified FROM notes n
WHERE {owners} AND NOT EXISTS (SELECT 1 FROM vault_files f WHERE f.path = n.path AND f.kind = 'entries')
UNION ALL
SELECT f.path, f.owner, {_FILED}, coalesce(n.modified, 0) FROM vault_files f LEFT JOIN notes n ON n.path = f.path
WHERE {owners.replace("n.", "f.")} AND f.kind = 'entries'"""


OF_OWNER = _sources("n.owner = :owner")

# The digest of what an indexed file `i` holds by now; NULL where it is gone.
_HELD = f"""coalesce(
    (SELECT {_FILED} FROM vault_files f LEFT JOIN notes n ON n.path = f.path WHERE f.path = i.path AND f.kind = 'entries'),
    (SELECT digest FROM notes n WHERE n.path = i.path)
)"""

# Files that changed or went since are being written again.
_COUNT_NOTES = f"""
SELECT coalesce(sum(i.rows), 0) AS rows, coalesce(sum(i.vectors), 0) AS vectors FROM indexed_notes i
WHERE i.generation = :generation AND i.owner = :owner AND i.digest = {_HELD}"""

NOTES_BEHIND = f"""
SELECT s.path, s.owner, s.digest, s.modified FROM ({OF_OWNER}) s
LEFT JOIN indexed_notes i ON i.generation = :generation AND i.path = s.path
WHERE i.path IS NULL OR i.digest != s.digest ORDER BY s.path"""

NOTES_GONE = f"""
SELECT i.path FROM indexed_notes i INDEXED BY indexed_notes_of_owner
WHERE i.generation = :generation AND i.owner = :owner AND {_HELD} IS NULL ORDER BY i.path"""

UNEMBEDDED_NOTES = f"""
SELECT i.path, i.owner, i.digest, 0 AS modified FROM indexed_notes i INDEXED BY indexed_notes_of_owner
WHERE i.generation = :generation AND i.owner = :owner AND i.embedded = 0 AND i.digest = {_HELD} ORDER BY i.path"""

NOTE_OWNERS = f"""
SELECT s.owner FROM ({_sources()}) s LEFT JOIN indexed_notes i ON i.generation = :generation AND i.path = s.path
WHERE i.path IS NULL OR i.digest != s.digest OR i.embedded = 0
UNION SELECT i.owner FROM indexed_notes i WHERE i.generation = :generation AND {_HELD} IS NULL"""

IS_UNEMBEDDED = """
SELECT 1 FROM indexed_notes
WHERE generation = :generation AND path = :path AND digest = :digest AND +embedded = 0"""

_REFUSED_TURNS = """
SELECT t.space, t.user_id, sum(p.refused) AS number FROM index_progress p JOIN threads t ON t.pk = p.thread_pk
WHERE p.generation = ? AND p.refused > 0 GROUP BY t.space, t.user_id"""

_REFUSED_NOTES = f"""
SELECT i.owner, sum(i.rows - i.vectors) AS number FROM indexed_notes i
WHERE i.generation = ? AND i.embedded = 1 AND i.vectors < i.rows AND i.digest = {_HELD} GROUP BY i.owner"""

_OWNERS = """
SELECT DISTINCT t.space, t.user_id FROM index_progress p JOIN threads t ON t.pk = p.thread_pk
WHERE p.generation = ? AND p.words_to > 0"""

_RECORD_NOTE = """
INSERT INTO indexed_notes (generation, path, owner, digest, embedded, rows) VALUES (?, ?, ?, ?, 0, ?)
ON CONFLICT (generation, path) DO UPDATE
SET owner = excluded.owner, digest = excluded.digest, embedded = 0, rows = excluded.rows, vectors = 0"""

_RECORD_EMBEDDED_NOTE = """
INSERT INTO indexed_notes (generation, path, owner, digest, embedded, vectors) VALUES (?, ?, ?, ?, 1, ?)
ON CONFLICT (generation, path) DO UPDATE
SET owner = excluded.owner, digest = excluded.digest, embedded = 1, vectors = excluded.vectors"""


class SqlIndexLedger:
    """What is recorded here is in the index; what is not is added to it, again if need be."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def knows(self, generation: str) -> bool:
        return bool(
            await self._database.read("SELECT 1 FROM index_generations WHERE name = ?", (generation,))
        )

    @write_transaction
    def add_generation(self, connection: Connection, generation: str) -> None:
        """Start a generation's records from nothing."""
        _delete(connection, "= ?", (generation,))
        connection.run("INSERT INTO index_generations (name) VALUES (?)", (generation,))

    async def keep_only(self, generation: str) -> None:
        """Drop the records of all other generations."""
        await self._database.write(lambda connection: _delete(connection, "!= ?", (generation,)))

    async def behind(self, generation: str, after: int = 0, limit: int = 200) -> list[ThreadProgress]:
        """Threads that have something to index or to embed, page by page."""
        found = await self._database.read(_BEHIND, {"generation": generation, "after": after, "limit": limit})
        return [_progress_of(row) for row in found]

    async def all_behind(self, generation: str) -> AsyncIterator[ThreadProgress]:
        """All threads that have something to index or to embed."""
        after = 0
        while page := await self.behind(generation, after):
            after = page[-1].thread_pk
            for progress in page:
                yield progress

    async def progress(self, generation: str, thread: ThreadRef) -> ThreadProgress | None:
        row = await self._database.one(
            f"{_PROGRESS} AND {IS_NAMED_THREAD}", {"generation": generation, **thread._asdict()}
        )
        return _progress_of(row) if row else None

    async def owner_progress(self, generation: str, space: str, user_id: str) -> list[ThreadProgress]:
        """All threads of an owner, in a fixed order."""
        found = await self._database.read(
            f"{_PROGRESS} AND t.space = :space AND t.user_id = :user_id ORDER BY t.thread_id",
            {"generation": generation, "space": space, "user_id": user_id},
        )
        return [_progress_of(row) for row in found]

    async def newest_turn(self) -> int:
        """The key of the turn that came last."""
        (row,) = await self._database.read("SELECT coalesce(max(pk), 0) AS newest FROM turns")
        return int(row["newest"])

    async def users_behind(
        self, generation: str, users: Iterable[tuple[str, str]], since: int, limit: int, *, by_meaning: bool
    ) -> set[tuple[str, str]]:
        """Those users (space, user) of whom `limit` turns or more that came after the turn `since` are not indexed by
        words, or `by_meaning` not embedded.
        """
        bound = {
            "users": json.dumps(sorted(users)), "generation": generation, "since": since, "limit": limit,
            "by_meaning": by_meaning,
        }  # fmt: skip
        return {(row["space"], row["user_id"]) for row in await self._database.read(USERS_BEHIND, bound)}

    async def record_words(
        self, generation: str, seen: ThreadProgress, words_to: int, vectors_to: int
    ) -> bool:
        """False where the thread was edited since it was `seen`: the caller looks again."""
        bound = _bound(generation, seen, words_to, vectors_to)
        return await self._database.execute(_RECORD_WORDS, bound) == 1

    async def record_vectors(
        self, generation: str, seen: ThreadProgress, vectors_to: int, refused: int = 0
    ) -> bool:
        """Record that all rows up to there have vectors; `refused` more, or fewer, were refused by the model."""
        bound = _bound(generation, seen, 0, vectors_to) | {"refused": refused}
        return await self._database.execute(_RECORD_VECTORS, bound) == 1

    async def reset_thread(self, generation: str, thread_pk: int) -> None:
        await self._database.execute(
            "DELETE FROM index_progress WHERE generation = ? AND thread_pk = ?", (generation, thread_pk)
        )

    @write_transaction
    def reset_owner(
        self, connection: Connection, generation: str, owner: str, space: str, user_id: str
    ) -> None:
        """Nothing of this owner is in the index any more."""
        connection.run(
            "DELETE FROM index_progress WHERE generation = ? AND thread_pk IN"
            " (SELECT pk FROM threads WHERE space = ? AND user_id = ?)",
            (generation, space, user_id),
        )
        connection.run("DELETE FROM indexed_notes WHERE generation = ? AND owner = ?", (generation, owner))

    async def expected(self, generation: str, owner: str, space: str, user_id: str) -> Expected:
        """How much of an owner must be in the index at least: a turn of tool calls alone may have a row too."""
        bound = {"generation": generation, "owner": owner, "space": space, "user_id": user_id}
        (embedded,) = await self._database.read(_COUNT_VECTORS, bound)
        (noted,) = await self._database.read(_COUNT_NOTES, bound)
        (indexed,) = await self._database.read(_COUNT, bound)
        return Expected(
            int(indexed["number"]), int(embedded["number"]), int(noted["rows"]), int(noted["vectors"])
        )

    async def refused(self, generation: str) -> dict[str, int]:
        """How many texts of each owner have no vector though they were to be embedded; owners without any left out."""
        number = Counter(
            {
                owner_folder(row["space"], row["user_id"]): int(row["number"])
                for row in await self._database.read(_REFUSED_TURNS, (generation,))
            }
        )
        for row in await self._database.read(_REFUSED_NOTES, (generation,)):
            number[row["owner"]] += int(row["number"])
        return dict(number)

    async def owners(self, generation: str) -> dict[str, tuple[str, str]]:
        """All who have something indexed, with their space and user; both empty for one who has notes alone."""
        noted = await self._database.read(
            "SELECT DISTINCT owner FROM indexed_notes WHERE generation = ?", (generation,)
        )
        users = await self._database.read(_OWNERS, (generation,))
        found = {row["owner"]: ("", "") for row in noted}
        return found | {
            owner_folder(row["space"], row["user_id"]): (row["space"], row["user_id"]) for row in users
        }

    async def existing(
        self, space: str, user_id: str, places: Sequence[tuple[str, int]]
    ) -> set[tuple[str, int]]:
        """Of these turns (thread, position) of a user, those that are not forgotten."""
        found = await self._database.read(
            f"{_wanted(places)} SELECT w.thread_id, w.position FROM wanted w"
            " JOIN threads t ON t.space = ? AND t.thread_id = w.thread_id AND t.user_id = ?"
            " JOIN turns u ON u.thread_pk = t.pk AND u.position = w.position",
            (*(value for place in places for value in place), space, user_id),
        )
        return {(row["thread_id"], row["position"]) for row in found}

    async def parts_holding(
        self, space: str, user_id: str, places: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        """The part that holds each turn (thread, position) of a user; those in no file yet are left out."""
        found = await self._database.read(
            f"{_wanted(places)} SELECT w.thread_id, w.position, p.part FROM wanted w"
            " JOIN threads t ON t.space = ? AND t.user_id = ? AND t.thread_id = w.thread_id"
            " JOIN transcript_parts p ON p.thread_pk = t.pk AND p.part = ("
            "SELECT max(part) FROM transcript_parts WHERE thread_pk = t.pk AND first_position <= w.position)"
            " JOIN vault_files f ON f.path = p.path WHERE f.digest IS NOT NULL AND p.last_position >= w.position",
            (*(value for place in places for value in place), space, user_id),
        )
        return {(row["thread_id"], row["position"]): row["part"] for row in found}

    async def notes(self, generation: str, owner: str) -> dict[str, tuple[str, bool]]:
        """Path to (digest, embedded) of the notes that are indexed."""
        found = await self._database.read(
            "SELECT path, digest, embedded FROM indexed_notes INDEXED BY indexed_notes_of_owner"
            " WHERE generation = ? AND owner = ?",
            (generation, owner),
        )
        return {row["path"]: (row["digest"], bool(row["embedded"])) for row in found}

    @read_transaction
    def notes_behind(
        self, connection: Connection, generation: str, owner: str
    ) -> tuple[list[Note], list[str]]:
        """An owner's notes and files of entries that are not indexed as they are, and the paths of those that are gone,
        at one moment. Of a file of entries that is all its entries' the time is 0.
        """
        bound = {"generation": generation, "owner": owner}
        behind = [made(Note, row) for row in connection.all(NOTES_BEHIND, bound)]
        return behind, [path for (path,) in connection.all(NOTES_GONE, bound)]

    async def unembedded_notes(self, generation: str, owner: str) -> list[Note]:
        """An owner's notes that are indexed as they are, by their words alone."""
        found = await self._database.read(UNEMBEDDED_NOTES, {"generation": generation, "owner": owner})
        return [made(Note, row) for row in found]

    async def is_unembedded(self, generation: str, note: Note) -> bool:
        """Whether just this text of the note is indexed, by its words alone."""
        bound = {"generation": generation, "path": note.path, "digest": note.digest}
        return bool(await self._database.read(IS_UNEMBEDDED, bound))

    async def note_owners(self, generation: str) -> list[str]:
        """Owners whose notes or entries differ from the index."""
        found = await self._database.read(NOTE_OWNERS, {"generation": generation})
        return [row["owner"] for row in found]

    async def sources(self, owner: str) -> list[Note]:
        """All of an owner that is to be indexed, but for what was said."""
        found = await self._database.read(f"{OF_OWNER} ORDER BY 1", {"owner": owner})
        return [made(Note, row) for row in found]

    @write_transaction
    def record_notes(
        self,
        connection: Connection,
        generation: str,
        owner: str,
        put: Sequence[Note],
        removed: Sequence[str],
        *,
        embedded: bool = False,
        counts: Mapping[str, int] | None = None,
    ) -> None:
        """`counts` says how many rows, or with `embedded` how many vectors, each note has, by its path."""
        numbers = counts or {}
        connection.many(
            "DELETE FROM indexed_notes WHERE generation = ? AND path = ?",
            [(generation, path) for path in removed],
        )
        connection.many(
            _RECORD_EMBEDDED_NOTE if embedded else _RECORD_NOTE,
            [(generation, note.path, owner, note.digest, numbers.get(note.path, 0)) for note in put],
        )


def _wanted(places: Sequence[tuple[str, int]]) -> str:
    return f"WITH wanted (thread_id, position) AS (VALUES {', '.join('(?, ?)' for _ in places)})"


def _delete(connection: Connection, condition: str, bound: tuple[str, ...]) -> None:
    connection.run(f"DELETE FROM index_progress WHERE generation {condition}", bound)
    connection.run(f"DELETE FROM indexed_notes WHERE generation {condition}", bound)
    connection.run(f"DELETE FROM index_generations WHERE name {condition}", bound)


def _bound(generation: str, seen: ThreadProgress, words_to: int, vectors_to: int) -> dict[str, Any]:
    return {
        "generation": generation,
        "thread_pk": seen.thread_pk,
        **seen.thread.ref._asdict(),
        "words_to": words_to,
        "vectors_to": vectors_to,
        "header_revision": seen.header_revision,
        "revision": seen.revision,
    }


def _progress_of(row: Row) -> ThreadProgress:
    stale = bool(row["is_stale"])
    return made(ThreadProgress, row, thread=thread_of(row), thread_pk=row["pk"], is_stale=stale)
