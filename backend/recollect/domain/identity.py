"""Ids that are derived: the same input gives the same id, on every machine."""

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache

from recollect.domain.model import JsonObject, NewTurn, ThreadRef, Turn

_encode = json.JSONEncoder(separators=(",", ":")).encode


def thread_key(thread: ThreadRef) -> str:
    """Names a thread without revealing its id: for lanes, slots, and what is kept beside it."""
    return _sha256(thread)[:32]


def session_of(thread: ThreadRef) -> str:
    """Names a thread to a backend's cache: the same for its whole life, another for every thread of every space."""
    return f"recollect-{thread_key(thread)}"


@lru_cache(maxsize=10_000)
def key_within_user(space: str, thread_id: str) -> str:
    """Names a thread among those of its user: in tombstones, their files, and rows of the index.

    Those of a deleted thread can't be made again from its id, so this stays as it is.
    """
    return _sha256([space, thread_id])[:32]


def message_key(message_id: str) -> str:
    """Names a message without revealing its id: all that a tombstone keeps."""
    return _sha256([message_id])


def file_key(path: str) -> str:
    """Names a file of the vault without revealing its path, which holds ids."""
    return _sha256(["file", path])[:32]


def made_message_id(thread_id: str, timestamp: int, number: int) -> str:
    return f"m_{thread_id}_{timestamp}_{number}"


def looks_made(message_id: str) -> bool:
    return message_id.startswith("m_")


def turn_id(number: int) -> str:
    return f"t-{number}"


def turn_number(turn_id: str) -> int | None:
    """The number in a turn id, or None for what is no turn id of ours."""
    digits = turn_id.removeprefix("t-")
    made_by_us = digits != turn_id and digits.isascii() and digits.isdigit() and len(digits) <= 18
    return int(digits) if made_by_us else None


def place_before(parent_id: str | None, place: int) -> int:
    """The place of the turn that the one at `place` follows: its parent's, or the one before.

    A parent that does not come before it, which a client may name, counts as none: so every path has an end.
    """
    parent = turn_number(parent_id) if parent_id else None
    return parent if parent is not None and parent < place else place - 1


def path_spans(last: int, parents: Sequence[tuple[int, str]]) -> list[tuple[int, int]]:
    """The stretches of places, oldest first, that lead to the turn at `last`.

    `parents` are the turns that name one, in their order: their places and their parents.
    """
    spans: list[tuple[int, int]] = []
    for place, parent_id in reversed(parents):
        before = place_before(parent_id, place)
        if place <= last and before != place - 1:
            spans.append((place, last))
            last = before
    return [(1, last), *reversed(spans)]


def place_of(turn: Turn) -> int:
    """The place in its thread of a turn that is stored."""
    number = turn_number(turn.turn_id)
    if number is None:
        raise ValueError(f"{turn.turn_id!r} is no turn id")
    return number


def turn_digest(turn: NewTurn | Turn, message_id: str) -> bytes:
    """16 bytes over everything that was said: equal digests mean equal turns."""
    fields = (
        message_id, turn.role, turn.sender_id, turn.content, str(turn.timestamp), _json(turn.parts),
        _json(turn.tool_calls), turn.tool_call_id, turn.reasoning, turn.parent_id, turn.model, turn.status,
    )  # fmt: skip
    # No text holds a NUL, so nothing can be moved from one field into the next unnoticed.
    joined = "\x00".join("" if value is None else f"={value}" for value in fields)
    return hashlib.sha256(joined.encode()).digest()[:16]


def _json(value: list[JsonObject] | None) -> str | None:
    return None if value is None else _encode(value)


def text_digest(text: str) -> str:
    """SHA-256 of a text as it is in a file."""
    return hashlib.sha256(text.encode()).hexdigest()


def _sha256(parts: Sequence[str]) -> str:
    return hashlib.sha256(_encode(parts).encode()).hexdigest()
