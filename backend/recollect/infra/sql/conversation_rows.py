"""What a thread's next prompt is made of, read in one go."""

import sqlite3
from collections.abc import Mapping
from typing import Any

from recollect.infra.sql.chat_rows import THREAD_HEADER, path_of, row_of_answer
from recollect.infra.sql.prompt_rows import last_prompt
from recollect.infra.sql.rows import named_rows, thread_of
from recollect.memory import identity
from recollect.memory.chat import Accepted, Conversation, Epoch, Summary

NEWEST_EPOCH = """
SELECT e.number, e.first_position, e.reason, e.system_digest, e.backend, e.revision, e.summary,
    s.cut, s.digest, s.text
FROM epochs e LEFT JOIN summaries s ON s.thread_pk = e.thread_pk AND s.epoch = e.number
WHERE e.thread_pk = ? ORDER BY e.number DESC LIMIT 1"""

ANSWERED = """
SELECT 1 FROM turns WHERE thread_pk = :pk AND position > :place AND role = 'assistant'
    AND (content != '' OR tool_calls_json IS NOT NULL)
    AND (parent_id = :turn OR (parent_id IS NULL AND position = :place + 1)) LIMIT 1"""

SYSTEM_TEXTS = """
SELECT content FROM turns WHERE thread_pk = ? AND role = 'system' AND position < ? ORDER BY position"""


THREAD = f"SELECT {THREAD_HEADER} FROM threads WHERE space = ? AND thread_id = ?"


def conversation_if_there(
    connection: sqlite3.Connection, space: str, thread_id: str, accepted: Accepted, most_turns: int
) -> Conversation:
    """Raises NotFound where the thread was forgotten since this was accepted."""
    row_of_answer(connection, space, thread_id, accepted.answer)
    (thread,) = named_rows(connection, THREAD, (space, thread_id))
    return conversation_of(connection, thread, accepted, most_turns)


def conversation_of(
    connection: sqlite3.Connection, thread: Mapping[str, Any], accepted: Accepted, most_turns: int
) -> Conversation:
    """`thread` is its row, with the columns of THREAD_HEADER."""
    pk = thread["pk"]
    newest = connection.execute(NEWEST_EPOCH, (pk,)).fetchone()
    epoch = Epoch(*newest[:7]) if newest else None
    summed_up = newest[7:] if newest and newest[7] is not None else None
    first_new = accepted.turns[0] if accepted.turns else accepted.answers[0]
    systems = connection.execute(SYSTEM_TEXTS, (pk, identity.place_of(accepted.answers[0])))
    path = path_of(connection, pk, first_new, epoch, most_turns)
    return Conversation(
        thread=thread_of(thread),
        revision=thread["revision"],
        epoch=epoch,
        path=path,
        was_answered=bool(path) and _was_answered(connection, pk, path[-1].position),
        system_texts=tuple(content for (content,) in systems),
        last_prompt=last_prompt(connection, pk),
        summary=Summary(*summed_up) if summed_up else None,
    )


def _was_answered(connection: sqlite3.Connection, thread_pk: int, position: int) -> bool:
    """Whether an answer to the turn at this place is in any branch, as far as it got."""
    found = connection.execute(
        ANSWERED, {"pk": thread_pk, "place": position, "turn": identity.turn_id(position)}
    )
    return found.fetchone() is not None
