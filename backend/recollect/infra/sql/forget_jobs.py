"""The jobs that finish a forgetting, queued in its own transaction."""

import hashlib
import json
import sqlite3
from collections.abc import Sequence

from recollect.infra.sql.job_rows import NewJob, queue_jobs
from recollect.memory.forgetting import NOTE, OVERWRITE, OVERWRITE_LANE, SETTLE, USER, Task, forget_lane
from recollect.memory.job import PURGE, TRANSCRIBE, vault_lane
from recollect.memory.model import JsonObject
from recollect.memory.vault_paths import owner_folder

BURY = """
INSERT OR IGNORE INTO tombstones (space, user_id, thread_key, message_key, number) VALUES (?, ?, ?, ?, ?)"""

_OVERWRITE_DELAY_MS = 500
"""Many who forget at once wait for one overwriting."""


def queue_purge(
    connection: sqlite3.Connection,
    task: Task,
    now: int,
    *,
    rewritten: Sequence[int] | None = None,
    transcribe: bool = True,
) -> int:
    """First the files and the index; then what waits for others to end. `rewritten`: turns whose files change."""
    first: JsonObject = {"user_id": task.user_id} | ({} if rewritten is None else {"turns": list(rewritten)})
    jobs = [_job(task, vault_lane(task.thread_key), first, now)]
    if transcribe:
        jobs.append(NewJob(TRANSCRIBE, vault_lane(task.thread_key), task.space, task.thread_id, now))
    jobs.append(settle_job(task, now))
    return queue_jobs(connection, jobs, now)


def settle_job(task: Task, now: int) -> NewJob:
    return _job(task, forget_lane(task.thread_key), task.as_payload(SETTLE), now)


def settle_entries_job(task: Task, owner: str, now: int) -> NewJob:
    """For entries of one owner that went without any turn."""
    return _job(task, forget_lane(owner), task.as_payload(SETTLE), now)


def queue_user_purge(connection: sqlite3.Connection, task: Task, now: int) -> int:
    """Once now, and once more when whatever still worked for the user has ended."""
    lane = forget_lane(owner_folder(task.space, task.user_id))
    payloads = [{"step": USER, "user_id": task.user_id}, {**task.as_payload(USER), "waits": True}]
    return queue_jobs(connection, [_job(task, lane, payload, now) for payload in payloads], now)


def queue_note_purge(connection: sqlite3.Connection, task: Task, path: str, digest: str, now: int) -> int:
    """Once now, and once more when whatever had read the note has ended."""
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
    return NewJob(PURGE, lane, task.space, task.thread_id or None, now, written, f"{task.user_id}:{dedupe}")
