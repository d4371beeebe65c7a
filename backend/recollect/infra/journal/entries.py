"""Entries in the journal: what is known, where it came from, and what it was before."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from recollect.domain.entries.entry import PROFILE, Deletion, EntryChange, EntryVersion, KnownEntry
from recollect.domain.entries.links import left_behind, origin_ids, partners, successor_ids, without_thread
from recollect.domain.forgetting import Derived
from recollect.domain.identity import turn_id, turn_number
from recollect.domain.job import JobSpec
from recollect.domain.model import ThreadRef
from recollect.domain.paths import thread_folder
from recollect.domain.recall.rows import turn_row_id
from recollect.domain.strategy import STRATEGIES_OF, STRATEGY
from recollect.infra.journal.connector import Connection
from recollect.infra.journal.entry_changes import EntryWriter
from recollect.infra.journal.entry_rows import (
    SELECT_ENTRIES,
    deletion_of,
    known_of,
    queue_entry_jobs,
    stored_entry,
    version_of,
)
from recollect.infra.journal.jobs import QueueingStore
from recollect.infra.journal.rows import IS_NAMED_THREAD

_EVERYTHING = 2**62

HISTORY = """
SELECT revision, entry_json, actor, cause, at FROM entry_history
WHERE entry_pk = (SELECT pk FROM entries WHERE space = ? AND entry_id = ?) ORDER BY pk"""

# The planner has no statistics: it is told which index finds the fewest.
OF_CELL = f"""
{SELECT_ENTRIES} INDEXED BY entries_of_cell
WHERE e.space = ? AND e.owner = ? AND e.cell = ? AND e.cell != '' AND e.strategy = ? ORDER BY e.when_ms, e.entry_id"""

IN_FILES = f"""
{SELECT_ENTRIES} INDEXED BY entries_in_file
WHERE e.path IN (SELECT value FROM json_each(?)) ORDER BY e.when_ms, e.entry_id"""

SOME = f"""
{SELECT_ENTRIES} WHERE e.space = ? AND e.owner || '' = ? AND e.entry_id IN (SELECT value FROM json_each(?))"""

OF_CATEGORY = f"""
{SELECT_ENTRIES} INDEXED BY entries_of_category
WHERE e.space = ? AND e.owner = ? AND e.kind = ? AND e.category = ? AND e.holds = 1
ORDER BY e.when_ms DESC, e.entry_id DESC LIMIT ?"""

OF_PERSON = f"""
{SELECT_ENTRIES} INDEXED BY entries_of_person
WHERE e.space = ? AND e.owner = ? AND e.kind = ? AND (e.pinned = 1 OR e.edited = 1) ORDER BY e.when_ms, e.entry_id"""

WITH_TEXT = f"""
{SELECT_ENTRIES} INDEXED BY entries_by_text
WHERE e.space = ? AND e.owner = ? AND e.kind = ? AND e.text_key = ? ORDER BY e.when_ms, e.entry_id"""

LAST_SAID = """
SELECT e.entry_id, max(t.timestamp) AS said FROM entries e JOIN entry_sources s ON s.entry_pk = e.pk
JOIN turns t ON t.thread_pk = s.thread_pk AND t.position = s.turn AND t.role = 'user'
WHERE e.space = ? AND e.owner || '' = ? AND e.entry_id IN (SELECT value FROM json_each(?)) GROUP BY e.entry_id"""

CITING = f"""
{SELECT_ENTRIES} WHERE e.pk IN (
    SELECT entry_pk FROM entry_sources
    WHERE thread_pk = (SELECT pk FROM threads WHERE {IS_NAMED_THREAD}) AND (:turns IS NULL OR turn IN (SELECT CAST(value AS BIGINT) FROM json_each(:turns)))
) ORDER BY e.pk"""

DROP_DEAD = f"""
DELETE FROM jobs WHERE state = 'dead' AND kind = '{STRATEGY}' AND lane = ? AND json_extract(payload_json, '$.cell') = ?
AND NOT EXISTS (SELECT 1 FROM json_each(payload_json, '$.{STRATEGIES_OF}')
    WHERE value NOT IN (SELECT value FROM json_each(?)))"""
DELETIONS = """
SELECT entry_id, kind, cell, turn_ids_json, statement, said FROM buried_entries
WHERE space = ? AND owner = ? AND (CAST(? AS TEXT) IS NULL OR cell = ?) ORDER BY entry_id"""

NAMED = """
SELECT w.value AS entry_id, e.pk IS NOT NULL AS is_there, b.entry_id IS NOT NULL AS is_deleted FROM json_each(?) w
LEFT JOIN entries e ON e.space = ? AND e.entry_id = w.value
LEFT JOIN buried_entries b ON b.space = ? AND b.entry_id = w.value"""

ASKING_TURNS = """
SELECT t.thread_id, u.position FROM threads t JOIN turns u INDEXED BY turns_asking ON u.thread_pk = t.pk AND u.asks = 1
WHERE t.space = ? AND t.user_id = ?"""

DELETED_STATEMENTS = """
SELECT statement, max(said) AS said FROM buried_entries
WHERE space = ? AND owner = ? AND statement != '' AND statement IN (SELECT value FROM json_each(?))
GROUP BY statement"""


def _of(owner: str | None, kinds: Sequence[str]) -> str:
    """The condition for those of a space, of an owner, of some kinds; unset: of any."""
    where = "e.space = :space"
    if owner is not None:
        where += " AND e.owner = :owner"
    if len(kinds) > 1:
        where += " AND e.kind IN (SELECT value FROM json_each(:kinds))"
    return f"{where} AND e.kind = :kind" if len(kinds) == 1 else where


def _bound(space: str, owner: str | None, kinds: Sequence[str]) -> dict[str, Any]:
    kind = next(iter(kinds), None)
    return {"space": space, "owner": owner, "kinds": json.dumps(list(kinds)), "kind": kind}


class SqlEntryStore(QueueingStore):
    """A change is one transaction, with the jobs that write its files."""

    async def get(self, space: str, entry_id: str) -> KnownEntry | None:
        found = await self._found(f"{SELECT_ENTRIES} WHERE e.space = ? AND e.entry_id = ?", (space, entry_id))
        return found[0] if found else None

    async def some(self, space: str, owner: str, entry_ids: Collection[str]) -> list[KnownEntry]:
        """Those of an owner that have one of these ids, in the order of the ids."""
        found = await self._found(SOME, (space, owner, json.dumps(list(entry_ids)))) if entry_ids else []
        order = {entry_id: place for place, entry_id in enumerate(entry_ids)}
        return sorted(found, key=lambda entry: order[entry.entry_id])

    async def in_files(self, paths: Collection[str]) -> list[KnownEntry]:
        """Those that belong in these files, oldest first."""
        return await self._found(IN_FILES, (json.dumps(sorted(paths)),))

    async def linked(self, space: str, owner: str, entry_ids: Iterable[str]) -> list[KnownEntry]:
        """Those of an owner that have one of these ids, what lines among them show, and what superseded any of them."""
        found: dict[str, KnownEntry] = {}
        wanted = list(dict.fromkeys(entry_ids))
        while wanted:
            new = await self.some(space, owner, wanted)
            found |= {each.entry_id: each for each in new}
            named = [name for each in new for name in _leads_to(each)]
            wanted = [name for name in dict.fromkeys(named) if name not in found]
            if not new:
                break
        return list(found.values())

    async def last_said(self, space: str, owner: str, entry_ids: Iterable[str]) -> dict[str, int]:
        """When people said each of these the last time, by the messages that it cites and that are still there."""
        found = await self._database.read(LAST_SAID, (space, owner, json.dumps(list(entry_ids))))
        return {row["entry_id"]: row["said"] for row in found}

    async def list_entries(
        self,
        space: str,
        owner: str | None = None,
        *,
        kinds: Sequence[str] = (),
        since: int | None = None,
        until: int | None = None,
        holding: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[KnownEntry]:
        """The newest first, by when they happened, then by id. `after` is the id that the last page ended with.

        `since` is included, `until` is not.
        """
        where = [_of(owner, kinds)]
        if since is not None:
            where.append("e.when_ms >= :since")
        if until is not None:
            where.append("e.when_ms < :until")
        if holding:
            where.append("e.holds = 1")
        if after is not None:
            last = "(SELECT when_ms FROM entries WHERE space = :space AND entry_id = :after)"
            where += [f"e.when_ms <= {last}", f"NOT (e.when_ms = {last} AND e.entry_id <= :after)"]
        parameters = {
            **_bound(space, owner, kinds),
            "since": since,
            "until": until,
            "after": after,
            "limit": _EVERYTHING if limit is None else limit,
        }
        order = "ORDER BY e.when_ms DESC, e.entry_id LIMIT :limit"
        found = await self._database.read(f"{SELECT_ENTRIES} WHERE {' AND '.join(where)} {order}", parameters)
        return [known_of(row) for row in found]

    async def first_and_last(
        self, space: str, owner: str | None, kinds: Sequence[str]
    ) -> tuple[int, int] | None:
        """When the first and the last of these happened; None where there are none."""
        sql = f"SELECT min(when_ms) AS first, max(when_ms) AS last FROM entries e WHERE {_of(owner, kinds)}"
        (found,) = await self._database.read(sql, _bound(space, owner, kinds))
        return None if found["first"] is None else (found["first"], found["last"])

    async def counts(
        self, space: str, owner: str | None, kinds: Sequence[str], stretches: Sequence[tuple[int, int]]
    ) -> list[int]:
        """How many of these happened in each stretch of time, whose end is not part of it."""
        sql = f"""
        SELECT (SELECT count(*) FROM entries e WHERE {_of(owner, kinds)}
            AND e.when_ms >= CAST(json_extract(stretch.value, '$[0]') AS BIGINT)
            AND e.when_ms < CAST(json_extract(stretch.value, '$[1]') AS BIGINT)) AS entries
        FROM json_each(:stretches) stretch ORDER BY stretch.key"""
        bound = {**_bound(space, owner, kinds), "stretches": json.dumps(stretches)}
        return [row["entries"] for row in await self._database.read(sql, bound)]

    async def of_cell(self, space: str, owner: str, cell: str, strategy: str) -> list[KnownEntry]:
        """What a strategy made of a cell, oldest first."""
        return await self._found(OF_CELL, (space, owner, cell, strategy))

    async def of_category(
        self, space: str, owner: str, kind: str, category: str, newest: int
    ) -> list[KnownEntry]:
        """The newest of a category that nothing superseded, newest first."""
        return await self._found(OF_CATEGORY, (space, owner, kind, category, newest))

    async def of_person(self, space: str, owner: str, kind: str) -> list[KnownEntry]:
        """Those that a person wrote or pinned, oldest first."""
        return await self._found(OF_PERSON, (space, owner, kind))

    async def with_text(self, space: str, owner: str, kind: str, text_key: str) -> list[KnownEntry]:
        """Those whose `text_key` (domain/entries/entry.py) is this one, oldest first."""
        return await self._found(WITH_TEXT, (space, owner, kind, text_key))

    async def citing(self, thread: ThreadRef, turn_ids: Sequence[str] | None) -> list[KnownEntry]:
        """Entries of any owner that cite one of these turns, or any turn of the thread."""
        turns = None if turn_ids is None else json.dumps([turn_number(name) for name in turn_ids])
        bound = {**thread._asdict(), "turns": turns}
        return [known_of(row) for row in await self._database.read(CITING, bound)]

    async def owners_of_deletions(self) -> list[tuple[str, str]]:
        """Spaces and owners of whom an entry was deleted."""
        found = await self._database.read("SELECT DISTINCT space, owner FROM buried_entries")
        return [(row["space"], row["owner"]) for row in found]

    async def deletions(self, space: str, owner: str, cell: str | None = None) -> list[Deletion]:
        found = await self._database.read(DELETIONS, (space, owner, cell, cell))
        return [deletion_of(row) for row in found]

    async def named(self, space: str, entry_ids: Sequence[str]) -> tuple[set[str], set[str]]:
        """Of these ids, those of entries that are there, and those of entries that a person deleted."""
        found = await self._database.read(NAMED, (json.dumps(list(entry_ids)), space, space))
        there = {row["entry_id"] for row in found if row["is_there"]}
        return there, {row["entry_id"] for row in found if row["is_deleted"]}

    async def asking(self, space: str, user_id: str) -> frozenset[str]:
        """The ids of the rows of a user's turns in which a person only asks, as a model said."""
        found = await self._database.read(ASKING_TURNS, (space, user_id))
        return frozenset(
            turn_row_id(ThreadRef(space, user_id, row["thread_id"]), turn_id(row["position"]))
            for row in found
        )

    async def deleted_statements(self, space: str, owner: str, keys: Sequence[str]) -> dict[str, int]:
        """Of these `statement_key`s, those of deleted entries, and when each was said the last time."""
        found = await self._database.read(DELETED_STATEMENTS, (space, owner, json.dumps(keys)))
        return {row["statement"]: row["said"] for row in found}

    async def history(self, space: str, entry_id: str) -> list[EntryVersion]:
        """Oldest first; empty for an entry that never changed."""
        return [version_of(row) for row in await self._database.read(HISTORY, (space, entry_id))]

    async def last_changes(self, space: str, entry_ids: Sequence[str]) -> dict[str, int]:
        """When each of these entries was made or changed the last time."""
        found = await self._database.read(
            "SELECT entry_id, updated FROM entries WHERE space = ? AND entry_id IN (SELECT value FROM json_each(?))",
            (space, json.dumps(entry_ids)),
        )
        return {row["entry_id"]: row["updated"] for row in found}

    async def apply(self, change: EntryChange) -> None:
        """All of it or nothing. An entry's revision must be the one that is stored, else Conflict.

        An entry that says what is stored changes nothing, whatever its revision.
        """

        def apply(connection: Connection) -> tuple[set[str], int | None]:
            writer = EntryWriter(connection, change, self._clock())
            due = writer.apply()
            return writer.changed, due

        self._on_entries(change.owner, await self._change(apply))

    async def queue(self, space: str, thread: ThreadRef | None, jobs: Sequence[JobSpec]) -> None:
        """Queue work that no change goes with; durable when it returns.

        Dead jobs of a memcell go, where a new one has all of their strategies.
        """
        now = self._clock()

        def queue(connection: Connection) -> int | None:
            for job in jobs:
                done_again = (
                    job.lane,
                    job.payload.get("cell"),
                    json.dumps(job.payload.get(STRATEGIES_OF, [])),
                )
                connection.run(DROP_DEAD, done_again)
            return queue_entry_jobs(connection, space, thread, jobs, now)

        await self._queue(queue)

    async def _found(self, sql: str, parameters: Sequence[object]) -> list[KnownEntry]:
        return [known_of(row) for row in await self._database.read(sql, parameters)]


def _leads_to(known: KnownEntry) -> tuple[str, ...]:
    shown = origin_ids(known.entry) if known.kind == PROFILE else ()
    return (*successor_ids(known.entry), *shown)


CELLS_OF = """
SELECT DISTINCT h.user_id, h.thread_id, c.memcell_id FROM entries e JOIN entry_sources s ON s.entry_pk = e.pk
JOIN threads h ON h.pk = s.thread_pk JOIN turns t ON t.thread_pk = h.pk AND t.position = s.turn
JOIN memcell_turns m ON m.turn_pk = t.pk JOIN memcell c ON c.pk = m.memcell_pk
WHERE e.space = :space AND e.entry_id IN (SELECT value FROM json_each(:ids))"""

# A version that is no more may have come from a turn from which the entry as it is now does not.
FORGET_VERSIONS = """
DELETE FROM entry_history WHERE pk IN (
    SELECT version_pk FROM version_sources
    WHERE source = :folder AND (:turns IS NULL OR turn IN (SELECT CAST(value AS BIGINT) FROM json_each(:turns))))"""

NOTHING_LAPSES = """
DELETE FROM jobs WHERE owner = :owner AND dedupe = 'lapses' AND state != 'running' AND NOT EXISTS (
    SELECT 1 FROM entries WHERE space = :space AND owner = :owner AND kind = 'facts'
    AND json_extract(extra_json, '$.lapses') IS NOT NULL)"""


def forget_derived(
    connection: Connection, thread: ThreadRef, turns: Sequence[int] | None, now: int
) -> Derived:
    """Remove all that came from these turns, or from any turn of the thread, whoever's it is."""
    numbers = None if turns is None else json.dumps(list(turns))
    bound = {**thread._asdict(), "turns": numbers}
    gone = [known_of(row) for row in connection.all(CITING, bound)]
    connection.run(FORGET_VERSIONS, {"folder": thread_folder(*thread), "turns": numbers})
    return remove_entries(connection, thread.space, gone, now)


def keep_derived(connection: Connection, thread: ThreadRef, now: int, *, edited_only: bool) -> None:
    """What came from a thread that is to be forgotten stays, without its sources there."""
    bound = {**thread._asdict(), "turns": None}
    by_owner: defaultdict[str, list[KnownEntry]] = defaultdict(list)
    for row in connection.all(CITING, bound):
        known = known_of(row)
        if known.is_edited or not edited_only:
            by_owner[known.owner].append(without_thread(known, thread))
    for owner, kept in by_owner.items():
        change = EntryChange(
            thread.space,
            owner,
            "consolidation",
            "the chat that it came from was deleted without it",
            put=tuple(kept),
        )
        EntryWriter(connection, change, now).apply()


def remove_entries(connection: Connection, space: str, gone: Sequence[KnownEntry], now: int) -> Derived:
    ids = json.dumps([known.entry_id for known in gone])
    cells = [
        (ThreadRef(space, user_id, thread_id), cell)
        for user_id, thread_id, cell in connection.all(CELLS_OF, {"space": space, "ids": ids})
    ]
    by_owner: defaultdict[str, list[KnownEntry]] = defaultdict(list)
    for known in gone:
        by_owner[known.owner].append(known)
    for owner, theirs in by_owner.items():
        change = EntryChange(
            space,
            owner,
            "consolidation",
            "what superseded it was forgotten",
            put=_left_behind(connection, theirs),
            remove=tuple(known.entry_id for known in theirs),
        )
        EntryWriter(connection, change, now).apply()
        connection.run(NOTHING_LAPSES, {"space": space, "owner": owner})
    return Derived(
        {owner: tuple(known.entry_id for known in theirs) for owner, theirs in by_owner.items()},
        tuple(dict.fromkeys(known.path for known in gone if known.path)),
        tuple(cells),
    )


def _left_behind(connection: Connection, gone: Sequence[KnownEntry]) -> tuple[KnownEntry, ...]:
    """What the entries that go had superseded, or were superseded by, as it is without them."""
    others: dict[str, KnownEntry] = {}
    for name in partners(*(known.entry for known in gone)):
        found = stored_entry(connection, gone[0].space, name)
        if found is not None and found.owner == gone[0].owner:
            others[name] = found
    return left_behind(gone, others)
