"""Prompts that hold forgotten text are deleted; the jobs that finish a forgetting are queued."""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Sequence

from recollect.domain.forgetting import (
    NOTE,
    OVERWRITE,
    OVERWRITE_LANE,
    SETTLE,
    USER,
    Task,
    Tombstone,
    forget_lane,
    turn_line,
)
from recollect.domain.identity import thread_key
from recollect.domain.job import PURGE, TRANSCRIBE, vault_lane
from recollect.domain.model import JsonObject
from recollect.domain.paths import owner_folder
from recollect.infra.journal.file_versions import add_to_ledger
from recollect.infra.journal.prompts import FORGOTTEN
from recollect.infra.journal.rows import NewJob, queue_jobs

QUOTING = """
SELECT DISTINCT h.pk FROM threads h JOIN turns t ON t.thread_pk = h.pk JOIN context_blocks b ON b.turn_pk = t.pk
WHERE h.space = :space AND (:user_id IS NULL OR h.user_id = :user_id) AND EXISTS (
    SELECT 1 FROM json_each(b.memories_json)
    WHERE key IN (SELECT value FROM json_each(:memories))
        OR (:thread_key IS NOT NULL AND substr(key, 1, length(:thread_key) + 1) = :thread_key || ':')
        OR (:note IS NOT NULL AND substr(key, 1, length(:note) + 1) = :note || '#')
)"""

LATE = """
SELECT DISTINCT p.thread_pk FROM prompts p JOIN turns t ON t.pk = p.turn_pk
WHERE p.thread_pk IN (SELECT value FROM json_each(:threads)) AND t.accepted <= :at"""

_SENT = ("prompts", "summaries")


def end_quoting_epochs(
    connection: sqlite3.Connection,
    space: str,
    user_id: str | None,
    memories: Sequence[str],
    thread_key: str | None = None,
    note: str | None = None,
) -> list[int]:
    """Whoever was sent as a memory any of these, any turn of the thread, or any passage of the note (by its path).

    Turns are named by their thread's key within their user, who alone is sent them. Returns those threads.
    """
    bound = {
        "space": space,
        "user_id": user_id,
        "memories": json.dumps(list(memories)),
        "thread_key": thread_key,
        "note": note,
    }
    found = [pk for (pk,) in connection.execute(QUOTING, bound)]
    end_epochs(connection, found)
    return found


def end_epochs(connection: sqlite3.Connection, thread_pks: Iterable[int]) -> None:
    """The words may be in a summary, too; and no revision is like this one, so the next prompt starts a new epoch.

    One that is on its way and was made of them is not written down any more.
    """
    for pk in thread_pks:
        for table in _SENT:
            connection.execute(f"DELETE FROM {table} WHERE thread_pk = ?", (pk,))
        connection.execute(
            "UPDATE epochs SET summary = NULL, revision = ? WHERE thread_pk = ?", (FORGOTTEN, pk)
        )
        connection.execute(
            "DELETE FROM context_blocks WHERE turn_pk IN (SELECT pk FROM turns WHERE thread_pk = ?)", (pk,)
        )


def end_late_epochs(connection: sqlite3.Connection, thread_pks: Sequence[int], at: int) -> None:
    """Of these threads, whose epochs were ended at that time: those where a prompt of before was written down since."""
    late = connection.execute(LATE, {"threads": json.dumps(list(thread_pks)), "at": at})
    end_epochs(connection, [pk for (pk,) in late.fetchall()])


def add_tombstones(connection: sqlite3.Connection, tombstones: Sequence[Tombstone]) -> None:
    """They stay for good, in the ledger too."""
    connection.executemany(ADD_TOMBSTONE, tombstones)
    add_to_ledger(connection, *map(turn_line, tombstones))


ADD_TOMBSTONE = """
INSERT OR IGNORE INTO tombstones (space, user_id, thread_key, message_key, number) VALUES (?, ?, ?, ?, ?)"""

_OVERWRITE_DELAY_MS = 500
"""Many who forget at once wait for one overwriting."""


def queue_purge(
    connection: sqlite3.Connection, task: Task, now: int, *, rewritten: Sequence[int] | None = None
) -> int:
    """First the files and the index; then what waits for others to end.

    `rewritten` are the turns whose files change; None where the thread is gone with its files.
    """
    lane = vault_lane(thread_key(task.thread))
    if rewritten is None:
        jobs = [_job(task, lane, {"user_id": task.user_id}, now)]
    else:
        jobs = [
            _job(task, lane, {"user_id": task.user_id, "turns": list(rewritten)}, now),
            NewJob(TRANSCRIBE, lane, task.space, task.thread, now),
        ]
    jobs.append(settle_job(task, now))
    return queue_jobs(connection, jobs, now)


def settle_job(task: Task, now: int) -> NewJob:
    return _job(task, forget_lane(thread_key(task.thread)), task.as_payload(SETTLE), now)


def settle_entries_job(task: Task, owner: str, now: int) -> NewJob:
    """For entries of one owner that went without any turn."""
    return _job(task, forget_lane(owner), task.as_payload(SETTLE), now)


def queue_user_purge(connection: sqlite3.Connection, task: Task, now: int) -> int:
    """Purge now, and again when running work for the user has ended."""
    lane = forget_lane(owner_folder(task.space, task.user_id))
    payloads = [{"step": USER, "user_id": task.user_id}, {**task.as_payload(USER), "waits": True}]
    return queue_jobs(connection, [_job(task, lane, payload, now) for payload in payloads], now)


def queue_note_purge(connection: sqlite3.Connection, task: Task, path: str, digest: str, now: int) -> int:
    """Purge now, and again when work that has read the note has ended."""
    lane = forget_lane(owner_folder(task.space, task.user_id))
    first: JsonObject = {"step": NOTE, "user_id": task.user_id, "path": path, "digest": digest}
    payloads = [first, {**first, "at": now, "waits": True}]
    return queue_jobs(connection, [_job(task, lane, payload, now) for payload in payloads], now)


def queue_overwriting(connection: sqlite3.Connection, space: str, now: int) -> int:
    payload = json.dumps({"step": OVERWRITE, "user_id": ""})
    job = NewJob(PURGE, OVERWRITE_LANE, space, None, now + _OVERWRITE_DELAY_MS, payload)
    return queue_jobs(connection, [job], now)


def _job(task: Task, lane: str, payload: JsonObject, now: int) -> NewJob:
    """Each forgetting has its own: none does for another, unless it is about the very same."""
    written = json.dumps(payload, ensure_ascii=False)
    dedupe = hashlib.sha256(written.encode()).hexdigest()[:16]
    thread = task.thread if task.thread_id else None
    return NewJob(PURGE, lane, task.space, thread, now, written, f"{task.user_id}:{dedupe}")
