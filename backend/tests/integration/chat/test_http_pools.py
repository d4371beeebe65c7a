"""Connections to model servers: used again while they are good, and closed when nobody needs them."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable

import pytest

from recollect.infra.backends import server
from recollect.infra.backends.server import Endpoint
from tests.eventually import eventually

MANY = 9
EXPIRY_SECONDS = 0.4


class Listener:
    """Answers every request with its size, unless it is silent, and counts the connections."""

    def __init__(self) -> None:
        self.open = self.most_open = self.ever = 0
        self.is_silent = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.ever += 1
        self.most_open = max(self.open, self.most_open)
        try:
            while await reader.readline():
                head = await reader.readuntil(b"\r\n\r\n")
                if self.is_silent:
                    continue
                size = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(size[1])) if size else b"{}"
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
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


async def test_what_is_large_goes_both_ways_unchanged_on_a_connection_that_is_used_again(
    listener: tuple[Listener, str],
) -> None:
    counting, address = listener
    asked = server.ModelServer(Endpoint(name="default", base_url=address), trust_proxies=False)
    for size in (1, 5_000_000):
        body = {"text": "é" * size}
        assert await asked.ask("/", {}, body) == body
    assert counting.ever == 1
    await asked.aclose()


async def test_requests_that_are_cancelled_leave_no_connection_open(
    listener: tuple[Listener, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting, address = listener
    counting.is_silent = True
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", EXPIRY_SECONDS)
    asked = server.ModelServer(Endpoint(name="default", base_url=address), trust_proxies=False)
    asking = [asyncio.create_task(asked.ask("/", {})) for _ in range(MANY)]
    await eventually(lambda: counting.open == MANY)
    for request in asking:
        request.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    await eventually(lambda: counting.open == 0)
    await asked.aclose()


@pytest.mark.parametrize("steps", range(1, MANY))
async def test_a_request_that_is_cancelled_while_expired_connections_are_closed_leaves_none_of_them(
    listener: tuple[Listener, str], monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    counting, address = listener
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", EXPIRY_SECONDS)
    asked = server.ModelServer(Endpoint(name="default", base_url=address), trust_proxies=False)
    await asyncio.gather(*(asked.ask("/", {}) for _ in range(MANY)))
    counting.is_silent = True
    unanswered = asyncio.create_task(
        asked.ask("/", {})
    )  # Till it ends, only another request closes what is idle.
    await asyncio.sleep(EXPIRY_SECONDS + 0.1)  # Nothing tells that they have expired.
    cancelled = asyncio.create_task(asked.ask("/", {}))
    for _ in range(steps):
        await asyncio.sleep(0)
    assert counting.open > 1
    cancelled.cancel()
    await eventually(lambda: counting.open == 1)
    unanswered.cancel()
    await asyncio.gather(unanswered, cancelled, return_exceptions=True)
    await asked.aclose()


async def test_when_nobody_asks_any_more_no_connection_stays_open(
    listener: tuple[Listener, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting, address = listener
    monkeypatch.setattr(server, "KEEP_ALIVE_SECONDS", EXPIRY_SECONDS)
    asked = server.ModelServer(Endpoint(name="default", base_url=address), trust_proxies=False)

    await asyncio.gather(*(asked.ask("/", {}) for _ in range(MANY)))
    assert counting.most_open == MANY
    await eventually(lambda: counting.open == 0)
    await asked.aclose()


async def test_a_request_that_begins_while_idle_connections_are_closed_keeps_its_own(
    listener: tuple[Listener, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting, address = listener
    asked = server.ModelServer(Endpoint(name="default", base_url=address), trust_proxies=False)
    timers: list[Callable[[], None]] = []

    def keep(delay: float, act: Callable[[], None]) -> asyncio.TimerHandle:
        timers.append(act)
        return asyncio.TimerHandle(0, act, (), asyncio.get_running_loop())

    with monkeypatch.context() as patched:
        patched.setattr(asyncio.get_running_loop(), "call_later", keep)
        await asked.ask("/", {})
    timers[-1]()
    for _ in range(2):
        await asked.ask("/", {})
    assert counting.ever == 1
    await asked.aclose()
