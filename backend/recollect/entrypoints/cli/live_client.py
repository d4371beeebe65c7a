"""How a conversation reaches a home: as other commands do, and with answers that come in while they are made."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx2

from recollect.entrypoints.cli.client import HomeClient
from recollect.entrypoints.headers import SPACE_HEADER
from recollect.errors import HomeInUse, RecollectError, ServerUnreachable
from recollect.infra.home_lock import current_holder
from recollect.settings import Settings

_IN_PROCESS = "http://127.0.0.1"
_SILENCE_SECONDS = 60.0
"""An answer that is on its way gives a sign of life every quarter of a minute."""


class LiveClient(HomeClient):
    """Speaks the HTTP API, answers in events included."""

    def __init__(self, client: httpx2.AsyncClient, address: str | None) -> None:
        super().__init__(client)
        self._http = client
        self.address = address
        """Of the server; None where the home was opened in this process."""

    async def events(self, path: str, body: dict[str, Any]) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
        """Each with its name, as they come."""
        try:
            async with self._http.stream("POST", path, json=body, timeout=_SILENCE_SECONDS) as response:
                if response.is_error:
                    await response.aread()
                    raise _refusal(response)
                name = ""
                async for line in response.aiter_lines():
                    field, _, value = line.partition(": ")
                    if field == "event":
                        name = value
                    elif field == "data":
                        yield name, json.loads(value)
        except httpx2.TransportError as error:
            raise ServerUnreachable(
                f"the server does not answer any more: {str(error) or type(error).__name__}"
            ) from error


@asynccontextmanager
async def live_client(settings: Settings, space: str | None = None) -> AsyncIterator[LiveClient]:
    """Talk to the server that runs on this home, or open the home here until the conversation ends."""
    headers = {SPACE_HEADER: quote(space)} if space else {}
    holder = current_holder(settings.home)
    if holder is not None:
        if holder.address is None:
            raise HomeInUse(f"process {holder.pid} is using {settings.home}; try again when it is done")
        async with _client(holder.address, holder.token, headers) as client:
            yield LiveClient(client, holder.address)
        return
    # Imported here: talking to a server needs none of it, and it takes most of a second.
    from recollect.app import open_app
    from recollect.entrypoints.http.server import create_server

    async with open_app(settings) as app:
        transport = StreamingAsgiTransport(create_server(app))
        async with _client(_IN_PROCESS, app.lock.token, headers, transport) as client:
            yield LiveClient(client, None)


class StreamingAsgiTransport(httpx2.AsyncBaseTransport):
    """Calls an ASGI app; what it sends is handed on as it comes, where the library's own waits for the end."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = _Exchange(await request.aread())
        exchange.begin(self._app, _scope(request))
        status, headers = await exchange.start()
        return httpx2.Response(status, headers=headers, stream=exchange)


class _Exchange(httpx2.AsyncByteStream):
    """One request and its answer. Closing it tells the app that its client went away."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._sent: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, app: Any, scope: dict[str, Any]) -> None:
        self._task = asyncio.create_task(app(scope, self._receive, self._sent.put))
        self._task.add_done_callback(lambda _: self._sent.put_nowait(None))

    async def start(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        message = await self._sent.get()
        if message is None:
            await self.aclose()  # Raises what the app raised.
            raise ServerUnreachable("it answered nothing")
        return message["status"], list(message.get("headers", []))

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await self._sent.get()) is not None:
            if body := message.get("body"):
                yield body
            if not message.get("more_body"):
                return

    async def aclose(self) -> None:
        self._gone.set()
        if self._task is not None:
            await self._task


def _scope(request: httpx2.Request) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.split(b"?")[0],
        "query_string": request.url.query,
        "server": (request.url.host, request.url.port),
        "client": ("127.0.0.1", 0),
        "root_path": "",
    }


def _client(
    address: str,
    token: str,
    headers: dict[str, str],
    transport: httpx2.AsyncBaseTransport | None = None,
) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {token}", **headers}
    return httpx2.AsyncClient(
        base_url=address, headers=headers, timeout=600, transport=transport, trust_env=False
    )


def _refusal(response: httpx2.Response) -> RecollectError:
    detail = response.json().get("error", {})
    return RecollectError(detail.get("message", "the server answered with an error"))
