"""The Model Context Protocol over stdin and stdout: each message goes to `/mcp` of a server.

That is the server that runs on this home, or that leads those on its journal. Where none does, this process opens the home and becomes one, on a free port
of this machine, so that several agents can share a home; when it ends, another of them takes its place.
"""

import asyncio
import base64
import json
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx2

from recollect.domain.access import USER_HEADER
from recollect.entrypoints import SPACE_HEADER
from recollect.entrypoints.cli.client import leader_elsewhere
from recollect.errors import HomeInUse, RecollectError
from recollect.infra.home_lock import current_holder
from recollect.settings import Settings

Json = dict[str, Any]
PATH = "/mcp"
_VERSION = "io.modelcontextprotocol/protocolVersion"
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""What the header `Mcp-Name` repeats, by method."""
_INTERNAL_ERROR = -32603
_PARSE_ERROR = -32700
_ANSWER_SECONDS = 600
_OPEN_SECONDS = 30.0
"""How long another process may take to open the home, or to leave it."""
_PAUSE_SECONDS = 0.1
_AT_ONCE = 32


class Way:
    """The way to a server, found again when it is gone."""

    def __init__(self, settings: Settings, url: str | None, headers: dict[str, str], key: str | None) -> None:
        self._settings = settings
        self._url = url
        self._headers = headers
        self._key = key
        self._finding = asyncio.Lock()
        self._opened = AsyncExitStack()
        self._client: httpx2.AsyncClient | None = None

    async def client(self, gone: httpx2.AsyncClient | None = None) -> httpx2.AsyncClient:
        """The client in use; a new one where that is `gone`. Raises HomeInUse and other errors of opening a home."""
        async with self._finding:
            if self._client is None or self._client is gone:
                if self._client is not None:
                    await self._client.aclose()
                self._client = await self._found()
            return self._client

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
        await self._opened.aclose()

    async def _found(self) -> httpx2.AsyncClient:
        if self._url is not None:
            return self._to(self._url, None)
        deadline = time.monotonic() + _OPEN_SECONDS
        while True:
            holder = current_holder(self._settings.home)
            try:
                if holder is None and (leader := await leader_elsewhere(self._settings)) is not None:
                    return self._to(leader.address, leader.operator)
                if holder is None:
                    return await self._open()
                if holder.address is not None:
                    return self._to(holder.address, holder.token)
                raise HomeInUse(f"process {holder.pid} is using {self._settings.home}")
            except HomeInUse:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _open(self) -> httpx2.AsyncClient:
        # Imported here: talking to a server needs none of it, and it takes seconds.
        from recollect.app import open_app
        from recollect.entrypoints.http.server import shared_door

        app = open_app(self._settings)
        await self._opened.enter_async_context(app)
        return self._to(await self._opened.enter_async_context(shared_door(app)), app.lock.token)

    def _to(self, address: str, token: str | None) -> httpx2.AsyncClient:
        secret = self._key or token
        bearer = {"Authorization": f"Bearer {secret}"} if secret else {}
        # Proxies are for other machines; a server of this home is on this one.
        return httpx2.AsyncClient(
            base_url=address,
            headers={**self._headers, **bearer},
            timeout=_ANSWER_SECONDS,
            trust_env=self._url is not None,
        )


class Bridge:
    """Passes messages on, each as one request, and writes what is answered."""

    def __init__(self, way: Way, output: int) -> None:
        self._way = way
        self._output = output
        self._writing = asyncio.Lock()
        self._negotiated: str | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Until there are no more lines; what is asked is answered first."""
        async with asyncio.TaskGroup() as tasks:
            async for line in lines:
                if not line.strip():
                    continue
                try:
                    message = json.loads(line)
                except (ValueError, RecursionError):
                    await self._tell_error(None, _PARSE_ERROR, "Parse error")
                    continue
                await self._take(message, tasks)

    async def _take(self, message: Any, tasks: asyncio.TaskGroup) -> None:
        method = message.get("method") if isinstance(message, dict) else None
        if method == "notifications/cancelled":
            params = message.get("params")
            named = params.get("requestId") if isinstance(params, dict) else None
            if (running := self._running.get(json.dumps(named))) is not None:
                running.cancel()
            return
        await self._places.acquire()
        task = tasks.create_task(self._pass_on(message))
        if isinstance(message, dict) and "id" in message:
            name = json.dumps(message["id"])
            self._running[name] = task
            task.add_done_callback(lambda _: self._running.pop(name, None))
        task.add_done_callback(lambda _: self._places.release())
        if method == "initialize":
            await asyncio.wait([task])  # What follows depends on the version that it agrees on.

    async def _pass_on(self, message: Any) -> None:
        asked = message.get("id") if isinstance(message, dict) else None
        try:
            answer = await self._sent(message)
        except httpx2.TransportError as error:
            words = str(error) or type(error).__name__
            await self._tell_error(asked, _INTERNAL_ERROR, f"the server does not answer: {words}")
            return
        except RecollectError as error:
            await self._tell_error(asked, _INTERNAL_ERROR, error.message)
            return
        told = _read(answer)
        if told is None or asked is None:
            if answer.is_error:
                words = f"the server answered HTTP {answer.status_code}"
                await self._tell_error(asked, _INTERNAL_ERROR, words)
            return
        if told.get("id") is None:
            told["id"] = asked  # An error that was told before the message was read.
        self._note_version(message, told)
        await self._tell(told)

    async def _sent(self, message: Any) -> httpx2.Response:
        """Once more by another way where nobody was there: nothing was sent then."""
        content, headers = json.dumps(message).encode(), _headers(message, self._negotiated)
        client = await self._way.client()
        try:
            return await client.post(PATH, content=content, headers=headers)
        except httpx2.ConnectError:
            client = await self._way.client(gone=client)
            return await client.post(PATH, content=content, headers=headers)

    def _note_version(self, message: Json, told: Json) -> None:
        result = told.get("result")
        if message.get("method") == "initialize" and isinstance(result, dict):
            self._negotiated = result.get("protocolVersion")

    async def _tell_error(self, asked: Any, code: int, words: str) -> None:
        if asked is None and code != _PARSE_ERROR:
            sys.stderr.write(f"recollect: {words}\n")
            return
        await self._tell({"jsonrpc": "2.0", "id": asked, "error": {"code": code, "message": words}})

    async def _tell(self, message: Json) -> None:
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        async with self._writing:
            await asyncio.to_thread(_write_all, self._output, line)


def _read(answer: httpx2.Response) -> Json | None:
    try:
        told = answer.json()
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _headers(message: Any, negotiated: str | None) -> dict[str, str]:
    """What the protocol repeats in headers over HTTP, and leaves out over stdio."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if not isinstance(message, dict):
        return headers
    method, params = message.get("method"), message.get("params")
    params = params if isinstance(params, dict) else {}
    meta = params.get("_meta")
    modern = meta.get(_VERSION) if isinstance(meta, dict) else None
    if isinstance(modern, str) and isinstance(method, str):
        headers |= {"MCP-Protocol-Version": _safe(modern), "Mcp-Method": _safe(method)}
        name = params.get(_NAMED_BY.get(method, ""))
        return headers | ({"Mcp-Name": _safe(name)} if isinstance(name, str) else {})
    if negotiated and method != "initialize":
        headers["MCP-Protocol-Version"] = negotiated
    return headers


def _safe(value: str) -> str:
    """As the protocol writes what a header can't hold."""
    if value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="


def _write_all(output: int, line: bytes) -> None:
    while line:
        line = line[os.write(output, line) :]


@asynccontextmanager
async def _lines() -> AsyncIterator[AsyncIterator[bytes]]:
    """The lines of stdin. A thread of its own reads them: it ends with the process, whatever it waits for."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes] = asyncio.Queue()

    def read() -> None:
        while True:
            line = sys.stdin.buffer.readline()
            loop.call_soon_threadsafe(queue.put_nowait, line)
            if not line:
                return

    async def lines() -> AsyncIterator[bytes]:
        while line := await queue.get():
            yield line

    threading.Thread(target=read, name="stdin", daemon=True).start()
    yield lines()


async def run_stdio(
    settings: Settings, url: str | None, key: str | None, user: str | None, space: str | None
) -> None:
    """Serve one client until it closes stdin, or the process is told to end."""
    # Whatever prints, in this process or one that it starts, must not print between messages.
    output = os.dup(1)
    os.dup2(2, 1)
    named = {USER_HEADER: user, SPACE_HEADER: space}
    headers = {name: quote(value, safe="") for name, value in named.items() if value}
    way = Way(settings, None if url is None else url.rstrip("/").removesuffix(PATH), headers, key)
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        async with _lines() as lines:
            await Bridge(way, output).run(lines)
    finally:
        await way.aclose()
