"""Which file each entry stands in, and which files have to be written anew."""

import json
import sqlite3

from recollect.infra.sql.job_rows import NewJob
from recollect.memory.entry_paths import PART_BYTES, day_of_path, entry_day, entry_path
from recollect.memory.job import ENTRIES, entries_lane
from recollect.memory.known_entry import PROFILE, SKILLS, KnownEntry

TOUCH = """
INSERT INTO entry_files (path, space, owner) VALUES (?, ?, ?) ON CONFLICT (path) DO UPDATE SET revision = revision + 1"""


def new_place(connection: sqlite3.Connection, known: KnownEntry) -> str:
    """The last file of its day that has room. A skill's file is named by whoever makes it."""
    if known.path or known.kind == SKILLS:
        return known.path
    path = entry_path(known.owner, known.kind, known.entry.when)
    if known.kind == PROFILE:
        return path
    part = 1
    while _is_known(connection, following := entry_path(known.owner, known.kind, known.entry.when, part + 1)):
        path, part = following, part + 1
    return following if _size(connection, path) >= PART_BYTES else path


def kept_place(connection: sqlite3.Connection, before: KnownEntry, after: KnownEntry) -> str:
    """The file an entry has, unless it is told another, or is no longer of that file's day."""
    if after.path not in ("", before.path):
        return after.path
    day = day_of_path(before.path)
    if day != entry_day(before.entry.when) or day == entry_day(after.entry.when):
        return before.path
    return new_place(connection, KnownEntry(after.space, after.owner, after.kind, after.entry))


def touch_file(connection: sqlite3.Connection, known: KnownEntry, path: str) -> None:
    """It has to be written. Where a part of a day is begun, all before it are known too."""
    connection.execute(TOUCH, (path, known.space, known.owner))


def leave_file(connection: sqlite3.Connection, path: str, entry_id: str) -> None:
    """Its section has to go from there, whether or not it stands there yet."""
    connection.execute(
        "INSERT OR IGNORE INTO leaving_entries (path, entry_id) VALUES (?, ?)", (path, entry_id)
    )


def enter_file(connection: sqlite3.Connection, path: str, entry_id: str) -> None:
    connection.execute("DELETE FROM leaving_entries WHERE path = ? AND entry_id = ?", (path, entry_id))


def file_job(space: str, path: str, run_at: int, **about: object) -> NewJob:
    """The job that settles a file. `about` makes it a job of its own, beside one that just settles it."""
    payload = json.dumps({"path": path, **about}, ensure_ascii=False)
    dedupe = ":".join(f"{name}={value}" for name, value in about.items())
    return NewJob(ENTRIES, entries_lane(path), space, None, run_at, payload, dedupe)


def _is_known(connection: sqlite3.Connection, path: str) -> bool:
    return connection.execute("SELECT 1 FROM entry_files WHERE path = ?", (path,)).fetchone() is not None


def _size(connection: sqlite3.Connection, path: str) -> int:
    ((size,),) = connection.execute(
        "SELECT coalesce(sum(size), 0) FROM entries WHERE path = ?", (path,)
    ).fetchall()
    return int(size)
