"""The journal of chats: what was asked, the answers as they stream, and the prompts that were sent for them."""

import json
from collections.abc import Sequence
from dataclasses import replace

from recollect.domain import identity
from recollect.domain.chat import (
    Accepted,
    AnswerText,
    ChatRequest,
    Conversation,
    PromptCost,
    PromptReceipt,
    SentPrompt,
)
from recollect.domain.history_matching import EXAMPLE
from recollect.domain.job import JobSpec
from recollect.domain.model import JsonObject, Status, Thread, ThreadRef, Turn, Waiting
from recollect.domain.webhook import TURN_ENDED
from recollect.infra.journal.chat_rows import (
    OPEN_TURNS,
    accept,
    open_epoch,
    row_of_answer,
    rows_of_request,
    settle_turns,
    update_turn,
    write_answer,
)
from recollect.infra.journal.connector import Connection
from recollect.infra.journal.database import read_transaction, write_transaction
from recollect.infra.journal.history_matching import follow_thread
from recollect.infra.journal.jobs import QueueingStore
from recollect.infra.journal.prompts import (
    COSTS,
    conversation_if_there,
    conversation_of,
    cost_of,
    is_forgotten_since,
    keep_block,
    keep_prompt,
    last_prompt,
    read_prompt,
    set_payload,
)
from recollect.infra.journal.rows import (
    IS_THREAD,
    THREAD_PK,
    NewJob,
    dumped,
    earliest,
    put_receipt,
    queue_jobs,
    thread_columns,
    thread_pk,
    turn_of,
)
from recollect.infra.journal.threads import waiting_of
from recollect.infra.journal.turns import queue_boundary_and_transcript, transcript_job
from recollect.infra.journal.webhooks import announce_of_user

WAITS_ON = "UPDATE threads SET closes_at = ? WHERE pk = ? AND closes_at IS NOT NULL"
"""The quiet period restarts when the answer ends."""

# What a memcell holds already stays. Only the first file of a transcript is written again.
LEAVE_EXAMPLES = """
UPDATE turns SET skip_reason = :reason WHERE thread_pk = :pk AND position BETWEEN :first AND :last
    AND pk IN (SELECT turn_pk FROM unprocessed_buffer WHERE thread_pk = :pk)
    AND NOT EXISTS (SELECT 1 FROM transcript_parts p WHERE p.thread_pk = :pk AND p.part > 1
        AND turns.position BETWEEN p.first_position AND p.last_position)
RETURNING pk"""

INTERRUPTED = "the server stopped before the answer was complete"
SERVER_STOPPED = "server_stopped"
"""The code of an answer that ended with the server: whoever asked for it may ask again."""


class SqlChatStore(QueueingStore):
    """Turns get their places when they arrive: the order of a thread is the order of arrival, by construction."""

    async def requested(self, thread: ThreadRef, key: str) -> tuple[bytes, Turn] | None:
        """What was asked under this key, and its answer."""
        row = await self._database.one(
            "SELECT r.digest AS asked, t.* FROM chat_requests r JOIN turns t ON t.pk = r.answer_pk"
            f" WHERE r.thread_pk = {THREAD_PK} AND r.idempotency_key = ?",
            (*thread, key),
        )
        return (row["asked"], turn_of(row)) if row else None

    async def accept(self, space: str, request: ChatRequest, skip_reason: str | None = None) -> Accepted:
        """Durable when it returns, with status `queued`.

        `skip_reason` says why memory leaves this exchange alone, if it does.
        """
        now = self._clock()
        accepted, _, due = await self._database.write(
            lambda connection: accept(connection, space, request, skip_reason, now, self._schedule),
            urgent=True,
        )
        self._tell(due)
        return accepted

    async def accept_next(
        self, space: str, request: ChatRequest, most_turns: int, skip_reason: str | None = None
    ) -> tuple[Accepted, Conversation]:
        """Accept what is answered at once, nothing being answered before it, with what its prompt is made of."""
        now = self._clock()

        def accept_and_read(connection: Connection) -> tuple[Accepted, Conversation, int | None]:
            accepted, thread, due = accept(connection, space, request, skip_reason, now, self._schedule)
            return accepted, conversation_of(connection, thread, accepted, most_turns), due

        accepted, conversation, due = await self._database.write(accept_and_read, urgent=True)
        self._tell(due)
        return accepted, conversation

    async def leave_examples(self, thread: ThreadRef, first: int, last: int, reason: str = EXAMPLE) -> None:
        """Messages between these places turned out to be examples: memory and search leave them alone from now on."""

        def leave(connection: Connection) -> tuple[bool, int | None]:
            (pk,) = thread_columns(connection, thread)
            bound = {"pk": pk, "reason": reason, "first": first, "last": last}
            left = connection.all(LEAVE_EXAMPLES, bound)
            if not left:
                return False, None
            connection.many("DELETE FROM unprocessed_buffer WHERE turn_pk = ?", left)
            connection.run(
                "UPDATE threads SET revision = revision + 1, header_revision = header_revision + 1 WHERE pk = ?",
                (pk,),
            )
            now = self._clock()
            return True, queue_jobs(connection, [transcript_job(thread, now, self._schedule)], now)

        if await self._change(leave):
            self._on_change(thread)

    @write_transaction
    def begin(self, connection: Connection, accepted: Accepted, prompt: SentPrompt) -> None:
        """The turns take their place, the answer is streaming; what is about to be sent is written down."""
        now = self._clock()
        rows = rows_of_request(connection, accepted)
        settle_turns(connection, rows, accepted.turns, "complete")
        settle_turns(connection, rows, accepted.answers, "streaming", _left_alone(prompt.detail))
        thread_pk = rows[accepted.answer.message_id]["thread_pk"]
        _write_down(connection, thread_pk, accepted, prompt, now)

    @write_transaction
    def save(self, connection: Connection, thread: Thread, answer: Turn, text: AnswerText) -> None:
        """What has streamed so far."""
        row = row_of_answer(connection, thread, answer)
        write_answer(connection, row, text, "streaming", answer.model, None)

    async def finish(
        self,
        accepted: Accepted,
        texts: Sequence[AnswerText],
        *,
        status: Status,
        model: str | None = None,
        prompt: SentPrompt | None = None,
        payload: JsonObject | None = None,
        detail: JsonObject | None = None,
        jobs: Sequence[JobSpec] = (),
    ) -> tuple[Turn, Waiting | None]:
        """The answer as it ended, and what of its thread no memcell holds yet.

        The work that follows is queued in the same transaction.

        Turns that still waited get their place too: what was said was said, answered or not.
        """
        now = self._clock()

        def finish(connection: Connection) -> tuple[tuple[Turn, Waiting | None], int | None]:
            rows = rows_of_request(connection, accepted)
            settle_turns(connection, rows, accepted.turns, "complete")
            turn = accepted.answer
            for answer, text in zip(accepted.answers, texts, strict=True):
                row = rows[answer.message_id]
                turn = write_answer(connection, row, text, status, model, now, _left_alone(detail))
            row = rows[turn.message_id]
            thread_pk = row["thread_pk"]
            if prompt is not None:
                told = prompt if detail is None else replace(prompt, detail=detail)
                _write_down(connection, thread_pk, accepted, told, now, payload)
            elif not accepted.thread.incognito:
                set_payload(connection, thread_pk, identity.place_of(turn), payload, detail)
            follow_thread(connection, row)
            connection.run(WAITS_ON, (now + self._schedule.quiet_ms, thread_pk))
            due = self._queue_jobs(connection, row["unasked"], accepted, jobs, now)
            if not accepted.thread.incognito:
                due = earliest(due, _announce_end(connection, accepted.thread.ref, turn, now))
            return (turn, waiting_of(connection, accepted.thread.ref)), due

        ended = await self._change(finish)
        self._on_change(accepted.thread.ref)
        return ended

    def _queue_jobs(
        self,
        connection: Connection,
        unasked: int,
        accepted: Accepted,
        jobs: Sequence[JobSpec],
        now: int,
    ) -> int | None:
        """Queue memory's jobs first, then the others in their order."""
        thread = accepted.thread
        if thread.incognito:
            return None
        due = queue_boundary_and_transcript(connection, thread.ref, unasked, now, self._schedule)
        follow = [
            NewJob(job.kind, job.lane, thread.space, thread.ref, now, json.dumps(job.payload), job.dedupe)
            for job in jobs
        ]
        return min(due, queue_jobs(connection, follow, now)) if follow else due

    async def conversation(self, accepted: Accepted, most_turns: int) -> Conversation:
        """What the next prompt is made of. It costs what the window costs, not what the thread costs."""
        return await self._database.query(lambda each: conversation_if_there(each, accepted, most_turns))

    async def prompt(self, thread: ThreadRef, turn_id: str) -> PromptReceipt | None:
        """What was sent for an answer."""
        place = identity.turn_number(turn_id)
        return await self._database.query(lambda connection: read_prompt(connection, thread, place))

    async def receipts(self, thread: ThreadRef, turns: Sequence[Turn]) -> dict[str, JsonObject]:
        """What came of the prompts that were sent for these turns, which stand in their order, by turn id."""
        if not turns:
            return {}
        found = await self._database.read(
            "SELECT position, detail_json FROM prompts"
            f" WHERE position BETWEEN ? AND ? AND thread_pk = {THREAD_PK}",
            (identity.place_of(turns[0]), identity.place_of(turns[-1]), *thread),
        )
        return {identity.turn_id(row["position"]): json.loads(row["detail_json"]) for row in found}

    async def opening(self, thread: ThreadRef, epoch: int) -> str | None:
        """The summary that this epoch began with."""
        row = await self._database.one(
            f"SELECT summary FROM epochs WHERE number = ? AND thread_pk = {THREAD_PK}", (epoch, *thread)
        )
        return row["summary"] if row else None

    async def last_cache(self, thread: ThreadRef) -> str | None:
        """The backend and model whose cache holds the last prompt of the thread that got its whole answer."""
        row = await self._database.one(
            "SELECT e.backend FROM prompts p JOIN turns t ON t.thread_pk = p.thread_pk AND t.position = p.position"
            " JOIN epochs e ON e.thread_pk = p.thread_pk AND e.number = p.epoch"
            f" WHERE t.status = 'complete' AND p.thread_pk = {THREAD_PK} ORDER BY p.position DESC LIMIT 1",
            thread,
        )
        return row["backend"] if row else None

    @read_transaction
    def live_prompt(
        self,
        connection: Connection,
        thread: ThreadRef,
        epoch: int | None = None,
        holding: Sequence[int] = (),
    ) -> list[JsonObject] | None:
        """The thread's last prompt with its answer; None where that epoch has ended, or began after those places."""
        (pk,) = thread_columns(connection, thread)
        last = last_prompt(connection, pk)
        if last is None or last.epoch != (last.epoch if epoch is None else epoch):
            return None
        begins = connection.one(
            "SELECT first_position FROM epochs WHERE thread_pk = ? AND number = ?"
            " AND number = (SELECT max(number) FROM epochs WHERE thread_pk = ?)",
            (pk, last.epoch, pk),
        )
        if begins is None or not all(begins[0] <= place <= last.position for place in holding):
            return None
        answer = connection.one(
            "SELECT content FROM turns WHERE thread_pk = ? AND position = ? AND status = 'complete'"
            " AND tool_calls_json IS NULL",
            (pk, last.position),
        )
        if answer is None:
            return None
        messages = [json.loads(line) for line in last.messages.split(b"\n") if line]
        return [*messages, {"role": "assistant", "content": answer[0]}]

    async def keep(self, thread: ThreadRef, epoch: int, cut: int, digest: str, text: str) -> None:
        """For the epoch's end, of all before `cut`. One that comes too late, or whose thread is gone, is dropped."""
        await self._database.execute(
            "INSERT INTO summaries (thread_pk, epoch, cut, digest, text)"
            f" SELECT t.pk, ?, ?, ?, ? FROM threads t WHERE {IS_THREAD}"
            " AND (SELECT max(number) FROM epochs WHERE thread_pk = t.pk) = ?"
            " ON CONFLICT (thread_pk, epoch) DO UPDATE SET cut = excluded.cut, digest = excluded.digest,"
            " text = excluded.text",
            (epoch, cut, digest, text, *thread, epoch),
        )

    @write_transaction
    def record_receipt(
        self,
        connection: Connection,
        thread: ThreadRef,
        turn_id: str | None,
        stage: str,
        detail: JsonObject,
    ) -> None:
        """What happened at a stage to a turn, or to the thread itself; nothing where it is gone."""
        about = None if turn_id is None else identity.turn_number(turn_id) or 0
        put_receipt(connection, thread_pk(connection, thread), about, stage, detail, self._clock())

    async def prompt_costs(self, space: str, user_id: str | None, limit: int) -> list[PromptCost]:
        """Of the last `limit` answers, oldest first."""
        bound = {"space": space, "user_id": user_id, "limit": limit}
        return [cost_of(row) for row in reversed(await self._database.read(COSTS, bound))]

    async def recover(self) -> int:
        """After a kill: what was being answered is marked, and never answered unasked later."""
        return await self._change(self._end_open_turns)

    def _end_open_turns(self, connection: Connection) -> tuple[int, int | None]:
        open_turns = connection.all(OPEN_TURNS)
        due, now = None, self._clock()
        for row in open_turns:
            turn = turn_of(row)
            if turn.role != "assistant":
                status: Status = "complete"
            else:
                status = "partial" if turn.content or turn.reasoning else "failed"
            update_turn(connection, row["turn_pk"], row["thread_pk"], turn, status)
            told = connection.one("SELECT detail_json FROM prompts WHERE turn_pk = ?", (row["turn_pk"],))
            if told is not None:
                detail = {**json.loads(told[0]), "error": INTERRUPTED, "code": SERVER_STOPPED}
                connection.run(
                    "UPDATE prompts SET detail_json = ? WHERE turn_pk = ?", (dumped(detail), row["turn_pk"])
                )
            if not row["incognito"]:
                thread = ThreadRef(row["space"], row["user_id"], row["thread_id"])
                due = queue_boundary_and_transcript(connection, thread, 0, now, self._schedule)
                if turn.role == "assistant":
                    due = earliest(due, _announce_end(connection, thread, replace(turn, status=status), now))
        return len(open_turns), due


def _announce_end(connection: Connection, thread: ThreadRef, turn: Turn, now: int) -> int | None:
    told: JsonObject = {"thread_id": thread.thread_id, "turn_id": turn.turn_id, "message_id": turn.message_id}
    told |= {"status": turn.status, "model": turn.model}
    return announce_of_user(connection, TURN_ENDED, thread.space, thread.user_id, told, now)


def _left_alone(receipt: JsonObject | None) -> str | None:
    """Why memory leaves an answer alone, if it does: what a model says that nobody chose is no evidence."""
    return "demonstration model" if receipt and receipt.get("label") else None


def _write_down(
    connection: Connection,
    thread_pk: int,
    accepted: Accepted,
    prompt: SentPrompt,
    now: int,
    payload: JsonObject | None = None,
) -> None:
    """Where the conversation goes on without it, it changes nothing of how that goes on."""
    place = identity.place_of(accepted.answer)
    if accepted.thread.incognito:
        counts = not is_forgotten_since(connection, thread_pk, prompt)
    else:
        counts = keep_prompt(connection, thread_pk, place, prompt, now, payload)
    if not counts:
        return
    if prompt.opens_epoch:
        open_epoch(connection, thread_pk, prompt.epoch, now)
    if prompt.block is not None and prompt.block_position is not None:
        keep_block(connection, thread_pk, prompt.block_position, prompt.block)
