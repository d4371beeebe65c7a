"""Answers that take a while: made and told for as long as the client is there."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from recollect.entrypoints.http.guard import CLIENT_GONE


class WhileConnected(Response):
    """Makes a response and tells it. A client that goes away ends both, and no longer listens.

    In the request's own task: each task more on the way of an answer's first word is one more turn of the event loop,
    and with many chats at once such a turn is long.
    """

    def __init__(self, make: Callable[[], Awaitable[Response]]) -> None:
        super().__init__(status_code=CLIENT_GONE)
        self._make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        connected = asyncio.timeout(None)
        told = False
        try:
            async with connected:
                leaving = asyncio.create_task(_end_when_gone(receive, connected))
                try:
                    response = await self._make()
                    told = True
                    if isinstance(response, StreamingResponse):
                        await response.stream_response(send)
                    else:
                        await response(scope, receive, send)
                finally:
                    leaving.cancel()
        except TimeoutError:
            if not connected.expired():
                raise
            if not told:
                await super().__call__(scope, receive, send)


async def _end_when_gone(receive: Receive, connected: asyncio.Timeout) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue
    connected.reschedule(asyncio.get_running_loop().time())
