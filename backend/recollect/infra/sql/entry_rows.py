"""Rows of entries as the nouns of `memory/known_entry.py`, and back."""

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from recollect.infra.sql.rows import dumped, named_rows
from recollect.memory.entries import render_entry
from recollect.memory.entry_file import EntryFileState
from recollect.memory.identity import thread_key, turn_id, turn_number
from recollect.memory.known_entry import EntryVersion, KnownEntry, Source
from recollect.memory.matters import matter_key
from recollect.memory.model import Entry
from recollect.memory.text_key import text_key

ENTRY_COLUMNS = """
e.space, e.owner, e.entry_id, e.kind, e.when_ms, e.path, e.title, e.text, e.links_json, e.by, e.extra_json,
e.cell, e.strategy, e.revision, e.filed, e.filing,
(SELECT json_group_array(json_array(thread_id, turn)) FROM entry_sources WHERE entry_pk = e.pk) AS sources_json"""

SELECT_ENTRIES = f"SELECT {ENTRY_COLUMNS} FROM entries e"

FILE_COLUMNS = "path, space, owner, revision, written, digest, writing"

INSERT_ENTRY = """
INSERT INTO entries (space, entry_id, owner, kind, when_ms, path, title, text, links_json, by, extra_json, subject_key,
    attribute_key, text_key, matter_key, cell, strategy, holds, pinned, edited, size, updated)
VALUES (:space, :entry_id, :owner, :kind, :when_ms, :path, :title, :text, :links_json, :by, :extra_json, :subject_key,
    :attribute_key, :text_key, :matter_key, :cell, :strategy, :holds, :pinned, :edited, :size, :updated)
RETURNING pk"""

UPDATE_ENTRY = """
UPDATE entries SET kind = :kind, when_ms = :when_ms, path = :path, title = :title, text = :text, links_json = :links_json,
    by = :by, extra_json = :extra_json, subject_key = :subject_key, attribute_key = :attribute_key, text_key = :text_key,
    matter_key = :matter_key, cell = :cell, strategy = :strategy, holds = :holds, pinned = :pinned, edited = :edited, size = :size,
    updated = :updated, revision = revision + 1,
    filed = iif(path = :path, filed, NULL), filing = iif(path = :path, filing, NULL)
WHERE space = :space AND entry_id = :entry_id RETURNING pk"""


def known_of(row: Mapping[str, Any]) -> KnownEntry:
    entry = Entry(
        entry_id=row["entry_id"],
        title=row["title"],
        text=row["text"],
        when=row["when_ms"],
        sources=tuple(json.loads(row["links_json"])),
        by=row["by"],
        extra=json.loads(row["extra_json"]),
    )
    return KnownEntry(
        space=row["space"],
        owner=row["owner"],
        kind=row["kind"],
        entry=entry,
        sources=tuple(Source(thread, turn_id(turn)) for thread, turn in json.loads(row["sources_json"])),
        cell=row["cell"],
        strategy=row["strategy"],
        path=row["path"],
        revision=row["revision"],
    )


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
        "subject_key": compared(entry.extra.get("subject", "")),
        "attribute_key": compared(entry.extra.get("attribute", "")),
        "text_key": text_key(entry.text),
        "matter_key": matter_key(known),
        "cell": known.cell,
        "strategy": known.strategy,
        "holds": known.holds,
        "pinned": known.is_pinned,
        "edited": known.is_edited,
        "size": len(render_entry(entry).encode()) + 1,
        "updated": now,
    }


def compared(word: str) -> str:
    """Subjects and attributes are compared without case."""
    return word.strip().casefold()


def stored_entry(connection: sqlite3.Connection, space: str, name: str) -> KnownEntry | None:
    found = named_rows(connection, f"{SELECT_ENTRIES} WHERE e.space = ? AND e.entry_id = ?", (space, name))
    return next((known_of(row) for row in found), None)


def put_sources(connection: sqlite3.Connection, pk: int, known: KnownEntry) -> None:
    """In the place of those it had."""
    connection.execute("DELETE FROM entry_sources WHERE entry_pk = ?", (pk,))
    connection.executemany(
        "INSERT INTO entry_sources (entry_pk, place, thread_key, thread_id, turn) VALUES (?, ?, ?, ?, ?)",
        [
            (pk, place, thread_key(known.space, source.thread_id), source.thread_id, _turn(source))
            for place, source in enumerate(known.sources)
        ],
    )


def _turn(source: Source) -> int:
    number = turn_number(source.turn_id)
    if number is None:
        raise ValueError(f"{source.turn_id!r} is no turn id")
    return number


def dumped_entry(entry: Entry) -> str:
    """For the history."""
    told = [entry.entry_id, entry.title, entry.text, entry.when, entry.sources, entry.by, entry.extra]
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def version_of(row: Mapping[str, Any]) -> EntryVersion:
    told = row["entry_json"]
    entry = None
    if told is not None:
        name, title, text, when, sources, by, extra = json.loads(told)
        entry = Entry(name, title, text, when, tuple(sources), by, extra)
    return EntryVersion(row["revision"], entry, row["actor"], row["cause"], row["at"])


def file_of(row: Mapping[str, Any]) -> EntryFileState:
    return EntryFileState(
        row["path"],
        row["space"],
        row["owner"],
        row["revision"],
        row["written"],
        row["digest"],
        row["writing"],
    )
