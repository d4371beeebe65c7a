"""How commands reach a home: through the server that runs on it, or, when none does, in this process."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx2

from recollect.entrypoints.headers import SPACE_HEADER
from recollect.errors import HomeInUse, InvalidInput, NotFound, RecollectError, ServerUnreachable
from recollect.infra.home_lock import current_holder
from recollect.settings import Settings

_IN_PROCESS = "http://127.0.0.1"
_INDEX_DELAY_MS = 3_000


class HomeClient:
    """Speaks the HTTP API, wherever it is; errors come out as Recollect's own."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def call(self, method: str, path: str, **options: Any) -> Any:
        response = await self._send(method, path, **options)
        return response.json()

    async def call_with_progress(
        self, path: str, body: dict[str, Any], progress: Callable[[int, int], None]
    ) -> dict[str, Any]:
        """For routes that answer in lines: progress first, the result at the end."""
        try:
            async with self._client.stream("POST", path, json=body) as response:
                if response.is_error:
                    await response.aread()
                    raise _error(response.json())
                async for line in response.aiter_lines():
                    data = json.loads(line)
                    if "error" in data:
                        raise _error(data)
                    if "result" in data:
                        result: dict[str, Any] = data["result"]
                        return result
                    progress(data["done"], data["total"])
        except httpx2.TransportError as error:
            raise _unreachable(error) from error
        raise ServerUnreachable("the server broke off before it was done; see its log")

    async def _send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        try:
            response = await self._client.request(method, path, **options)
        except httpx2.TransportError as error:
            raise _unreachable(error) from error
        if response.is_error:
            raise _error(response.json())
        return response


@asynccontextmanager
async def home_client(settings: Settings, space: str | None = None) -> AsyncIterator[HomeClient]:
    """Talk to the running server, or open the home here for as long as the command takes."""
    headers = {SPACE_HEADER: quote(space)} if space else {}
    holder = current_holder(settings.home)
    if holder is not None:
        if holder.address is None:
            raise HomeInUse(f"process {holder.pid} is using {settings.home}; try again when it is done")
        async with _client(holder.address, holder.token, headers) as client:
            yield HomeClient(client)
        return
    # Imported here: a command that talks to a server needs none of it, and it takes most of a second.
    from recollect.app import open_app
    from recollect.entrypoints.http.server import create_server

    async with open_app(_unhurried(settings)) as app:
        transport = httpx2.ASGITransport(app=create_server(app))
        async with _client(_IN_PROCESS, app.lock.token, headers, transport) as client:
            yield HomeClient(client)


def _unhurried(settings: Settings) -> Settings:
    """A command that is done at once leaves the index to the next server, or to a command that takes longer."""
    index = settings.index.model_copy(update={"delay_ms": max(settings.index.delay_ms, _INDEX_DELAY_MS)})
    return settings.model_copy(update={"index": index})


def path_of(collection: str, identifier: str) -> str:
    """Where something lies whose id a person typed: it must not lead anywhere else."""
    if identifier in {"", ".", ".."}:
        raise InvalidInput(f"{identifier!r} is no id")
    return f"{collection}/{quote(identifier, safe='')}"


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


def _unreachable(error: httpx2.TransportError) -> ServerUnreachable:
    return ServerUnreachable(f"the server does not answer: {str(error) or type(error).__name__}")


def _error(body: dict[str, Any]) -> RecollectError:
    detail = body.get("error", {})
    kind = {"not_found": NotFound, "invalid": InvalidInput}.get(detail.get("code", ""), RecollectError)
    return kind(detail.get("message", "the server answered with an error"), field=detail.get("field"))
