"""The buffer, the memcells closed out of it with their turns, and the model answers kept for them."""

import json
from collections.abc import Callable, Collection, Iterable, Sequence

from recollect.domain.entries.entry import KeptAnswer
from recollect.domain.extraction.draft import StoredCell
from recollect.domain.identity import thread_key, turn_id, turn_number
from recollect.domain.job import JobSpec
from recollect.domain.model import JsonObject, Memcell, ThreadRef, Turn
from recollect.domain.paths import owner_folder
from recollect.domain.sources import without_labels
from recollect.domain.strategy import STRATEGY, ClosedCell, memory_lane
from recollect.errors import NotFound
from recollect.infra.journal.connector import Connection, Row
from recollect.infra.journal.database import Database, read_transaction, write_transaction
from recollect.infra.journal.entry_rows import queue_entry_jobs
from recollect.infra.journal.jobs import QueueingStore
from recollect.infra.journal.rows import (
    ASKED_IN_VAIN,
    FIRST_OPEN,
    IS_THREAD,
    T_TURN_COLUMNS,
    THREAD_COLUMNS,
    THREAD_PK,
    TURN_COLUMNS,
    dumped,
    memcell_of,
    put_receipt,
    queue_jobs,
    queued_job_id,
    thread_columns,
    thread_of,
    thread_pk,
    turn_of,
)
from recollect.infra.journal.turns import (
    IS_OPEN,
    WAITING,
    flush_job,
    queue_closing,
    queue_flush,
    transcript_job,
)

StrategiesOf = Callable[[ClosedCell, int], Sequence[JobSpec]]
"""What follows from a memcell that is closed now."""

OLDEST_BUFFERED = f"""
SELECT {T_TURN_COLUMNS} FROM unprocessed_buffer b JOIN turns t ON t.pk = b.turn_pk
WHERE b.thread_pk = {THREAD_PK}
    AND t.position < {FIRST_OPEN.format("b.thread_pk")}
ORDER BY t.position LIMIT ?"""


ENOUGH_TO_MAKE = 50
# Whoever has much to be made already has no need of more: thousands of imported threads are closed bit by bit.
TO_CLOSE = f"""
{WAITING} WHERE h.closes_at <= ? AND NOT {IS_OPEN} AND (h.space, h.user_id) NOT IN (
    SELECT space, user_id FROM jobs INDEXED BY jobs_due
    WHERE state = 'queued' AND kind = '{STRATEGY}' AND user_id IS NOT NULL
    GROUP BY space, user_id HAVING count(*) >= {ENOUGH_TO_MAKE}
) ORDER BY h.closes_at - h.updated > ?, h.closes_at LIMIT ?"""

NOTHING_WAITS = """
UPDATE threads SET closes_at = NULL
WHERE pk = ? AND closes_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM unprocessed_buffer WHERE thread_pk = threads.pk)"""


RECEIPTS_OF_CELLS = f"""
SELECT c.memcell_id, r.stage, r.detail_json FROM memcell c JOIN receipts r ON r.memcell_pk = c.pk
WHERE c.thread_pk = {THREAD_PK} AND c.memcell_id IN (SELECT value FROM json_each(?))"""

RECEIPTS_OF_TURNS = """
SELECT h.user_id, h.thread_id, t.position, r.detail_json FROM json_each(?) j
JOIN threads h ON h.space = ? AND h.user_id = json_extract(j.value, '$[0]') AND h.thread_id = json_extract(j.value, '$[1]')
JOIN turns t ON t.thread_pk = h.pk AND t.position = CAST(json_extract(j.value, '$[2]') AS BIGINT)
JOIN receipts r ON r.turn_pk = t.pk AND r.stage = ?"""


class SqlCellStore(QueueingStore):
    """A turn leaves the buffer in the very transaction that puts it into its memcell."""

    @write_transaction
    def look(self, connection: Connection, thread: ThreadRef, limit: int) -> list[Turn]:
        """The oldest turns that no memcell holds, in order. Resets the count of unasked messages."""
        connection.run(f"UPDATE threads SET unasked = 0 WHERE {IS_THREAD} AND unasked > 0", thread)
        turns = [turn_of(row) for row in connection.all(OLDEST_BUFFERED, (*thread, limit))]
        if not turns:
            connection.run(NOTHING_WAITS, (thread_pk(connection, thread),))
        return turns

    async def count_buffered(self, thread: ThreadRef) -> int:
        (row,) = await self._database.read(
            f"SELECT count(*) AS number FROM unprocessed_buffer WHERE thread_pk = {THREAD_PK}", thread
        )
        return int(row["number"])

    async def memories_wait(self, thread: ThreadRef, jobs: int) -> bool:
        """Whether the thread's owner has at least `jobs` queued jobs that make memories."""
        lane = memory_lane(owner_folder(thread.space, thread.user_id))
        row = await self._database.one(
            "SELECT 1 FROM jobs WHERE lane = ? AND state = 'queued' LIMIT 1 OFFSET ?", (lane, jobs - 1)
        )
        return row is not None

    async def close(
        self,
        thread: ThreadRef,
        cells: Sequence[Memcell],
        decided_by: str,
        strategies: StrategiesOf = lambda closed, now: (),
    ) -> None:
        """Move exactly these turns from the buffer into their cells, and queue what follows.

        Raises NotFound, and changes nothing, when any of them is no longer in the buffer.
        """
        now = self._clock()

        def take(connection: Connection) -> int:
            pk, agent_id = thread_columns(connection, thread, "pk, agent_id")
            for cell in cells:
                has_tools = _close_one(connection, pk, thread, cell, decided_by, now)
                closed = ClosedCell(thread.space, thread.user_id, agent_id, cell.memcell_id, has_tools)
                queue_entry_jobs(connection, thread.space, thread, strategies(closed, now), now)
            connection.run(NOTHING_WAITS, (pk,))
            return queue_jobs(connection, [transcript_job(thread, now, self._schedule)], now)

        if cells:
            await self._queue(take)

    async def close_quiet(self, by: int, limit: int) -> int:
        """Queue the closing of threads that are due by then, the longest overdue first; imported ones come last.

        Returns how many these are.
        """
        if await self._database.one(TO_CLOSE, (by, 0, 1)) is None:
            return 0
        now = self._clock()

        def close(connection: Connection) -> tuple[int, int | None]:
            due = connection.all(TO_CLOSE, (by, self._schedule.gap_ms, limit))
            return len(due), queue_closing(connection, due, "gap", now, self._schedule)

        return await self._change(close)

    async def request_flush(self, thread: ThreadRef) -> int:
        """Queue the closing of all that is buffered; returns the job that does it."""
        now = self._clock()
        job = flush_job(thread, now, "flush")

        def request(connection: Connection) -> tuple[int, int]:
            due = queue_flush(connection, job, now)
            return queued_job_id(connection, job), due

        return await self._change(request)

    async def receipts(self, thread: ThreadRef, memcells: Sequence[str]) -> dict[str, dict[str, JsonObject]]:
        """What happened to memcells: by memcell and stage."""
        told: dict[str, dict[str, JsonObject]] = {memcell: {} for memcell in memcells}
        for row in await self._database.read(RECEIPTS_OF_CELLS, (*thread, json.dumps(list(memcells)))):
            told[row["memcell_id"]][row["stage"]] = json.loads(row["detail_json"])
        return told

    async def told_of_thread(self, thread: ThreadRef, stage: str) -> JsonObject:
        """What a thread's own receipt tells of a stage."""
        found = await self._database.one(
            f"SELECT detail_json FROM receipts WHERE thread_pk = {THREAD_PK} AND stage = ?", (*thread, stage)
        )
        return {} if found is None else dict(json.loads(found["detail_json"]))

    async def told_of_turns(
        self, space: str, stage: str, turns: Collection[tuple[str, str, str]]
    ) -> dict[tuple[str, str, str], JsonObject]:
        """What receipts tell of a stage of these turns, each named by user, thread and turn."""
        places = json.dumps([(user_id, thread_id, turn_number(turn)) for user_id, thread_id, turn in turns])
        return {
            (row["user_id"], row["thread_id"], turn_id(row["position"])): json.loads(row["detail_json"])
            for row in await self._database.read(RECEIPTS_OF_TURNS, (places, space, stage))
        }

    async def list_cells(self, thread: ThreadRef) -> list[tuple[Memcell, tuple[str, ...]]]:
        """A thread's memcells, oldest first, each with its message ids."""
        found = await self._database.read(
            "SELECT memcell_id, turn_ids_json, message_ids_json, reason FROM memcell"
            f" WHERE thread_pk = {THREAD_PK} ORDER BY last_position",
            thread,
        )
        return [(memcell_of(row), tuple(json.loads(row["message_ids_json"]))) for row in found]


def _close_one(
    connection: Connection,
    thread_pk: int,
    thread: ThreadRef,
    cell: Memcell,
    decided_by: str,
    now: int,
) -> bool:
    """Returns whether tools were used in it."""
    positions = [turn_number(name) for name in cell.turn_ids]
    marks = ",".join("?" * len(positions))
    members = connection.all(
        "SELECT t.pk, t.message_id, t.position, t.tool_calls_json IS NOT NULL"
        " FROM unprocessed_buffer b JOIN turns t ON t.pk = b.turn_pk"
        f" WHERE t.thread_pk = ? AND t.position IN ({marks}) ORDER BY t.position",
        (thread_pk, *positions),
    )
    if len(members) != len(positions):
        raise NotFound(
            f"{len(positions) - len(members)} turns of {cell.memcell_id} are no longer in the buffer"
        )
    stored = [(pk, message_id) for pk, message_id, *_ in members]
    insert_cell(connection, thread_pk, thread, cell, stored, members[-1][2], now)
    connection.many("DELETE FROM unprocessed_buffer WHERE turn_pk = ?", [(pk,) for pk, *_ in members])
    told: JsonObject = {"reason": cell.reason, "decided_by": decided_by}
    put_receipt(connection, thread_pk, cell.memcell_id, "celled", told, now)
    return any(calls for *_, calls in members)


def insert_cell(
    connection: Connection,
    thread_pk: int,
    thread: ThreadRef,
    cell: Memcell,
    members: Sequence[tuple[int, str]],
    last_position: int,
    now: int,
    *,
    transcribed: bool = False,
) -> None:
    """A memcell with its turns: their keys in the journal and their message ids."""
    message_ids = json.dumps([message_id for _, message_id in members], ensure_ascii=False)
    ((cell_pk,),) = connection.all(
        "INSERT INTO memcell (memcell_id, thread_pk, space, session_id, message_ids_json, turn_ids_json,"
        " last_position, reason, created, transcribed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING pk",
        (
            cell.memcell_id, thread_pk, thread.space, thread.thread_id, message_ids, json.dumps(cell.turn_ids),
            last_position, cell.reason, now, int(transcribed),
        ),
    )  # fmt: skip
    connection.many(
        "INSERT INTO memcell_turns (turn_pk, memcell_pk) VALUES (?, ?)",
        [(pk, cell_pk) for pk, _ in members],
    )


_LOOK_BACK = 200
"""A prompt holds hardly more messages before the cell."""

CELLS_OF_OWNER = """
SELECT c.memcell_id, h.space, h.user_id, h.thread_id FROM memcell c JOIN threads h ON h.pk = c.thread_pk
WHERE h.space = :space AND (:user_id IS NULL OR h.user_id = :user_id) AND (:thread_id IS NULL OR h.thread_id = :thread_id)
ORDER BY c.pk"""

RECALLED = """
SELECT b.text FROM turns t JOIN context_blocks b ON b.turn_pk = t.pk
WHERE t.thread_pk = :pk AND t.position BETWEEN :first AND :last AND EXISTS (SELECT 1 FROM block_memories WHERE turn_pk = t.pk)
UNION ALL SELECT summary FROM epochs WHERE thread_pk = :pk AND summary IS NOT NULL"""

PARTS = """
SELECT p.part, p.first_position, p.last_position FROM transcript_parts p JOIN vault_files f ON f.path = p.path
WHERE p.thread_pk = :pk AND f.digest IS NOT NULL AND p.last_position >= :first AND p.first_position <= :last"""


class SqlCellTexts:
    """Reads; never writes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def cell(self, thread: ThreadRef, memcell_id: str) -> StoredCell | None:
        """None where it is no longer there, or not as it was closed."""
        found = await self._database.one(
            f"SELECT turn_ids_json FROM memcell WHERE thread_pk = {THREAD_PK} AND memcell_id = ?",
            (*thread, memcell_id),
        )
        if found is None:
            return None
        return await self._stored(thread, memcell_id, json.loads(found["turn_ids_json"]))

    async def stretch(self, thread: ThreadRef, turn_ids: Sequence[str]) -> StoredCell | None:
        """Some turns of a thread, as if they were a cell; its id names the thread and the last of them."""
        if not turn_ids:
            return None
        name = f"{thread_key(thread)[:16]}-{turn_ids[-1]}"
        return await self._stored(thread, name, turn_ids)

    async def cells_of(
        self, space: str, user_id: str | None = None, thread_id: str | None = None
    ) -> list[tuple[ThreadRef, str]]:
        """Threads and the ids of their memcells, in the order in which they were closed."""
        bound = {"space": space, "user_id": user_id, "thread_id": thread_id}
        found = await self._database.read(CELLS_OF_OWNER, bound)
        return [
            (ThreadRef(row["space"], row["user_id"], row["thread_id"]), row["memcell_id"]) for row in found
        ]

    @read_transaction
    def _stored(
        self, connection: Connection, thread: ThreadRef, memcell_id: str, turn_ids: Sequence[str]
    ) -> StoredCell | None:
        places = sorted(place for place in map(turn_number, turn_ids) if place is not None)
        heads = connection.all(f"SELECT pk, {THREAD_COLUMNS} FROM threads WHERE {IS_THREAD}", thread)
        if not heads or not places:
            return None
        marks = ",".join("?" * len(places))
        stored = connection.all(
            f"SELECT {TURN_COLUMNS} FROM turns WHERE thread_pk = ? AND position IN ({marks}) ORDER BY position",
            (heads[0]["pk"], *places),
        )
        turns = tuple(without_labels(turn_of(row)) for row in stored)
        bound = {"pk": heads[0]["pk"], "first": places[0] - _LOOK_BACK, "last": places[-1]}
        parts = connection.all(PARTS, {**bound, "first": places[0]})
        holding = {turn.turn_id: part for turn in turns if (part := _part_of(turn, parts)) is not None}
        texts = dict.fromkeys(row["text"] for row in connection.all(RECALLED, bound))
        return StoredCell(memcell_id, thread_of(heads[0]), turns, holding, "\n".join(texts))


def _part_of(turn: Turn, parts: Sequence[Row]) -> int | None:
    place = turn_number(turn.turn_id) or 0
    holding = [row["part"] for row in parts if row["first_position"] <= place <= row["last_position"]]
    return max(holding, default=None)


# A row without an answer counts the calls that failed.
ANSWER = """
SELECT answer, model, usage_json, known_json, failed_calls FROM model_answers
WHERE space = ? AND cell = ? AND name = ? AND prompt_digest = ?"""

KEEP = f"""
INSERT INTO model_answers (thread_pk, space, cell, name, prompt_digest, answer, model, usage_json, known_json, at)
SELECT pk, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM threads WHERE {IS_THREAD}
ON CONFLICT (space, cell, name, prompt_digest) DO UPDATE SET answer = excluded.answer, model = excluded.model,
    usage_json = excluded.usage_json, known_json = excluded.known_json, at = excluded.at WHERE model_answers.answer = ''"""

COUNT_CALLS = f"""
INSERT INTO model_answers (thread_pk, space, cell, name, prompt_digest, answer, model, usage_json, at, failed_calls)
SELECT pk, ?, ?, ?, ?, '', '', '{{}}', ?, ? FROM threads WHERE {IS_THREAD}
ON CONFLICT (space, cell, name, prompt_digest) DO UPDATE SET
    failed_calls = model_answers.failed_calls + excluded.failed_calls"""


class SqlModelAnswers:
    """By memcell, name of the prompt, and digest of all that was asked."""

    def __init__(self, database: Database, *, clock: Callable[[], int]) -> None:
        self._database = database
        self._clock = clock

    async def answer(self, space: str, cell: str, name: str, digest: str) -> KeptAnswer | None:
        found = await self._database.one(ANSWER, (space, cell, name, digest))
        if found is None or not found["answer"]:
            return None
        usage, known = json.loads(found["usage_json"]), json.loads(found["known_json"])
        return KeptAnswer(found["answer"], found["model"], usage, known)

    async def failed_calls(self, space: str, cell: str, name: str, digest: str) -> int:
        """How many calls for this prompt gave nothing that could be used."""
        found = await self._database.one(ANSWER, (space, cell, name, digest))
        return 0 if found is None else int(found["failed_calls"])

    async def count_failed(self, thread: ThreadRef, cell: str, name: str, digest: str, calls: int) -> None:
        told = (thread.space, cell, name, digest, self._clock(), calls)
        await self._database.execute(COUNT_CALLS, (*told, *thread))

    async def keep(self, thread: ThreadRef, cell: str, name: str, digest: str, answer: KeptAnswer) -> None:
        """The first answer to a prompt stays. Nothing is kept of a thread that is gone."""
        asked = (thread.space, cell, name, digest)
        told = (answer.text, answer.model, dumped(answer.usage), dumped(answer.known), self._clock())
        await self._database.execute(KEEP, (*asked, *told, *thread))

    async def forget_cells(self, space: str, cells: Iterable[str], *, only_failed: bool = False) -> None:
        """The model is asked again about them; `only_failed`, about those that it was asked about in vain."""
        forget = "DELETE FROM model_answers WHERE space = ? AND cell = ?"
        forget += f" AND {ASKED_IN_VAIN}" if only_failed else ""
        await self._database.execute_many(forget, [(space, cell) for cell in cells])
