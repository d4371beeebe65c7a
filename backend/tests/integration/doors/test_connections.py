"""What a client may do before its request is understood. Against a real server, through sockets."""

import json
import resource
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from recollect.entrypoints.http.server import door_config
from tests.http_client import Home, bearer, message
from tests.processes import Server, StandInModel, recollect_json

HEAD = b"POST /api/v1/memory/add HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
ADD = json.dumps({"session_id": "t1", "messages": [message("x" * 6000)]}).encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("usual") / "home") as server:
        yield server


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that waits for 0.3 s."""
    settings = {"RECOLLECT_LIMITS__HEAD_SECONDS": "0.3", "RECOLLECT_LIMITS__BODY_SECONDS": "0.3"}
    with Server(tmp_path_factory.mktemp("strict") / "home", settings) as server:
        yield server


@pytest.fixture(scope="module")
def fair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that waits for a second: a client that goes on may pause on a busy machine."""
    with Server(tmp_path_factory.mktemp("fair") / "home", {"RECOLLECT_LIMITS__BODY_SECONDS": "1"}) as server:
        yield server


def connected(server: Server, begun: bytes = b"") -> socket.socket:
    host, _, port = server.address.removeprefix("http://").rpartition(":")
    client = socket.create_connection((host, int(port)), timeout=20)
    try:
        client.sendall(begun)
    except OSError:
        client.close()
        raise
    return client


def unread(server: Server, requests: int = 60) -> socket.socket:
    """A client that asks for more than its buffers hold, and reads nothing."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(20)
    host, _, port = server.address.removeprefix("http://").rpartition(":")
    client.connect((host, int(port)))
    client.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * requests)
    return client


def is_closed(client: socket.socket, milliseconds: int) -> bool:
    """Whether the server closes it within this time. Reads nothing."""
    closed = select.poll()
    closed.register(client, 0)
    return bool(closed.poll(milliseconds))


def told(client: socket.socket) -> tuple[int, str]:
    """Status and error code of the answer after which the server closes; (0, "") where it closes without one."""
    answer = b""
    with client, suppress(ConnectionResetError):
        while piece := client.recv(65536):
            answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    return (int(head.split()[1]), json.loads(body)["error"]["code"]) if answer else (0, "")


def takes_a_message(server: Server) -> bool:
    body = {"session_id": "fine", "messages": [message("taken in")]}
    return server.client.post("/api/v1/memory/add", json=body).status_code == 202


class TestHeads:
    def test_headers_without_an_end_are_refused_early(self, server: Server) -> None:
        client = connected(server, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        sent, line = 0, b"X-More: " + b"x" * 8000 + b"\r\n"
        client.settimeout(0.2)
        with client, suppress(OSError):  # Reset, broken, or nobody reads any more.
            while sent < 64 * 1024 * 1024:
                client.sendall(line)
                sent += len(line)
        assert sent < 16 * 1024 * 1024
        assert takes_a_message(server)

    @pytest.mark.parametrize(
        "request_",
        [
            b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Large: " + b"x" * 70_000 + b"\r\n\r\n",
            b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Large: " + b"x" * 400_000,
            b"GET /health?" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        ],
        ids=["complete headers", "headers that go on", "the request line"],
    )
    def test_a_head_that_is_too_large_is_431(self, server: Server, request_: bytes) -> None:
        assert told(connected(server, request_)) == (431, "too_large")
        assert 'recollect_connections_refused_total{why="431"}' in server.client.get("/metrics").text

    def test_a_head_of_60_kb_is_fine(self, server: Server) -> None:
        assert server.client.get("/health/live", headers={"X-Large": "x" * 60_000}).status_code == 200


class TestTime:
    @pytest.mark.parametrize(
        "begun",
        [
            HEAD[:20],
            HEAD,
            HEAD + b"Content-Length: 6000\r\n\r\n{",
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        ],
        ids=["half a request line", "half a head", "a body that stalls", "no first chunk"],
    )
    def test_a_request_that_stalls_is_408(self, strict: Server, begun: bytes) -> None:
        assert told(connected(strict, begun)) == (408, "too_slow")

    def test_a_second_request_that_stalls_is_408_too(self, strict: Server) -> None:
        client = connected(strict, b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        client.sendall(HEAD)
        assert told(client) == (408, "too_slow")

    def test_a_connection_that_asks_for_nothing_is_closed(self, strict: Server) -> None:
        assert told(connected(strict)) == (0, "")

    def test_a_slow_but_steady_upload_passes(self, fair: Server) -> None:
        client = connected(fair, HEAD + b"Content-Length: %d\r\n\r\n" % len(ADD))
        for first in range(0, len(ADD), 1000):
            time.sleep(0.2)  # 5 kB/s: longer than a body may stall, all in all.
            client.sendall(ADD[first : first + 1000])
        with client:
            assert client.recv(65536).startswith(b"HTTP/1.1 202 ")

    def test_a_client_that_reads_nothing_is_disconnected(self, strict: Server) -> None:
        with unread(strict) as client:
            assert is_closed(client, 20_000)

    @pytest.mark.slow
    def test_a_client_that_reads_slowly_gets_all_of_its_answer(self, fair: Server) -> None:
        size = int(fair.client.get("/openapi.json").headers["content-length"])
        with unread(fair, 2) as client:
            got = 0
            while got < 2 * size:
                time.sleep(0.04)  # 400 kB/s: the server's buffers are full for several seconds.
                piece = client.recv(16_384)
                assert piece
                got += len(piece)

    async def test_idle_connections_outlive_those_of_clients(self, home: Home) -> None:
        """Common clients keep theirs for 5 s: a server that closes first breaks the next request."""
        assert door_config(home.app).timeout_keep_alive > 5


class TestConnections:
    @pytest.mark.parametrize("limit", ["CONNECTIONS", "UNFINISHED"])
    def test_many_half_sent_requests_keep_no_message_out(self, tmp_path: Path, limit: str) -> None:
        """The longest silent ones make room; the newest can still be finished."""
        with Server(tmp_path / "home", {f"RECOLLECT_LIMITS__{limit}": "64"}) as server, ExitStack() as stack:
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (150, 150))
            clients = [stack.enter_context(connected(server, HEAD)) for _ in range(200)]
            assert takes_a_message(server)
            assert told(clients[0]) == (0, "")
            clients[-1].sendall(b"Content-Length: %d\r\n\r\n" % len(ADD) + ADD)
            assert clients[-1].recv(65536).startswith(b"HTTP/1.1 202 ")

    def test_many_clients_that_read_nothing_keep_nobody_out(self, tmp_path: Path) -> None:
        settings = {"RECOLLECT_LIMITS__CONNECTIONS": "16"}
        with Server(tmp_path / "home", settings) as server, ExitStack() as stack:
            clients = [stack.enter_context(unread(server)) for _ in range(24)]
            assert takes_a_message(server)
            assert is_closed(clients[0], 20_000)

    def test_where_all_are_being_answered_the_next_is_503(self, tmp_path: Path, model: StandInModel) -> None:
        settings = {"RECOLLECT_LIMITS__CONNECTIONS": "2", "RECOLLECT_LLM__BASE_URL": model.base_url}
        model.control("stall")
        asking = (
            HEAD.replace(b"memory/add", b"threads/%d/messages")
            + b'Content-Length: 16\r\n\r\n{"content": "x"}'
        )
        with Server(tmp_path / "home", settings) as server, ExitStack() as stack:
            for number in range(2):
                stack.enter_context(connected(server, asking % number))
            model.calls(in_flight=2)
            assert told(connected(server)) == (503, "unavailable")

    def test_trailers_without_an_end_are_refused(self, server: Server) -> None:
        client = connected(server, HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: ")
        client.sendall(b"x" * 1_000_000)
        assert told(client) == (413, "too_large")


class TestBodiesWithoutAKey:
    def test_four_of_31_mb_keep_nobody_waiting(self, tmp_path: Path) -> None:
        """Parsed, one would silence the server for seconds. The best of three: the machine may be busy."""
        body = b'{"parts": [' + b",".join([b'{"type":"text","text":"x"}'] * 1_150_000) + b"]}"
        head = HEAD.replace(b"memory/add", b"threads/t1/messages")

        def attack(server: Server, statuses: list[bytes]) -> None:
            with connected(server, head + b"Content-Length: %d\r\n\r\n" % len(body)) as client:
                client.sendall(body)
                statuses.append(client.recv(65536)[:12])

        def longest_wait(server: Server, headers: dict[str, str]) -> float:
            statuses: list[bytes] = []
            attackers = [threading.Thread(target=attack, args=[server, statuses]) for _ in range(4)]
            for attacker in attackers:
                attacker.start()
            waits: list[float] = []
            while any(attacker.is_alive() for attacker in attackers) or not waits:
                began = time.monotonic()
                server.client.get("/api/v1/threads", headers=headers).raise_for_status()
                waits.append(time.monotonic() - began)
            assert statuses == [b"HTTP/1.1 401"] * 4
            return max(waits)

        with Server(tmp_path / "home") as server:
            headers = bearer(recollect_json(tmp_path / "home", "keys", "create")["secret"])
            longest = longest_wait(server, headers)
            for _ in range(2):
                if longest >= 1:
                    longest = min(longest, longest_wait(server, headers))
        assert longest < 1
