"""Forgetting a thread, or a user: the words go in the transaction that leaves their tombstones."""

import sqlite3

from recollect.errors import NotFound
from recollect.infra.sql.entry_changes import forget_entries_of
from recollect.infra.sql.forget_entries import forget_derived
from recollect.infra.sql.forget_jobs import BURY, queue_overwriting, queue_purge, queue_user_purge
from recollect.infra.sql.forget_quotes import end_quoting_epochs
from recollect.memory.forgetting import Derived, Forgotten, Task
from recollect.memory.identity import message_key, thread_key
from recollect.memory.job import PURGE, cells_lane, chat_lane, vault_lane
from recollect.memory.vault_paths import owner_folder

__all__ = ["BURY", "forget_turns", "forget_user"]

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
    derived = forget_derived(connection, space, user_id, thread_id, None, now)
    count, quoting = _forget_thread(connection, space, user_id, pk, thread_id, derived)
    if delete:
        connection.execute("DELETE FROM threads WHERE pk = ?", (pk,))
    else:
        _empty(connection, pk, count)
    task = Task(space, user_id, thread_id, None, derived, now, tuple(quoting))
    return count, queue_purge(connection, task, now, transcribe=not delete)


def forget_user(connection: sqlite3.Connection, space: str, user_id: str, now: int) -> tuple[Forgotten, int]:
    """Forget all of a user's threads, entries and notes, and what agents learned from them."""
    owner = owner_folder(space, user_id)
    threads = connection.execute(
        "SELECT pk, thread_id FROM threads WHERE space = ? AND user_id = ?", (space, user_id)
    ).fetchall()
    turns = 0
    gone: list[Derived] = []
    for pk, thread_id in threads:
        gone.append(forget_derived(connection, space, user_id, thread_id, None, now))
        turns += _forget_thread(connection, space, user_id, pk, thread_id, gone[-1])[0]
        connection.execute("DELETE FROM threads WHERE pk = ?", (pk,))
    (unsourced,) = connection.execute(
        "SELECT count(*) FROM entries WHERE space = ? AND owner = ?", (space, owner)
    ).fetchone()
    forget_owner(connection, space, owner)
    derived = _joined(gone, owner)
    task = Task(space, user_id, "", None, derived, now)
    due = queue_user_purge(connection, task, now)
    if threads or unsourced:
        due = min(due, queue_overwriting(connection, space, now))
    return Forgotten(turns, sum(map(len, gone)) + unsourced, len(threads)), due


def forget_owner(connection: sqlite3.Connection, space: str, owner: str) -> None:
    """What is known of an owner besides their threads; their files are the caller's to remove."""
    forget_entries_of(connection, space, owner)
    connection.execute("DELETE FROM notes WHERE owner = ?", (owner,))
    lanes = [f"{name}:{owner}" for name in ("memory", "episode", "facts", "foresight", "profile")]
    marks = ",".join("?" * len(lanes))
    connection.execute(f"DELETE FROM jobs WHERE lane IN ({marks}) AND state != 'running'", lanes)
    connection.execute(f"DELETE FROM strategy_counts WHERE lane IN ({marks})", lanes)


def _forget_thread(
    connection: sqlite3.Connection, space: str, user_id: str, pk: int, thread_id: str, derived: Derived
) -> tuple[int, list[int]]:
    """All but the rows of the thread itself. Returns how many turns it has, and which threads quoted any."""
    key = thread_key(space, thread_id)
    buried = [
        (space, user_id, key, message_key(message_id), position)
        for message_id, position in connection.execute(
            "SELECT message_id, position FROM turns WHERE thread_pk = ?", (pk,)
        )
    ]
    connection.executemany(BURY, buried)
    of_agents = any("/agents/" in owner for owner in derived.owners)
    quoting = end_quoting_epochs(connection, space, None if of_agents else user_id, derived.ids, key)
    connection.execute("DELETE FROM model_answers WHERE thread_key = ?", (key,))
    connection.execute(
        "DELETE FROM jobs WHERE lane IN (?, ?, ?) AND state != 'running' AND kind != ?",
        (cells_lane(key), vault_lane(key), chat_lane(key), PURGE),
    )
    return len(buried), quoting


def _joined(gone: list[Derived], owner: str) -> Derived:
    """What was derived for agents; all of the user's own goes anyway."""
    entries: dict[str, tuple[str, ...]] = {}
    for derived in gone:
        for other, ids in derived.entries.items():
            if other != owner:
                entries[other] = (*entries.get(other, ()), *ids)
    paths = [path for derived in gone for path in derived.paths if not path.startswith(f"{owner}/")]
    cells = [cell for derived in gone for cell in derived.cells]
    return Derived(entries, tuple(dict.fromkeys(paths)), tuple(dict.fromkeys(cells)))


def _empty(connection: sqlite3.Connection, thread_pk: int, count: int) -> None:
    for table in _OF_A_THREAD:
        connection.execute(f"DELETE FROM {table} WHERE thread_pk = ?", (thread_pk,))
    connection.execute(
        "UPDATE threads SET turn_count = 0, unasked = 0, forgotten = forgotten + ? WHERE pk = ?",
        (count, thread_pk),
    )
