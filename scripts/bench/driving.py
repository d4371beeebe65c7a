"""What the benches ask of a running server, one call at a time."""

import http.client
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reporting import progress

BATCH = 100
SESSION = 500
"""Messages a thread: an owner has many conversations, none of them endless."""
_START = 1_763_000_000_000
STALLED_AFTER_SECONDS = 120


class Server:
    """One connection to a server on this machine."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)

    def call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        content = None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **(headers or {})}
        try:
            answer = self._answer(method, path, content, sent)
        except http.client.RemoteDisconnected:
            # A connection that was idle for a while is closed, perhaps in this moment.
            self._connection.close()
            answer = self._answer(method, path, content, sent)
        value = json.load(answer)
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {value}")
        return value

    def _answer(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        self._connection.request(method, path, content, headers)
        return self._connection.getresponse()

    def add(self, user: str, some: Sequence[str], first: int) -> None:
        """Add the messages number `first` and following of a user, each to the thread it belongs to."""
        for thread, start, part in _by_thread(user, some, first):
            messages = [message(start + offset, text) for offset, text in enumerate(part)]
            body = {"session_id": thread, "user_id": user, "messages": messages}
            self.call("POST", "/api/v1/memory/add", body)

    def fill(self, user: str, some: Sequence[str]) -> None:
        """Add all messages of a user and wait until each can be found by words and by meaning."""
        for first in range(0, len(some), BATCH):
            self.add(user, some[first : first + BATCH], first)
            progress(f"adding, {user}", first, len(some))
        self.wait_until("indexed", user, len(some))
        self.wait_until("embedded", user, len(some))

    def search(self, user: str, query: str) -> dict[str, Any]:
        body = {"user_id": user, "query": query, "top_k": 10}
        found: dict[str, Any] = self.call("POST", "/api/v1/memory/search", body)
        return found

    def coverage(self, user: str | None = None) -> dict[str, int]:
        asked = "" if user is None else f"?user_id={user}"
        counts: dict[str, int] = self.call("GET", f"/api/v1/coverage{asked}")
        return counts

    def wait_until(self, what: str, user: str | None, messages: int) -> None:
        """Until so many messages are `indexed` or `embedded`; RuntimeError when nothing moves any more."""
        before, moved_at = -1, time.monotonic()
        while (done := self.coverage(user)[what]) < messages:
            progress(f"{what}, {user}", done, messages)
            if done != before:
                before, moved_at = done, time.monotonic()
            elif time.monotonic() - moved_at > STALLED_AFTER_SECONDS:
                raise RuntimeError(f"{what} stands still at {done} of {messages}")
            # Counting a large home takes a while itself.
            time.sleep(min(1.0, 0.05 + (messages - done) / 10_000))

    def wait_for_jobs(self) -> None:
        """Until none is left but those that wait for a pause in a conversation."""
        while jobs := [job for job in self._jobs() if (job["kind"], job["state"]) != ("boundary", "queued")]:
            if dead := [job for job in jobs if job["state"] == "dead"]:
                raise RuntimeError(f"{len(dead)} jobs are set aside, the first one: {dead[0]}")
            time.sleep(0.1)

    def _jobs(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.call("GET", "/api/v1/jobs?limit=1000")["jobs"]
        return listed


def message(number: int, text: str) -> dict[str, Any]:
    role = "user" if number % 2 == 0 else "assistant"
    return {
        "message_id": f"m{number}",
        "sender_id": "ann" if role == "user" else "assistant",
        "role": role,
        "timestamp": _START + number * 60_000,
        "content": text,
    }


def _by_thread(user: str, some: Sequence[str], first: int) -> Iterator[tuple[str, int, Sequence[str]]]:
    """(thread, number of its first message here, its messages), cut where a thread ends."""
    done = 0
    while done < len(some):
        number = first + done
        length = SESSION - number % SESSION
        yield f"{user}-{number // SESSION}", number, some[done : done + length]
        done += length
