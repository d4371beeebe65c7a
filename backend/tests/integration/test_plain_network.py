"""Plain TCP under the HTTP client: what is sent arrives whole, and a connection that is no good is not used again.

On asyncio's own event loop and on the one that the server runs on.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import httpx2
import pytest
import uvloop

from recollect.infra.backends.plain_transport import PlainTransport, suits
from tests.eventually import eventually

FINE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"
LIMITS = httpx2.Limits(max_keepalive_connections=4, keepalive_expiry=60)
Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[None]], None]:
    def run(scenario: Awaitable[None]) -> None:
        async def in_time() -> None:
            async with asyncio.timeout(20):
                await scenario

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(in_time())

    return run


@asynccontextmanager
async def served(answer: Answering) -> AsyncIterator[tuple[httpx2.AsyncClient, str]]:
    """A client, and the address of a server that answers each connection like this."""
    answering: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.add(cast("asyncio.Task[None]", asyncio.current_task()))
        await answer(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    try:
        async with httpx2.AsyncClient(transport=PlainTransport(LIMITS)) as client:
            yield client, address
    finally:
        server.close()
    await asyncio.gather(*answering)


async def read_head(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


def test_a_request_arrives_in_one_piece_and_its_connection_is_used_again(
    run: Callable[[Awaitable[None]], None],
) -> None:
    pieces: list[list[bytes]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pieces.append([])
        while piece := await reader.read(65_536):
            pieces[-1].append(piece)
            writer.write(FINE)

    async def scenario() -> None:
        async with served(answer) as (client, address):
            for word in ("one", "two"):
                assert (await client.post(address, content=word)).text == "fine"

    run(scenario())
    ((first, second),) = pieces
    assert first.endswith(b"\r\n\r\none")
    assert second.endswith(b"\r\n\r\ntwo")


def test_what_is_large_goes_both_ways_unchanged(run: Callable[[Awaitable[None]], None]) -> None:
    sent = bytes(range(256)) * 40_000

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        body = await reader.readexactly(len(sent))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()

    async def scenario() -> None:
        async with served(echo) as (client, address):
            assert (await client.post(address, content=sent)).content == sent

    run(scenario())


@pytest.mark.parametrize("last_words", [b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"], ids=["nothing", "408"])
def test_a_connection_that_was_ended_while_idle_is_not_used_again(
    run: Callable[[Awaitable[None]], None], last_words: bytes
) -> None:
    async def scenario() -> None:
        ended: asyncio.Queue[None] = asyncio.Queue()
        connections = 0

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            await read_head(reader)
            writer.write(FINE)
            await ended.get()
            writer.write(last_words)

        async with served(answer) as (client, address):
            assert (await client.get(address)).text == "fine"
            ended.put_nowait(None)
            pool: Any = cast(PlainTransport, client._transport)._pool

            async def is_known_to_be_over() -> bool:
                return bool(pool.connections[0].has_expired())

            await eventually(is_known_to_be_over)
            assert (await client.get(address)).text == "fine"
            ended.put_nowait(None)
        assert connections == 2

    run(scenario())


def test_a_server_that_hangs_up_without_a_word_is_told_as_such(
    run: Callable[[Awaitable[None]], None],
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)

    async def scenario() -> None:
        async with served(answer) as (client, address):
            with pytest.raises(httpx2.RemoteProtocolError, match="without sending a response"):
                await client.get(address)

    run(scenario())


def test_an_answer_that_breaks_off_is_told_as_such(run: Callable[[Awaitable[None]], None]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()

    async def scenario() -> None:
        async with served(answer) as (client, address):
            with pytest.raises(httpx2.RequestError):
                await client.get(address)

    run(scenario())


def test_a_server_that_refuses_before_it_has_heard_all_is_understood(
    run: Callable[[Awaitable[None]], None],
) -> None:
    async def scenario() -> None:
        refused = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_head(reader)
            writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmuch")
            writer.write_eof()
            with suppress(ConnectionError):
                await reader.read()

        async def pieces(client: httpx2.AsyncClient) -> AsyncIterator[bytes]:
            pool: Any = cast(PlainTransport, client._transport)._pool
            yield b"x" * 100_000

            async def has_answered() -> bool:
                stream = pool.connections[0]._connection._network_stream
                return bool(stream.get_extra_info("is_readable")) and stream._is_over

            await eventually(has_answered)
            refused.set()
            yield b"x" * 100_000

        async with served(answer) as (client, address):
            answered = await client.post(address, content=pieces(client))
        assert refused.is_set()
        assert (answered.status_code, answered.text) == (413, "much")

    run(scenario())


def test_a_client_that_goes_away_is_noticed_by_the_server(run: Callable[[Awaitable[None]], None]) -> None:
    async def scenario() -> None:
        gone = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_head(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            with suppress(ConnectionResetError):  # As good as an end.
                assert await reader.read() == b""
            gone.set()

        async with served(answer) as (client, address):
            async with client.stream("GET", address) as response:
                assert response.status_code == 200
            await gone.wait()

    run(scenario())


def test_time_limits_and_refusals_are_the_clients_own_errors(run: Callable[[Awaitable[None]], None]) -> None:
    async def scenario() -> None:
        released = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await released.wait()

        async with served(answer) as (client, address):
            with pytest.raises(httpx2.ReadTimeout):
                await client.get(address, timeout=httpx2.Timeout(None, read=0.05))
            with pytest.raises(httpx2.WriteTimeout):
                await client.post(
                    address, content=b"x" * 50_000_000, timeout=httpx2.Timeout(None, write=0.05)
                )
            released.set()
        async with httpx2.AsyncClient(transport=PlainTransport(LIMITS)) as client:
            with pytest.raises(httpx2.ConnectError):
                await client.get(address)

    run(scenario())


@pytest.mark.parametrize(
    ("address", "suited"),
    [
        ("http://127.0.0.1:8080/v1", True),
        ("http://[::1]:8080", True),
        ("http://localhost:1234", True),
        ("https://127.0.0.1:8080", False),
        ("http://models.example.org", False),
    ],
)
def test_it_is_for_plain_http_to_one_place(address: str, suited: bool) -> None:
    assert suits(httpx2.URL(address)) is suited
