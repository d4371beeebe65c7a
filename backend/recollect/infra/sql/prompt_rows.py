"""Prompts as they were sent, byte for byte. The newest of a thread is kept whole, those before it by what they
have in common with the one that followed: while prompts only grow, that is all of them.
"""

import json
import sqlite3
import zlib
from collections.abc import Sequence
from typing import Any

from recollect.context.prefix import common_prefix
from recollect.infra.sql.rows import dumped, rows
from recollect.memory.chat import LastPrompt, PromptCost, PromptReceipt, SentPrompt
from recollect.memory.identity import turn_id
from recollect.memory.model import JsonObject

NEWEST = """
SELECT position, epoch, rest, detail_json FROM prompts WHERE thread_pk = :pk AND base IS NULL
ORDER BY position DESC LIMIT 1"""

FIND = """
SELECT p.* FROM prompts p JOIN threads h ON h.pk = p.thread_pk
WHERE h.space = ? AND h.thread_id = ? AND p.position = ?"""

# Turns get their keys in the order of arrival: the newest are found without looking at the rest.
COSTS = """
SELECT h.thread_id, p.position, p.at, p.detail_json FROM prompts p JOIN threads h ON h.pk = p.thread_pk
WHERE h.space = :space AND (:user_id IS NULL OR h.user_id = :user_id) AND p.payload_json IS NOT NULL
ORDER BY p.turn_pk DESC LIMIT :limit"""


FORGOTTEN = -1
"""The revision of epochs whose words were forgotten."""

LAST_EPOCH = "SELECT revision FROM epochs WHERE thread_pk = ? ORDER BY number DESC LIMIT 1"


def is_forgotten_since(connection: sqlite3.Connection, thread_pk: int, prompt: SentPrompt) -> bool:
    """Whether any words that it may be made of went after they were read."""
    last = connection.execute(LAST_EPOCH, (thread_pk,)).fetchone()
    return last is not None and last[0] == FORGOTTEN != prompt.follows


def keep_prompt(
    connection: sqlite3.Connection,
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
    before = connection.execute(NEWEST, {"pk": thread_pk}).fetchone()
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
    connection.execute(
        f"INSERT OR {'REPLACE' if base is None else 'IGNORE'} INTO prompts (turn_pk, thread_pk, position, epoch, base,"
        " shared, rest, new_from, payload_json, detail_json, at)"
        " SELECT pk, thread_pk, position, ?, ?, ?, ?, ?, ?, ?, ? FROM turns WHERE thread_pk = ? AND position = ?",
        (
            prompt.epoch.number, base, shared, zlib.compress(prompt.messages[shared:], 1), prompt.new_from,
            dumped(payload), dumped(prompt.detail), now, thread_pk, position,
        ),
    )  # fmt: skip
    return base is None


def _tell_by(
    connection: sqlite3.Connection,
    thread_pk: int,
    position: int,
    messages: bytes,
    told: Sequence[tuple[int, bytes]],
) -> None:
    """Keep these prompts by what they have in common with the one that follows them."""
    for place, whole in told:
        shared = common_prefix(whole, messages)
        connection.execute(
            "UPDATE prompts SET base = ?, shared = ?, rest = ? WHERE thread_pk = ? AND position = ?",
            (position, shared, zlib.compress(whole[shared:]), thread_pk, place),
        )


def _told_by(
    connection: sqlite3.Connection, thread_pk: int, position: int, text: bytes
) -> list[tuple[int, bytes]]:
    """The prompts that are kept by what they have in common with this one, whole."""
    found = connection.execute(
        "SELECT position, shared, rest FROM prompts WHERE thread_pk = ? AND base = ?", (thread_pk, position)
    )
    return [(place, text[:shared] + zlib.decompress(rest)) for place, shared, rest in found]


def set_payload(
    connection: sqlite3.Connection,
    thread_pk: int,
    position: int,
    payload: JsonObject | None,
    detail: JsonObject | None,
) -> None:
    """The request on the wire, without its messages (None) where they are those of the prompt; and what came of it."""
    connection.execute(
        "UPDATE prompts SET payload_json = ?, detail_json = coalesce(?, detail_json)"
        " WHERE thread_pk = ? AND position = ? AND base IS NULL",
        (dumped(payload), dumped(detail), thread_pk, position),
    )


def last_prompt(connection: sqlite3.Connection, thread_pk: int) -> LastPrompt | None:
    row = connection.execute(NEWEST, {"pk": thread_pk}).fetchone()
    return None if row is None else stored_prompt(*row)


def stored_prompt(position: int, epoch: int, rest: bytes, detail: str) -> LastPrompt:
    """Of what NEWEST finds."""
    return LastPrompt(position, epoch, zlib.decompress(rest), json.loads(detail))


def read_prompt(
    connection: sqlite3.Connection, space: str, thread_id: str, position: int | None
) -> PromptReceipt | None:
    found = rows(connection, FIND, (space, thread_id, position))
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


def cost_of(row: dict[str, Any]) -> PromptCost:
    detail = json.loads(row["detail_json"])
    return PromptCost(
        row["thread_id"],
        turn_id(row["position"]),
        row["at"],
        detail.get("cached_tokens"),
        detail.get("evaluated_tokens"),
        detail.get("time_to_first_token_ms"),
        detail.get("misses") or detail.get("cause"),
    )


def _whole(connection: sqlite3.Connection, row: dict[str, Any]) -> bytes:
    """Follow the prompts to the one that is kept whole, and take back what each of them has in common."""
    chain = [row]
    while chain[-1]["base"] is not None:
        found = rows(
            connection,
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
