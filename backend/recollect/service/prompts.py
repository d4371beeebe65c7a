"""Prompts: every one that was sent can be read back, by those who may see its thread."""

from collections.abc import Sequence

from recollect.errors import NotFound
from recollect.memory.access import Caller
from recollect.memory.chat import PromptReceipt
from recollect.memory.identity import turn_id as turn_id_of
from recollect.memory.identity import turn_number
from recollect.memory.model import JsonObject, Turn
from recollect.service.ports import ChatStore, ThreadStore
from recollect.service.threads import owned_thread

_NEAR = 4
"""An answer stands right behind its message, but for results of tools and further choices."""


async def receipts_of(
    chats: ChatStore, space: str, thread_id: str, turns: Sequence[Turn]
) -> dict[str, JsonObject]:
    """What came of the prompts for these turns, which stand in their order; of a thread that the caller may see."""
    if not turns:
        return {}
    return await chats.receipts(space, thread_id, turns[0].turn_id, turns[-1].turn_id)


async def prompt_of(
    threads: ThreadStore,
    chats: ChatStore,
    caller: Caller,
    thread_id: str,
    user_id: str | None,
    turn_id: str,
) -> PromptReceipt:
    """Of an answer, or of the message that it answers. Raises NotFound where nothing was sent for it."""
    await owned_thread(threads, caller, thread_id, user_id)
    receipt = await chats.prompt(caller.space, thread_id, turn_id)
    number = turn_number(turn_id)
    turn = await threads.get_turn(thread_id, turn_id, space=caller.space)
    if receipt is None and number is not None and turn is not None and turn.role == "user":
        for place in range(number + 1, number + 1 + _NEAR):
            receipt = receipt or await chats.prompt(caller.space, thread_id, turn_id_of(place))
    if receipt is None and turn is not None and turn.status in ("queued", "streaming"):
        raise NotFound(f"what is sent for {turn_id!r} is not written down yet")
    if receipt is None:
        raise NotFound(f"nothing was sent for {turn_id!r} in this thread")
    return receipt
