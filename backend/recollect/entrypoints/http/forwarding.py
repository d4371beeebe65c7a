"""Passing a request on to the server that leads, and its answer back, as they come."""

import asyncio
import secrets
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import cast

import httpx2
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from recollect.entrypoints.http.guard import FORWARDED, LOCAL, OPEN
from recollect.errors import InvalidInput
from recollect.infra.backends.server import ClosingTransport
from recollect.infra.journal.connector import Leader

NOT_LEADING = 421
"""With the header, from a server that is asked as the leader and is none."""
_MOST_KEPT = 1024 * 1024
"""Of a body that is kept, so that it can be sent to another leader."""
_CONNECT_SECONDS = 2.0
_OF_BODIES = (b"content-length", b"transfer-encoding")
_SILENT_SECONDS = 5
_KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (
            ("TCP_KEEPIDLE", _SILENT_SECONDS),
            ("TCP_KEEPINTVL", _SILENT_SECONDS),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", 4000 * _SILENT_SECONDS),
        )
        if hasattr(socket, name)
    ),
]
"""A leader whose machine is gone is noticed within 20 seconds."""
_OF_A_HOP = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate te trailer upgrade expect date server".split()
) | {FORWARDED}


class NotSent(Exception):
    """The request has reached nobody who would answer it."""


class BrokenOff(Exception):
    """The leader went away before its answer, or in the middle of it; what it did is not known."""


class Arrived:
    """A request's body, as it comes. A short one is kept."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self._kept: list[bytes] | None = []
        self._size = 0
        self.has_body = any(name in _OF_BODIES for name, _ in scope["headers"])
        self._is_whole = not self.has_body
        self._whole = asyncio.Event()
        if self._is_whole:
            self._whole.set()

    @property
    def can_be_sent_again(self) -> bool:
        return self._kept is not None

    async def chunks(self) -> AsyncIterator[bytes]:
        """From its beginning. Raises ClientDisconnect."""
        for chunk in list(self._kept or ()):
            yield chunk
        while not self._is_whole:
            message = await self._next()
            chunk = message.get("body", b"")
            self._is_whole = not message.get("more_body", False)
            self._size += len(chunk)
            if self._size > _MOST_KEPT:
                self._kept = None
            if self._kept is not None:
                self._kept.append(chunk)
            if self._is_whole:
                self._whole.set()
            if chunk:
                yield chunk

    def again(self) -> Receive:
        """For who reads it here instead: what is kept, then what is still to come."""
        kept = iter(self._kept or ())
        is_told = False

        async def receive() -> Message:
            nonlocal is_told
            for chunk in kept:
                return {"type": "http.request", "body": chunk, "more_body": True}
            if self._is_whole and not is_told:
                is_told = True
                return {"type": "http.request", "body": b"", "more_body": False}
            return await self._receive()

        return receive

    async def gone(self) -> None:
        """Returns when the client is no longer there, once all of the body has come."""
        await self._whole.wait()
        with suppress(ClientDisconnect):
            while True:
                await self._next()

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        return message


class Forwarder:
    """Speaks to one leader."""

    def __init__(self, leader: Leader, own_token: str, *, is_open: bool) -> None:
        self.leader = leader
        self._own_token = f"Bearer {own_token}".encode()
        self._is_open = OPEN if is_open else LOCAL
        self._transport = ClosingTransport(
            verify=leader.address.startswith("https://") or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=2),
            socket_options=_KEEPALIVE,
        )

    async def aclose(self) -> None:
        """What is under way breaks off."""
        await self._transport.aclose()

    async def pass_on(self, scope: Scope, arrived: Arrived, send: Send) -> None:
        """Raises NotSent, BrokenOff, InvalidInput or ClientDisconnect."""
        is_answered = False

        async def noting(message: Message) -> None:
            nonlocal is_answered
            is_answered = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        pumping = asyncio.create_task(self._exchange(scope, arrived, noting))
        watching = asyncio.create_task(arrived.gone())
        try:
            await asyncio.wait({pumping, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not pumping.done() and not is_answered:
                raise ClientDisconnect
            await pumping
        finally:
            for task in (pumping, watching):
                task.cancel()
            await asyncio.gather(pumping, watching, return_exceptions=True)

    async def _exchange(self, scope: Scope, arrived: Arrived, send: Send) -> None:
        request = self._request(scope, arrived)
        try:
            response = await self._transport.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise NotSent from error
        except httpx2.LocalProtocolError as error:
            raise InvalidInput(f"the request can't be passed on to the server that leads: {error}") from error
        except httpx2.TransportError as error:
            raise BrokenOff from error
        try:
            if response.status_code == NOT_LEADING and FORWARDED.decode() in response.headers:
                raise NotSent
            headers = [
                (name.lower(), value)
                for name, value in response.headers.raw
                if name.lower() not in _OF_A_HOP and name.lower() != b"transfer-encoding"
            ]
            await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
            async for chunk in cast(httpx2.AsyncByteStream, response.stream):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except httpx2.TransportError as error:
            raise BrokenOff from error
        finally:
            await response.aclose()

    def _request(self, scope: Scope, arrived: Arrived) -> httpx2.Request:
        named = [(name, value) for name, value in scope["headers"] if name not in _OF_A_HOP]
        # The command line in this member's home knows this member's token, not the leader's.
        operator = f"Bearer {self.leader.operator}".encode()
        headers = [
            (name, operator if name == b"authorization" and self._is_own(value) else value)
            for name, value in named
        ]
        target = (
            scope["raw_path"].split(b"?")[0]
            + (b"?" if scope["query_string"] else b"")
            + scope["query_string"]
        )
        url = httpx2.URL(self.leader.address).copy_with(raw_path=target)
        if not any(name == b"host" for name, _ in headers):
            headers.append((b"host", url.netloc))  # HTTP/1.0 needs none.
        is_open = OPEN if (FORWARDED, OPEN) in scope["headers"] else self._is_open
        return httpx2.Request(
            scope["method"],
            url,
            headers=[*headers, (FORWARDED, is_open)],
            stream=_Body(arrived if arrived.has_body else None),
            extensions={"timeout": {"connect": _CONNECT_SECONDS, "pool": None, "read": None, "write": None}},
        )

    def _is_own(self, authorization: bytes) -> bool:
        return secrets.compare_digest(authorization, self._own_token)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, arrived: Arrived | None) -> None:
        self._arrived = arrived

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._arrived is not None:
            async for chunk in self._arrived.chunks():
                yield chunk
