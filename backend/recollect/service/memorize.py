"""Memorize: take messages in. Durable when it returns; no model is in this path."""

from recollect.memory.model import Append, Receipt
from recollect.service.ports import ThreadStore


async def memorize(threads: ThreadStore, append: Append) -> list[Receipt]:
    """Store messages in order and say what happened to each.

    Turns, buffer rows and the jobs that follow commit together; the same `message_id` again is a duplicate.
    Raises NotFound when the thread belongs to another user than the caller names.
    """
    return await threads.append(append)
