"""Forgetting a note in the journal: it is not known any more, and no prompt that quoted it is kept."""

import sqlite3

from recollect.infra.sql.forget_jobs import queue_note_purge
from recollect.infra.sql.forget_quotes import end_quoting_epochs
from recollect.memory.forgetting import Task


def forget_note(
    connection: sqlite3.Connection, space: str, user_id: str, path: str, digest: str, now: int
) -> int:
    """Returns when the first job that follows is due."""
    connection.execute("DELETE FROM notes WHERE path = ?", (path,))
    forget_quotes(connection, space, user_id, path)
    return queue_note_purge(connection, Task(space, user_id, "", None, at=now), path, digest, now)


def forget_quotes(connection: sqlite3.Connection, space: str, user_id: str, path: str) -> None:
    """Whatever was sent with a passage of the note."""
    end_quoting_epochs(connection, space, user_id, [], note=path)
