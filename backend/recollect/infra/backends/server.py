"""HTTP to one model server: time-outs, faults, and errors in words a user understands.

What a server says of an error may quote the prompt: nobody is shown it. It goes to the log at debug level, without
the words of the request.
"""

import asyncio
import json
import logging
import re
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import httpx2

from recollect.domain.long_texts import json_text
from recollect.domain.model import JsonObject
from recollect.errors import BackendDown, ModelTooSlow, ModelUnavailable, StreamBroken
from recollect.infra.backends.address import (
    FROM_PROCESS,
    api_root,
    host_and_port,
    process_name,
    server_root,
)
from recollect.infra.backends.refusals import error_in, field_named, refusal, seconds_to_wait
from recollect.infra.off_loop import off_loop
from recollect.setting_groups import BackendSettings


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds."""

    connect: float = 3.0
    first_token: float = 120.0
    """Until the first piece of an answer: a slow machine needs long to evaluate a prompt."""
    stall: float = 60.0
    """Between two pieces of an answer."""
    question: float = 3.0
    """For requests other than chats: the engine, its models, a count of tokens."""
    introduction: float = 10.0
    """For a server that is not known yet: retries while it answers nothing."""


class Endpoint(BackendSettings):
    """One configured backend. What is None is asked of the server or derived from the address."""

    name: str
    patience: Patience = Patience()
    masks_secrets: bool = True
    """In all that leaves for a server that is not local."""

    @property
    def key(self) -> str | None:
        return self.api_key.get_secret_value() if self.api_key else None

    @property
    def extra_headers(self) -> dict[str, str]:
        return {name: value.get_secret_value() for name, value in self.headers.items()}

    @property
    def address(self) -> str:
        """For people: host and port alone, since a URL may hold a password."""
        return host_and_port(self.base_url)


@cache
def tls_context(*, trust_env: bool) -> ssl.SSLContext:
    """One for all clients: reading the certificates of the machine takes 65 ms."""
    return httpx2.create_ssl_context(trust_env=trust_env)


MAX_QUOTE = 300
_RUN = 4
_MOST_COMPARED = 1_000_000
_encoder = json.JSONEncoder(ensure_ascii=False)
_log = logging.getLogger("recollect.backends")


class Quoter:
    """Quotes servers briefly, with secrets redacted."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = sorted((secret for secret in secrets if len(secret) >= 4), key=len, reverse=True)

    def quote(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "…")
        text = re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text).strip()
        return text if len(text) <= MAX_QUOTE else text[: MAX_QUOTE - 1] + "…"


def without_words_of(request: Any, said: str) -> str:
    """What a server said, with an ellipsis for each word, and each run of four characters, that the request has too."""
    held = "\n".join(_texts(request)).casefold()
    if len(held) > _MOST_COMPARED:
        return "…"
    words = set(re.findall(r"\w+", held))
    hidden: set[int] = set()
    for first in range(len(said) - _RUN + 1):
        if said[first : first + _RUN].casefold() in held:
            hidden.update(range(first, first + _RUN))
    for word in re.finditer(r"\w+", said):
        text = word[0].casefold()
        if text in words or (not text.isascii() and text in held):
            hidden.update(range(*word.span()))
    return re.sub("\0+", "…", "".join("\0" if place in hidden else each for place, each in enumerate(said)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Of an answer that is read as a whole."""
MAX_ERROR_BYTES = 64 * 1024
_NO_BYTE = "without sending a response"
KEEP_ALIVE_SECONDS = 4
"""Servers close idle connections after 5 seconds and more: ours are closed before that."""


class StatusError(Exception):
    """The server answered, and not with 200."""

    def __init__(self, status: int, error: ModelUnavailable) -> None:
        super().__init__(error.message)
        self.status = status
        self.error = error


class StaleConnectionError(StreamBroken):
    """A connection that was kept ended before the first byte of an answer: it may have been closed before."""


class NotJsonError(StreamBroken):
    """An answer that should be JSON is something else, an HTML page for example."""


class ClosingTransport(httpx2.AsyncHTTPTransport):
    """Closes every connection that it gives up.

    The pool forgets those that have expired, and closes them one by one within the next request: if that were
    cancelled meanwhile, the others would stay open.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._close = self._pool._close_connections  # noqa: SLF001 - nothing public closes them
        self._pool._close_connections = self._close_all  # type: ignore[assignment, method-assign] # noqa: SLF001
        self._tasks: set[asyncio.Task[None]] = set()

    async def _close_all(self, connections: list[Any]) -> None:
        if connections:
            task = asyncio.create_task(self._close(connections))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await asyncio.shield(task)

    async def aclose(self) -> None:
        await super().aclose()
        await asyncio.gather(*self._tasks)


class ModelServer:
    """Calls may run concurrently."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        trust_proxies: bool,
        transport: httpx2.AsyncBaseTransport | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.who = f"the backend {endpoint.name!r} ({endpoint.address})"
        self._quoter = Quoter([endpoint.key or "", *endpoint.extra_headers.values()])
        self.last_activity: datetime | None = None
        """When it last sent anything."""
        self._heard_at: float | None = None
        self._endpoint = endpoint
        self._named = {} if trust_proxies else {FROM_PROCESS: process_name()}
        self._patience = endpoint.patience
        self._api = api_root(endpoint.base_url)
        self._root = server_root(endpoint.base_url)
        self._monotonic = monotonic
        self._now = now
        self._addresses: dict[str, httpx2.URL] = {}
        """By route: parsing an address takes a third of what building a request does."""
        self._requests = 0
        """In flight."""
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        limits = httpx2.Limits(
            max_connections=None, max_keepalive_connections=32, keepalive_expiry=KEEP_ALIVE_SECONDS
        )
        tls = tls_context(trust_env=trust_proxies)
        if transport is None and not trust_proxies:
            transport = ClosingTransport(verify=tls, trust_env=False, limits=limits)
        self._transport = transport
        timeout = httpx2.Timeout(None, connect=self._patience.connect)
        self._client = httpx2.AsyncClient(
            transport=transport, verify=tls, trust_env=trust_proxies, timeout=timeout, limits=limits
        )

    def idle_seconds(self) -> float:
        """Seconds since it last sent anything."""
        return 0.0 if self._heard_at is None else self._monotonic() - self._heard_at

    async def aclose(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._closing is not None:
            await self._closing
        await self._client.aclose()

    async def ask(self, route: str, headers: dict[str, str], body: JsonObject | None = None) -> Any:
        """The JSON that a route answers with, within `patience.question` seconds. Raises StatusError unless it says 200."""
        async with self._within(self._patience.question):
            try:
                return await self._json(route, headers, body)
            except StaleConnectionError:
                return await self._json(route, headers, body)

    async def _json(self, route: str, headers: dict[str, str], body: JsonObject | None) -> Any:
        async with self.open(route, headers, body) as response:
            return parsed_json(await self._bounded(response, MAX_ANSWER_BYTES), self.who)

    async def chunks(self, response: httpx2.Response, patience: Callable[[], float]) -> AsyncGenerator[bytes]:
        """The pieces of a body as they come; `patience` says how long the next one may take."""
        async with aclosing(response.aiter_bytes()) as pieces:
            while True:
                async with self._within(patience()):
                    piece = await anext(pieces, None)
                if piece is None:
                    return
                self._heard()
                yield piece

    async def whole(self, response: httpx2.Response) -> Any:
        """The JSON of a body that is no stream."""
        async with self._within(self._patience.first_token):
            return parsed_json(await self._bounded(response, MAX_ANSWER_BYTES), self.who)

    @asynccontextmanager
    async def open(
        self, route: str, headers: dict[str, str], body: JsonObject | None
    ) -> AsyncGenerator[httpx2.Response]:
        """An answer whose head has come and says 200; its body is still to come. Other statuses raise StatusError."""
        self._requests += 1
        try:
            request = await self._request(route, headers, body)
            async with aclosing(await self._sent(request)) as response:
                self._heard()
                if response.status_code != 200:
                    raise StatusError(response.status_code, await self._refusal(response, body))
                yield response
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            cause = self._quoter.quote(str(error) or "it did not answer in time")
            raise BackendDown(f"nobody answers for {self.who}: {cause}. Is it running?") from error
        except httpx2.RequestError as error:
            self.log_original(str(error), body)
            raise StreamBroken(f"the connection to {self.who} broke.") from error
        finally:
            self._requests -= 1
            self._close_idle_later()

    def log_original(self, said: Any, request: Any) -> None:
        """What the server said of an error: at debug level, on one line, without secrets and the request's words."""
        if _log.isEnabledFor(logging.DEBUG):
            text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
            _log.debug("%s said: %s", self.who, without_words_of(request, self._quoter.quote(text)))

    def _close_idle_later(self) -> None:
        """The pool closes expired connections only at its next request: after the last one, they are closed here."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        loop = asyncio.get_running_loop()
        self._idle_timer = loop.call_later(KEEP_ALIVE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        if self._transport is not None:
            self._closing = asyncio.create_task(self._close_unless_used(self._transport))

    async def _close_unless_used(self, transport: httpx2.AsyncBaseTransport) -> None:
        # Looked at here, with nothing in between: the pool would lose the connection of a request that has just begun.
        if self._requests == 0:
            await transport.aclose()  # It opens new ones when it is used again.

    async def _request(self, route: str, headers: dict[str, str], body: JsonObject | None) -> httpx2.Request:
        content = None if body is None else await off_loop(body, lambda: _written(body))
        typed = {} if body is None else {"Content-Type": "application/json"}
        if (address := self._addresses.get(route)) is None:
            base = self._root if route.startswith("/") else f"{self._api}/"
            address = self._addresses[route] = httpx2.URL(f"{base}{route}")
        return self._client.build_request(
            "GET" if body is None else "POST",
            address,
            content=content,
            headers={**self._named, **typed, **headers, **self._endpoint.extra_headers},
        )

    async def _sent(self, request: httpx2.Request) -> httpx2.Response:
        """A connection that was kept may be closed by now, as llama.cpp does after a stream: StaleConnectionError, and
        the caller sends it once more.

        What a server took in on a new connection is not sent twice: it may be paid for, or be what crashed it.
        """
        is_new_connection = False

        async def trace(event: str, _info: dict[str, Any]) -> None:
            nonlocal is_new_connection
            is_new_connection = is_new_connection or event.startswith("connection.connect_")

        request.extensions = {**request.extensions, "trace": trace}
        async with self._within(self._patience.first_token):
            try:
                return await self._client.send(request, stream=True)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError) as error:
                may_have_arrived = request.method == "POST" and is_new_connection
                if may_have_arrived or not _came_nothing(error):
                    raise
                raise StaleConnectionError(f"{self.who} closed the connection.") from error

    def _heard(self) -> None:
        self.last_activity = self._now()
        self._heard_at = self._monotonic()

    async def _refusal(self, response: httpx2.Response, request: JsonObject | None) -> ModelUnavailable:
        try:
            async with asyncio.timeout(self._patience.question):
                body = error_in(await self._bounded(response, MAX_ERROR_BYTES, cut=True))
        except TimeoutError:
            body = ""
        self.log_original(body, request)
        wait = seconds_to_wait(response.headers.get("retry-after"), self._now())
        return refusal(self.who, response.status_code, body, wait, field_named(request, body))

    async def _bounded(self, response: httpx2.Response, limit: int, *, cut: bool = False) -> bytes:
        body = bytearray()
        async with aclosing(response.aiter_bytes()) as pieces:
            async for piece in pieces:
                body += piece
                if len(body) > limit:
                    if cut:
                        break
                    raise StreamBroken(f"{self.who} sent an answer of more than {limit} bytes.")
        return bytes(body[:limit])

    @asynccontextmanager
    async def _within(self, seconds: float) -> AsyncGenerator[None]:
        """Raises ModelTooSlow where the block takes longer."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise ModelTooSlow(
                f"{self.who} was silent for {seconds:g} s; it may be overloaded, or hang."
            ) from None


def _written(body: JsonObject) -> bytes:
    return json_text(body, _encoder).encode("utf-8", "replace")


def _came_nothing(error: httpx2.RequestError) -> bool:
    """Whether the connection ended before the first byte of an answer."""
    return not isinstance(error, httpx2.RemoteProtocolError) or _NO_BYTE in str(error)


def parsed_json(data: bytes, who: str) -> Any:
    """Half of a surrogate pair, which is no text and could not be stored, becomes a question mark."""
    try:
        value = json.loads(data)
        if b"\\ud" in data or b"\\uD" in data:
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise NotJsonError(f"{who} sent something that is not JSON.") from None
    return value
