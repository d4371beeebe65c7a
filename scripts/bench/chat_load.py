"""Chats, each in a thread of its own: how long until the first piece of the answer is there."""

import asyncio
import json
import sys
import time

from load import exchange

COMPLETIONS = "/v1/chat/completions"
FIRST_PIECE = b"Fine"


async def run(
    port: int, path: str, clients: int, requests: int, name: str, fields: dict[str, object]
) -> list[float]:
    latencies: list[float] = []
    await asyncio.gather(
        *(
            _client(port, path, requests // clients, f"{name}-{number}", fields, latencies)
            for number in range(clients)
        )
    )
    return sorted(latencies)


async def _client(
    port: int, path: str, requests: int, name: str, fields: dict[str, object], latencies: list[float]
) -> None:
    for number in range(requests):
        words = f"How is my sister Marta doing in Porto today, number {number}?"
        if path == COMPLETIONS:
            target, body = (
                path,
                {"model": "quick", "stream": True, "messages": [{"role": "user", "content": words}]},
            )
        else:
            thread = f"{name}-{number}"
            target, body = path.format(thread), {"content": words, "stream": True, **fields}
            await _open_thread(port, thread, str(fields.get("user_id")))
        latencies.append(await _first_piece(port, target, json.dumps(body).encode()))


async def _open_thread(port: int, thread: str, user_id: str) -> None:
    """With a title: a thread without one would get it by a call to the model after its first answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps({"thread_id": thread, "user_id": user_id, "title": "A chat"}).encode()
    await exchange(reader, writer, port, "/api/v1/threads", body, 201)
    writer.close()
    await writer.wait_closed()


async def _first_piece(port: int, path: str, body: bytes) -> float:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    started = time.perf_counter()
    writer.write(head.encode() + body)
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
    port, path, clients, requests, name, fields = sys.argv[1:]
    found = asyncio.run(run(int(port), path, int(clients), int(requests), name, json.loads(fields)))
    figures = {"p50_ms": found[len(found) // 2] * 1000, "p95_ms": found[int(len(found) * 0.95)] * 1000}
    sys.stdout.write(json.dumps(figures))
