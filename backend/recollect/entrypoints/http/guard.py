"""The outermost layer: host and origin, size, the access log, and errors nobody foresaw. Plain ASGI: it is on every path."""

import json
import logging
import re
import secrets
import time
from typing import Any, NamedTuple
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recollect.entrypoints.http import errors
from recollect.infra.backends.address import FROM_PROCESS, OWN_ADDRESS, process_name
from recollect.infra.metrics import Metrics
from recollect.setting_groups import LimitSettings

SLASH_IN_ID = "\x00"
"""Stands for a slash that came encoded (%2F) inside one path segment. NUL itself is refused."""
FORWARDED, OPEN, LOCAL = b"x-recollect-forwarded", b"open", b"local"
"""Says that another server passes the request on, and whether that one listens on an address that others reach."""
CLIENT_GONE = 499
"""In the log alone: there is nobody left to answer."""
_CHAT = re.compile(
    rb"/v1/chat/completions|/v1/responses(?:/input_tokens)?|/v1/conversations(?:/[^/]+/items)?"
    rb"|/v1/messages(?:/count_tokens)?|/api/v1/threads/[^/]+/messages"
)
PROTECTION = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
)
"""Default headers of every answer: no sniffing, no caching, no framing."""
_FROM_PROCESS = FROM_PROCESS.lower().encode()
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_log = logging.getLogger("recollect.access")
_crash_log = logging.getLogger("recollect.http")


class BodyTooLargeError(HTTPException):
    """Raised into the reader of a body that exceeds the limit. Only this kind passes FastAPI's body reader as it is."""

    def __init__(self, limit: "_Limit") -> None:
        super().__init__(413, f"the body is larger than {limit.bytes} bytes ({limit.setting})")


class _Limit(NamedTuple):
    """Of a body, and the setting that moves it."""

    bytes: int
    setting: str


class Guard:
    """Wraps the whole HTTP application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        limits: LimitSettings,
        check_host: bool,
        allowed_hosts: list[str],
        allowed_origins: list[str],
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._limit = _Limit(limits.body_bytes, "RECOLLECT_LIMITS__BODY_BYTES")
        self._chat_limit = _Limit(limits.chat_body_bytes, "RECOLLECT_LIMITS__CHAT_BODY_BYTES")
        self._import_limit = _Limit(limits.import_bytes, "RECOLLECT_LIMITS__IMPORT_BYTES")
        self._check_host = check_host
        self._hosts = _LOCAL_NAMES | {host.lower() for host in allowed_hosts}
        self._process = process_name().encode()
        self._origins = {origin.lower().rstrip("/") for origin in allowed_origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._import_limit if is_import(scope["method"], scope["path"]) else self._limit
        if _is_chat(scope):
            limit = self._chat_limit
        exchange = _Exchange(receive, send, limit, scope["path"])
        scope["recollect"] = exchange.notes
        started = time.perf_counter()
        try:
            await self._answer(scope, exchange)
        finally:
            self._record(scope, exchange, time.perf_counter() - started)

    async def _answer(self, scope: Scope, exchange: "_Exchange") -> None:
        # Looked up many times a request; of a header that came twice, the first counts.
        headers = scope["recollect.headers"] = dict(reversed(scope["headers"]))
        if (refusal := self._refusal(scope, headers, exchange.limit)) is not None:
            status, code, message, field = refusal
            await exchange.reply(status, errors.error_body(code, message, field=field))
            return
        raw_path: bytes = scope.get("raw_path") or b""
        if b"%2f" in raw_path.lower():
            path = raw_path.split(b"?")[0].decode("ascii", "replace")
            scope["path"] = "/".join(unquote(part).replace("/", SLASH_IN_ID) for part in path.split("/"))
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            exchange.status = CLIENT_GONE
        except BodyTooLargeError as error:
            await exchange.reply(413, errors.error_body("too_large", str(error.detail), field="body"))
        except Exception as error:  # noqa: BLE001 - the last line of defence: the log has it, the caller an id
            error_id = scope.setdefault(errors.ERROR_ID, secrets.token_hex(6))
            _crash_log.error("unexpected error %s: %s", error_id, type(error).__name__, exc_info=error)
            await exchange.reply(500, errors.unexpected_body(error_id))

    def _refusal(
        self, scope: Scope, headers: dict[bytes, bytes], limit: _Limit
    ) -> tuple[int, str, str, str | None] | None:
        host = headers.get(b"host", b"").decode("latin-1")
        if self._check_host and _host_name(host) not in self._hosts:
            words = f"the host {host!r} is not allowed; add it to RECOLLECT_ALLOWED_HOSTS"
            return 403, "refused", words, "Host"
        if b"origin" in headers:
            origin = headers[b"origin"].decode("latin-1").lower().rstrip("/")
            if origin.partition("://")[2] != host.lower() and origin not in self._origins:
                return 403, "refused", f"the origin {origin!r} is not allowed", "Origin"
        if headers.get(_FROM_PROCESS) == self._process:
            return OWN_ADDRESS, "refused", "a server can't be its own model", None
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > limit.bytes:
            return 413, "too_large", str(BodyTooLargeError(limit).detail), "body"
        if b"%00" in (scope.get("raw_path") or b""):
            return 422, "invalid", "the path must not contain NUL characters", "path"
        return None

    def _record(self, scope: Scope, exchange: "_Exchange", seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        self._metrics.observe_request(scope["method"], route, exchange.status, seconds)
        told = {"method": scope["method"], "route": route, "status": exchange.status}
        fields = {**told, "ms": round(seconds * 1000, 1), **exchange.notes}
        _log.info("request", extra={"fields": fields})


class _Exchange:
    """One request and its answer: counts the body, remembers the status, answers once, in the door's shape."""

    __slots__ = ("_left", "_path", "_receive", "_send", "limit", "notes", "status")

    def __init__(self, receive: Receive, send: Send, limit: _Limit, path: str) -> None:
        self._receive = receive
        self._send = send
        self._path = path
        self.limit = limit
        self._left = limit.bytes
        self.status = 0
        """0 until the answer has begun."""
        self.notes: dict[str, str] = {}

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise BodyTooLargeError(self.limit)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            own = {name for name, _ in headers}
            message = {**message, "headers": headers + [each for each in PROTECTION if each[0] not in own]}
        await self._send(message)

    async def reply(self, status: int, body: dict[str, Any]) -> None:
        if self.status:
            return
        body, status = errors.in_shape_of(self._path, body, status)
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": content})


def is_import(method: str, path: str) -> bool:
    """Whether its body is a file, whose form is its own."""
    return method == "POST" and path == "/api/v1/imports"


def _is_chat(scope: Scope) -> bool:
    """Whether it may hold images, and all that was said before: such bodies are large."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    return scope["method"] == "POST" and _CHAT.fullmatch(path.split(b"?")[0]) is not None


def _host_name(host: str) -> str:
    """The name in a Host header, without its port; brackets off an IPv6 address."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
