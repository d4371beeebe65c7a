"""Searches from many connections at once; every answer is checked, and embedding the query counted apart."""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import texts
from load import exchange

PATH = "/api/v1/memory/search"


@dataclass
class Latencies:
    """In milliseconds, of all answers."""

    inside: list[float] = field(default_factory=list)
    """As the server counts them, without embedding the query."""
    outside: list[float] = field(default_factory=list)
    """As the client sees them, without embedding the query."""
    embedding: list[float] = field(default_factory=list)


async def run(port: int, user: str, clients: int, some: Sequence[str]) -> dict[str, float]:
    latencies = Latencies()
    await asyncio.gather(
        *(_client(port, user, some[number::clients], latencies) for number in range(clients))
    )
    return {
        f"{name}_{share}_ms": sorted(values)[int(len(values) * share / 100)]
        for name, values in vars(latencies).items()
        for share in (50, 95)
    }


async def _client(port: int, user: str, some: Sequence[str], latencies: Latencies) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for query in some:
        body = json.dumps({"user_id": user, "query": query, "mode": "hybrid", "top_k": 10}).encode()
        started = time.perf_counter()
        answer = json.loads(await exchange(reader, writer, port, PATH, body, 200))
        outside = (time.perf_counter() - started) * 1000
        if answer["degraded"] or len(answer["hits"]) != 10:
            raise RuntimeError(f"{query!r}: {len(answer['hits'])} hits, degraded: {answer['degraded']}")
        timing = answer["timing"]
        latencies.inside.append(timing["total_ms"] - timing["embed_ms"])
        latencies.outside.append(outside - timing["embed_ms"])
        latencies.embedding.append(timing["embed_ms"])
    writer.close()
    await writer.wait_closed()


if __name__ == "__main__":
    port, user, clients, requests, seed = sys.argv[1:]
    figures = asyncio.run(run(int(port), user, int(clients), texts.queries(int(requests), int(seed))))
    sys.stdout.write(json.dumps(figures))
