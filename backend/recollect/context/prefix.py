"""Prefix accounting: where a prompt parts from the one before, and why."""

import hashlib
import json
from collections.abc import Sequence

from recollect.memory.model import JsonObject


def prompt_bytes(messages: Sequence[JsonObject]) -> bytes:
    """Messages as bytes, one to a line: a prompt that only grew begins with the one before."""
    lines = (json.dumps(message, ensure_ascii=False, separators=(",", ":")) for message in messages)
    return "".join(f"{line}\n" for line in lines).encode()


def prefix_digest(prompt: bytes, new_from: int) -> str:
    """Of the messages that were sent before: while prompts only grow, it is that of the last one and its answer."""
    new = prompt.split(b"\n", new_from)[-1]
    return hashlib.sha256(prompt[: len(prompt) - len(new)]).hexdigest()


def first_difference(before: bytes, now: bytes) -> int | None:
    """The first byte of the earlier prompt that the later one does not have in its place; None where it only grew."""
    shared = common_prefix(before, now)
    return None if shared == len(before) else shared


def common_prefix(first: bytes, second: bytes) -> int:
    """How many bytes two texts have in common at their beginning."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
