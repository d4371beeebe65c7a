"""What a thread's next prompt is made of, read in one go."""

import sqlite3

from recollect.errors import NotFound
from recollect.infra.sql.chat_rows import path_of
from recollect.infra.sql.prompt_rows import last_prompt
from recollect.infra.sql.rows import THREAD_COLUMNS, named_rows, thread_of
from recollect.memory import identity
from recollect.memory.chat import Accepted, Conversation, Epoch, Summary

NEWEST_EPOCH = """
SELECT number, first_position, reason, system_digest, backend, revision, summary
FROM epochs WHERE thread_pk = ? ORDER BY number DESC LIMIT 1"""

SYSTEM_TEXTS = """
SELECT content FROM turns WHERE thread_pk = ? AND role = 'system' AND position < ? ORDER BY position"""


def conversation_of(
    connection: sqlite3.Connection, space: str, thread_id: str, accepted: Accepted, most_turns: int
) -> Conversation:
    found = list(
        named_rows(
            connection,
            f"SELECT pk, revision, {THREAD_COLUMNS} FROM threads WHERE space = ? AND thread_id = ?",
            (space, thread_id),
        )
    )
    if not found:
        raise NotFound(f"there is no thread {thread_id!r}")
    pk = found[0]["pk"]
    newest = list(named_rows(connection, NEWEST_EPOCH, (pk,)))
    epoch = Epoch(**newest[0]) if newest else None
    first_new = accepted.turns[0] if accepted.turns else accepted.answers[0]
    systems = connection.execute(SYSTEM_TEXTS, (pk, identity.place_of(accepted.answers[0])))
    summed_up = connection.execute(
        "SELECT cut, digest, text FROM summaries WHERE thread_pk = ? AND epoch = ?",
        (pk, epoch.number if epoch else 0),
    ).fetchone()
    return Conversation(
        thread=thread_of(found[0]),
        revision=found[0]["revision"],
        epoch=epoch,
        path=path_of(connection, pk, first_new, epoch, most_turns),
        system_texts=tuple(content for (content,) in systems),
        last_prompt=last_prompt(connection, pk),
        summary=Summary(*summed_up) if summed_up else None,
    )
