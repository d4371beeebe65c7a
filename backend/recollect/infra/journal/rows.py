"""Rows of the journal as the types of `domain/model.py`, and back; jobs queued in the transaction of their cause."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from recollect.domain import identity
from recollect.domain.model import DEFAULT_USER, JsonObject, Memcell, Thread, ThreadRef, Turn
from recollect.domain.strategy import CAUSES
from recollect.errors import AmbiguousThread, NotFound
from recollect.infra.journal.connector import Connection, Row

THREAD_COLUMNS = "space, thread_id, user_id, agent_id, title, tags_json, preset, backend, incognito, created, updated, turn_count, pinned, archived, one_shot"
TURN_COLUMNS = (
    "position, message_id, role, sender_id, content, parts_json, tool_calls_json, tool_call_id, reasoning, "
    "parent_id, model, timestamp, status, skip_reason, edited"
)
T_TURN_COLUMNS = ", ".join(f"t.{name}" for name in TURN_COLUMNS.split(", "))

_ROWS_AT_ONCE = 50

ASKED_IN_VAIN = """(answer = '' OR usage_json LIKE '%"incomplete"%')"""
"""Of kept answers of the model: there is none that can be used, or it lacks something."""

FIRST_OPEN = """coalesce((
    SELECT min(position) FROM turns WHERE thread_pk = {} AND status IN ('queued', 'streaming')
), 9e15)"""
"""The first place of a thread whose turn is still being written."""


T = TypeVar("T")


def made(cls: Callable[..., T], row: Row, **given: Any) -> T:
    """A dataclass whose fields are columns of the same names, except for those that are `given`."""
    names: Mapping[str, Any] = cls.__dataclass_fields__  # type: ignore[attr-defined]
    return cls(**{name: row[name] for name in names if name not in given}, **given)


IS_THREAD = "space = ? AND user_id = ? AND thread_id = ?"
"""Of a row of `threads`, bound to a ThreadRef."""
IS_NAMED_THREAD = "space = :space AND user_id = :user_id AND thread_id = :thread_id"
"""The same, bound to a ThreadRef by name."""
THREAD_PK = f"(SELECT pk FROM threads WHERE {IS_THREAD})"


def thread_pk(connection: Connection, thread: ThreadRef) -> int:
    """0, which no thread has, where there is none of that name."""
    found = connection.one(f"SELECT pk FROM threads WHERE {IS_THREAD}", thread)
    return int(found[0]) if found else 0


def thread_columns(connection: Connection, thread: ThreadRef, columns: str = "pk") -> Any:
    """These columns of a thread. Raises NotFound."""
    row = connection.one(f"SELECT {columns} FROM threads WHERE {IS_THREAD}", thread)
    if row is None:
        raise no_thread(thread.thread_id)
    return row


def no_thread(thread_id: str) -> NotFound:
    return NotFound(f"there is no thread {thread_id!r}")


def thread_meant(connection: Connection, space: str, thread_id: str, user_id: str | None) -> ThreadRef:
    """The user's thread of that id. Without `user_id`: the only one of the space, or `me`'s where there is none.

    Raises AmbiguousThread where several users have one.
    """
    if user_id is None:
        sql = "SELECT user_id FROM threads WHERE space = ? AND thread_id = ? LIMIT 2"
        owners = [owner for (owner,) in connection.all(sql, (space, thread_id))]
        if len(owners) > 1:
            raise AmbiguousThread(
                f"several users have a thread {thread_id!r}; name one as user_id", field="user_id"
            )
        user_id = owners[0] if owners else DEFAULT_USER
    return ThreadRef(space, user_id, thread_id)


def thread_of(row: Row) -> Thread:
    return made(
        Thread,
        row,
        tags=tuple(json.loads(row["tags_json"])),
        incognito=bool(row["incognito"]),
        pinned=bool(row["pinned"]),
        archived=bool(row["archived"]),
        one_shot=bool(row["one_shot"]),
    )


def turn_of(row: Row) -> Turn:
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


def memcell_of(row: Row) -> Memcell:
    return Memcell(row["memcell_id"], tuple(json.loads(row["turn_ids_json"])), row["reason"])


def insert_rows(
    connection: Connection, insert: str, new: Sequence[Sequence[object]], unless: str = ""
) -> None:
    """Insert several rows by one statement: each one costs a change of hands between threads.

    `insert` goes as far as its columns; `unless` says what happens on a conflict.
    """
    for start in range(0, len(new), _ROWS_AT_ONCE):
        some = new[start : start + _ROWS_AT_ONCE]
        marks = ",".join([f"({','.join('?' * len(some[0]))})"] * len(some))
        bound = [value for row in some for value in row]
        connection.run(f"{insert} VALUES {marks} {unless}", bound)


UNLESS_THERE = "ON CONFLICT DO NOTHING"


def replacing(columns: str, key: str) -> str:
    """How an INSERT of these columns ends that takes the place of the row of the same key."""
    others = (name for name in columns.split(", ") if name not in key.split(", "))
    return f"ON CONFLICT ({key}) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in others)}"


def put_receipt(
    connection: Connection,
    thread_pk: int,
    about: int | str | None,
    stage: str,
    detail: JsonObject,
    now: int,
) -> None:
    """Of a turn, by its place, of a memcell, by its id, or of the thread itself; nothing where it is gone.

    It takes the place of what was told of that stage before.
    """
    if about is None:
        subject, found = "thread", "threads WHERE pk = ? AND CAST(? AS TEXT) IS NULL"
    elif isinstance(about, int):
        subject, found = "turn", "turns WHERE thread_pk = ? AND position = ?"
    else:
        subject, found = "memcell", "memcell WHERE thread_pk = ? AND memcell_id = ?"
    connection.run(
        f"INSERT INTO receipts ({subject}_pk, stage, detail_json, at) SELECT pk, ?, ?, ? FROM {found}"
        f" ON CONFLICT ({subject}_pk, stage) WHERE {subject}_pk IS NOT NULL"
        " DO UPDATE SET detail_json = excluded.detail_json, at = excluded.at",
        (stage, json.dumps(detail, ensure_ascii=False), now, thread_pk, about),
    )


def json_or_none(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def dumped(value: object | None) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


QUEUE_JOBS = """
INSERT INTO jobs (kind, lane, dedupe, space, user_id, thread_id, owner, payload_json, run_at, created)"""

UNLESS_QUEUED = """
ON CONFLICT (lane, kind, dedupe) WHERE state = 'queued'
DO UPDATE SET run_at = excluded.run_at WHERE excluded.run_at < jobs.run_at"""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be queued. Skips the insert if one of the same lane, kind and `dedupe` is already queued."""

    kind: str
    lane: str
    space: str
    thread: ThreadRef | None
    run_at: int
    payload_json: str = "{}"
    dedupe: str = ""
    owner: str | None = None
    """Whose memories it is about, by their folder; None where it is about no memories."""


def queue_jobs(connection: Connection, jobs: Sequence[NewJob], now: int) -> int:
    """Queue each job once; returns when the first of them is due."""
    new = [
        (
            job.kind, job.lane, job.dedupe, job.space, job.thread and job.thread.user_id,
            (job.thread and job.thread.thread_id) or None, job.owner, job.payload_json, job.run_at, now,
        )
        for job in jobs
    ]  # fmt: skip
    insert_rows(connection, QUEUE_JOBS, new, UNLESS_QUEUED)
    return min(job.run_at for job in jobs)


def earliest(*due: int | None) -> int | None:
    return min((each for each in due if each is not None), default=None)


def queued_job_id(connection: Connection, job: NewJob) -> int:
    job_id = waiting_twin(connection, job)
    assert job_id is not None
    return job_id


def waiting_twin(connection: Connection, job: NewJob) -> int | None:
    """An equal job that is already queued, if any."""
    found = connection.one(
        "SELECT pk FROM jobs WHERE lane = ? AND kind = ? AND dedupe = ? AND state = 'queued'",
        (job.lane, job.kind, job.dedupe),
    )
    return None if found is None else int(found[0])


def count_causes(connection: Connection, job_id: int) -> int:
    ((number,),) = connection.all(
        "SELECT coalesce(json_array_length(payload_json, ?), 0) FROM jobs WHERE pk = ?",
        (f"$.{CAUSES}", job_id),
    )
    return int(number)


def add_causes(connection: Connection, job_id: int, causes: Sequence[JsonObject]) -> None:
    """Add these events to the causes of the job."""
    ((stored,),) = connection.all("SELECT payload_json FROM jobs WHERE pk = ?", (job_id,))
    payload = json.loads(stored)
    payload[CAUSES] = [*payload.get(CAUSES, ()), *causes]
    connection.run(
        "UPDATE jobs SET payload_json = ? WHERE pk = ?", (json.dumps(payload, ensure_ascii=False), job_id)
    )
