"""An HTTP transport on plain asyncio TCP, for servers on this machine or at a literal address."""

import asyncio
import ipaddress
from collections.abc import Iterable
from typing import cast

import httpcore2
import httpx2

_MOST_UNSENT = 64 * 1024
_MOST_UNREAD = 256 * 1024


def suits(address: httpx2.URL) -> bool:
    """Whether it is plain HTTP to a host whose addresses need not be tried at the same time."""
    return address.scheme == "http" and (address.host == "localhost" or _is_ip_address(address.host))


def transport_for(address: str, limits: httpx2.Limits) -> httpx2.AsyncHTTPTransport:
    """A plain one where it `suits`, else the client library's own."""
    if suits(httpx2.URL(address)):
        return PlainTransport(limits)
    return httpx2.AsyncHTTPTransport(trust_env=False, limits=limits)


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class PlainTransport(httpx2.AsyncHTTPTransport):
    """For addresses that it `suits`."""

    def __init__(self, limits: httpx2.Limits) -> None:
        super().__init__(trust_env=False, limits=limits)
        self._pool = httpcore2.AsyncConnectionPool(
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=PlainNetwork(),
        )


class PlainNetwork(httpcore2.AsyncNetworkBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's own interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                _, stream = await asyncio.get_running_loop().create_connection(PlainStream, host, port)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        return stream

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class PlainStream(asyncio.Protocol, httpcore2.AsyncNetworkStream):
    """One connection, used by one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._unsent = bytearray()
        self._send_seconds: float | None = None
        self._unread = bytearray()
        self._is_over = False
        """The other side has said its last."""
        self._error: Exception | None = None
        self._is_paused = False
        """It takes no more to send for now."""
        self._is_held = False
        """So much has come that no more is taken in until it is read."""
        self._change = asyncio.Event()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """What has come, as soon as there is anything; nothing where the other side has ended."""
        if self._unsent and not self._is_over:
            await self._send()
        try:
            async with asyncio.timeout(timeout):
                while not self._unread and not self._is_over:
                    await self._change.wait()
        except TimeoutError as error:
            raise httpcore2.ReadTimeout(str(error)) from error
        if not self._unread and self._error is not None:
            raise httpcore2.ReadError(str(self._error)) from self._error
        piece = bytes(self._unread[:max_bytes])
        del self._unread[:max_bytes]
        if self._is_held and len(self._unread) < _MOST_UNREAD:
            self._hold(False)
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """It is sent when the answer is waited for, or when there is much of it."""
        self._unsent += buffer
        self._send_seconds = timeout
        if len(self._unsent) > _MOST_UNSENT:
            await self._send()

    async def aclose(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        while self._transport is not None:
            await self._change.wait()

    def get_extra_info(self, info: str) -> object:
        if info == "is_readable":
            return self._is_over or bool(self._unread)
        return None if self._transport is None else self._transport.get_extra_info(info)

    async def _send(self) -> None:
        if self._transport is None or self._is_over:
            raise httpcore2.WriteError("the connection is closed")
        self._transport.write(bytes(self._unsent))
        self._unsent.clear()
        try:
            async with asyncio.timeout(self._send_seconds):
                while self._is_paused and not self._is_over:
                    await self._change.wait()
        except TimeoutError as error:
            raise httpcore2.WriteTimeout(str(error)) from error

    def _hold(self, held: bool) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._is_held = held
        if held:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _has_changed(self) -> None:
        """Wakes whoever waits."""
        self._change.set()
        self._change.clear()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if not self._is_held and len(self._unread) >= _MOST_UNREAD:
            self._hold(True)
        self._has_changed()

    def eof_received(self) -> None:
        self._is_over = True
        self._has_changed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over, self._error, self._transport = True, exc, None
        self._has_changed()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._has_changed()
