"""The Model Context Protocol over HTTP. What answers is `mcp_server`, which is loaded with the first request."""

import asyncio
from functools import cache
from importlib import import_module
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect.domain.model import DEFAULT_USER
from recollect.entrypoints.http import errors
from recollect.entrypoints.http.deps import Calling, Home, get_app, get_caller, note
from recollect.entrypoints.http.direct_route import DirectRoute, holds_at_most
from recollect.errors import InvalidInput, TooLarge


class _MessageRoute(DirectRoute):
    """The protocol's library reads the body."""

    async def answer(self, request: Request) -> Response:
        answer: Response = await self.endpoint(await get_app(request), await get_caller(request), request)
        return answer


router = APIRouter(tags=["mcp"], route_class=_MessageRoute)
MAX_BYTES = 1024 * 1024
MAX_VALUES = 10_000
"""JSON values in one message: the protocol's library reads them on the event loop."""
_MESSAGE = {
    "type": "object",
    "required": ["jsonrpc", "method"],
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {"type": ["string", "integer"]},
        "method": {"type": "string"},
        "params": {"type": "object"},
    },
}


@cache
def _handler() -> ASGIApp:
    """Imported late: the protocol's library takes most of a second to load, and most servers never need it."""
    handle: ASGIApp = import_module("recollect.entrypoints.http.doors.mcp_server").handle
    return handle


class _Handled(Response):
    """Has the protocol's library answer a request whose body is read."""

    def __init__(self, handle: ASGIApp, content: bytes) -> None:
        super().__init__()
        self._handle = handle
        self._unread: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def replayed() -> Message:
            return self._unread.pop() if self._unread else await receive()

        await self._handle(scope, replayed, send)


@router.post(
    errors.MCP,
    response_class=Response,
    responses={**errors.documented_for_mcp(), 200: {"content": {"application/json": {}}}, 202: {}},
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _MESSAGE}}}},
)
async def mcp(home: Home, caller: Calling, request: Request) -> Response:
    """One message of the Model Context Protocol (streamable HTTP, stateless), of any revision since 2024-11-05."""
    user_id = caller.acting_for(None) or DEFAULT_USER
    note(request, user=user_id)
    content = await request.body()
    if not content:
        raise InvalidInput("body: must be a message of the protocol", field="body")
    if len(content) > MAX_BYTES or not holds_at_most(content, MAX_VALUES):
        raise TooLarge(
            f"body: a message has at most {MAX_BYTES} bytes and {MAX_VALUES} JSON values", field="body"
        )
    handle = _handler() if _handler.cache_info().currsize else await asyncio.to_thread(_handler)
    asking: dict[str, Any] = {"home": home, "caller": caller, "user_id": user_id}
    request.scope["recollect.mcp"] = asking
    return _Handled(handle, content)
