"""Anthropic's Messages: a message is one chat turn of a thread, of a client that keeps its history itself."""

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict

from recollect.domain.model import DEFAULT_USER
from recollect.entrypoints.http import errors, sse
from recollect.entrypoints.http import openai_schemas as schemas
from recollect.entrypoints.http.deps import Calling, Home, note
from recollect.entrypoints.http.direct_route import DirectRoute
from recollect.entrypoints.http.doors.anthropic_body import MessagesBody, PromptBody
from recollect.entrypoints.http.doors.anthropic_events import MessageEvents, message_of
from recollect.entrypoints.http.routes.openai import MAX_HEADER, asking_of, headers, told_error
from recollect.entrypoints.http.sse import WhileConnected
from recollect.service.chat.context_builder import prompt_tokens
from recollect.service.chat.stream import LiveTurn
from recollect.service.models.choice import chosen_model

router = APIRouter(prefix=errors.ROOT, tags=["anthropic"])
SESSION_HEADER = "X-Claude-Code-Session-Id"
AGENT_HEADER = "X-Claude-Code-Agent-Id"
"""Of an agent that Claude Code's model started: nobody said what it is told."""
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {sse.MEDIA_TYPE: {}}, "description": "The message, or its events."}
}
Beta = Annotated[str | None, Query(max_length=100, description="Ignored.")]


class MessageAnswer(BaseModel):
    """A message, in Anthropic's shape."""

    model_config = ConfigDict(extra="allow")

    id: str
    type: str
    role: str
    content: list[dict[str, Any]]


class TokensAnswer(BaseModel):
    input_tokens: int


def session_header(
    x_claude_code_session_id: Annotated[
        str | None, Header(max_length=MAX_HEADER, description="The client's own name for the conversation.")
    ] = None,
) -> None:
    """For the description alone."""


async def create_message(
    home: Home, caller: Calling, body: MessagesBody, request: Request, beta: Beta = None
) -> Response:
    """One chat turn of a client that keeps its history itself."""
    user_id = caller.acting_for(body.user_id) or DEFAULT_USER
    note(request, user=user_id)
    asking = asking_of(request, user_id, (*home.settings.thread_headers, SESSION_HEADER))
    if asking.chat_id is None and asking.thread_id is None and body.metadata is not None:
        asking = asking.model_copy(update={"chat_id": body.metadata.session_id})
    backend, model = await chosen_model(home.talking.backends, body.model)
    asked = body.request(asking, backend, model)
    by_claude_code, by_agent = (name in request.headers for name in (SESSION_HEADER, AGENT_HEADER))
    resent = await asyncio.to_thread(body.resent, asking, asked, home.clock())
    is_probe = asking.is_task or by_agent or body.is_probe(by_claude_code=by_claude_code)
    if is_probe or resent.is_housekeeping():
        messages = await asyncio.to_thread(body.prompt, home.clock())
        live = home.chat.housekeeping.handle(caller, asked, messages)
    else:
        live = await home.history_matching.handle(caller, resent)
        note(request, thread=live.accepted.thread.thread_id, turn=live.turn.turn_id)
    return WhileConnected(partial(_streamed if body.stream else _whole, live, body.model, request))


router.add_api_route(
    "/messages",
    create_message,
    methods=["POST"],
    response_model=MessageAnswer,
    responses={**errors.documented_for_anthropic(409, 502, 504), **_STREAM},
    dependencies=[Depends(headers), Depends(session_header)],
    route_class_override=DirectRoute,
)


async def count_tokens(
    home: Home, caller: Calling, body: PromptBody, request: Request, beta: Beta = None
) -> TokensAnswer:
    """About how many tokens a message would be sent with, without what memory adds. Nothing is stored."""
    note(request, user=caller.acting_for(None) or DEFAULT_USER)
    backend, _ = await chosen_model(home.talking.backends, body.model)
    messages = await asyncio.to_thread(body.countable, home.clock())
    return TokensAnswer(input_tokens=await prompt_tokens(home.talking.backends.get(backend), messages))


router.add_api_route(
    "/messages/count_tokens",
    count_tokens,
    methods=["POST"],
    response_model=TokensAnswer,
    responses=errors.documented_for_anthropic(),
    route_class_override=DirectRoute,
)


async def _whole(live: LiveTurn, model: str | None, request: Request) -> Response:
    with live.heard():
        await live.wait()
        if (error := schemas.what_went_wrong(live)) is not None:
            return await told_error(request, live, error)
        return JSONResponse(message_of(live, model), headers=schemas.headers_of(live))


async def _streamed(live: LiveTurn, model: str | None, request: Request) -> Response:
    """Begins with the first piece, or when the answer has kept the client waiting: until then an error has a status."""
    pieces = live.follow()
    first = await anext(pieces, None)
    if first is None and (error := schemas.what_went_wrong(live)) is not None:
        return await told_error(request, live, error)
    answer = MessageEvents(live, model).stream(first, pieces)
    return StreamingResponse(
        answer, media_type=sse.MEDIA_TYPE, headers={**sse.HEADERS, **schemas.headers_of(live)}
    )
