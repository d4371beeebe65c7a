"""Prompts as they were sent, byte for byte, what a thread's next prompt is made of, and which hold forgotten words."""

import json
import zlib
from collections.abc import Iterable, Sequence

from recollect.domain import identity
from recollect.domain.chat import (
    Accepted,
    ContextBlock,
    Conversation,
    Epoch,
    LastPrompt,
    PromptCost,
    PromptReceipt,
    SentPrompt,
    Summary,
)
from recollect.domain.identity import turn_id
from recollect.domain.model import JsonObject, ThreadRef
from recollect.domain.prompt import common_prefix
from recollect.domain.recall.rows import memory_key
from recollect.infra.journal.chat_rows import THREAD_HEADER, path_of, row_of_answer
from recollect.infra.journal.connector import Connection, Row
from recollect.infra.journal.rows import (
    IS_THREAD,
    THREAD_PK,
    UNLESS_THERE,
    dumped,
    insert_rows,
    replacing,
    thread_of,
)

PROMPT_COLUMNS = (
    "turn_pk, thread_pk, position, epoch, base, shared, rest, new_from, payload_json, detail_json, at"
)

NEWEST = """
SELECT position, epoch, rest, detail_json FROM prompts WHERE thread_pk = :pk AND base IS NULL
ORDER BY position DESC LIMIT 1"""

FIND = f"SELECT * FROM prompts WHERE thread_pk = {THREAD_PK} AND position = ?"

# Turns get their keys in the order of arrival: the newest are found without looking at the rest.
COSTS = """
SELECT h.user_id, h.thread_id, p.position, p.at, p.detail_json FROM prompts p JOIN threads h ON h.pk = p.thread_pk
WHERE h.space = :space AND (:user_id IS NULL OR h.user_id = :user_id) AND p.payload_json IS NOT NULL
ORDER BY p.turn_pk DESC LIMIT :limit"""


FORGOTTEN = -1
"""The revision of epochs whose words were forgotten."""

LAST_EPOCH = "SELECT revision FROM epochs WHERE thread_pk = ? ORDER BY number DESC LIMIT 1"


def is_forgotten_since(connection: Connection, thread_pk: int, prompt: SentPrompt) -> bool:
    """Whether any words that it may be made of went after they were read."""
    last = connection.one(LAST_EPOCH, (thread_pk,))
    return last is not None and last[0] == FORGOTTEN != prompt.follows


def keep_block(connection: Connection, thread_pk: int, position: int, block: ContextBlock) -> None:
    """Nothing where its turn is gone. It takes the place of the block that was kept before."""
    kept = connection.all(
        "INSERT INTO context_blocks (turn_pk, text) SELECT pk, ? FROM turns WHERE thread_pk = ? AND position = ?"
        f" {replacing('turn_pk, text', 'turn_pk')} RETURNING turn_pk",
        (block.text, thread_pk, position),
    )
    for (turn_pk,) in kept:
        connection.run("DELETE FROM block_memories WHERE turn_pk = ?", (turn_pk,))
        rows = [(turn_pk, *memory_key(name), digest) for name, digest in block.memories.items()]
        insert_rows(connection, "INSERT INTO block_memories (turn_pk, subject, part, digest)", rows)


def keep_prompt(
    connection: Connection,
    thread_pk: int,
    position: int,
    prompt: SentPrompt,
    now: int,
    payload: JsonObject | None = None,
) -> bool:
    """One that was sent for this answer before, and refused, gives way to it.

    False where the conversation goes on without it: a later one is known already, as the disk did not take this one
    before; or words of it were forgotten, and nothing of it is kept.
    """
    before = connection.one(NEWEST, {"pk": thread_pk})
    if before is None and is_forgotten_since(connection, thread_pk, prompt):
        return False
    base, shared = None, 0
    if before is not None:
        known, _, rest, _ = before
        text = zlib.decompress(rest)
        if known > position:
            base, shared = known, common_prefix(prompt.messages, text)
        else:
            told = [(known, text)] if known < position else _told_by(connection, thread_pk, position, text)
            _tell_by(connection, thread_pk, position, prompt.messages, told)
    connection.run(
        f"INSERT INTO prompts ({PROMPT_COLUMNS})"
        " SELECT pk, thread_pk, position, ?, ?, ?, ?, ?, ?, ?, ? FROM turns WHERE thread_pk = ? AND position = ?"
        f" {replacing(PROMPT_COLUMNS, 'turn_pk') if base is None else UNLESS_THERE}",
        (
            prompt.epoch.number, base, shared, zlib.compress(prompt.messages[shared:], 1), prompt.new_from,
            dumped(payload), dumped(prompt.detail), now, thread_pk, position,
        ),
    )  # fmt: skip
    return base is None


def _tell_by(
    connection: Connection,
    thread_pk: int,
    position: int,
    messages: bytes,
    told: Sequence[tuple[int, bytes]],
) -> None:
    """Keep these prompts by what they have in common with the one that follows them."""
    for place, whole in told:
        shared = common_prefix(whole, messages)
        connection.run(
            "UPDATE prompts SET base = ?, shared = ?, rest = ? WHERE thread_pk = ? AND position = ?",
            (position, shared, zlib.compress(whole[shared:]), thread_pk, place),
        )


def _told_by(connection: Connection, thread_pk: int, position: int, text: bytes) -> list[tuple[int, bytes]]:
    """The prompts that are kept by what they have in common with this one, whole."""
    found = connection.all(
        "SELECT position, shared, rest FROM prompts WHERE thread_pk = ? AND base = ?", (thread_pk, position)
    )
    return [(place, text[:shared] + zlib.decompress(rest)) for place, shared, rest in found]


def set_payload(
    connection: Connection,
    thread_pk: int,
    position: int,
    payload: JsonObject | None,
    detail: JsonObject | None,
) -> None:
    """The request on the wire, without its messages (None) where they are those of the prompt; and what came of it."""
    connection.run(
        "UPDATE prompts SET payload_json = ?, detail_json = coalesce(?, detail_json)"
        " WHERE thread_pk = ? AND position = ? AND base IS NULL",
        (dumped(payload), dumped(detail), thread_pk, position),
    )


def last_prompt(connection: Connection, thread_pk: int) -> LastPrompt | None:
    row = connection.one(NEWEST, {"pk": thread_pk})
    return None if row is None else stored_prompt(*row)


def stored_prompt(position: int, epoch: int, rest: bytes, detail: str) -> LastPrompt:
    """Of what NEWEST finds."""
    return LastPrompt(position, epoch, zlib.decompress(rest), json.loads(detail))


def read_prompt(connection: Connection, thread: ThreadRef, position: int | None) -> PromptReceipt | None:
    found = connection.all(FIND, (*thread, position))
    if not found:
        return None
    row = found[0]
    messages = _lines(_whole(connection, row))
    payload = None if row["payload_json"] is None else json.loads(row["payload_json"])
    if payload is not None and payload.get("messages") is None:
        payload["messages"] = messages
    return PromptReceipt(
        turn_id=turn_id(row["position"]),
        epoch=row["epoch"],
        messages=tuple(messages),
        payload=payload,
        new_from=row["new_from"],
        detail=json.loads(row["detail_json"]),
        at=row["at"],
    )


def cost_of(row: Row) -> PromptCost:
    detail = json.loads(row["detail_json"])
    return PromptCost(
        row["user_id"],
        row["thread_id"],
        turn_id(row["position"]),
        row["at"],
        detail.get("cached_tokens"),
        detail.get("evaluated_tokens"),
        detail.get("time_to_first_token_ms"),
        detail.get("misses") or detail.get("cause"),
    )


def _whole(connection: Connection, row: Row) -> bytes:
    """Follow the prompts to the one that is kept whole, and take back what each of them has in common."""
    chain = [row]
    while chain[-1]["base"] is not None:
        found = connection.all(
            "SELECT base, shared, rest FROM prompts WHERE thread_pk = ? AND position = ?",
            (row["thread_pk"], chain[-1]["base"]),
        )
        chain.append({**found[0], "thread_pk": row["thread_pk"]})
    text = b""
    for each in reversed(chain):
        text = text[: each["shared"]] + zlib.decompress(each["rest"])
    return text


def _lines(text: bytes) -> list[JsonObject]:
    return [json.loads(line) for line in text.split(b"\n") if line]


# All in one row: each row that is read costs a change of hands between threads.
STATE = f"""
SELECT e.number, e.first_position, e.reason, e.system_digest, e.backend, e.revision, e.summary,
    e.blocks_from, s.cut, s.digest, s.text,
    (SELECT coalesce(json_group_array(content), '[]') FROM (
        SELECT content FROM turns WHERE thread_pk = :pk AND role = 'system' AND position < :before ORDER BY position) instructions),
    p.position, p.epoch, p.rest, p.detail_json
FROM (SELECT 1) always
LEFT JOIN epochs e ON e.thread_pk = :pk AND e.number = (SELECT max(number) FROM epochs WHERE thread_pk = :pk)
LEFT JOIN summaries s ON s.thread_pk = :pk AND s.epoch = e.number
LEFT JOIN ({NEWEST}) p ON 1 = 1"""

ANSWERED = """
SELECT 1 FROM turns WHERE thread_pk = :pk AND position > :place AND role = 'assistant'
    AND (content != '' OR tool_calls_json IS NOT NULL)
    AND (parent_id = :turn OR (parent_id IS NULL AND position = :place + 1)) LIMIT 1"""
THREAD = f"SELECT {THREAD_HEADER} FROM threads WHERE {IS_THREAD}"


def conversation_if_there(connection: Connection, accepted: Accepted, most_turns: int) -> Conversation:
    """Raises NotFound where the thread was forgotten since this was accepted."""
    row_of_answer(connection, accepted.thread, accepted.answer)
    (row,) = connection.all(THREAD, accepted.thread.ref)
    return conversation_of(connection, row, accepted, most_turns)


def conversation_of(connection: Connection, thread: Row, accepted: Accepted, most_turns: int) -> Conversation:
    """`thread` is its row, with the columns of THREAD_HEADER."""
    pk = thread["pk"]
    bound = {"pk": pk, "before": identity.place_of(accepted.answers[0])}
    ((*state, systems, position, sent_in, rest, detail),) = connection.all(STATE, bound)
    opened, summed_up = state[:8], state[8:]
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


def _was_answered(connection: Connection, thread_pk: int, position: int) -> bool:
    """Whether an answer to the turn at this place is in any branch, as far as it got."""
    found = connection.one(ANSWERED, {"pk": thread_pk, "place": position, "turn": identity.turn_id(position)})
    return found is not None


QUOTING = """
SELECT DISTINCT h.pk FROM json_each(:subjects) s CROSS JOIN block_memories m CROSS JOIN turns t CROSS JOIN threads h
WHERE m.subject = s.value AND (:parts IS NULL OR m.part IN (SELECT value FROM json_each(:parts)))
    AND t.pk = m.turn_pk AND h.pk = t.thread_pk AND h.space = :space AND (:user_id IS NULL OR h.user_id = :user_id)"""

LATE = """
SELECT DISTINCT p.thread_pk FROM prompts p JOIN turns t ON t.pk = p.turn_pk
WHERE p.thread_pk IN (SELECT CAST(value AS BIGINT) FROM json_each(:threads)) AND t.accepted <= :at"""


def end_quoting_epochs(
    connection: Connection,
    space: str,
    user_id: str | None,
    subjects: Sequence[str],
    turns: Sequence[int] | None = None,
) -> list[int]:
    """Whoever was sent any of these as a memory: entries, notes, skills, or threads. Returns their threads' keys.

    Of threads, which are named by their keys within the user, who alone is sent them, these `turns`; None: any.
    """
    parts = None if turns is None else json.dumps([f":{turn_id(number)}" for number in turns])
    bound = {"space": space, "user_id": user_id, "subjects": json.dumps(list(subjects)), "parts": parts}
    found = [pk for (pk,) in connection.all(QUOTING, bound)]
    end_epochs(connection, found)
    return found


def end_epochs(connection: Connection, thread_pks: Iterable[int]) -> None:
    """The words may be in a summary, too; and no revision is like this one, so the next prompt starts a new epoch.

    One that is on its way and was made of them is not written down any more.
    """
    for pk in thread_pks:
        for table in ("prompts", "summaries"):
            connection.run(f"DELETE FROM {table} WHERE thread_pk = ?", (pk,))
        connection.run("UPDATE epochs SET summary = NULL, revision = ? WHERE thread_pk = ?", (FORGOTTEN, pk))
        connection.run(
            "DELETE FROM context_blocks WHERE turn_pk IN (SELECT pk FROM turns WHERE thread_pk = ?)", (pk,)
        )


def end_late_epochs(connection: Connection, thread_pks: Sequence[int], at: int) -> None:
    """Of these threads, whose epochs were ended at that time: those where a prompt of before was written down since."""
    late = connection.all(LATE, {"threads": json.dumps(list(thread_pks)), "at": at})
    end_epochs(connection, [pk for (pk,) in late])
