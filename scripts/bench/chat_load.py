"""Conversations, each of several exchanges, at several at once: how long until the first piece of an answer is there.

`python chat_load.py '{"port": …, "door": "native" | "openai", "clients": …, "requests": …, "name": …, "user": …,
"memory": …}'` prints p50 and p95 as JSON. Through the native door a client sends its new message; through OpenAI's it
resends its history, which grows by two messages an exchange.
"""

import asyncio
import json
import sys
import time
from dataclasses import dataclass

from load import exchange

FIRST_PIECE = b"Fine"
ANSWER = "Fine, and you?"
EXCHANGES = 10
"""In one conversation; then another one begins."""


@dataclass(frozen=True)
class Load:
    """What is asked of the server."""

    port: int
    door: str
    clients: int
    requests: int
    name: str
    """Differs between runs: no two conversations are alike."""
    user: str = "bob"
    memory: bool = False


async def run(load: Load) -> list[float]:
    latencies: list[float] = []
    await asyncio.gather(*(_client(load, number, latencies) for number in range(load.clients)))
    return sorted(latencies)


async def _client(load: Load, client: int, latencies: list[float]) -> None:
    for begun in range(0, load.requests // load.clients, EXCHANGES):
        count = min(EXCHANGES, load.requests // load.clients - begun)
        name = f"{load.name}-{client}-{begun}"
        if load.door == "openai":
            await _with_history(load, name, count, latencies)
        else:
            await _in_a_thread(load, name, count, latencies)


def _words(name: str, number: int) -> str:
    return f"How is my sister Marta doing in Porto today, number {number} of {name}?"


async def _with_history(load: Load, name: str, count: int, latencies: list[float]) -> None:
    headers = f"X-Recollect-User: {load.user}\r\nX-Recollect-Memory: {'on' if load.memory else 'off'}\r\n"
    messages: list[dict[str, str]] = []
    for number in range(count):
        messages.append({"role": "user", "content": _words(name, number)})
        body = {"model": "quick", "stream": True, "messages": messages}
        latencies.append(await _first_piece(load.port, "/v1/chat/completions", body, headers))
        messages.append({"role": "assistant", "content": ANSWER})


async def _in_a_thread(load: Load, name: str, count: int, latencies: list[float]) -> None:
    await _open_thread(load.port, name, load.user)
    for number in range(count):
        body = {
            "content": _words(name, number),
            "stream": True,
            "user_id": load.user,
            "memory": load.memory,
        }
        latencies.append(await _first_piece(load.port, f"/api/v1/threads/{name}/messages", body))


async def _open_thread(port: int, thread: str, user_id: str) -> None:
    """With a title: a thread without one would get it by a call to the model after its first answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"thread_id": thread, "user_id": user_id, "title": "A chat"}).encode()
    await exchange(reader, writer, port, "/api/v1/threads", body, 201)
    writer.close()
    await writer.wait_closed()


async def _first_piece(port: int, path: str, body: dict[str, object], headers: str = "") -> float:
    """Seconds until it is there; the answer is read to its end."""
    content = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n{headers}"
        f"Connection: close\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    started = time.perf_counter()
    writer.write(head.encode() + content)
    seen = b""
    seconds = None
    while chunk := await reader.read(65_536):
        seen += chunk
        if seconds is None and FIRST_PIECE in seen:
            seconds = time.perf_counter() - started
    writer.close()
    await writer.wait_closed()
    if seconds is None:
        raise RuntimeError(f"no answer from {path}: {seen[:500]!r}")
    return seconds


if __name__ == "__main__":
    found = asyncio.run(run(Load(**json.loads(sys.argv[1]))))
    figures = {"p50_ms": found[len(found) // 2] * 1000, "p95_ms": found[int(len(found) * 0.95)] * 1000}
    sys.stdout.write(json.dumps(figures))
