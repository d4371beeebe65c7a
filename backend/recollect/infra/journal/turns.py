"""Appending turns: the path every message takes. Turns, buffer rows and jobs in one transaction."""

import json
from collections.abc import Sequence, Set
from dataclasses import dataclass

from recollect.domain import identity
from recollect.domain.job import BOUNDARY, FLUSH, TRANSCRIBE, cells_lane, vault_lane
from recollect.domain.model import Append, NewTurn, Receipt, Thread, ThreadRef, Turn
from recollect.errors import InvalidInput
from recollect.infra.journal.connector import Connection, Row
from recollect.infra.journal.jobs import Schedule
from recollect.infra.journal.rows import (
    IS_THREAD,
    THREAD_COLUMNS,
    NewJob,
    dumped,
    insert_rows,
    queue_jobs,
    thread_meant,
)

MAX_TAGS = 100

FIND_THREAD = f"""
SELECT pk, agent_id, tags_json, incognito, one_shot, last_number, unasked, forgotten, lookalikes, (
    SELECT status FROM turns WHERE thread_pk = h.pk ORDER BY position DESC LIMIT 1
), EXISTS (SELECT 1 FROM epochs WHERE thread_pk = h.pk)
FROM threads h WHERE {IS_THREAD}"""

INSERT_TURNS = """
INSERT INTO turns (thread_pk, position, message_id, role, sender_id, content, parts_json,
    tool_calls_json, tool_call_id, reasoning, parent_id, model, timestamp, status, skip_reason, accepted, digest)"""

# While another index is made beside the live one, the live one is the older of the two.
REACHED = """
SELECT words_to, CASE WHEN refused > 0 THEN 0 ELSE vectors_to END FROM index_progress
WHERE thread_pk = ? AND generation = (SELECT min(name) FROM index_generations)"""

BUFFER_NEW_TURNS = """
INSERT INTO unprocessed_buffer (turn_pk, thread_pk, space, session_id, message_id)
SELECT pk, thread_pk, ?, ?, message_id FROM turns
WHERE thread_pk = ? AND position > ? AND skip_reason IS NULL"""

ADVANCE_THREAD = """
UPDATE threads SET last_number = ?, turn_count = turn_count + ?, unasked = unasked + ?, lookalikes = ?,
    updated = max(updated, ?),
    closes_at = coalesce(?, closes_at)
WHERE pk = ?"""

END_ONE_SHOT = """
UPDATE threads SET one_shot = 0, header_revision = header_revision + 1
WHERE pk = :pk AND EXISTS (SELECT 1 FROM turns WHERE thread_pk = :pk AND position > :before AND role = 'user')"""

IS_OPEN = "EXISTS (SELECT 1 FROM turns WHERE thread_pk = h.pk AND status IN ('queued', 'streaming'))"
"""A thread is not closed while an answer is streaming."""

WAITING = "SELECT h.pk, h.space, h.user_id, h.thread_id, h.last_number FROM threads h"
OTHERS_WAITING = f"""
{WAITING} INDEXED BY threads_waiting
WHERE h.space = ? AND h.user_id = ? AND h.closes_at IS NOT NULL AND h.pk != ? AND NOT {IS_OPEN}
ORDER BY h.closes_at LIMIT ?"""

_CLOSED_AT_ONCE = 20
"""How many other threads a thread's first message closes; the rest close later, or when they are quiet."""


@dataclass(slots=True)
class ThreadHead:
    """The state of a thread that appending needs."""

    pk: int
    ref: ThreadRef
    incognito: bool
    last_number: int
    unasked: int
    forgotten: int
    lookalikes: int
    """How many given message ids look like ones we make."""
    is_new: bool = False
    last_status: str | None = None
    """Of its last turn."""
    is_chat: bool = False
    """Whether a model has answered in it."""
    one_shot: bool = False
    """Whether it has held one call alone until now."""
    changed: bool = False
    """Whether the transcript's header must be rewritten."""


def append_turns(
    connection: Connection, append: Append, now: int, schedule: Schedule
) -> tuple[tuple[list[Receipt], ThreadRef], int | None]:
    """Store what is new, in order. Returns a receipt per turn, the thread, and when the first job after it is due."""
    head = find_or_create(connection, append, now)
    receipts: list[Receipt] = []
    given = {turn.message_id for turn in append.turns if turn.message_id is not None}
    known = _known_ids(connection, head, list(given))
    reached = connection.one(REACHED, (head.pk,)) if known else None
    first_number = head.last_number
    number = first_number
    accepted = []
    for turn in append.turns:
        if turn.message_id is not None and (earlier := known.get(turn.message_id)) is not None:
            receipts.append(_again(earlier, turn, *(reached or (0, 0))))
            continue
        number += 1
        message_id = turn.message_id or make_message_id(connection, head, turn.timestamp, number, given)
        if turn.message_id is not None and identity.looks_made(turn.message_id):
            head.lookalikes += 1
        is_abandoned = message_id in append.branches
        skip_reason = _skip_reason(turn, incognito=head.incognito, is_abandoned=is_abandoned)
        digest = identity.turn_digest(turn, message_id)
        accepted.append(turn_row(head.pk, number, message_id, turn, skip_reason, now, digest))
        receipt = Receipt(message_id, identity.turn_id(number), "accepted")
        known[message_id] = _Known(receipt.turn_id, digest, number, is_searched=skip_reason is None)
        receipts.append(receipt)
    if not accepted:
        return (receipts, head.ref), _nothing_new(connection, head, now, schedule)
    insert_rows(connection, INSERT_TURNS, accepted)
    end_one_shot(connection, head, first_number)
    connection.run(BUFFER_NEW_TURNS, (append.space, append.thread_id, head.pk, first_number))
    is_buffered = any(item.is_searched for item in known.values() if item.position > first_number)
    quiet_ms = 0 if append.past else schedule.quiet_ms if head.is_chat else schedule.gap_ms
    closes_at = now + quiet_ms if is_buffered else None
    count = len(accepted)
    used = min(now, max(turn.timestamp for turn in append.turns)) if append.past else now
    connection.run(ADVANCE_THREAD, (number, count, count, head.lookalikes, used, closes_at, head.pk))
    if head.incognito:
        return (receipts, head.ref), None
    if append.past:
        # It is closed when there is time for it: see `close_quiet`.
        return (receipts, head.ref), queue_jobs(connection, [transcript_job(head.ref, now, schedule)], now)
    due = queue_boundary_and_transcript(connection, head.ref, head.unasked + count, now, schedule)
    is_first = is_buffered and (first_number == 0 or head.is_new)
    closing = close_others(connection, head, now, schedule) if is_first else None
    return (receipts, head.ref), due if closing is None else min(due, closing)


def end_one_shot(connection: Connection, head: ThreadHead, before: int) -> None:
    """A user's message after the call that opened a thread makes it a conversation."""
    if head.one_shot:
        connection.run(END_ONE_SHOT, {"pk": head.pk, "before": before})


def _nothing_new(connection: Connection, head: ThreadHead, now: int, schedule: Schedule) -> int | None:
    """Delete a thread that was opened and got no turn; queue the transcript if an old one got new tags."""
    if head.is_new:
        connection.run("DELETE FROM threads WHERE pk = ?", (head.pk,))
        return None
    if not head.changed or head.incognito:
        return None
    return queue_jobs(connection, [transcript_job(head.ref, now, schedule)], now)


def transcript_job(thread: ThreadRef, now: int, schedule: Schedule) -> NewJob:
    """The job that writes what a thread has now into the vault, debounced."""
    lane = vault_lane(identity.thread_key(thread))
    return NewJob(TRANSCRIBE, lane, thread.space, thread, now + schedule.transcript_delay_ms)


@dataclass(frozen=True, slots=True)
class _Known:
    turn_id: str | None
    digest: bytes | None
    """None for a message that was forgotten."""
    position: int = 0
    is_searched: bool = False


def find_or_create(connection: Connection, append: Append, now: int) -> ThreadHead:
    """Raises AmbiguousThread where no user is named and several have a thread of that id."""
    ref = thread_meant(connection, append.space, append.thread_id, append.user_id)
    row = connection.one(FIND_THREAD, ref)
    if row is None:
        created = append.turns[0].timestamp
        updated = min(created, now) if append.past else now
        thread = Thread(
            ref.space, ref.thread_id, ref.user_id, created, updated, append.agent_id, append.title,
            unique(append.tags), one_shot=append.one_shot,
        )  # fmt: skip
        return insert_thread(connection, thread)
    pk, agent_id, tags_json, incognito, one_shot, *counts, last_status, is_chat = row
    head = ThreadHead(pk, ref, bool(incognito), *counts)
    head.last_status, head.is_chat, head.one_shot = last_status, bool(is_chat), bool(one_shot)
    if append.tags or (append.agent_id and agent_id is None):
        head.changed = _merge_header(connection, pk, tags_json, append)
    return head


def insert_thread(
    connection: Connection, thread: Thread, last_number: int = 0, lookalikes: int = 0
) -> ThreadHead:
    """A new thread. One whose id was used before goes on counting, so no turn id is ever used twice."""
    forgotten, last_forgotten = connection.one(
        f"SELECT count(*), coalesce(max(number), 0) FROM tombstones WHERE {OF_THREAD}", _of_thread(thread.ref)
    )
    last_number = max(last_number, last_forgotten)
    row = (
        thread.space, thread.thread_id, thread.user_id, thread.agent_id, thread.title, dumped(thread.tags),
        thread.preset, thread.backend, int(thread.incognito), thread.created, thread.updated, thread.turn_count,
        int(thread.pinned), int(thread.archived), int(thread.one_shot), last_number, forgotten, lookalikes,
    )  # fmt: skip
    insert = f"INSERT INTO threads ({THREAD_COLUMNS}, last_number, forgotten, lookalikes)"
    ((pk,),) = connection.all(f"{insert} VALUES ({','.join('?' * len(row))}) RETURNING pk", row)
    return ThreadHead(pk, thread.ref, thread.incognito, last_number, 0, forgotten, lookalikes, is_new=True)


def _merge_header(connection: Connection, pk: int, tags_json: str, append: Append) -> bool:
    tags = unique((*json.loads(tags_json), *append.tags))
    if len(tags) > MAX_TAGS:
        raise InvalidInput(
            f"tags: the thread would have {len(tags)}; at most {MAX_TAGS} are possible", field="tags"
        )
    changed = connection.run(
        "UPDATE threads SET tags_json = :tags, agent_id = coalesce(agent_id, :agent),"
        " header_revision = header_revision + 1"
        " WHERE pk = :pk AND (tags_json != :tags OR (agent_id IS NULL AND :agent IS NOT NULL))",
        {"pk": pk, "agent": append.agent_id, "tags": dumped(tags)},
    )
    return changed > 0


def unique(tags: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tags))


def _known_ids(connection: Connection, head: ThreadHead, given: list[str]) -> dict[str, _Known]:
    """Of the ids that the caller gave, those this thread has had before."""
    known: dict[str, _Known] = {}
    for start in range(0, len(given), 500):
        chunk = given[start : start + 500]
        marks = ",".join("?" * len(chunk))
        for message_id, position, digest, is_searched in connection.all(
            "SELECT message_id, position, digest, skip_reason IS NULL FROM turns"
            f" WHERE thread_pk = ? AND message_id IN ({marks})",
            (head.pk, *chunk),
        ):
            known[message_id] = _Known(identity.turn_id(position), digest, position, bool(is_searched))
        if head.forgotten:
            by_key = {identity.message_key(message_id): message_id for message_id in chunk}
            for (message_key,) in connection.all(
                f"SELECT message_key FROM tombstones WHERE {OF_THREAD} AND message_key IN ({marks})",
                (*_of_thread(head.ref), *by_key),
            ):
                known[by_key[message_key]] = _Known(None, None)
    return known


def known_messages(
    connection: Connection, thread: ThreadRef, message_ids: Sequence[str]
) -> dict[str, str | None]:
    """Of these messages those that the thread has had, with their turns; None for one that was forgotten."""
    row = connection.one(f"SELECT pk FROM threads WHERE {IS_THREAD}", thread)
    head = ThreadHead(0 if row is None else row[0], thread, False, 0, 0, forgotten=1, lookalikes=0)
    known = _known_ids(connection, head, list(message_ids))
    return {message_id: each.turn_id for message_id, each in known.items()}


def make_message_id(
    connection: Connection, head: ThreadHead, timestamp: int, number: int, given: Set[str]
) -> str:
    """An id that nobody has: where callers gave ids that look like ours, it is checked against them."""
    suffix = number
    while True:
        made = identity.made_message_id(head.ref.thread_id, timestamp, suffix)
        if made not in given and not _was_given(connection, head, made):
            return made
        suffix += 1_000_000_000


def _was_given(connection: Connection, head: ThreadHead, message_id: str) -> bool:
    """Whether a caller gave, or once gave, this id. Threads in which nobody did such a thing pay nothing."""
    if head.lookalikes:
        known = "SELECT 1 FROM turns WHERE thread_pk = ? AND message_id = ?"
        if connection.one(known, (head.pk, message_id)):
            return True
    if head.forgotten:
        forgotten = f"SELECT 1 FROM tombstones WHERE {OF_THREAD} AND message_key = ?"
        bound = (*_of_thread(head.ref), identity.message_key(message_id))
        return connection.one(forgotten, bound) is not None
    return False


OF_THREAD = "space = ? AND user_id = ? AND thread_key = ?"
"""Of tombstones."""


def _of_thread(thread: ThreadRef) -> tuple[str, str, str]:
    return thread.space, thread.user_id, identity.key_within_user(thread.space, thread.thread_id)


def _again(known: _Known, turn: NewTurn, words_to: int, vectors_to: int) -> Receipt:
    """The receipt of a message that was taken before, with how far the index is with it by now."""
    assert turn.message_id is not None
    if known.digest is None:
        return Receipt(
            turn.message_id, None, "forgotten", "this message was forgotten and is not taken again"
        )
    same = identity.turn_digest(turn, turn.message_id) == known.digest
    detail = None if same else "a different message with this id is stored; the stored one is kept"
    return Receipt(
        turn.message_id,
        known.turn_id,
        "duplicate",
        detail,
        indexed=known.is_searched and known.position <= words_to,
        embedded=known.is_searched and known.position <= vectors_to,
    )


def _skip_reason(turn: NewTurn, *, incognito: bool, is_abandoned: bool) -> str | None:
    if incognito:
        return "incognito thread"
    return "system message" if turn.role == "system" else "another branch" if is_abandoned else None


def turn_row(
    thread_pk: int,
    position: int,
    message_id: str,
    turn: NewTurn | Turn,
    skip_reason: str | None,
    now: int,
    digest: bytes,
) -> tuple[object, ...]:
    return (
        thread_pk, position, message_id, turn.role, turn.sender_id, turn.content, dumped(turn.parts),
        dumped(turn.tool_calls), turn.tool_call_id, turn.reasoning, turn.parent_id, turn.model, turn.timestamp,
        turn.status, skip_reason, now, digest,
    )  # fmt: skip


def queue_boundary_and_transcript(
    connection: Connection, thread: ThreadRef, unasked: int, now: int, schedule: Schedule
) -> int:
    """Queue what follows new turns, of which `unasked` were never looked at for boundaries. Returns when it is due."""
    enough = unasked >= schedule.boundary_every
    boundary_due = now + (schedule.boundary_delay_ms if enough else schedule.pause_ms)
    lane = cells_lane(identity.thread_key(thread))
    jobs = [
        NewJob(BOUNDARY, lane, thread.space, thread, boundary_due),
        transcript_job(thread, now, schedule),
    ]
    return queue_jobs(connection, jobs, now)


def close_others(connection: Connection, head: ThreadHead, now: int, schedule: Schedule) -> int | None:
    """When a user starts a thread, queue the closing of their other threads' buffers. Returns when it is due."""
    bound = (head.ref.space, head.ref.user_id, head.pk, _CLOSED_AT_ONCE)
    return queue_closing(connection, connection.all(OTHERS_WAITING, bound), "next", now, schedule)


def queue_closing(
    connection: Connection,
    waiting: Sequence[Row],
    reason: str,
    now: int,
    schedule: Schedule,
) -> int | None:
    """Have what these threads, rows of `WAITING`, hold by now closed; what they get later is left open.

    They are looked at again after a gap, should that fail for good. Returns when it is due; None without threads.
    """
    due = None
    for row in waiting:
        thread = ThreadRef(row["space"], row["user_id"], row["thread_id"])
        due = queue_flush(connection, flush_job(thread, now, reason, to=row["last_number"]), now)
        connection.run("UPDATE threads SET closes_at = ? WHERE pk = ?", (now + schedule.gap_ms, row["pk"]))
    return due


def flush_job(thread: ThreadRef, now: int, reason: str, *, to: int | None = None) -> NewJob:
    """Closes all that a thread has in the buffer, or what stands there up to the turn of that number."""
    payload = {"reason": reason} if to is None else {"reason": reason, "to": to}
    lane, dedupe = cells_lane(identity.thread_key(thread)), "" if to is None else str(to)
    return NewJob(FLUSH, lane, thread.space, thread, now, json.dumps(payload), dedupe)


def queue_flush(connection: Connection, job: NewJob, now: int) -> int:
    """Returns when it is due."""
    # It does all that the look which waits for a pause would do, and must not wait behind it.
    connection.run("DELETE FROM jobs WHERE lane = ? AND kind = ? AND state = 'queued'", (job.lane, BOUNDARY))
    return queue_jobs(connection, [job], now)
