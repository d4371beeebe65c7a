"""A thread's title may quote what is forgotten: then it goes, and another is made of what is left."""

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence

from recollect.infra.sql.job_rows import NewJob
from recollect.memory.identity import thread_key, turn_id
from recollect.memory.job import TITLE, chat_lane

_word = re.compile(r"\w+")
_ideographs = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")

IS_SAID = "SELECT 1 FROM turns WHERE thread_pk = ? AND instr(lower(content), ?) LIMIT 1"

FIRST_EXCHANGE = """
SELECT u.position, a.position FROM turns u JOIN turns a ON a.thread_pk = u.thread_pk AND a.position > u.position
WHERE u.thread_pk = ? AND u.role = 'user' AND u.content != '' AND a.role = 'assistant' AND a.status = 'complete'
    AND a.content != '' ORDER BY u.position, a.position LIMIT 1"""


def quotes(
    connection: sqlite3.Connection, thread_pk: int, title: str | None, forgotten: Sequence[str]
) -> bool:
    """Whether the title has a word that was said in the forgotten texts and is said in no other turn any more."""
    said = "\n".join(forgotten).casefold()
    return any(
        word in said and connection.execute(IS_SAID, (thread_pk, word)).fetchone() is None
        for word in _words(title or "")
    )


def clear_title(connection: sqlite3.Connection, thread_pk: int) -> None:
    connection.execute(
        "UPDATE threads SET title = NULL, header_revision = header_revision + 1 WHERE pk = ?", (thread_pk,)
    )


def title_job(
    connection: sqlite3.Connection, thread_pk: int, space: str, thread_id: str, now: int
) -> list[NewJob]:
    """None where nothing was answered: such a thread has no title."""
    found = connection.execute(FIRST_EXCHANGE, (thread_pk,)).fetchone()
    if found is None:
        return []
    payload = json.dumps({"turns": [turn_id(number) for number in found]})
    return [NewJob(TITLE, chat_lane(thread_key(space, thread_id)), space, thread_id, now, payload)]


def _words(title: str) -> Iterator[str]:
    """Scripts without spaces in pairs of signs."""
    folded = title.casefold()
    yield from (found.group() for found in _word.finditer(_ideographs.sub(" ", folded)))
    for run in _ideographs.findall(folded):
        yield from (run[place : place + 2] for place in range(len(run) - 1))
