"""Forgetting entries: what came from forgotten turns goes, and what it had superseded holds again."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from recollect.domain.entries.entry import EntryChange, KnownEntry
from recollect.domain.entries.links import left_behind, partners
from recollect.domain.forgetting import Derived
from recollect.domain.identity import thread_key
from recollect.domain.model import ThreadRef
from recollect.domain.paths import file_name, thread_folder
from recollect.domain.strategy import LAPSE_JOB
from recollect.infra.journal.entries import CITING, CITING_TURNS
from recollect.infra.journal.entry_changes import EntryWriter
from recollect.infra.journal.entry_rows import known_of, stored_entry
from recollect.infra.journal.rows import named_rows

_CAUSE = "what superseded it was forgotten"
_KEPT = "the chat that it came from was deleted without it"

CELLS_OF = """
SELECT DISTINCT h.user_id, h.thread_id, c.memcell_id FROM entries e JOIN entry_sources s ON s.entry_pk = e.pk
JOIN threads h ON h.space = e.space AND h.user_id = s.user_id AND h.thread_id = s.thread_id
JOIN turns t ON t.thread_pk = h.pk AND t.position = s.turn
JOIN memcell_turns m ON m.turn_pk = t.pk JOIN memcell c ON c.pk = m.memcell_pk
WHERE e.space = :space AND e.entry_id IN (SELECT value FROM json_each(:ids))"""

# A version that is no more may have come from a turn from which the entry as it is now does not.
FORGET_VERSIONS = """
DELETE FROM entry_history WHERE pk IN (
    SELECT version_pk FROM version_sources
    WHERE source = :folder AND (:turns IS NULL OR turn IN (SELECT value FROM json_each(:turns))))"""

NOTHING_LAPSES = """
DELETE FROM jobs WHERE owner = :owner AND dedupe = :lapses AND state != 'running' AND NOT EXISTS (
    SELECT 1 FROM entries WHERE space = :space AND owner = :owner AND kind = 'facts'
    AND json_extract(extra_json, '$.lapses') IS NOT NULL)"""


def forget_derived(
    connection: sqlite3.Connection, thread: ThreadRef, turns: Sequence[int] | None, now: int
) -> Derived:
    """Remove all that came from these turns, or from any turn of the thread, whoever's it is."""
    numbers = None if turns is None else json.dumps(list(turns))
    bound = {"space": thread.space, "thread_key": thread_key(thread), "turns": numbers}
    citing = CITING if turns is None else CITING_TURNS
    gone = [known_of(row) for row in named_rows(connection, citing, bound)]
    connection.execute(FORGET_VERSIONS, {"folder": thread_folder(*thread), "turns": numbers})
    return remove_entries(connection, thread.space, gone, now)


def keep_derived(connection: sqlite3.Connection, thread: ThreadRef, now: int, *, edited_only: bool) -> None:
    """What came from a thread that is to be forgotten stays, without its sources there."""
    bound = {"space": thread.space, "thread_key": thread_key(thread), "turns": None}
    by_owner: defaultdict[str, list[KnownEntry]] = defaultdict(list)
    for row in named_rows(connection, CITING, bound):
        known = known_of(row)
        if known.is_edited or not edited_only:
            by_owner[known.owner].append(_without_thread(known, thread))
    for owner, kept in by_owner.items():
        change = EntryChange(thread.space, owner, "consolidation", _KEPT, put=tuple(kept))
        EntryWriter(connection, change, now).apply()


def _without_thread(known: KnownEntry, thread: ThreadRef) -> KnownEntry:
    folder = f"threads/{file_name(thread.thread_id)}/"
    places = (folder, f"users/{file_name(thread.user_id)}/{folder}")
    links = tuple(link for link in known.entry.sources if not link.startswith(places))
    sources = tuple(each for each in known.sources if each.thread_in(thread.space) != thread)
    return replace(
        known, entry=replace(known.entry, sources=links), sources=sources, cell=known.cell if sources else ""
    )


def remove_entries(
    connection: sqlite3.Connection, space: str, gone: Sequence[KnownEntry], now: int
) -> Derived:
    ids = json.dumps([known.entry_id for known in gone])
    cells = [
        (ThreadRef(space, user_id, thread_id), cell)
        for user_id, thread_id, cell in connection.execute(CELLS_OF, {"space": space, "ids": ids})
    ]
    by_owner: defaultdict[str, list[KnownEntry]] = defaultdict(list)
    for known in gone:
        by_owner[known.owner].append(known)
    for owner, theirs in by_owner.items():
        change = EntryChange(
            space,
            owner,
            "consolidation",
            _CAUSE,
            put=_left_behind(connection, theirs),
            remove=tuple(known.entry_id for known in theirs),
        )
        EntryWriter(connection, change, now).apply()
        connection.execute(NOTHING_LAPSES, {"space": space, "owner": owner, "lapses": LAPSE_JOB})
    return Derived(
        {owner: tuple(known.entry_id for known in theirs) for owner, theirs in by_owner.items()},
        tuple(dict.fromkeys(known.path for known in gone if known.path)),
        tuple(cells),
    )


def _left_behind(connection: sqlite3.Connection, gone: Sequence[KnownEntry]) -> tuple[KnownEntry, ...]:
    """What the entries that go had superseded, or were superseded by, as it is without them."""
    others: dict[str, KnownEntry] = {}
    for name in partners(*(known.entry for known in gone)):
        found = stored_entry(connection, gone[0].space, name)
        if found is not None and found.owner == gone[0].owner:
            others[name] = found
    return left_behind(gone, others)
