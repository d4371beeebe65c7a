"""A load generator that costs little: raw sockets, one connection a client, answers checked."""

import asyncio
import json
import sys
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Load:
    """What one run measured."""

    requests_per_second: float
    p50_ms: float
    p95_ms: float


async def run(port: int, path: str, clients: int, requests: int, *, thread: str, size: int = 1) -> Load:
    """Send `requests` adds of `size` messages from `clients` connections, each to a thread of its own."""
    latencies: list[float] = []
    started = time.perf_counter()
    await asyncio.gather(
        *(
            _client(port, path, requests // clients, f"{thread}-{number}", size, latencies)
            for number in range(clients)
        )
    )
    seconds = time.perf_counter() - started
    latencies.sort()
    return Load(
        len(latencies) / seconds,
        latencies[len(latencies) // 2] * 1000,
        latencies[int(len(latencies) * 0.95)] * 1000,
    )


async def _client(
    port: int, path: str, requests: int, thread: str, size: int, latencies: list[float]
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in range(requests):
        messages = [
            {
                "sender_id": "ann",
                "role": "user" if (number + offset) % 2 == 0 else "assistant",
                "timestamp": 1_763_000_000_000 + (number * size + offset) * 1000,
                "content": f"Message {number}.{offset}: my sister Marta moves to Porto and starts as a nurse.",
            }
            for offset in range(size)
        ]
        body = json.dumps({"session_id": thread, "messages": messages}).encode()
        started = time.perf_counter()
        await exchange(reader, writer, port, path, body, 202)
        latencies.append(time.perf_counter() - started)
    writer.close()
    await writer.wait_closed()


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, path: str, body: bytes, status: int
) -> bytes:
    """POST a body and return the answer's; RuntimeError if its status is another. Comes back later if told to."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    lines = answer.lower().split(b"\r\n")
    length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
    content = await reader.readexactly(length)
    if b" 429 " in lines[0]:
        await asyncio.sleep(
            next(int(line.split(b":")[1]) for line in lines if line.startswith(b"retry-after"))
        )
        return await exchange(reader, writer, port, path, body, status)
    if f" {status} ".encode() not in lines[0]:
        raise RuntimeError(f"{lines[0].decode()}: {content.decode()}")
    return content


if __name__ == "__main__":
    port, path, clients, requests, thread, size = sys.argv[1:]
    result = asyncio.run(run(int(port), path, int(clients), int(requests), thread=thread, size=int(size)))
    sys.stdout.write(json.dumps(result.__dict__))
