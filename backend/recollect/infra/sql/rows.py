"""Rows of the journal as the nouns of `memory/model.py`, and back."""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from recollect.memory import identity
from recollect.memory.model import Memcell, Thread, Turn

THREAD_COLUMNS = "space, thread_id, user_id, agent_id, title, tags_json, preset, backend, incognito, created, updated, turn_count, pinned"
TURN_COLUMNS = (
    "position, message_id, role, sender_id, content, parts_json, tool_calls_json, tool_call_id, reasoning, "
    "parent_id, model, timestamp, status, skip_reason, edited"
)

_ROWS_AT_ONCE = 50

FIRST_OPEN = """coalesce((
    SELECT min(position) FROM turns WHERE thread_pk = {} AND status IN ('queued', 'streaming')
), 9e15)"""
"""The first place of a thread whose turn is still being written."""


def thread_of(row: Mapping[str, Any]) -> Thread:
    return Thread(
        space=row["space"],
        thread_id=row["thread_id"],
        user_id=row["user_id"],
        created=row["created"],
        updated=row["updated"],
        agent_id=row["agent_id"],
        title=row["title"],
        tags=tuple(json.loads(row["tags_json"])),
        preset=row["preset"],
        backend=row["backend"],
        incognito=bool(row["incognito"]),
        turn_count=row["turn_count"],
        pinned=bool(row["pinned"]),
    )


def turn_of(row: Mapping[str, Any]) -> Turn:
    return Turn(
        turn_id=identity.turn_id(row["position"]),
        message_id=row["message_id"],
        role=row["role"],
        sender_id=row["sender_id"],
        content=row["content"],
        timestamp=row["timestamp"],
        parts=json_or_none(row["parts_json"]),
        tool_calls=json_or_none(row["tool_calls_json"]),
        tool_call_id=row["tool_call_id"],
        reasoning=row["reasoning"],
        parent_id=row["parent_id"],
        model=row["model"],
        status=row["status"],
        skip_reason=row["skip_reason"],
        edited=bool(row["edited"]),
    )


def memcell_of(row: Mapping[str, Any]) -> Memcell:
    return Memcell(row["memcell_id"], tuple(json.loads(row["turn_ids_json"])), row["reason"])


def named_rows(connection: sqlite3.Connection, sql: str, parameters: Any = ()) -> Iterator[dict[str, Any]]:
    """Rows by column name."""
    cursor = connection.execute(sql, parameters)
    names = [column[0] for column in cursor.description]
    for row in cursor:
        yield dict(zip(names, row, strict=True))


def rows(connection: sqlite3.Connection, sql: str, parameters: Any = ()) -> list[dict[str, Any]]:
    """All that a statement finds."""
    return list(named_rows(connection, sql, parameters))


def insert_rows(
    connection: sqlite3.Connection, insert: str, new: Sequence[Sequence[object]], unless: str = ""
) -> None:
    """Insert several rows by one statement: each one costs a change of hands between threads.

    `insert` goes as far as its columns; `unless` says what happens on a conflict.
    """
    for start in range(0, len(new), _ROWS_AT_ONCE):
        some = new[start : start + _ROWS_AT_ONCE]
        marks = ",".join([f"({','.join('?' * len(some[0]))})"] * len(some))
        bound = [value for row in some for value in row]
        connection.execute(f"{insert} VALUES {marks} {unless}", bound)


def json_or_none(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def dumped(value: object | None) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
