"""Forgetting turns: the words go in the transaction that leaves their tombstones."""

import json
import sqlite3

from recollect.errors import NotFound
from recollect.infra.sql.job_rows import NewJob, queue_jobs
from recollect.memory.identity import message_key, thread_key
from recollect.memory.job import PURGE, TRANSCRIBE, cells_lane, chat_lane, vault_lane

BURY = """
INSERT OR IGNORE INTO tombstones (space, user_id, thread_key, message_key, number) VALUES (?, ?, ?, ?, ?)"""

QUOTING = """
SELECT DISTINCT h.pk FROM threads h JOIN turns t ON t.thread_pk = h.pk JOIN context_blocks b ON b.turn_pk = t.pk
WHERE h.space = ? AND h.user_id = ?
    AND EXISTS (SELECT 1 FROM json_each(b.memories_json) WHERE substr(key, 1, ?) = ?)"""

_OF_A_THREAD = (
    "unprocessed_buffer", "turns", "memcell", "receipts", "transcript_parts", "epochs", "summaries", "prompts",
    "chat_requests",
)  # fmt: skip


def forget_turns(
    connection: sqlite3.Connection, space: str, thread_id: str, now: int, *, delete: bool
) -> tuple[int, int]:
    """Forget a thread's turns, and with `delete` the thread. Returns how many, and when the purge is due."""
    row = connection.execute(
        "SELECT pk, user_id FROM threads WHERE space = ? AND thread_id = ?", (space, thread_id)
    ).fetchone()
    if row is None:
        raise NotFound(f"there is no thread {thread_id!r}")
    pk, user_id = row
    key = thread_key(space, thread_id)
    buried = [
        (space, user_id, key, message_key(message_id), position)
        for message_id, position in connection.execute(
            "SELECT message_id, position FROM turns WHERE thread_pk = ?", (pk,)
        )
    ]
    connection.executemany(BURY, buried)
    _forget_quotations(connection, space, user_id, key)
    if delete:
        connection.execute("DELETE FROM threads WHERE pk = ?", (pk,))
    else:
        _empty(connection, pk, len(buried))
    connection.execute(
        "DELETE FROM jobs WHERE lane IN (?, ?, ?) AND state != 'running' AND kind != ?",
        (cells_lane(key), vault_lane(key), chat_lane(key), PURGE),
    )
    jobs = [NewJob(PURGE, vault_lane(key), space, thread_id, now, json.dumps({"user_id": user_id}), user_id)]
    if not delete:
        jobs.append(NewJob(TRANSCRIBE, vault_lane(key), space, thread_id, now))
    return len(buried), queue_jobs(connection, jobs, now)


def _forget_quotations(connection: sqlite3.Connection, space: str, user_id: str, key: str) -> None:
    """Other threads of the owner may have been sent these turns as memories: their epochs end, their prompts go."""
    quoting = [pk for (pk,) in connection.execute(QUOTING, (space, user_id, len(key) + 1, f"{key}:"))]
    for pk in quoting:
        for table in ("prompts", "summaries"):
            connection.execute(f"DELETE FROM {table} WHERE thread_pk = ?", (pk,))
        # The words may be in a summary, too; and no revision is like this one, so the next prompt begins anew.
        connection.execute("UPDATE epochs SET summary = NULL, revision = -1 WHERE thread_pk = ?", (pk,))
        connection.execute(
            "DELETE FROM context_blocks WHERE turn_pk IN (SELECT pk FROM turns WHERE thread_pk = ?)", (pk,)
        )


def _empty(connection: sqlite3.Connection, thread_pk: int, count: int) -> None:
    for table in _OF_A_THREAD:
        connection.execute(f"DELETE FROM {table} WHERE thread_pk = ?", (thread_pk,))
    connection.execute(
        "UPDATE threads SET turn_count = 0, unasked = 0, forgotten = forgotten + ? WHERE pk = ?",
        (count, thread_pk),
    )
