"""How commands reach a home: through the server that runs on it, else in this process."""

import asyncio
import json
import ssl
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx2

from recollect.entrypoints import SPACE_HEADER
from recollect.errors import (
    HomeInUse,
    InvalidInput,
    NotFound,
    RecollectError,
    ServerUnreachable,
    TooMuchQueued,
)
from recollect.infra.home_lock import current_holder
from recollect.service.coordination import Progress
from recollect.settings import Settings

if TYPE_CHECKING:
    from recollect.infra.journal.connector import Leader

_IN_PROCESS = "http://127.0.0.1"
_INDEX_DELAY_MS = 3_000
_SILENCE_SECONDS = 60.0
"""An answer that is on its way gives a sign of life every quarter of a minute."""
_HEALTH_SECONDS = 15.0
_LOOKS, _LOOK_EVERY = 20, 0.25
Json = dict[str, Any]


class HomeClient:
    """Speaks the HTTP API, wherever it is; errors come out as Recollect's own."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def call(self, method: str, path: str, params: Json | None = None, json: Json | None = None) -> Any:
        """One request; parameters that are None are left out."""
        params = {name: value for name, value in (params or {}).items() if value is not None}
        with _told_in_words():
            response = await self._client.request(method, path, params=params, json=json)
        if response.is_error:
            raise _error(response.json())
        return response.json()

    async def health(self) -> Json:
        """Also of a server that can't take messages. One that says nothing for a while is unreachable."""
        with _told_in_words():
            health: Json = (await self._client.get("/health", timeout=_HEALTH_SECONDS)).json()
        return health

    async def call_with_progress(
        self, path: str, body: Json | AsyncIterator[bytes], progress: Progress, **params: Any
    ) -> Json:
        """For routes that answer in lines: progress first, the result at the end. The body may be a file's bytes."""
        params = {name: value for name, value in params.items() if value is not None}
        async with aclosing(self._lines(path, body, params=params)) as lines:
            async for line in lines:
                data = json.loads(line)
                if "error" in data:
                    raise _error(data)
                if "result" in data:
                    result: Json = data["result"]
                    return result
                progress(data["done"], data["total"])
        raise ServerUnreachable("the server broke off before it was done; see its log")

    async def events(self, path: str, body: Json) -> AsyncGenerator[tuple[str, Json]]:
        """Server-sent events as they come, each with its name."""
        name = ""
        async with aclosing(self._lines(path, body, timeout=_SILENCE_SECONDS)) as lines:
            async for line in lines:
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    yield name, json.loads(value)

    async def _lines(
        self, path: str, body: Json | AsyncIterator[bytes], **options: Any
    ) -> AsyncGenerator[str]:
        if isinstance(body, dict):
            options["json"] = body
        else:
            options |= {"content": body, "headers": {"Content-Type": "application/octet-stream"}}
        with _told_in_words():
            async with self._client.stream("POST", path, **options) as response:
                if response.is_error:
                    await response.aread()
                    raise _error(response.json())
                async for line in response.aiter_lines():
                    yield line


@asynccontextmanager
async def home_client(
    settings: Settings, space: str | None = None, *, briefly: bool = False
) -> AsyncIterator[HomeClient]:
    """Talk to the server that runs on this home, or open the home here until the block ends.

    `briefly`: for a command that is done at once and leaves indexing to the next server.
    """
    holder = current_holder(settings.home)
    if holder is not None:
        if holder.address is None:
            raise HomeInUse(f"process {holder.pid} is using {settings.home}; try again when it is done")
        async with _client(holder.address, holder.token, space) as client:
            yield HomeClient(client)
        return
    if (leader := await leader_elsewhere(settings)) is not None:
        async with _client(leader.address, leader.operator, space) as client:
            yield HomeClient(client)
        return
    # Imported here: talking to a server needs none of it, and it takes most of a second.
    from recollect.app import open_app
    from recollect.entrypoints.http.server import private_socket

    async with open_app(_unhurried(settings) if briefly else settings) as app, private_socket(app) as path:
        transport = httpx2.AsyncHTTPTransport(uds=path, verify=_no_certificates())
        async with _client(_IN_PROCESS, app.lock.token, space, transport) as client:
            yield HomeClient(client)


async def leader_elsewhere(settings: Settings) -> "Leader | None":
    """Who leads the servers on the journal in PostgreSQL, if there are any. One that was cut off a moment ago is waited for."""
    if settings.postgres_url is None or settings.files_url is None:
        return None
    from recollect.infra.journal.database import leadership_of

    leadership = leadership_of(settings)
    try:
        for _ in range(_LOOKS):
            seen = await asyncio.to_thread(leadership.look)
            if seen is None or seen.is_held or seen.leader is None:
                return seen.leader if seen is not None and seen.is_held else None
            await asyncio.sleep(_LOOK_EVERY)
    finally:
        await asyncio.to_thread(leadership.close)
    return None


def _unhurried(settings: Settings) -> Settings:
    """A command that is done at once leaves the index to the next server, or to a command that takes longer."""
    index = settings.index.model_copy(update={"delay_ms": max(settings.index.delay_ms, _INDEX_DELAY_MS)})
    return settings.model_copy(update={"index": index})


def _client(
    address: str, token: str, space: str | None, transport: httpx2.AsyncBaseTransport | None = None
) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {token}", **({SPACE_HEADER: quote(space)} if space else {})}
    return httpx2.AsyncClient(
        base_url=address,
        headers=headers,
        timeout=600,
        transport=transport,
        trust_env=False,
        verify=address.startswith("https://") or _no_certificates(),
    )


def _no_certificates() -> ssl.SSLContext:
    """For HTTP, which nearly all of this speak: reading this machine's certificates takes 65 ms."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@contextmanager
def _told_in_words() -> Iterator[None]:
    try:
        yield
    except httpx2.TransportError as error:
        told = str(error) or type(error).__name__
        raise ServerUnreachable(f"the server does not answer: {told}") from error


def _error(body: Json) -> RecollectError:
    detail = body.get("error", {})
    known: tuple[type[RecollectError], ...] = (NotFound, InvalidInput, TooMuchQueued)
    kind = {each.code: each for each in known}.get(detail.get("code", ""), RecollectError)
    return kind(detail.get("message", "the server answered with an error"), field=detail.get("field"))


STATUSES = ("accepted", "duplicate", "forgotten")
_BATCH = 100
_BATCH_BYTES = 1_000_000


def messages_of(text: str | None, file: Path | None, *, role: str, sender: str) -> list[Json]:
    if (text is None) == (file is None):
        raise InvalidInput("give either a message or --file, as in: recollect add 'Hello' --session t1")
    if file is not None:
        return _read_lines(file)
    content = sys.stdin.read() if text == "-" else text
    return [{"role": role, "sender_id": sender, "timestamp": time.time_ns() // 1_000_000, "content": content}]


async def add_all(
    client: HomeClient, session: str, user: str | None, messages: list[Json], progress: Progress
) -> Json:
    """Add in batches, in order, as fast as the server takes them; returns all receipts, and what waits at the end."""
    receipts: list[Json] = []
    waiting: Json | None = None
    for batch in _batches(messages):
        body = {"session_id": session, "user_id": user, "messages": batch}
        added = await _add(client, body)
        receipts += added["receipts"]
        waiting = added["waiting"]
        progress(len(receipts), len(messages))
    return {"session_id": session, "receipts": receipts, "waiting": waiting}


async def _add(client: HomeClient, body: Json) -> Json:
    while True:
        try:
            added: Json = await client.call("POST", "/api/v1/memory/add", json=body)
            return added
        except TooMuchQueued as full:
            await asyncio.sleep(full.retry_after)


def _batches(messages: list[Json]) -> Iterator[list[Json]]:
    """At most a hundred messages and about a megabyte at a time."""
    batch: list[Json] = []
    size = 0
    for message in messages:
        length = len(json.dumps(message))
        if batch and (len(batch) == _BATCH or size + length > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += length
    if batch:
        yield batch


def _read_lines(file: Path) -> list[Json]:
    """Every line is checked before the first is sent, so that a bad one stores nothing."""
    from pydantic import ValidationError

    from recollect.entrypoints.http.requests import Message

    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}") from error
    messages = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                Message.model_validate_json(line)
            except ValidationError as error:
                first = error.errors()[0]
                field = ".".join(str(part) for part in first["loc"]) or "message"
                raise InvalidInput(f"{file}, line {number}, {field}: {first['msg']}") from error
            messages.append(json.loads(line))
    return messages
