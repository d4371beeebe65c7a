"""Neither cancelled requests nor idle servers keep connections open."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from recollect.infra.backends import server
from recollect.infra.backends.server import Endpoint
from tests.eventually import eventually

MANY = 9
EXPIRY_SECONDS = 0.4


class Listener:
    """Answers every request, unless it is silent, and counts the connections that are open."""

    def __init__(self) -> None:
        self.open = self.most_open = 0
        self.is_silent = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            while await reader.readline():
                await reader.readuntil(b"\r\n\r\n")
                if self.is_silent:
                    continue
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


async def test_requests_that_are_cancelled_leave_no_connection_open(
    listener: tuple[Listener, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting, address = listener
    counting.is_silent = True
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", EXPIRY_SECONDS)
    asked = server.ModelServer(Endpoint("default", address), trust_proxies=False)
    asking = [asyncio.create_task(asked.ask("/", {})) for _ in range(MANY)]
    await eventually(lambda: counting.open == MANY)
    for request in asking:
        request.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    await eventually(lambda: counting.open == 0)
    await asked.aclose()


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
