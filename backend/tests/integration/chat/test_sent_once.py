"""A message is not sent twice to a server that may have taken it in."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from recollect.domain.llm import ChatCall, Delta
from recollect.domain.model import ThreadRef
from recollect.errors import ModelUnavailable, StreamBroken
from recollect.infra.backends.client import HttpBackend
from recollect.infra.backends.server import Endpoint
from recollect.service.models.background import CallBudget
from tests.standins.background import model_on

CALL = ChatCall([{"role": "user", "content": "once only"}])
MODELS = b'{"data": [{"id": "m"}]}'
ANSWER = b'data: {"choices": [{"index": 0, "delta": {"content": "fine"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


@dataclass
class HangingUp:
    """Answers questions; hangs up on a chat once it has read it, or only on one that comes as a second request."""

    only_on_kept: bool = False
    keeps: bool = False
    address: str = ""
    chats: list[bytes] = field(default_factory=list)
    _serving: set["asyncio.Task[None]"] = field(default_factory=set)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            try:
                yield
            finally:
                await asyncio.gather(*self._serving)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.create_task(self._serve_all(reader, writer)))

    async def _serve_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = 0
        while await self._answer(reader, writer, served):
            served += 1
        writer.close()
        await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, served: int) -> bool:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return False
        path = head.split(b" ")[1]
        if path == b"/v1/chat/completions":
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            self.chats.append(await reader.readexactly(int(length.split(b":")[1])))
            if not (self.only_on_kept and served == 0):
                return False
            await _send(writer, b"200 OK", ANSWER, b"text/event-stream", keep=False)
            return False
        known = path == b"/v1/models"
        await _send(
            writer, b"200 OK" if known else b"404 Not Found", MODELS if known else b"{}", keep=self.keeps
        )
        return self.keeps


async def _send(
    writer: asyncio.StreamWriter, status: bytes, body: bytes, kind: bytes = b"application/json", *, keep: bool
) -> None:
    connection = b"keep-alive" if keep else b"close"
    writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Type: " + kind + b"\r\nConnection: " + connection)
    writer.write(b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    await writer.drain()


async def said(address: str) -> str:
    # Of a known kind, so that one question alone is asked before the chat, on the connection that is kept.
    backend = HttpBackend(Endpoint(name="gpu", base_url=address, kind="other"))
    try:
        async with aclosing(backend.stream(CALL)) as events:
            return "".join([event.text async for event in events if isinstance(event, Delta)])
    finally:
        await backend.aclose()


async def test_a_server_that_hangs_up_on_a_new_connection_gets_the_message_once() -> None:
    server = HangingUp()
    async with server.running():
        with pytest.raises(StreamBroken, match="'gpu'"):
            await said(server.address)
    assert [json.loads(chat)["messages"] for chat in server.chats] == [CALL.messages]


async def test_a_connection_that_was_kept_and_is_closed_by_now_is_replaced_once() -> None:
    server = HangingUp(only_on_kept=True, keeps=True)
    async with server.running():
        assert await said(server.address) == "fine"
    assert len(server.chats) == 2


async def test_a_server_that_hangs_up_on_every_connection_gets_the_message_twice_at_most() -> None:
    server = HangingUp(keeps=True)
    async with server.running():
        with pytest.raises(StreamBroken):
            await said(server.address)
    assert len(server.chats) == 2


@pytest.mark.parametrize("allowed", [1, 3])
async def test_each_time_that_background_work_reaches_a_server_counts(allowed: int) -> None:
    server, budget = HangingUp(keeps=True), CallBudget(allowed)
    async with server.running():
        backend = HttpBackend(Endpoint(name="gpu", base_url=server.address, kind="other"))
        with pytest.raises(ModelUnavailable):
            await model_on(backend).ask(
                CALL.messages, thread=ThreadRef("default", "me", "t1"), max_tokens=5, budget=budget
            )
        await backend.aclose()
    assert (len(server.chats), budget.left) == (min(2, allowed), max(0, allowed - 2))
