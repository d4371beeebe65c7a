"""One client's connection: how much may arrive before a request is understood, how long that may take, and reading.

uvicorn has settings for none of it. Its `limit_concurrency` would answer 503 to everybody while somebody holds many
half-sent requests, or answers that nobody reads; here those make room for whoever comes next.
"""

import asyncio
import json
import resource
import socket
import struct
from typing import Any, Literal

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from recollect.entrypoints.http.errors import error_body
from recollect.entrypoints.http.guard import PROTECTION
from recollect.infra.metrics import Metrics
from recollect.setting_groups import LimitSettings

SLOWEST = 4096
"""Bytes a second: a body that arrives at this pace, or faster, may take as long as it needs."""
_LARGEST_FRAMING = 8
"""Bytes around each byte of a chunked body; the smallest chunks have five."""
_MOST_UNSENT = 64 * 1024
"""Bytes that wait in the kernel; if there were megabytes, a slow reader's progress would show once in minutes."""
_RESET = struct.pack("ii", 1, 0)
"""Linger option for a reset: without it the kernel keeps sending to a client that does not read."""
_IMPORTS = b"/api/v1/imports"
_LAST_WORD_SECONDS = 1.0
_MOST_THROWN_AWAY = 1024 * 1024
"""After a refusal: seconds until the connection is closed, and bytes of input discarded until then."""


class Connections:
    """What the connections of one server share. At a limit, the client that was silent for longest makes room."""

    def __init__(self, limits: LimitSettings, metrics: Metrics) -> None:
        self.limits = limits
        self.refused = metrics.refused
        self.most = min(limits.connections, _files_allowed(2 * limits.connections) // 2)
        """Half of the files that may be open: the other half is for journal, vault and index."""
        self.unfinished: dict[Connection, None] = {}
        """Whose request has not arrived in full; the longest silent first."""
        self.idle: dict[Connection, None] = {}
        self.unread: dict[Connection, None] = {}
        """Whose client leaves its answer unread; the longest first."""

    def has_room(self, count: int) -> bool:
        """Whether one more fits in, after another was closed if need be."""
        if count <= self.most:
            return True
        silent = next(iter(self.unfinished or self.idle or self.unread), None)
        if silent is not None:
            silent.drop()
        return silent is not None


class Connection(HttpToolsProtocol):
    """uvicorn's protocol within limits."""

    def __init__(self, *given: Any, shared: Connections, **named: Any) -> None:
        super().__init__(*given, **named)
        self._shared = shared
        self._limits = shared.limits
        self._arriving: Literal["head", "body"] | None = None
        """The part of the request still to be received; None: no request, or a complete one."""
        self._fed = 0
        """Bytes of it, without those that came together with its beginning."""
        self._body = 0
        """Bytes of the body alone, without what frames its chunks."""
        self._has_asked = False
        self._began = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        """Until the client must have gone on reading."""
        self._refusal: tuple[int, str, str] | None = None
        self._is_refused = False
        self._thrown_away = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _MOST_UNSENT)
        self._arriving = "head"
        if self._shared.has_room(len(self.connections)):
            self._await_more()
        else:
            self._refuse(503, "unavailable", "too many connections (RECOLLECT_LIMITS__CONNECTIONS)")
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            self._thrown_away += len(data)
            if self._thrown_away > _MOST_THROWN_AWAY:
                self.transport.abort()
            return
        self._shared.idle.pop(self, None)
        if self._arriving is None and not self._is_answering():
            self._arriving = "head"
        self._fed += len(data)
        super().data_received(data)
        if self._arriving is None:
            self._shared.unfinished.pop(self, None)
        else:
            self._look()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_asked = True
        self._arriving, self._fed = "head", 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._arriving == "head":  # Nobody asks for what may follow a chunked body.
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self._limits.header_bytes:
            self._refusal = self._too_large_head()
            raise ValueError(
                "the head is too large"
            )  # The parser stops; `send_400_response` tells the client.
        self._stop_timer()
        self._arriving, self._fed, self._body = "body", 0, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._stop_timer()
        self._arriving = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._await_reader()
        else:
            self._rest()

    def timeout_keep_alive_handler(self) -> None:
        if not self.transport.is_closing():
            self._close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._shared.idle.pop(self, None)
        self._await_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_awaiting_reader()
            self._rest()

    def send_400_response(self, msg: str) -> None:
        self._refuse(*(self._refusal or (400, "invalid", msg)))

    def drop(self) -> None:
        """Close it at once, to make room for another."""
        self._is_refused = True
        self._forget()
        self._shared.refused.labels("silent").inc()
        self.connections.discard(self)
        self._set(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()

    def _look(self) -> None:
        """What is to be done about a request that has not arrived in full."""
        if self._is_refused:
            return
        if self._arriving == "head" and self._fed > self._limits.header_bytes:
            self._refuse(*self._too_large_head())
        elif self._arriving == "body" and self._is_endless():
            self._refuse(413, "too_large", "the body is larger than any that is taken")
        else:
            self._await_more()

    def _too_large_head(self) -> tuple[int, str, str]:
        limit = f"{self._limits.header_bytes} bytes (RECOLLECT_LIMITS__HEADER_BYTES)"
        return 431, "too_large", f"request line and headers are larger than {limit}"

    def _is_endless(self) -> bool:
        """Whoever reads a body refuses one that is too large; this is for bodies that nobody reads, and for framing."""
        framing, limits = self._fed - self._body, self._limits
        largest = limits.import_bytes if self.url.startswith(_IMPORTS) else limits.chat_body_bytes
        return self._body > 2 * largest or (framing > limits.header_bytes + _LARGEST_FRAMING * self._body)

    def _await_more(self) -> None:
        unfinished = self._shared.unfinished
        unfinished.pop(self, None)
        unfinished[self] = None
        if len(unfinished) > self._limits.unfinished:
            next(iter(unfinished)).drop()
        if self._timer is None:
            self._began = self.loop.time()
            self._check_time()

    def _check_time(self) -> None:
        is_head = self._arriving == "head"
        allowed = self._limits.head_seconds if is_head else self._limits.body_seconds + self._fed / SLOWEST
        left = self._began + allowed - self.loop.time()
        if left > 0:
            self._timer = self.loop.call_later(left, self._check_time)
        elif is_head and not self._has_asked:
            self.drop()  # It never asked for anything.
        else:
            setting = f"RECOLLECT_LIMITS__{'HEAD' if is_head else 'BODY'}_SECONDS"
            self._refuse(408, "too_slow", f"the request did not arrive within {allowed:.0f} s ({setting})")

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Tell the client, unless it was answered already, and close."""
        self._is_refused = True
        self._forget()
        self._shared.refused.labels(str(status)).inc()
        is_telling = self._is_answering() if self._arriving == "head" else self.cycle.response_started
        if self._is_answering():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if is_telling or self.pipeline or self.transport.is_closing():
            self._close()
            return
        self.transport.write(_written(status, error_body(code, message)))
        self.transport.write_eof()
        self._timer = self.loop.call_later(_LAST_WORD_SECONDS, self._close)

    def _close(self) -> None:
        """Once the client has read what was written."""
        self.transport.close()
        self._await_reader()

    def _await_reader(self) -> None:
        if self._reading is None:
            self._shared.unread[self] = None
            self._check_reading(None)

    def _check_reading(self, before: int | None) -> None:
        """Drop a client that has read nothing since `before` bytes were left to send."""
        left = self.transport.get_write_buffer_size()
        if before is not None and left >= before:
            self.drop()
        else:
            self._reading = self.loop.call_later(self._limits.body_seconds, self._check_reading, left)

    def _stop_awaiting_reader(self) -> None:
        self._shared.unread.pop(self, None)
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _rest(self) -> None:
        """Wait for the next request, if nothing is under way."""
        if (
            self._has_asked
            and not self._is_answering()
            and self._arriving is None
            and not self.flow.write_paused
        ):
            self._shared.idle[self] = None

    def _is_answering(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete

    def _stop_waiting(self) -> None:
        self._stop_timer()
        self._shared.unfinished.pop(self, None)

    def _forget(self) -> None:
        self._stop_waiting()
        self._stop_awaiting_reader()
        self._shared.idle.pop(self, None)

    def _set(self, level: int, option: int, value: int | bytes) -> None:
        self.transport.get_extra_info("socket").setsockopt(level, option, value)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _written(status: int, body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    headers = [
        *PROTECTION,
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (b"connection", b"close"),
    ]
    return b"".join([STATUS_LINE[status], *(b"%b: %b\r\n" % each for each in headers), b"\r\n", content])


def _files_allowed(wanted: int) -> int:
    """How many files this process may open; raised to `wanted` as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return raised
