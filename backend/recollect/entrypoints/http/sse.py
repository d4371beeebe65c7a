"""Answers that take a while: server-sent events, and work that stops when the client goes."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from recollect.domain.llm import Delta
from recollect.domain.long_texts import json_text
from recollect.entrypoints.http.access import CALLER
from recollect.entrypoints.http.chat_schemas import ChatAnswer
from recollect.entrypoints.http.errors import (
    for_either_door,
    render_known,
    speaks_anthropic,
    speaks_openai,
)
from recollect.entrypoints.http.guard import CLIENT_GONE
from recollect.errors import InvalidInput, KeyRequired
from recollect.infra.off_loop import off_loop
from recollect.service.access.keys import NOT_IN_FORCE, ending_with_key
from recollect.service.chat.stream import LiveTurn, Offset

MEDIA_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_event_id = re.compile(r"(t-\d{1,18}):(\d{1,12}):(\d{1,12})")


def read_event_id(event_id: str) -> tuple[str, Offset]:
    """The turn, and how much of it is known."""
    found = _event_id.fullmatch(event_id)
    if found is None:
        raise InvalidInput("after: must be the id of an event, such as t-13:0:42", field="after")
    return found[1], Offset(int(found[2]), int(found[3]))


async def events(live: LiveTurn, after: Offset | None = None) -> AsyncIterator[bytes]:
    """All that is left to tell of an answer, up to its end."""
    reached = after or Offset()
    yield await _long_event("meta", turns_of(live), live, reached)
    async for deltas in live.follow(reached):
        told, reached = _told(live, deltas, reached)
        yield told if deltas else b": still here\n\n"
    if live.error is not None:
        error = {"code": live.error.code, "message": live.error.message}
        yield await _long_event("error", {**turns_of(live), "error": error}, live, reached)
    else:
        yield await _long_event("done", ChatAnswer.of(live).model_dump(), live, reached)


def _told(live: LiveTurn, deltas: Sequence[Delta], reached: Offset) -> tuple[bytes, Offset]:
    """The events of pieces that came together, which go out together; and how much has been sent with them."""
    told = b""
    for delta in deltas:
        if delta.choice != 0:
            continue
        if delta.reasoning:
            reached = Offset(reached.reasoning + len(delta.reasoning), reached.text)
            told += _event("reasoning", {"text": delta.reasoning}, live, reached)
        if delta.text:
            reached = Offset(reached.reasoning, reached.text + len(delta.text))
            told += _event("delta", {"text": delta.text}, live, reached)
    return told, reached


async def json_answer(
    data: dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """As JSONResponse: for an answer that holds a whole message."""
    written = await off_loop(data, lambda: json_text(data, _encoder).encode())
    return Response(written, status, headers, "application/json")


def turns_of(live: LiveTurn) -> dict[str, Any]:
    """An answer without its receipt, which it has at its end."""
    return ChatAnswer.of(live).model_dump(exclude={"receipt"})


async def _long_event(kind: str, data: dict[str, Any], live: LiveTurn, reached: Offset) -> bytes:
    """One that holds a whole message."""
    return await off_loop(data, lambda: _event(kind, data, live, reached))


def _event(kind: str, data: dict[str, Any], live: LiveTurn, reached: Offset) -> bytes:
    event_id = f"{live.turn.turn_id}:{reached.reasoning}:{reached.text}"
    text = json_text(data, _encoder)
    return f"id: {event_id}\nevent: {kind}\ndata: {text}\n\n".encode()


class WhileConnected(Response):
    """Makes a response and tells it. Both end when the client goes away, or when its key is revoked or expires.

    In the request's own task: each task more on the way of an answer's first word is one more turn of the event loop,
    and with many chats at once such a turn is long.
    """

    def __init__(self, make: Callable[[], Awaitable[Response]]) -> None:
        super().__init__(status_code=CLIENT_GONE)
        self._make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connected, has_begun, has_key_ended = asyncio.timeout(None), False, False
        home, caller = scope["recollect.app"], scope[CALLER]

        async def tell(message: Message) -> None:
            nonlocal has_begun
            await send(message)
            has_begun = True

        def end() -> None:
            nonlocal has_key_ended
            has_key_ended = True
            connected.reschedule(asyncio.get_running_loop().time())

        try:
            async with connected:
                leaving = asyncio.create_task(_end_when_gone(receive, connected))
                try:
                    with ending_with_key(home.keys, home.clock, caller.key_id, end):
                        response = await self._make()
                        if isinstance(response, StreamingResponse):
                            await response.stream_response(tell)
                        else:
                            await response(scope, receive, tell)
                finally:
                    leaving.cancel()
        except TimeoutError:
            if not connected.expired():
                raise
            if has_key_ended:
                await _tell_that_key_ended(scope, receive, send, has_begun=has_begun)
            elif not has_begun:
                await super().__call__(scope, receive, send)


async def _tell_that_key_ended(scope: Scope, receive: Receive, send: Send, *, has_begun: bool) -> None:
    """401; a stream that has begun ends with the error as its last event."""
    error = KeyRequired(NOT_IN_FORCE)
    answer = await for_either_door(render_known)(Request(scope), error)
    if not has_begun:
        await answer(scope, receive, send)
        return
    is_named = speaks_anthropic(scope["path"]) or not speaks_openai(scope["path"])
    name = b"event: error\n" if is_named else b""
    await send({"type": "http.response.body", "body": name + b"data: " + bytes(answer.body) + b"\n\n"})


async def _end_when_gone(receive: Receive, connected: asyncio.Timeout) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    connected.reschedule(asyncio.get_running_loop().time())
