"""A request that is cancelled leaves no connection open that nobody knows of."""

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from recollect.infra.backends import server
from recollect.infra.backends.server import Endpoint
from recollect.infra.http import closing_to_the_end
from tests.eventually import eventually

MANY = 9
EXPIRY_SECONDS = 0.4


class Listener:
    """Answers every request, and counts the connections that are open."""

    def __init__(self) -> None:
        self.open = self.most_open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            while await reader.readline():
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
                await writer.drain()
        finally:
            self.open -= 1
            writer.close()


@pytest.fixture
async def listener() -> AsyncIterator[tuple[Listener, str]]:
    listener = Listener()
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    async with server:
        yield listener, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.mark.parametrize("steps", range(1, 6))
async def test_a_request_that_is_cancelled_while_expired_connections_are_closed_leaves_none_of_them_open(
    listener: tuple[Listener, str], steps: int
) -> None:
    counting, address = listener
    limits = httpx2.Limits(keepalive_expiry=EXPIRY_SECONDS)
    async with closing_to_the_end(httpx2.AsyncClient(limits=limits, trust_env=False)) as client:
        await asyncio.gather(*(client.get(address) for _ in range(MANY)))
        assert counting.open > 1
        await asyncio.sleep(2 * EXPIRY_SECONDS)  # All of them expire.
        request = asyncio.create_task(client.get(address))
        for _ in range(steps):
            await asyncio.sleep(0)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await eventually(lambda: counting.open == 0)


async def test_when_nobody_asks_any_more_no_connection_stays_open(
    listener: tuple[Listener, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting, address = listener
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", EXPIRY_SECONDS)
    asked = server.ModelServer(Endpoint("default", address), trust_proxies=False)

    async def ask() -> None:
        with pytest.raises(server.NotJsonError):
            await asked.ask("/", {})

    await asyncio.gather(*(ask() for _ in range(MANY)))
    assert counting.most_open == MANY
    await eventually(lambda: counting.open == 0)
    await asked.aclose()
