"""OpenAI's Conversations: a conversation is a thread, by its id; an item is a part of a turn."""

import asyncio
import secrets
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, FailFast, Field

from recollect.domain.identity import place_of, turn_number
from recollect.domain.model import DEFAULT_USER, Append, JsonObject, Thread, ThreadRef
from recollect.entrypoints.http import errors
from recollect.entrypoints.http.deps import Calling, Home, PathId, note
from recollect.entrypoints.http.direct_route import BodyRoute
from recollect.entrypoints.http.doors.openai_items import (
    CONVERSATION,
    InputItem,
    Turns,
    items_of,
    no_item,
    read_item_id,
)
from recollect.entrypoints.http.doors.response_body import Pairs
from recollect.entrypoints.http.doors.responses import (
    After,
    DeletedAnswer,
    Included,
    ItemsAnswer,
    ResponseId,
    page_of,
)
from recollect.entrypoints.http.openai_schemas import Lenient
from recollect.entrypoints.http.requests import Said
from recollect.errors import NotFound
from recollect.service import threads
from recollect.service.forget import forget
from recollect.service.vault.images import append_with_images

router = APIRouter(prefix=f"{errors.ROOT}/conversations", tags=["openai"], route_class=BodyRoute)
MOST_ITEMS = 20
_METADATA = "metadata"
"""Subject and stage of the receipt that keeps a thread's metadata."""
_ORIGINALS = "originals"
"""Of the one that keeps where its first turns were said, if the conversation only has copies of them."""
Items = Annotated[list[InputItem], FailFast(), Field(max_length=MOST_ITEMS)]


class ConversationBody(Said, Lenient):
    items: Items = Field(default_factory=list)
    metadata: Pairs | None = None


class ConversationChanges(Lenient):
    metadata: Pairs


class ItemsBody(Said, Lenient):
    items: Annotated[Items, Field(min_length=1)]


class ConversationAnswer(BaseModel):
    id: str
    object: str = "conversation"
    created_at: int
    metadata: dict[str, Any]


async def _found(home: Home, caller: Calling, conversation_id: str, request: Request) -> Thread:
    """The conversation, if it is the caller's; another's is as absent as one that never was."""
    user_id = caller.acting_for(None) or DEFAULT_USER
    note(request, user=user_id, thread=conversation_id)
    thread = await home.THREADS.find(ThreadRef(caller.space, user_id, conversation_id))
    if thread is None:
        raise NotFound(f"there is no conversation {conversation_id!r}")
    return thread


async def _shown(home: Home, thread: Thread) -> ConversationAnswer:
    return ConversationAnswer(
        id=thread.thread_id,
        created_at=thread.created // 1000,
        metadata=await home.cells.told_of_thread(thread.ref, _METADATA),
    )


def _turn_id(item_id: str, thread: ThreadRef) -> str:
    thread_id, turn_id = read_item_id(item_id)
    if thread_id != thread.thread_id:
        raise no_item(item_id)
    return turn_id


async def _add(home: Home, thread: Thread, given: list[InputItem]) -> list[JsonObject]:
    """What a response has put there is not added again by a client that keeps a record of its own.

    Such a client has the first response answer elsewhere, for want of anything by which to know the conversation.
    """
    made = (await asyncio.to_thread(Turns.of, given, home.clock(), "items")).turns
    turns = list(made.values())
    stored = await home.history_matching.ends_with(thread.ref, turns) if turns else []
    if new := turns[len(stored) :]:
        append = Append(thread.space, thread.thread_id, (), thread.user_id)
        await home.ingest.admit(append)
        stored += await append_with_images(home.THREADS, home.images, thread.ref, new)
        home.metrics.observe_messages(["accepted"] * len(new))
        if place_of(stored[0]) == 1 and stored[-1].role == "assistant":
            originals = await home.history_matching.leave_copy(thread.ref, stored)
            await home.chats.record_receipt(thread.ref, None, _ORIGINALS, originals)
    return [item for turn in stored for item in items_of(thread.ref, turn)]


async def _forget_originals(home: Home, caller: Calling, thread: Thread) -> None:
    """What is deleted here was said in the response's own thread: unless that went on, it goes too."""
    originals = await home.cells.told_of_thread(thread.ref, _ORIGINALS)
    if not originals:
        return
    ref, said = thread.ref._replace(thread_id=originals["thread"]), originals["turns"]
    found = await home.THREADS.turns_around(ref, 1, 0, len(said) + 1)
    if [turn.turn_id for turn in found] == said:
        await forget.delete_thread(home.THREADS, caller, ref.thread_id, ref.user_id)


@router.post("", responses=errors.documented_for_openai())
async def create_conversation(
    home: Home, caller: Calling, body: ConversationBody, request: Request
) -> ConversationAnswer:
    """Open a conversation: a thread of its own."""
    new = threads.NewThread(thread_id=f"{CONVERSATION}{secrets.token_hex(16)}")
    await asyncio.to_thread(Turns.of, body.items, 0, "items")  # Nothing is opened for what is refused.
    thread = await threads.create_thread(home.THREADS, home.clock, caller, new, home.people)
    note(request, user=thread.user_id, thread=thread.thread_id)
    if body.metadata:
        await home.chats.record_receipt(thread.ref, None, _METADATA, dict(body.metadata))
    await _add(home, thread, body.items)
    return await _shown(home, thread)


@router.get("/{conversation_id}", responses=errors.documented_for_openai())
async def get_conversation(
    home: Home, caller: Calling, conversation_id: PathId, request: Request
) -> ConversationAnswer:
    """A conversation; any thread of the user is one."""
    return await _shown(home, await _found(home, caller, conversation_id, request))


@router.post("/{conversation_id}", responses=errors.documented_for_openai())
async def update_conversation(
    home: Home, caller: Calling, conversation_id: PathId, body: ConversationChanges, request: Request
) -> ConversationAnswer:
    """Replace its metadata."""
    thread = await _found(home, caller, conversation_id, request)
    await home.chats.record_receipt(thread.ref, None, _METADATA, dict(body.metadata))
    return await _shown(home, thread)


@router.delete("/{conversation_id}", responses=errors.documented_for_openai())
async def delete_conversation(
    home: Home, caller: Calling, conversation_id: PathId, request: Request
) -> DeletedAnswer:
    """Forget a conversation with all of its items, and what was made of them."""
    thread = await _found(home, caller, conversation_id, request)
    await _forget_originals(home, caller, thread)
    await forget.delete_thread(home.THREADS, caller, thread.thread_id, thread.user_id)
    return DeletedAnswer(id=thread.thread_id, object="conversation.deleted")


@router.post("/{conversation_id}/items", responses=errors.documented_for_openai(409))
async def create_items(
    home: Home,
    caller: Calling,
    conversation_id: PathId,
    body: ItemsBody,
    request: Request,
    include: Included = None,
) -> ItemsAnswer:
    """Add up to 20 items, without a model."""
    thread = await _found(home, caller, conversation_id, request)
    return page_of(await _add(home, thread, body.items), len(body.items) + 1)


@router.get("/{conversation_id}/items", responses=errors.documented_for_openai())
async def list_items(
    home: Home,
    caller: Calling,
    conversation_id: PathId,
    request: Request,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Annotated[str, Query(pattern="^(asc|desc)$")] = "desc",
    include: Included = None,
) -> ItemsAnswer:
    """The items that lead to the last one; those of other branches are left out."""
    ref = (await _found(home, caller, conversation_id, request)).ref
    backwards = order == "desc"
    start = None if after is None else turn_number(_turn_id(after, ref))
    found: list[JsonObject] = []
    while len(found) <= limit:
        turns = await threads.turns_of_path(home.THREADS, ref, start, limit + 2, backwards=backwards)
        for turn in turns:
            shown = list(items_of(ref, turn))
            found += shown[::-1] if backwards else shown
        if after is not None:
            ids = [item["id"] for item in found]
            found, after = found[ids.index(after) + 1 if after in ids else 0 :], None
        if len(turns) < limit + 2:
            break
        start = place_of(turns[-1]) + (-1 if backwards else 1)
    return page_of(found, limit)


@router.get("/{conversation_id}/items/{item_id}", responses=errors.documented_for_openai())
async def get_item(
    home: Home,
    caller: Calling,
    conversation_id: PathId,
    item_id: ResponseId,
    request: Request,
    include: Included = None,
) -> dict[str, Any]:
    """One item."""
    ref = (await _found(home, caller, conversation_id, request)).ref
    turn = await home.THREADS.turn(ref, _turn_id(item_id, ref))
    shown = [] if turn is None else [item for item in items_of(ref, turn) if item["id"] == item_id]
    if not shown:
        raise no_item(item_id)
    return shown[0]


@router.delete("/{conversation_id}/items/{item_id}", responses=errors.documented_for_openai(409))
async def delete_item(
    home: Home, caller: Calling, conversation_id: PathId, item_id: ResponseId, request: Request
) -> ConversationAnswer:
    """Forget an item: its whole turn, with the words and calls of the same answer, and what was made of it."""
    thread = await _found(home, caller, conversation_id, request)
    turn = _turn_id(item_id, thread.ref)
    await forget.forget_turn(home.THREADS, home.forgetting, caller, thread.thread_id, turn, thread.user_id)
    return await _shown(home, thread)
