"""Rows of entries, the files they belong to, and the jobs that entries set off."""

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from recollect.domain.entries.entry import (
    PROFILE,
    SKILLS,
    Deletion,
    EntryChange,
    EntryVersion,
    KnownEntry,
    Source,
    text_key,
)
from recollect.domain.identity import turn_id, turn_number
from recollect.domain.job import JobSpec
from recollect.domain.markdown.entry_file import render_entry
from recollect.domain.model import Entry, JsonObject, ThreadRef
from recollect.domain.paths import PART_BYTES, day_of_path, entry_day, entry_path
from recollect.domain.strategy import CAUSES, HELD, own_lane
from recollect.infra.journal.connector import Connection, Row
from recollect.infra.journal.rows import (
    THREAD_PK,
    NewJob,
    add_causes,
    count_causes,
    dumped,
    made,
    queue_jobs,
    thread_columns,
    waiting_twin,
)

ENTRY_COLUMNS = """
e.space, e.owner, e.entry_id, e.kind, e.when_ms, e.path, e.title, e.text, e.links_json, e.by, e.extra_json,
e.cell, e.strategy, e.revision, e.filed, e.filing,
(SELECT coalesce(json_group_array(json_array(h.user_id, h.thread_id, s.turn)), '[]')
    FROM entry_sources s JOIN threads h ON h.pk = s.thread_pk WHERE s.entry_pk = e.pk) AS sources_json"""

SELECT_ENTRIES = f"SELECT {ENTRY_COLUMNS} FROM entries e"

_CHANGING = (
    "kind", "when_ms", "path", "title", "text", "links_json", "by", "extra_json", "category",
    "text_key", "cell", "strategy", "holds", "pinned", "edited", "size", "updated",
)  # fmt: skip

INSERT_ENTRY = f"""
INSERT INTO entries (space, entry_id, owner, {", ".join(_CHANGING)})
VALUES (:space, :entry_id, :owner, {", ".join(f":{name}" for name in _CHANGING)}) RETURNING pk"""

ASKING = f"""
UPDATE turns SET asks = CASE WHEN position IN (SELECT CAST(value AS BIGINT) FROM json_each(?)) THEN 1 ELSE 0 END WHERE pk IN (
    SELECT mt.turn_pk FROM memcell m JOIN memcell_turns mt ON mt.memcell_pk = m.pk
    WHERE m.thread_pk = {THREAD_PK} AND m.memcell_id = ?)"""

UPDATE_ENTRY = f"""
UPDATE entries SET {", ".join(f"{name} = :{name}" for name in _CHANGING)}, revision = revision + 1,
    filed = CASE WHEN path = :path THEN filed END, filing = CASE WHEN path = :path THEN filing END
WHERE space = :space AND entry_id = :entry_id RETURNING pk"""


def known_of(row: Row) -> KnownEntry:
    links, extra = tuple(json.loads(row["links_json"])), json.loads(row["extra_json"])
    entry = made(Entry, row, when=row["when_ms"], sources=links, extra=extra)
    sources = tuple(
        Source(user, thread, turn_id(turn)) for user, thread, turn in json.loads(row["sources_json"])
    )
    return made(KnownEntry, row, entry=entry, sources=sources, repeated=0)


def deletion_of(row: Row) -> Deletion:
    return made(Deletion, row, turn_ids=tuple(json.loads(row["turn_ids_json"])))


def row_of(known: KnownEntry, path: str, now: int) -> dict[str, Any]:
    entry = known.entry
    return {
        "space": known.space,
        "entry_id": entry.entry_id,
        "owner": known.owner,
        "kind": known.kind,
        "when_ms": entry.when,
        "path": path,
        "title": entry.title,
        "text": entry.text,
        "links_json": dumped(entry.sources),
        "by": entry.by,
        "extra_json": dumped(entry.extra),
        "category": known.category,
        "text_key": text_key(entry.text),
        "cell": known.cell,
        "strategy": known.strategy,
        "holds": known.holds,
        "pinned": known.is_pinned,
        "edited": known.is_edited,
        "size": len(render_entry(entry).encode()) + 1,
        "updated": now,
    }


def stored_entry(connection: Connection, space: str, name: str) -> KnownEntry | None:
    found = connection.all(f"{SELECT_ENTRIES} WHERE e.space = ? AND e.entry_id = ?", (space, name))
    return next((known_of(row) for row in found), None)


def put_sources(connection: Connection, pk: int, known: KnownEntry) -> None:
    """In the place of those it had. Raises NotFound where a thread that it came from was forgotten meanwhile."""
    connection.run("DELETE FROM entry_sources WHERE entry_pk = ?", (pk,))
    for place, source in enumerate(known.sources):
        (thread_pk,) = thread_columns(connection, source.thread_in(known.space))
        connection.run(
            "INSERT INTO entry_sources (entry_pk, place, thread_pk, turn) VALUES (?, ?, ?, ?)",
            (pk, place, thread_pk, _turn(source)),
        )


def mark_asking(connection: Connection, change: EntryChange) -> set[str]:
    """Of the turns of a memcell, those in which a person only asks, and no others. Returns the memcell's id."""
    if change.asks is None or not change.receipts:
        return set()
    of_cell = change.receipts[0]
    asking = json.dumps([turn_number(name) for name in change.asks])
    connection.run(ASKING, (asking, *of_cell.thread, of_cell.cell))
    return {of_cell.cell}


def _turn(source: Source) -> int:
    number = turn_number(source.turn_id)
    if number is None:
        raise ValueError(f"{source.turn_id!r} is no turn id")
    return number


def dumped_entry(entry: Entry) -> str:
    """For the history."""
    told = [entry.entry_id, entry.title, entry.text, entry.when, entry.sources, entry.by, entry.extra]
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def version_of(row: Row) -> EntryVersion:
    told = row["entry_json"]
    entry = None
    if told is not None:
        name, title, text, when, sources, by, extra = json.loads(told)
        entry = Entry(name, title, text, when, tuple(sources), by, extra)
    return EntryVersion(row["revision"], entry, row["actor"], row["cause"], row["at"])


def new_place(connection: Connection, known: KnownEntry) -> str:
    """The last file of its day that has room. A skill's file is named by whoever makes it."""
    if known.path or known.kind == SKILLS:
        return known.path
    path = entry_path(known.owner, known.kind, known.entry.when)
    if known.kind == PROFILE:
        return path
    part, is_known = 2, "SELECT 1 FROM vault_files WHERE path = ?"
    while connection.one(
        is_known, (following := entry_path(known.owner, known.kind, known.entry.when, part),)
    ):
        path, part = following, part + 1
    size = "SELECT coalesce(sum(size), 0) FROM entries WHERE path = ?"
    return following if connection.one(size, (path,))[0] >= PART_BYTES else path


def kept_place(connection: Connection, before: KnownEntry, after: KnownEntry) -> str:
    """The file an entry has, unless it is told another, or is no longer of that file's day."""
    if after.path not in ("", before.path):
        return after.path
    day = day_of_path(before.path)
    if day != entry_day(before.entry.when) or day == entry_day(after.entry.when):
        return before.path
    return new_place(connection, KnownEntry(after.space, after.owner, after.kind, after.entry))


def with_own_heading(
    connection: Connection, known: KnownEntry, before: KnownEntry | None, edited: Collection[str]
) -> KnownEntry:
    """With a number behind its title where another entry of its file has the same one.

    What comes from a file, one of the `edited` or any, stays as it is there.
    """
    is_from_file = bool(known.path) if before is None else before.path in edited
    if is_from_file or known.kind in (PROFILE, SKILLS):
        return known
    path = new_place(connection, known) if before is None else kept_place(connection, before, known)
    taken = "SELECT 1 FROM entries WHERE path = ? AND title = ? AND entry_id != ?"
    title, number = known.entry.title, 1
    while connection.one(taken, (path, title, known.entry_id)):
        number += 1
        title = f"{known.entry.title} ({number})"
    return known if number == 1 else replace(known, entry=replace(known.entry, title=title))


_MOST_CAUSES = 100

COUNT_EVENT = """
INSERT INTO strategy_counts (owner, strategy, events) VALUES (?, ?, 1)
ON CONFLICT (owner, strategy) DO UPDATE SET events = strategy_counts.events + 1 RETURNING events"""

RELEASE = "UPDATE jobs SET run_at = ? WHERE lane = ? AND kind = ? AND state = 'queued' AND run_at = ?"

# What waits for a pause has a lane of its own: the pause of all that waits there begins again.
RESTART = "UPDATE jobs SET run_at = ? WHERE lane = ? AND kind = ? AND state = 'queued' AND run_at < ?"


def queue_entry_jobs(
    connection: Connection, space: str, thread: ThreadRef | None, jobs: Sequence[JobSpec], now: int
) -> int | None:
    """Queue each job once; one that runs every N events is held until the N-th. Returns when the first is due."""
    due: list[NewJob] = []
    for job in jobs:
        is_turn = _is_its_turn(connection, job)
        run_at = now + job.delay_ms if is_turn else HELD
        payload = json.dumps(job.payload, ensure_ascii=False)
        owner = job.payload.get("owner")
        new = NewJob(job.kind, job.lane, space, thread, run_at, payload, job.dedupe, owner)
        if is_turn and "strategy" in job.payload:
            # Also what was held when the settings said otherwise.
            lane = own_lane(job.payload["strategy"], str(owner))
            connection.run(RELEASE, (run_at, lane, new.kind, HELD))
        if is_turn and job.restart:
            connection.run(RESTART, (run_at, new.lane, new.kind, HELD))
        due.append(_joined(connection, new, job.payload[CAUSES]) if CAUSES in job.payload else new)
    return queue_jobs(connection, due, now) if due else None


def _joined(connection: Connection, new: NewJob, causes: Sequence[JsonObject]) -> NewJob:
    """One like it that waits takes its causes; where that has many, a job beside it does: each writes all of them."""
    number = 1
    while (twin := waiting_twin(connection, new)) is not None:
        if count_causes(connection, twin) < _MOST_CAUSES:
            add_causes(connection, twin, causes)
            break
        number += 1
        new = replace(new, dedupe=f"{new.dedupe.partition('+')[0]}+{number}")
    return new


def _is_its_turn(connection: Connection, job: JobSpec) -> bool:
    if job.every <= 1:
        return True
    counted = (job.payload["owner"], job.payload["strategy"])
    ((events,),) = connection.all(COUNT_EVENT, counted)
    if events < job.every:
        return False
    connection.run("DELETE FROM strategy_counts WHERE owner = ? AND strategy = ?", counted)
    return True
