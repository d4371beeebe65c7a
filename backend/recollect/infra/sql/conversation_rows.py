"""What a thread's next prompt is made of, read in one go."""

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from recollect.infra.sql.chat_rows import THREAD_HEADER, path_of, row_of_answer
from recollect.infra.sql.prompt_rows import NEWEST, stored_prompt
from recollect.infra.sql.rows import named_rows, thread_of
from recollect.memory import identity
from recollect.memory.chat import Accepted, Conversation, Epoch, Summary

# All in one row: each row that is read costs a change of hands between threads.
STATE = f"""
SELECT e.number, e.first_position, e.reason, e.system_digest, e.backend, e.revision, e.summary,
    s.cut, s.digest, s.text,
    (SELECT json_group_array(content) FROM (
        SELECT content FROM turns WHERE thread_pk = :pk AND role = 'system' AND position < :before ORDER BY position)),
    p.position, p.epoch, p.rest, p.detail_json
FROM (SELECT 1)
LEFT JOIN epochs e ON e.thread_pk = :pk AND e.number = (SELECT max(number) FROM epochs WHERE thread_pk = :pk)
LEFT JOIN summaries s ON s.thread_pk = :pk AND s.epoch = e.number
LEFT JOIN ({NEWEST}) p"""

ANSWERED = """
SELECT 1 FROM turns WHERE thread_pk = :pk AND position > :place AND role = 'assistant'
    AND (content != '' OR tool_calls_json IS NOT NULL)
    AND (parent_id = :turn OR (parent_id IS NULL AND position = :place + 1)) LIMIT 1"""
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
    bound = {"pk": pk, "before": identity.place_of(accepted.answers[0])}
    ((*state, systems, position, sent_in, rest, detail),) = connection.execute(STATE, bound).fetchall()
    opened, summed_up = state[:7], state[7:]
    epoch = Epoch(*opened) if opened[0] is not None else None
    first_new = accepted.turns[0] if accepted.turns else accepted.answers[0]
    path = path_of(connection, pk, first_new, epoch, most_turns)
    return Conversation(
        thread=thread_of(thread),
        revision=thread["revision"],
        epoch=epoch,
        path=path,
        is_answered_again=not accepted.turns
        and bool(path)
        and _was_answered(connection, pk, path[-1].position),
        system_texts=tuple(json.loads(systems)),
        last_prompt=None if position is None else stored_prompt(position, sent_in, rest, detail),
        summary=Summary(*summed_up) if summed_up[0] is not None else None,
    )


def _was_answered(connection: sqlite3.Connection, thread_pk: int, position: int) -> bool:
    """Whether an answer to the turn at this place is in any branch, as far as it got."""
    found = connection.execute(
        ANSWERED, {"pk": thread_pk, "place": position, "turn": identity.turn_id(position)}
    )
    return found.fetchone() is not None
