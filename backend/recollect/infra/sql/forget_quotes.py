"""Prompts that hold what is forgotten: nothing of them is kept, and the next one begins anew."""

import json
import sqlite3
from collections.abc import Iterable, Sequence

from recollect.infra.sql.prompt_rows import FORGOTTEN

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

    Returns those threads.
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
    """The words may be in a summary, too; and no revision is like this one, so the next prompt begins anew.

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
