"""A hostile client that holds every answer against what is promised."""

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.http_client import Json, bearer, message

ADD, SEARCH, CHAT = "/api/v1/memory/add", "/api/v1/memory/search", "/v1/chat/completions"
CLIENTS = 64
CLOSED = 0
"""The status of a connection that was closed without an answer."""
AS_JSON = b"Content-Type: application/json\r\n"


@dataclass(frozen=True)
class Target:
    """A server, the attacker's key, and what is known of somebody else's memory there."""

    address: str
    secret: str
    marker: str
    """Stands in all that the other user said, and in no request of the attacker's."""
    user: str
    thread: str
    turn: str
    entry: str
    image: str
    note: str
    times: int
    """How often an attack of many is made: 1 in the quick size."""
    connections: int
    """The server's cap."""


class Attacker:
    """Asks, and holds every answer against what is promised: an expected status, and nothing of anybody else's."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.statuses: Counter[int] = Counter()
        self._counting = threading.Lock()
        self._client = httpx2.Client(
            base_url=target.address,
            timeout=60,
            trust_env=False,
            limits=httpx2.Limits(max_connections=CLIENTS, keepalive_expiry=2),
        )

    def ask(
        self, method: str, path: str, *expected: int, keyed: bool = True, body: Any = None, **fields: Any
    ) -> httpx2.Response:
        """`body`: JSON, or bytes that claim to be."""
        headers = {**(bearer(self.target.secret) if keyed else {}), **fields.pop("headers", {})}
        if isinstance(body, bytes):
            fields["content"] = body
            headers.setdefault("Content-Type", "application/json")
        elif body is not None:
            fields["json"] = body
        answer = self._client.request(method, path, headers=headers, **fields)
        self.check(
            answer.status_code, answer.content + str(answer.headers).encode(), expected, f"{method} {path}"
        )
        return answer

    def connected(self, begun: bytes = b"") -> socket.socket:
        host, _, port = self.target.address.removeprefix("http://").rpartition(":")
        client = socket.create_connection((host, int(port)), timeout=20)
        try:
            client.sendall(begun)
        except OSError:
            client.close()
            raise
        return client

    def send(self, pieces: Iterable[bytes], *expected: int) -> int:
        """Bytes as they are, as many as the server takes; returns how many that were."""
        sent, client = 0, self.connected()
        client.settimeout(1)
        with suppress(OSError):  # Reset, broken, or nobody reads any more.
            for piece in pieces:
                client.sendall(piece)
                sent += len(piece)
        self.hear(client, *expected)
        return sent

    def hear(self, client: socket.socket, *expected: int) -> None:
        """The answer after which the server closes."""
        answer = b""
        client.settimeout(20)
        with client, suppress(ConnectionResetError):
            while piece := client.recv(65536):
                answer += piece
        self.check(int(answer.split()[1]) if answer else CLOSED, answer, expected, "bytes")

    def head(self, path: str, *, keyed: bool = True, more: bytes = AS_JSON) -> bytes:
        """Of a request after whose answer the server closes; an empty line is to follow."""
        key = f"Authorization: Bearer {self.target.secret}\r\n" if keyed else ""
        return f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{key}".encode() + more

    def check(self, status: int, answer: bytes, expected: tuple[int, ...], what: str) -> None:
        with self._counting:
            self.statuses[status] += 1
        assert status in expected, f"{what}: {status}, not {expected}: {answer[:300]!r}"
        assert self.target.marker.encode() not in answer, f"{what}: told what another user said"


def at_once(count: int, attack: Callable[[int], object], clients: int = CLIENTS) -> None:
    with ThreadPoolExecutor(min(clients, count)) as pool:
        list(pool.map(attack, range(count)))


def added(text: Any = "x", thread: str = "hostile", **fields: Any) -> Json:
    return {"session_id": thread, "messages": [message(text, **fields)]}


def said(text: Any, **fields: Any) -> Json:
    return {"role": "user", "content": text, **fields}
