"""The files in the vault: transcripts, notes, and the versions of every file."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recollect.domain.entries.links import LINKED_KINDS, entry_link
from recollect.domain.identity import thread_key, turn_digest, turn_number
from recollect.domain.job import ENTRIES, TRANSCRIPT_EDITS, vault_lane
from recollect.domain.model import Memcell, Note, ThreadRef, Turn
from recollect.domain.paths import owner_folder, transcript_path
from recollect.domain.vault_file import TRANSCRIPTS, KnownFile, PlacedTurn, StoredPart, TranscriptState
from recollect.infra.journal.connector import Connection
from recollect.infra.journal.database import Database, read_transaction, write_transaction
from recollect.infra.journal.rows import (
    FIRST_OPEN,
    IS_NAMED_THREAD,
    IS_THREAD,
    THREAD_COLUMNS,
    THREAD_PK,
    TURN_COLUMNS,
    NewJob,
    dumped,
    made,
    memcell_of,
    replacing,
    thread_of,
    thread_pk,
    turn_of,
)
from recollect.infra.journal.vault_files import (
    ADD_FILE,
    FileVersions,
    SqlVaultFiles,
    allow_versions,
    require_folder,
    retire_removed,
    unwrite,
)

_MOST_LINKS = 20
"""Of a memcell to its memories."""

PARTS = """
SELECT p.part, p.first_position, p.last_position, p.header_revision, f.digest, f.announced
FROM transcript_parts p LEFT JOIN vault_files f ON f.path = p.path"""

STALE_PARTS = f"""
{PARTS} WHERE p.thread_pk = :pk AND (
    f.digest IS NULL OR (p.part = 1 AND p.header_revision != :revision)
    OR EXISTS (SELECT 1 FROM memcell m WHERE m.thread_pk = :pk AND m.transcribed = 0
        AND m.last_position BETWEEN p.first_position AND p.last_position)
) ORDER BY p.part"""

ADD_PART = """
INSERT INTO transcript_parts (thread_pk, part, path, first_position, last_position, header_revision)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (thread_pk, part) DO NOTHING"""

OF_PATH = """
SELECT h.space, h.user_id, h.thread_id, p.part FROM transcript_parts p JOIN threads h ON h.pk = p.thread_pk
WHERE p.path = ?"""

# What follows a turn that is still being written waits for it.
FINAL_TURNS = f"""
SELECT {TURN_COLUMNS} FROM turns u
WHERE thread_pk = (SELECT pk FROM threads WHERE {IS_NAMED_THREAD})
    AND position < {FIRST_OPEN.format("u.thread_pk")}"""

CELLS = f"""
SELECT memcell_id, turn_ids_json, reason FROM memcell
WHERE thread_pk = {THREAD_PK} AND last_position BETWEEN ? AND ? ORDER BY last_position"""

MADE_OF_CELLS = f"""
SELECT cell, entry_id, path FROM entries INDEXED BY entries_of_cell
WHERE space = ? AND owner = ? AND cell IN (SELECT value FROM json_each(?)) AND cell != ''
AND kind IN ({", ".join(f"'{kind}'" for kind in LINKED_KINDS)}) ORDER BY kind, entry_id"""

REVISE_TURN = """
UPDATE turns SET content = ?, sender_id = ?, reasoning = ?, digest = ?, edited = 1
WHERE thread_pk = ? AND position = ? AND message_id = ?"""

# What the index holds of the thread is older than this, and looked at again.
COUNT_REVISION = "UPDATE threads SET revision = revision + 1 WHERE pk = ?"


@dataclass(frozen=True, slots=True)
class PartParts:
    """What a part of a transcript is made of."""

    thread: ThreadRef
    part: StoredPart
    cells: Sequence[Memcell] = ()


class SqlTranscriptStore(SqlVaultFiles):
    """The files of transcripts, each with the turns and memcells of a part of a thread."""

    kind = TRANSCRIPTS

    async def state(self, thread: ThreadRef) -> TranscriptState | None:
        """None for a thread that is gone."""
        found = await self._database.read(
            f"SELECT pk, header_revision, {THREAD_COLUMNS} FROM threads WHERE {IS_THREAD}", thread
        )
        if not found:
            return None
        pk, revision = found[0]["pk"], found[0]["header_revision"]
        last = await self._database.read(f"{PARTS} WHERE p.thread_pk = ? ORDER BY p.part DESC LIMIT 1", (pk,))
        stale = await self._database.read(STALE_PARTS, {"pk": pk, "revision": revision})
        return TranscriptState(
            thread=thread_of(found[0]),
            header_revision=revision,
            last_part=made(StoredPart, last[0]) if last else None,
            stale_parts=tuple(made(StoredPart, row) for row in stale),
        )

    @read_transaction
    def turns(
        self,
        connection: Connection,
        thread: ThreadRef,
        first: int,
        last: int | None = None,
        limit: int = 2**62,
    ) -> list[PlacedTurn]:
        """Turns that are final and have only final ones before them, by their places, `first` and `last` included."""
        found = connection.all(
            f"{FINAL_TURNS} AND position >= :first AND position <= :last ORDER BY position LIMIT :limit",
            {
                **thread._asdict(),
                "first": first,
                "last": 2**62 if last is None else last,
                "limit": limit,
            },
        )
        return [PlacedTurn(row["position"], turn_of(row)) for row in found]

    @read_transaction
    def cells(self, connection: Connection, thread: ThreadRef, first: int, last: int) -> list[Memcell]:
        """The memcells whose last turn stands between these places, with links to the memories made of them."""
        return _linked_cells(connection, thread, first, last)

    async def parts(self, thread: ThreadRef) -> list[StoredPart]:
        found = await self._database.read(f"{PARTS} WHERE p.thread_pk = {THREAD_PK} ORDER BY p.part", thread)
        return [made(StoredPart, row) for row in found]

    async def part(self, thread: ThreadRef, number: int) -> StoredPart | None:
        return next((part for part in await self.parts(thread) if part.part == number), None)

    async def placed(self, path: str) -> tuple[ThreadRef, StoredPart] | None:
        """The thread and the part that a file is of; None where it is none's."""
        found = await self._database.one(OF_PATH, (path,))
        if found is None:
            return None
        thread = ThreadRef(found["space"], found["user_id"], found["thread_id"])
        part = await self.part(thread, found["part"])
        return None if part is None else (thread, part)

    async def any_parts(self) -> bool:
        held = "SELECT 1 FROM vault_files WHERE kind = ? AND digest IS NOT NULL LIMIT 1"
        return await self._database.one(held, (self.kind,)) is not None

    def _announced(self, connection: Connection, file: KnownFile, parts: PartParts) -> None:
        part = parts.part
        if pk := thread_pk(connection, parts.thread):
            places = (part.first_position, part.last_position, part.header_revision)
            connection.run(ADD_PART, (pk, part.part, file.path, *places))
            connection.run(ADD_FILE, (file.path, file.kind, file.space, file.owner))

    def _recorded(self, connection: Connection, file: KnownFile, parts: PartParts) -> None:
        """A cell whose links changed since it was rendered is still to be written."""
        pk, part, cells = thread_pk(connection, parts.thread), parts.part, parts.cells
        places = (part.first_position, part.last_position)
        current = _linked_cells(connection, parts.thread, *places) if cells else []
        links = {cell.memcell_id: cell.links for cell in current}
        connection.run(
            "UPDATE transcript_parts SET first_position = ?, last_position = ?, header_revision = ?"
            " WHERE thread_pk = ? AND part = ?",
            (*places, part.header_revision, pk, part.part),
        )
        connection.many(
            "UPDATE memcell SET transcribed = 1 WHERE thread_pk = ? AND memcell_id = ?",
            [(pk, cell.memcell_id) for cell in cells if links.get(cell.memcell_id) == cell.links],
        )

    def _job(self, connection: Connection, path: str, run_at: int, about: Mapping[str, str]) -> NewJob | None:
        """In the lane of the thread. None where no thread has this file."""
        row = connection.one(OF_PATH, (path,))
        if row is None:
            return None
        thread, part, gone = ThreadRef(*row[:3]), row[3], "gone" in about
        payload, dedupe = json.dumps({"part": part, "gone": gone}), f"{part}{' gone' if gone else ''}"
        lane = vault_lane(thread_key(thread))
        return NewJob(TRANSCRIPT_EDITS, lane, thread.space, thread, run_at, payload, dedupe)

    async def forget_part(self, thread: ThreadRef, part: int) -> None:
        """Record that the file is gone: a new file in its place is a person's until we write it."""
        path = transcript_path(*thread, part)
        await self._database.write(lambda connection: unwrite(connection, path))

    @write_transaction
    def forget_parts(self, connection: Connection, thread: ThreadRef) -> None:
        """Record that all files of a thread are gone, so that its turns are written again."""
        paths = f"SELECT path FROM transcript_parts WHERE thread_pk = {THREAD_PK}"
        connection.run(f"DELETE FROM vault_files WHERE path IN ({paths})", thread)
        connection.run(f"DELETE FROM transcript_parts WHERE thread_pk = {THREAD_PK}", thread)
        connection.run(f"UPDATE memcell SET transcribed = 0 WHERE thread_pk = {THREAD_PK}", thread)

    @write_transaction
    def revise(
        self,
        connection: Connection,
        thread: ThreadRef,
        turns: Sequence[Turn],
        header: Mapping[str, Any],
    ) -> int:
        """Take in what a person changed: the words of turns, title and tags. Returns how many turns it changed.

        A turn that is gone, or has another message id, stays as it is.
        """
        pk = thread_pk(connection, thread)
        changed = [turn for turn in turns if _revise_turn(connection, pk, turn)]
        if changed:
            connection.run(COUNT_REVISION, (pk,))
        if header:
            _revise_header(connection, pk, header)
        return len(changed)

    async def users_with_tombstones(self) -> list[tuple[str, str]]:
        """Spaces and users of whom something was forgotten."""
        found = await self._database.read("SELECT DISTINCT space, user_id FROM tombstones")
        return [(row["space"], row["user_id"]) for row in found]

    async def tombstones(self, space: str, user_id: str, thread_key: str) -> list[tuple[int, str]]:
        """(turn number, message key) of all that was forgotten in a user's thread."""
        found = await self._database.read(
            "SELECT number, message_key FROM tombstones WHERE space = ? AND user_id = ? AND thread_key = ?"
            " ORDER BY number",
            (space, user_id, thread_key),
        )
        return [(row["number"], row["message_key"]) for row in found]

    async def fold_log(self) -> None:
        """Fold the write-ahead log into the file and empty it, so that nothing forgotten stays in it."""
        await self._database.connector.fold_log()


def _linked_cells(connection: Connection, thread: ThreadRef, first: int, last: int) -> list[Memcell]:
    cells = [memcell_of(row) for row in connection.all(CELLS, (*thread, first, last))]
    owner, links = owner_folder(thread.space, thread.user_id), defaultdict[str, list[str]](list)
    for cell, entry_id, path in connection.all(
        MADE_OF_CELLS, (thread.space, owner, json.dumps([cell.memcell_id for cell in cells]))
    ):
        if len(links[cell]) < _MOST_LINKS and (link := entry_link(owner, path, entry_id)) is not None:
            links[cell].append(link)
    return [replace(cell, links=tuple(links[cell.memcell_id])) for cell in cells]


def _revise_turn(connection: Connection, thread_pk: int, turn: Turn) -> bool:
    words = (turn.content, turn.sender_id, turn.reasoning, turn_digest(turn, turn.message_id))
    place = (thread_pk, turn_number(turn.turn_id), turn.message_id)
    return connection.run(REVISE_TURN, (*words, *place)) == 1


def _revise_header(connection: Connection, thread_pk: int, header: Mapping[str, Any]) -> None:
    columns = {"title": header.get("title"), "tags_json": dumped(list(header.get("tags", ())))}
    named = [name for name in columns if name.removesuffix("_json") in header]
    assignments = "".join(f"{name} = :{name}, " for name in named)
    if columns["title"]:
        assignments += "one_shot = 0, "
    connection.run(
        f"UPDATE threads SET {assignments}header_revision = header_revision + 1 WHERE pk = :pk",
        {**{name: columns[name] for name in named}, "pk": thread_pk},
    )


NOTES = "SELECT path, owner, digest, modified FROM notes"
OF_OWNER = f"{NOTES} WHERE owner = ? ORDER BY path"
AT_PATHS = f"{NOTES} WHERE path IN (SELECT value FROM json_each(?)) ORDER BY path"

SEEN = """
INSERT INTO notes (path, owner, digest, modified, text) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (path) DO UPDATE SET owner = excluded.owner, digest = excluded.digest, modified = excluded.modified,
    text = excluded.text"""

REMOVED_COLUMNS = "path, owner, digest, text, removed_at"
REMOVED = f"""
INSERT INTO removed_notes ({REMOVED_COLUMNS})
SELECT path, owner, digest, text, ? FROM notes WHERE path = ? AND text IS NOT NULL
{replacing(REMOVED_COLUMNS, "path")}"""

BACK = "DELETE FROM removed_notes RETURNING path, owner, digest, removed_at, text"


class SqlNoteStore(FileVersions):
    """The notes of the vault, by their path."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def known(self, owner: str | None = None) -> list[Note]:
        if owner is None:
            return await self._found(f"{NOTES} ORDER BY path")
        return await self._found(OF_OWNER, owner)

    @read_transaction
    def listed(self, connection: Connection, owner: str | None = None) -> list[tuple[str, str]]:
        """The notes and the files of entries that there should be, as (owner, path), in order; or those of an owner."""
        where, bound = ("", ()) if owner is None else (" WHERE owner = ?", (owner, owner))
        kind = f" {'AND' if where else 'WHERE'} kind = '{ENTRIES}'"
        sql = f"SELECT owner, path FROM notes{where} UNION SELECT owner, path FROM vault_files{where}{kind} ORDER BY 1, 2"
        return [(owner, path) for owner, path in connection.all(sql, bound)]

    async def at(self, paths: Collection[str]) -> list[Note]:
        """Those of these that are known."""
        return await self._found(AT_PATHS, json.dumps(list(paths)))

    async def seen(self, note: Note, text: str | None = None) -> None:
        """`text` is kept to restore the note; None if it is a person's own."""
        await self._database.execute(SEEN, (note.path, note.owner, note.digest, note.modified, text))

    async def put(self, note: Note, text: str, versions: Sequence[str]) -> None:
        """Record a note that came through the API. The last of its `versions` is the current one.

        Raises TooMuchQueued while its owner is being forgotten.
        """

        def work(connection: Connection) -> None:
            require_folder(connection, note.owner)
            allow_versions(connection, note.path, versions)
            connection.run(SEEN, (note.path, note.owner, note.digest, note.modified, text))

        await self._database.write(work)

    async def text(self, path: str) -> str | None:
        """The current text of a note that came through the API and was not edited by hand since; else None."""
        found = await self._database.one("SELECT text FROM notes WHERE path = ?", (path,))
        return None if found is None else found["text"]

    async def gone(self, paths: Iterable[str]) -> None:
        await self._database.execute_many("DELETE FROM notes WHERE path = ?", [(path,) for path in paths])

    async def removed(self, note: Note, now: int) -> None:
        """A person removed this one: no version of it comes back by a copy, unless they only gave it another name.

        Its text is kept for a while.
        """

        def work(connection: Connection) -> None:
            connection.run(REMOVED, (now, note.path))
            connection.run("DELETE FROM notes WHERE path = ?", (note.path,))
            same = (note.owner, note.digest)
            if not connection.one("SELECT 1 FROM notes WHERE (owner, digest) = (?, ?)", same):
                retire_removed(connection, note.path, note.digest)

        await self._database.write(work)

    async def any_removed(self) -> bool:
        return await self._database.one("SELECT 1 FROM removed_notes LIMIT 1") is not None

    async def bring_back(self) -> list[Note]:
        """Record removed notes again whose texts are still kept: their files are the caller's to write.

        Where there is another note by now, it stays.
        """

        def work(connection: Connection) -> list[Note]:
            connection.run("DELETE FROM removed_notes WHERE path IN (SELECT path FROM notes)")
            rows = connection.all(BACK)
            for path, _, digest, *_ in rows:
                allow_versions(connection, path, [digest])
            connection.many(SEEN, rows)
            return [Note(*tuple(row)[:4]) for row in rows]

        return await self._database.write(work)

    async def drop_removed(self, before: int, path: str = "") -> None:
        """Drop the texts of notes that were removed before this time, and that of the one at `path`."""
        await self._database.execute(
            "DELETE FROM removed_notes WHERE removed_at < ? OR path = ?", (before, path)
        )

    async def _found(self, sql: str, *bound: str) -> list[Note]:
        return [made(Note, row) for row in await self._database.read(sql, bound)]
