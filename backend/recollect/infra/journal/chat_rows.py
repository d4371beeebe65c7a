"""Rows of a chat: requests, answers as they grow, epochs, frozen blocks, the path a prompt takes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from recollect.domain import identity
from recollect.domain.chat import Accepted, AnswerText, ChatRequest, ContextBlock, Epoch, SentTurn
from recollect.domain.history_matching import EXAMPLE
from recollect.domain.model import Append, NewTurn, Status, Thread, Turn
from recollect.errors import Conflict, InvalidInput, NotFound
from recollect.infra.journal.connector import Connection, Row
from recollect.infra.journal.history_matching import FOLLOWED
from recollect.infra.journal.jobs import AT_ONCE, Schedule
from recollect.infra.journal.rows import (
    IS_NAMED_THREAD,
    T_TURN_COLUMNS,
    THREAD_COLUMNS,
    TURN_COLUMNS,
    dumped,
    insert_rows,
    replacing,
    thread_of,
    turn_of,
)
from recollect.infra.journal.turns import (
    ADVANCE_THREAD,
    BUFFER_NEW_TURNS,
    INSERT_TURNS,
    ThreadHead,
    close_others,
    end_one_shot,
    find_or_create,
    make_message_id,
    turn_row,
)

FIND_ANSWER = f"""
SELECT t.pk AS turn_pk, t.thread_pk, {T_TURN_COLUMNS}
FROM turns t JOIN threads h ON h.pk = t.thread_pk
WHERE {IS_NAMED_THREAD} AND t.position = :position"""

TURNS_OF_REQUEST = f"""
SELECT t.pk AS turn_pk, t.thread_pk, h.unasked, {FOLLOWED}, {T_TURN_COLUMNS}
FROM turns t JOIN threads h ON h.pk = t.thread_pk
WHERE {IS_NAMED_THREAD} AND t.position BETWEEN :first AND :last"""

OPEN_TURNS = f"""
SELECT t.pk AS turn_pk, h.space, h.user_id, h.thread_id, h.incognito, t.thread_pk, {T_TURN_COLUMNS}
FROM turns t JOIN threads h ON h.pk = t.thread_pk WHERE t.status IN ('queued', 'streaming')"""

LAST_SAID = f"""
SELECT {TURN_COLUMNS} FROM turns
WHERE thread_pk = :pk AND NOT (role = 'assistant' AND status IN ('failed', 'partial'))
ORDER BY position DESC LIMIT :limit"""
"""Answers that never came or broke off are passed over: a message may be sent again until a whole one comes."""

THREAD_HEADER = f"pk, revision, {THREAD_COLUMNS}"
"""Columns of a thread that answers and prompts need."""

ADVANCED = f"{ADVANCE_THREAD} RETURNING {THREAD_HEADER}"

UPDATE_ANSWER = """
UPDATE turns SET content = ?, reasoning = ?, tool_calls_json = ?, model = ?, status = ?, skip_reason = ?, timestamp = ?,
    digest = ? WHERE pk = ?"""

OVERTAKEN = """
SELECT t.position FROM chat_requests r JOIN turns t ON t.pk = r.answer_pk
WHERE r.thread_pk = ? AND r.idempotency_key = ? AND t.status = 'failed'"""

_ON_PATH = f"{TURN_COLUMNS}, block, memories"
PATH_PAGE = f"""
SELECT coalesce(json_group_array(json_array({_ON_PATH})), '[]') FROM (
    SELECT {T_TURN_COLUMNS}, b.text AS block, '' || (
        SELECT coalesce(json_group_array(json_array(subject || part, digest)), '[]') FROM block_memories
        WHERE turn_pk = t.pk) AS memories
    FROM turns t LEFT JOIN context_blocks b ON b.turn_pk = t.pk
    WHERE t.thread_pk = :pk AND t.position <= :last
    ORDER BY t.position DESC LIMIT :limit) newest"""
"""A single row of JSON: each row that is read costs a thread switch."""

_FORGOTTEN = "the thread was forgotten while it was answered"
_LONGEST_PATH = 5_000
"""No chain of tool calls is longer."""


def accept(
    connection: Connection,
    space: str,
    asked: ChatRequest,
    skip_reason: str | None,
    now: int,
    schedule: Schedule = AT_ONCE,
) -> tuple[Accepted, Row, int | None]:
    """What was accepted, the row of its thread, and when the first job after it is due, if any."""
    request_digest = asked.digest() if asked.key is not None else b""
    given_turns = (*asked.earlier, *asked.turns)
    first = given_turns[0].timestamp if given_turns else now
    anchor = NewTurn("assistant", "", first, "assistant", status="queued")
    append = Append(
        space, asked.thread_id, given_turns or (anchor,), asked.user_id, None, asked.tags, asked.one_shot
    )
    head = find_or_create(connection, append, now)
    if head.is_new and not given_turns:
        raise NotFound(f"there is no thread {asked.thread_id!r}")
    if head.last_status in ("failed", "partial") and (last := _unanswered(connection, head, asked)):
        # What broke off has words, which are left to a branch of their own.
        parent_id = last.turn_id if head.last_status == "partial" else None
        asked, given_turns = replace(asked, turns=(), earlier=(), parent_id=parent_id), ()
    elif asked.turns and asked.key and (overtaken := _overtaken(connection, head, asked)):
        raise Conflict(
            f"Idempotency-Key: the answer {overtaken} to this message failed, and others were said"
            " since; name the message as parent_id to have it answered after all",
            field="Idempotency-Key",
        )
    given_turns = tuple(
        replace(turn, sender_id=turn.sender_id or (head.ref.user_id if turn.role == "user" else turn.role))
        for turn in given_turns
    )
    before = head.last_number
    stored = _placed(connection, head, asked, given_turns, now)
    last_answer = stored[-1][0]
    turns, new_rows = [], []
    for position, turn, message_id in stored:
        spare = before + len(given_turns) < position < last_answer
        given = EXAMPLE if position - before <= asked.examples else skip_reason
        reason = _skip_reason(turn, head, given, spare=spare)
        digest = identity.turn_digest(turn, message_id)
        new_rows.append(turn_row(head.pk, position, message_id, turn, reason, now, digest))
        turns.append(_stored(turn, position, message_id, reason))
    insert_rows(connection, INSERT_TURNS, new_rows)
    end_one_shot(connection, head, before)
    is_buffered = any(turn.skip_reason is None for turn in turns)
    if is_buffered:
        connection.run(BUFFER_NEW_TURNS, (space, asked.thread_id, head.pk, before))
    count = len(turns)
    closes_at = now + schedule.quiet_ms if is_buffered else None
    advance = (last_answer, count, count, head.lookalikes, now, closes_at, head.pk)
    (row,) = connection.all(ADVANCED, advance)
    is_first = is_buffered and (before == 0 or head.is_new)
    due = close_others(connection, head, now, schedule) if is_first else None
    if asked.key is not None:
        connection.run(
            f"INSERT INTO chat_requests ({REQUEST_COLUMNS})"
            " SELECT thread_pk, ?, ?, pk FROM turns WHERE thread_pk = ? AND position = ?"
            f" {replacing(REQUEST_COLUMNS, 'thread_pk, idempotency_key')}",
            (asked.key, request_digest, head.pk, last_answer),
        )
    new = turns[len(asked.earlier) :]
    asked_for = len(asked.turns)
    return Accepted(thread_of(row), tuple(new[:asked_for]), tuple(new[asked_for:])), row, due


def _placed(
    connection: Connection,
    head: ThreadHead,
    asked: ChatRequest,
    given_turns: Sequence[NewTurn],
    now: int,
) -> list[tuple[int, NewTurn, str]]:
    """The messages that were given, then the answers to come: each with its place and its message id."""
    given = {turn.message_id for turn in given_turns if turn.message_id is not None}
    _refuse_known_ids(connection, head, given)
    parent = _parent(connection, head, asked)
    stored: list[tuple[int, NewTurn, str]] = []
    for number, turn in enumerate(given_turns, head.last_number + 1):
        link = None if stored else parent
        said = len(stored) < len(asked.earlier)
        waiting = replace(turn, status="complete" if said else "queued", parent_id=link)
        message_id = turn.message_id or make_message_id(connection, head, turn.timestamp, number, given)
        stored.append((number, waiting, message_id))
    last = head.last_number + len(given_turns)
    for choice in range(asked.choices):
        link = None if given_turns else parent
        if choice:  # All answers follow the same turn.
            link = identity.turn_id(last) if given_turns or parent is None else parent
        answer = NewTurn("assistant", "", now, "assistant", parent_id=link, status="queued")
        number = last + choice + 1
        stored.append((number, answer, make_message_id(connection, head, now, number, given)))
    return stored


def _unanswered(connection: Connection, head: ThreadHead, asked: ChatRequest) -> Turn | None:
    """The last of these turns, where the thread ends with just them and no whole answer: they are not said twice."""
    if not asked.turns:
        return None
    found = connection.all(LAST_SAID, {"pk": head.pk, "limit": len(asked.turns)})
    said = [turn_of(row) for row in found][::-1]
    if [_said(turn) for turn in said] != [_said(turn) for turn in asked.turns]:
        return None
    before = identity.turn_id(identity.place_of(said[0]) - 1)
    return said[-1] if asked.parent_id in (None, said[0].parent_id, before) else None


def _overtaken(connection: Connection, head: ThreadHead, asked: ChatRequest) -> str | None:
    """The answer that was asked for under this key, and failed."""
    found = connection.one(OVERTAKEN, (head.pk, asked.key))
    return identity.turn_id(found[0]) if found else None


def _said(turn: Turn | NewTurn) -> tuple[object, ...]:
    return turn.role, turn.content, turn.parts, turn.tool_call_id


def _stored(turn: NewTurn, position: int, message_id: str, skip_reason: str | None) -> Turn:
    """As it would be read again."""
    given: dict[str, Any] = {each.name: getattr(turn, each.name) for each in fields(turn)}
    given["message_id"] = message_id
    return Turn(turn_id=identity.turn_id(position), skip_reason=skip_reason, **given)


def _refuse_known_ids(connection: Connection, head: ThreadHead, given: set[str]) -> None:
    for message_id in given:
        known = connection.one(
            "SELECT 1 FROM turns WHERE thread_pk = ? AND message_id = ?", (head.pk, message_id)
        )
        if known:
            raise InvalidInput(f"message_id: {message_id!r} is in this thread already", field="message_id")


def _parent(connection: Connection, head: ThreadHead, asked: ChatRequest) -> str | None:
    """None where the parent is the thread's last turn anyway. t-0 is where a thread begins: a second first message."""
    parent_id = asked.parent_id
    if parent_id is None:
        return None
    position = identity.turn_number(parent_id)
    if position == 0 and asked.turns:
        return None if head.last_number == 0 else parent_id
    if position == head.last_number and not head.forgotten:
        return None
    known = connection.one("SELECT 1 FROM turns WHERE thread_pk = ? AND position = ?", (head.pk, position))
    if not known:
        raise InvalidInput(f"parent_id: there is no turn {parent_id!r} in this thread", field="parent_id")
    return None if position == head.last_number else parent_id


def _skip_reason(turn: NewTurn, head: ThreadHead, given: str | None, *, spare: bool) -> str | None:
    if head.incognito:
        return "incognito thread"
    if turn.role == "system":
        return "system message"
    return given or ("another choice" if spare else None)


def row_of_answer(connection: Connection, thread: Thread, answer: Turn) -> Row:
    """Raises NotFound where its thread was forgotten since, even if its id is used again."""
    bound = {**thread.ref._asdict(), "position": identity.place_of(answer)}
    found = connection.all(FIND_ANSWER, bound)
    if not found or found[0]["message_id"] != answer.message_id:
        raise NotFound(_FORGOTTEN)
    return found[0]


def rows_of_request(connection: Connection, accepted: Accepted) -> dict[str, Row]:
    """Its turns and answers by message id. Raises NotFound where its thread was forgotten since."""
    thread, turns = accepted.thread, (*accepted.turns, *accepted.answers)
    places = {"first": identity.place_of(turns[0]), "last": identity.place_of(turns[-1])}
    found = connection.all(TURNS_OF_REQUEST, {**thread.ref._asdict(), **places})
    rows: dict[str, Row] = {row["message_id"]: row for row in found}
    if any(answer.message_id not in rows for answer in accepted.answers):
        raise NotFound(_FORGOTTEN)
    return rows


def settle_turns(
    connection: Connection,
    rows: Mapping[str, Row],
    turns: Sequence[Turn],
    status: Status,
    skip_reason: str | None = None,
) -> None:
    """Those of these turns that still wait get this status."""
    for turn in turns:
        row = rows.get(turn.message_id)
        if row is not None and row["status"] == "queued":
            update_turn(connection, row["turn_pk"], row["thread_pk"], turn_of(row), status, skip_reason)


def update_turn(
    connection: Connection,
    turn_pk: int,
    thread_pk: int,
    turn: Turn,
    status: Status,
    skip_reason: str | None = None,
) -> Turn:
    """Write a turn with another status. Memory leaves empty answers alone, and those with a `skip_reason`."""
    said_nothing = turn.role == "assistant" and not (turn.content.strip() or turn.tool_calls)
    over = status not in ("queued", "streaming")
    was_skipped = turn.skip_reason is not None
    reason = turn.skip_reason or ("no answer" if said_nothing and over else skip_reason)
    turn = replace(turn, status=status, skip_reason=reason)
    connection.run(
        UPDATE_ANSWER,
        (
            turn.content, turn.reasoning, dumped(turn.tool_calls), turn.model, status, reason, turn.timestamp,
            identity.turn_digest(turn, turn.message_id), turn_pk,
        ),
    )  # fmt: skip
    if reason is not None and not was_skipped:
        connection.run("DELETE FROM unprocessed_buffer WHERE turn_pk = ?", (turn_pk,))
    return turn


def write_answer(
    connection: Connection,
    row: Row,
    text: AnswerText,
    status: Status,
    model: str | None,
    at: int | None,
    skip_reason: str | None = None,
) -> Turn:
    turn = replace(
        turn_of(row),
        content=text.content,
        reasoning=text.reasoning or None,
        tool_calls=list(text.tool_calls) or None,
        model=model,
        timestamp=row["timestamp"] if at is None else at,
    )
    return update_turn(connection, row["turn_pk"], row["thread_pk"], turn, status, skip_reason)


REQUEST_COLUMNS = "thread_pk, idempotency_key, digest, answer_pk"
EPOCH_COLUMNS = "thread_pk, number, first_position, reason, system_digest, backend, revision, summary, blocks_from, opened"


def open_epoch(connection: Connection, thread_pk: int, epoch: Epoch, now: int) -> None:
    connection.run(
        f"INSERT INTO epochs ({EPOCH_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        f" {replacing(EPOCH_COLUMNS, 'thread_pk, number')}",
        (
            thread_pk, epoch.number, epoch.first_position, epoch.reason, epoch.system_digest, epoch.backend,
            epoch.revision, epoch.summary, epoch.blocks_from, now,
        ),
    )  # fmt: skip
    # A summary that is ready goes on with the thread: its digest tells whether the turns are still those.
    connection.run(
        "UPDATE summaries SET epoch = :number WHERE thread_pk = :pk AND epoch = :number - 1"
        " AND NOT EXISTS (SELECT 1 FROM summaries WHERE thread_pk = :pk AND epoch = :number)",
        {"pk": thread_pk, "number": epoch.number},
    )


def path_of(
    connection: Connection, thread_pk: int, first_new: Turn, epoch: Epoch | None, most_turns: int
) -> tuple[SentTurn, ...]:
    """From the turn before the new ones back along the parents, as far as the window reaches.

    To where the epoch began where the path goes through there, and never less far than to the newest words of the
    user.
    """
    path: list[SentTurn] = []
    wanted = identity.place_before(first_new.parent_id, identity.place_of(first_new))
    page: dict[int, Row] = {}
    lowest = None
    begun, heard = False, first_new.role == "user"
    while wanted >= 1 and len(path) < _LONGEST_PATH:
        if (begun and path and not _is_in_chain(path[-1].turn)) or (heard and len(path) >= most_turns):
            break
        begun = begun or (epoch is not None and wanted == epoch.first_position)
        if lowest is None or wanted < lowest:
            page = _path_page(connection, thread_pk, wanted, max(1, most_turns - len(path)))
            if not page:
                break
            lowest = min(page)
        row = page.get(wanted)
        if row is None:  # Forgotten: its place stays empty.
            wanted -= 1
            continue
        turn = turn_of(row)
        block = None
        if row["block"] is not None:
            block = ContextBlock(row["block"], dict(json.loads(row["memories"])))
        path.append(SentTurn(turn, block))
        heard = heard or turn.role == "user"
        wanted = identity.place_before(turn.parent_id, wanted)
    return tuple(reversed(path))


def _path_page(connection: Connection, thread_pk: int, last: int, limit: int) -> dict[int, Row]:
    """The last `limit` turns up to this place, by their places."""
    ((found,),) = connection.all(PATH_PAGE, {"pk": thread_pk, "last": last, "limit": limit})
    names = _ON_PATH.split(", ")
    page = (dict(zip(names, values, strict=True)) for values in json.loads(found))
    return {row["position"]: row for row in page}


def _is_in_chain(turn: Turn) -> bool:
    """It calls tools or is a result: the words that set it off stand before it."""
    return turn.role == "tool" or bool(turn.tool_calls)
