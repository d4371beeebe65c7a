"""Chat: messages that are answered, streams that are joined, prompts as they were sent."""

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from recollect.entrypoints.http import chat_schemas as schemas
from recollect.entrypoints.http import sse
from recollect.entrypoints.http.deps import Calling, Home, OpenedId, PathId, UserQuery, note
from recollect.entrypoints.http.direct_route import BodyRoute
from recollect.entrypoints.http.errors import body_of, documented, headers_of, status_of
from recollect.entrypoints.http.requests import Id
from recollect.entrypoints.http.sse import WhileConnected
from recollect.service.chat.context_builder import prompt_of
from recollect.service.chat.stream import LiveTurn, Offset
from recollect.service.threads import owned_thread

router = APIRouter(prefix="/api/v1/threads", tags=["chat"], route_class=BodyRoute)
STOP_SECONDS = 5.0
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {sse.MEDIA_TYPE: {}}, "description": "The answer, or its events."}
}


@router.post(
    "/{thread_id}/messages",
    response_model=schemas.ChatAnswer,
    responses={**documented(404, 409, 429, 502, 504), **_STREAM},
)
async def post_message(
    home: Home,
    caller: Calling,
    thread_id: OpenedId,
    body: schemas.MessageBody,
    request: Request,
    idempotency_key: Annotated[
        str | None, Header(max_length=200, description="Sent again, it joins the turn there is.")
    ] = None,
) -> Response:
    """One chat turn. A thread that doesn't exist is opened for the user."""
    note(request, user=body.user_id)
    asked = body.request(thread_id, home.clock(), idempotency_key)
    live = await home.chat.handle_chat_turn(caller, asked)
    note(request, turn=live.turn.turn_id)
    return WhileConnected(partial(_streamed, live) if body.stream else partial(_whole, live))


@router.get(
    "/{thread_id}/stream", response_class=StreamingResponse, responses={**documented(404, 409), **_STREAM}
)
async def join_stream(
    home: Home,
    caller: Calling,
    thread_id: PathId,
    user_id: UserQuery = None,
    turn_id: Annotated[
        Id | None, Query(description="An answer; unset: the one that streams, else the last.")
    ] = None,
    after: Annotated[
        Id | None, Query(description="The id of the last event seen; unset: from the beginning.")
    ] = None,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> Response:
    """Follow an answer, from its beginning or from an event on; one that has ended is told at once."""
    thread = await owned_thread(home.THREADS, caller, thread_id, user_id)
    offset = None
    if seen := after or last_event_id:
        turn_id, offset = sse.read_event_id(seen)
    live = await home.chat.join(thread, turn_id)
    return WhileConnected(partial(_streamed, live, offset))


@router.post("/{thread_id}/cancel", responses=documented(404, 409))
async def cancel(
    home: Home, caller: Calling, thread_id: PathId, request: Request, body: schemas.CancelBody | None = None
) -> schemas.CancelAnswer:
    """Stop the answer that streams, or that of `turn_id`; with `all` the turns that wait, too. What has streamed is kept."""
    wanted = body or schemas.CancelBody()
    note(request, user=wanted.user_id)
    thread = await owned_thread(home.THREADS, caller, thread_id, wanted.user_id)
    stopped = home.chat.cancel(thread, everything=wanted.all, turn_id=wanted.turn_id)
    if stopped:
        await asyncio.wait([asyncio.ensure_future(live.wait()) for live in stopped], timeout=STOP_SECONDS)
    return schemas.CancelAnswer(cancelled=[live.turn.turn_id for live in stopped])


@router.get("/{thread_id}/turns/{turn_id}/prompt", responses=documented(404, 409))
async def get_prompt(
    home: Home, caller: Calling, thread_id: PathId, turn_id: PathId, user_id: UserQuery = None
) -> schemas.PromptAnswer:
    """What exactly was sent for a turn: of an answer, or of the message that it answers."""
    receipt = await prompt_of(home.THREADS, home.chats, caller, thread_id, user_id, turn_id)
    return schemas.PromptAnswer.of(receipt)


async def _streamed(live: LiveTurn, after: Offset | None = None) -> Response:
    return StreamingResponse(sse.events(live, after), media_type=sse.MEDIA_TYPE, headers=sse.HEADERS)


async def _whole(live: LiveTurn) -> Response:
    await live.wait()
    if live.error is None:
        return await sse.json_answer(schemas.ChatAnswer.of(live).model_dump())
    body = {**body_of(live.error), **sse.turns_of(live)}
    return await sse.json_answer(body, status_of(live.error), headers_of(live.error))
