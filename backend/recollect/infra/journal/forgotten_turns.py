"""Forgetting turns: their text and all that depends on it go in the transaction of their tombstones."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from recollect.domain.forgetting import Derived, Forgotten, Task, purge_job, settle_job, turn_line
from recollect.domain.identity import (
    key_within_user,
    message_key,
    place_before,
    place_of,
    thread_key,
    turn_digest,
    turn_id,
    turn_number,
)
from recollect.domain.job import TITLE, TRANSCRIBE, JobSpec, chat_lane, vault_lane
from recollect.domain.model import JsonObject, ThreadRef, Turn
from recollect.domain.webhook import FORGOTTEN
from recollect.errors import Conflict, NotFound
from recollect.infra.journal.connector import Connection, Row
from recollect.infra.journal.entries import forget_derived
from recollect.infra.journal.entry_rows import queue_entry_jobs
from recollect.infra.journal.prompts import end_epochs, end_quoting_epochs
from recollect.infra.journal.rows import (
    IS_THREAD,
    THREAD_PK,
    TURN_COLUMNS,
    thread_columns,
    turn_of,
)
from recollect.infra.journal.vault_files import add_to_ledger
from recollect.infra.journal.webhooks import announce_of_user

_word = re.compile(r"\w+")
_ideographs = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")

FIRST_EXCHANGE = """
SELECT u.position, a.position FROM turns u JOIN turns a ON a.thread_pk = u.thread_pk AND a.position > u.position
WHERE u.thread_pk = ? AND u.role = 'user' AND u.content != '' AND a.role = 'assistant' AND a.status = 'complete'
    AND a.content != '' ORDER BY u.position, a.position LIMIT 1"""


def quotes(connection: Connection, thread_pk: int, title: str | None, forgotten: Sequence[str]) -> bool:
    """Whether the title has a word that was said in the forgotten texts and is said in no other turn any more."""
    gone = "\n".join(forgotten).casefold()
    words = {word for word in _words(title or "") if word in gone}
    said = connection.all("SELECT content FROM turns WHERE thread_pk = ?", (thread_pk,)) if words else []
    for text in (content.casefold() for (content,) in said):
        words = {word for word in words if word not in text}
    return bool(words)


def clear_title(connection: Connection, thread_pk: int) -> None:
    connection.run(
        "UPDATE threads SET title = NULL, header_revision = header_revision + 1 WHERE pk = ?", (thread_pk,)
    )


def title_job(connection: Connection, thread_pk: int, thread: ThreadRef) -> list[JobSpec]:
    """None where nothing was answered: such a thread has no title."""
    found = connection.one(FIRST_EXCHANGE, (thread_pk,))
    if found is None:
        return []
    turns = [turn_id(number) for number in found]
    return [JobSpec(TITLE, chat_lane(thread_key(thread)), {"turns": turns})]


def _words(title: str) -> Iterator[str]:
    """Scripts without spaces in pairs of signs."""
    folded = title.casefold()
    yield from (found.group() for found in _word.finditer(_ideographs.sub(" ", folded)))
    for run in _ideographs.findall(folded):
        yield from (run[place : place + 2] for place in range(len(run) - 1))


TURNS = f"SELECT pk AS turn_pk, {TURN_COLUMNS} FROM turns WHERE thread_pk = ?"
FOLLOWING = f"{TURNS} AND position > ? ORDER BY position"

# Any answer about a thread may quote what stood before its cell.
FORGET_ANSWERS = f"DELETE FROM model_answers WHERE thread_pk = {THREAD_PK}"

CELLS = """
SELECT pk, memcell_id FROM memcell WHERE pk IN (
    SELECT memcell_pk FROM memcell_turns WHERE turn_pk IN (SELECT CAST(value AS BIGINT) FROM json_each(?)))"""

CELL_TURNS = """
SELECT t.position, t.message_id FROM memcell_turns m JOIN turns t ON t.pk = m.turn_pk
WHERE m.memcell_pk = ? ORDER BY t.position"""

SHRINK_CELL = """
UPDATE memcell SET turn_ids_json = ?, message_ids_json = ?, last_position = ?, transcribed = 0 WHERE pk = ?"""

ADD_TOMBSTONE = """
INSERT INTO tombstones (space, user_id, thread_key, message_key, number) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING"""

COUNT = """
UPDATE threads SET turn_count = turn_count - :count, forgotten = forgotten + :count, revision = revision + 1
WHERE pk = :pk"""

GIVEN_A_TITLE = f"SELECT 1 FROM jobs WHERE kind = ? AND {IS_THREAD} AND state = 'running'"


def forget_some(
    connection: Connection, ref: ThreadRef, turn_ids: Sequence[str], now: int, *, answers: bool
) -> tuple[Forgotten, int | None]:
    """Returns what went, and when the first job that follows is due.

    `answers`: with what was answered to them. Raises NotFound for a turn that is not there, Conflict for one that is
    still being written.
    """
    pk, title = thread_columns(connection, ref, "pk, title")
    rows = _chosen(connection, pk, turn_ids, answers=answers)
    turns = [turn_of(row) for row in rows]
    places = [place_of(turn) for turn in turns]
    add_tombstones(connection, ref, [(turn.message_id, place_of(turn)) for turn in turns])
    derived = forget_derived(connection, ref, places, now)
    within_user = key_within_user(ref.space, ref.thread_id)
    quoting = end_quoting_epochs(connection, ref.space, ref.user_id, [within_user], places)
    quoting += end_quoting_epochs(connection, ref.space, whose_prompts(ref.user_id, derived), derived.ids)
    end_epochs(connection, [pk])
    pks = json.dumps([row["turn_pk"] for row in rows])
    cells = connection.all(CELLS, (pks,))
    moved = _pass_on_parents(connection, pk, turns)
    connection.run("DELETE FROM turns WHERE pk IN (SELECT CAST(value AS BIGINT) FROM json_each(?))", (pks,))
    connection.run(FORGET_ANSWERS, ref)
    kept = [(ref, name) for cell_pk, name in cells if _shrink(connection, cell_pk)]
    connection.run(COUNT, {"count": len(rows), "pk": pk})
    if quotes(connection, pk, title, [_told(turn) for turn in turns]):
        clear_title(connection, pk)
        queue_entry_jobs(connection, ref.space, ref, title_job(connection, pk, ref), now)
    titled = connection.one(GIVEN_A_TITLE, (TITLE, *ref)) is not None
    quoted = tuple(dict.fromkeys([pk, *quoting]))
    task = Task(*ref, tuple(places), derived.and_cells(kept), now, quoted, titled)
    due = queue_purge(connection, task, now, rewritten=[*places, *moved])
    forgotten = tuple(turn.turn_id for turn in turns)
    told = {"what": "turns", "thread_id": ref.thread_id, "turn_ids": forgotten, "entry_ids": derived.ids}
    announce_of_user(connection, FORGOTTEN, ref.space, ref.user_id, told, now)
    return Forgotten(len(turns), len(derived), turn_ids=forgotten), due


def to_forget(
    connection: Connection, thread: ThreadRef, turn_ids: Sequence[str], *, answers: bool
) -> tuple[str, ...]:
    """The turns that `forget_some` would forget. Raises as it does."""
    (pk,) = thread_columns(connection, thread)
    rows = _chosen(connection, pk, turn_ids, answers=answers)
    return tuple(turn_id(row["position"]) for row in rows)


def _chosen(connection: Connection, thread_pk: int, turn_ids: Sequence[str], *, answers: bool) -> list[Row]:
    chosen: dict[int, Row] = {}
    for name in dict.fromkeys(turn_ids):
        found = connection.all(f"{TURNS} AND position = ?", (thread_pk, turn_number(name)))
        if not found:
            raise NotFound(f"there is no turn {name!r} in this thread")
        chosen[found[0]["position"]] = found[0]
        if answers:
            chosen |= {row["position"]: row for row in _answers_to(connection, thread_pk, found[0])}
    for row in chosen.values():
        if row["status"] in ("queued", "streaming"):
            raise Conflict(f"{turn_id(row['position'])} is still being written; cancel it first")
    return [chosen[place] for place in sorted(chosen)]


def _answers_to(connection: Connection, thread_pk: int, row: Row) -> list[Row]:
    """What assistant and tools said to a message of the user, in every branch, until the user spoke again."""
    if row["role"] != "user":
        return []
    path = {row["position"]}
    answers: list[Row] = []
    for following in connection.all(FOLLOWING, (thread_pk, row["position"])):
        follows = place_before(following["parent_id"], following["position"]) in path
        if follows and following["role"] in ("assistant", "tool"):
            path.add(following["position"])
            answers.append(following)
    return answers


def add_tombstones(
    connection: Connection, thread: ThreadRef, messages: Iterable[Row | tuple[str, int]]
) -> None:
    """Of messages, each with its place. They stay for good, in the ledger too."""
    whose = (thread.space, thread.user_id, key_within_user(thread.space, thread.thread_id))
    tombstones = [(*whose, message_key(message_id), place) for message_id, place in messages]
    connection.many(ADD_TOMBSTONE, tombstones)
    add_to_ledger(connection, *map(turn_line, tombstones))


def queue_purge(
    connection: Connection, task: Task, now: int, *, rewritten: Sequence[int] | None = None
) -> int | None:
    """First the files and the index; then what waits for others to end.

    `rewritten` are the turns whose files change; None where the thread is gone with its files.
    """
    key = thread_key(task.thread)
    lane = vault_lane(key)
    turns: JsonObject = {} if rewritten is None else {"turns": list(rewritten)}
    transcript = [] if rewritten is None else [JobSpec(TRANSCRIBE, lane)]
    jobs = [purge_job(task, lane, {"user_id": task.user_id, **turns}), *transcript, settle_job(task, key)]
    return queue_entry_jobs(connection, task.space, task.thread, jobs, now)


def whose_prompts(user_id: str, derived: Derived) -> str | None:
    """Whose prompts may hold it: what agents know may be anybody's in the space."""
    return None if any("/agents/" in owner for owner in derived.owners) else user_id


def _pass_on_parents(connection: Connection, thread_pk: int, turns: Sequence[Turn]) -> list[int]:
    """What followed a turn of a branch follows what that turn followed. Returns the places of those."""
    gone = {turn.turn_id: turn for turn in turns}
    moved: list[int] = []
    for turn in turns:
        parent = _parent_to_pass_on(turn, gone)
        if parent is None:
            continue
        for row in _children(connection, thread_pk, turn):
            child = replace(turn_of(row), parent_id=parent)
            connection.run(
                "UPDATE turns SET parent_id = ?, digest = ? WHERE pk = ?",
                (parent, turn_digest(child, child.message_id), row["turn_pk"]),
            )
            moved.append(row["position"])
    return moved


def _parent_to_pass_on(turn: Turn, gone: Mapping[str, Turn]) -> str | None:
    """The nearest turn before it that stays; None where that is found by going back one place after another."""
    branched = False
    while True:
        before = place_before(turn.parent_id, place_of(turn))
        branched = branched or turn.parent_id is not None
        parent = turn_id(before)
        if parent not in gone:
            return parent if branched else None
        turn = gone[parent]


def _children(connection: Connection, thread_pk: int, turn: Turn) -> list[Row]:
    """Those that name it, and the next one that is there, where that names no parent."""
    named = connection.all(f"{TURNS} AND parent_id = ?", (thread_pk, turn.turn_id))
    following = connection.all(f"{FOLLOWING} LIMIT 1", (thread_pk, place_of(turn)))
    return [*named, *(row for row in following if row["parent_id"] is None)]


def _shrink(connection: Connection, cell_pk: int) -> bool:
    """Make a cell, which keeps its id, hold the turns it still has. False: it has none and was deleted."""
    left = connection.all(CELL_TURNS, (cell_pk,))
    if not left:
        connection.run("DELETE FROM memcell WHERE pk = ?", (cell_pk,))
        return False
    turn_ids = json.dumps([turn_id(place) for place, _ in left])
    message_ids = json.dumps([message_id for _, message_id in left], ensure_ascii=False)
    connection.run(SHRINK_CELL, (turn_ids, message_ids, left[-1][0], cell_pk))
    # What was made of the cell is made again, and told again.
    connection.run("DELETE FROM receipts WHERE memcell_pk = ? AND stage != 'celled'", (cell_pk,))
    return True


def _told(turn: Turn) -> str:
    return "\n".join(
        str(part) for part in (turn.content, turn.parts, turn.tool_calls, turn.reasoning) if part
    )
