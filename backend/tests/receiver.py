"""A receiver of webhooks on loopback: it checks signatures, and fails as often as it is told to."""

import hashlib
import hmac
import json
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

SECRET = "a secret of the receiver's"
Json = dict[str, Any]


class Receiver:
    """`accepts` says of each try, by a number and what it tells, whether it is answered with 200.

    The number grows by one from one delivery to the next, and from one try of a delivery to its next.
    """

    def __init__(self, accepts: Callable[[int, Json], bool] = lambda number, told: True) -> None:
        self.accepted: list[Json] = []
        self.tries: Counter[str] = Counter()
        self.problems: list[str] = []
        self.status = 500
        self.secret = SECRET
        self.accepts = accepts
        self._lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(owner.receive(dict(self.headers), body))
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                """Nothing is written to stderr."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def ids(self) -> list[str]:
        return [told["id"] for told in self.accepted]

    def of(self, event: str) -> list[Json]:
        """The data of what was accepted of an event."""
        return [told["data"] for told in self.accepted if told["event"] == event]

    def receive(self, headers: dict[str, str], body: bytes) -> int:
        told = json.loads(body)
        time = headers["X-Recollect-Timestamp"]
        signature = hmac.new(self.secret.encode(), f"{time}.".encode() + body, hashlib.sha256).hexdigest()
        with self._lock:
            if headers["X-Recollect-Signature"] != f"sha256={signature}":
                self.problems.append("the signature is wrong")
            if (headers["X-Recollect-Id"], time) != (told["id"], str(told["timestamp"])):
                self.problems.append("headers and body differ")
            self.tries[told["id"]] += 1
            number = list(self.tries).index(told["id"]) + self.tries[told["id"]]
            if not self.accepts(number, told):
                return self.status
            self.accepted.append(told)
            return 200
