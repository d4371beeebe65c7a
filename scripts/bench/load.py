"""Load generators that cost little: raw sockets, one connection a client, every answer checked.

`python load.py KIND '{"port": …, …}'` runs one and prints its figures as JSON; `clients` send `requests` in all.

| kind | what is sent, and timed |
| --- | --- |
| add | messages to `path`, `size` at a time, each client's to a thread of its own |
| search | queries of `user`; the figures leave out embedding the query |
| chat | a conversation's messages, until the first piece of an answer is there |

`port` may be a list: each new connection goes to the next one of them.
"""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

Figures = dict[str, float]
FIRST_PIECE = b"Fine"
ANSWER = "Fine, and you?"
EXCHANGES = 10
"""In one conversation; then another one begins."""


Ports = int | Sequence[int]


def _by_turns(port: Ports) -> Iterator[int]:
    return itertools.cycle([port] if isinstance(port, int) else port)


async def adds(port: Ports, path: str, clients: int, requests: int, thread: str, size: int = 1) -> Figures:
    latencies: list[float] = []
    each, ports = requests // clients, _by_turns(port)

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port := next(ports))
        for first in range(0, each * size, size):
            messages = [message(first + offset) for offset in range(size)]
            body = {"session_id": f"{thread}-{number}", "messages": messages}
            request = _request(port, path, body)
            started = time.perf_counter()
            await exchange(reader, writer, request, 202)
            latencies.append(time.perf_counter() - started)
        writer.close()
        await writer.wait_closed()

    started = time.perf_counter()
    await asyncio.gather(*map(client, range(clients)))
    return figures(latencies, time.perf_counter() - started)


def message(number: int) -> dict[str, Any]:
    return {
        "sender_id": "ann",
        "role": "user" if number % 2 == 0 else "assistant",
        "timestamp": 1_763_000_000_000 + number * 1000,
        "content": f"Message {number}: my sister Marta moves to Porto and starts as a nurse.",
    }


async def searches(port: Ports, user: str, clients: int, requests: int, seed: int) -> Figures:
    """`inside`: as the server counts; `outside`: as the client sees it."""
    import texts

    queries, ports = texts.queries(requests, seed), _by_turns(port)
    inside: list[float] = []
    outside: list[float] = []

    async def client(some: Sequence[str]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port := next(ports))
        for query in some:
            body = {"user_id": user, "query": query, "mode": "hybrid", "top_k": 10}
            request = _request(port, "/api/v1/memory/search", body)
            started = time.perf_counter()
            answer = json.loads(await exchange(reader, writer, request, 200))
            seconds = time.perf_counter() - started
            if answer["degraded"] or len(answer["hits"]) != 10:
                raise RuntimeError(f"{query!r}: {len(answer['hits'])} hits, degraded: {answer['degraded']}")
            embedding = answer["timing"]["embed_ms"] / 1000
            inside.append(answer["timing"]["total_ms"] / 1000 - embedding)
            outside.append(seconds - embedding)
        writer.close()
        await writer.wait_closed()

    started = time.perf_counter()
    await asyncio.gather(*(client(queries[number::clients]) for number in range(clients)))
    per_second = requests / (time.perf_counter() - started)
    shares = {**_shares(inside, "inside_"), **_shares(outside, "outside_")}
    return {"requests_per_second": per_second, **shares}


async def chats(
    port: Ports, door: str, clients: int, requests: int, name: str, user: str = "bob", *, memory: bool = False
) -> Figures:
    """`name` differs between runs: no two conversations are alike. Through the native door a client sends its new
    message; through OpenAI's it resends its history, which grows by two messages an exchange.
    """
    latencies: list[float] = []
    each, ports = requests // clients, _by_turns(port)

    async def native(thread: str, count: int) -> None:
        await _open_thread(next(ports), thread, user)
        for number in range(count):
            body = {"content": _words(thread, number), "stream": True, "user_id": user, "memory": memory}
            latencies.append(await _first_piece(next(ports), f"/api/v1/threads/{thread}/messages", body))

    async def openai(thread: str, count: int) -> None:
        headers = f"X-Recollect-User: {user}\r\nX-Recollect-Memory: {'on' if memory else 'off'}\r\n"
        messages: list[dict[str, str]] = []
        for number in range(count):
            messages.append({"role": "user", "content": _words(thread, number)})
            body = {"model": "quick", "stream": True, "messages": messages}
            latencies.append(await _first_piece(next(ports), "/v1/chat/completions", body, headers))
            messages.append({"role": "assistant", "content": ANSWER})

    async def client(number: int) -> None:
        for begun in range(0, each, EXCHANGES):
            thread, count = f"{name}-{number}-{begun}", min(EXCHANGES, each - begun)
            await (openai if door == "openai" else native)(thread, count)

    started = time.perf_counter()
    await asyncio.gather(*map(client, range(clients)))
    return figures(latencies, time.perf_counter() - started)


def _words(name: str, number: int) -> str:
    return f"How is my sister Marta doing in Porto today, number {number} of {name}?"


async def _open_thread(port: int, thread: str, user_id: str) -> None:
    """With a title: a thread without one would get it by a call to the model after its first answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = {"thread_id": thread, "user_id": user_id, "title": "A chat"}
    await exchange(reader, writer, _request(port, "/api/v1/threads", body), 201)
    writer.close()
    await writer.wait_closed()


async def _first_piece(port: int, path: str, body: dict[str, Any], headers: str = "") -> float:
    """Seconds until it is there; the answer is read to its end."""
    request = _request(port, path, body, f"{headers}Connection: close\r\n")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    started = time.perf_counter()
    writer.write(request)
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


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, status: int
) -> bytes:
    """Send it and return the answer's body; RuntimeError if its status is another. Comes back later if told to."""
    writer.write(request)
    answer = await reader.readuntil(b"\r\n\r\n")
    lines = answer.lower().split(b"\r\n")
    content = await reader.readexactly(_number(lines, b"content-length"))
    if b" 429 " in lines[0]:
        await asyncio.sleep(_number(lines, b"retry-after"))
        return await exchange(reader, writer, request, status)
    if f" {status} ".encode() not in lines[0]:
        raise RuntimeError(f"{lines[0].decode()}: {content.decode()}")
    return content


def _request(port: int, path: str, body: dict[str, Any], headers: str = "") -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n{headers}"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def _number(lines: Sequence[bytes], header: bytes) -> int:
    return next(int(line.split(b":")[1]) for line in lines if line.startswith(header))


def figures(latencies: list[float], seconds: float) -> Figures:
    """Of requests that took so long each, and together."""
    return {"requests_per_second": len(latencies) / seconds, **_shares(latencies)}


def _shares(seconds: list[float], prefix: str = "") -> Figures:
    seconds.sort()
    shares = {share: seconds[int(len(seconds) * share / 100)] for share in (50, 95)}
    return {f"{prefix}p{share}_ms": latency * 1000 for share, latency in shares.items()}


KINDS: dict[str, Callable[..., Coroutine[None, None, Figures]]] = {
    "add": adds,
    "search": searches,
    "chat": chats,
}

if __name__ == "__main__":
    found = asyncio.run(KINDS[sys.argv[1]](**json.loads(sys.argv[2])))
    sys.stdout.write(json.dumps(found))
