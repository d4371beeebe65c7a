"""What doors cost. A foreign protocol's beside the route that does the same: both are asked in turns, request by request.
And the gateway: time to the first token through it, beside a proxy that does nothing else.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import servers
import texts
from driving import Server
from reporting import Row, paired_row, progress, row

from tests.cache_chat import NO_BACKGROUND_WORK

CHAT_DOORS = {"native": "native messages", "openai": "/v1/chat/completions"}
AT_MOST_TIMES_THE_PROXY = 2.0
AT_MOST_MS_WITH_MEMORY = 60.0
AT_MOST_MS_ADDED = 2.0
REQUESTS = 5
"""Pairs in a round."""
USER = "ann"
_SEED = 11
_MEMORIES = 50


@dataclass(frozen=True)
class Request:
    """A POST."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)

    def seconds(self, server: Server) -> float:
        started = time.perf_counter()
        server.call("POST", self.path, self.body, {"X-Recollect-User": USER, **self.headers})
        return time.perf_counter() - started


Asked = Callable[[str], Request]
"""A request with this text in it."""


def _search(text: str) -> Request:
    return Request("/api/v1/memory/search", {"user_id": USER, "query": text, "top_k": 10})


def _mcp(version: str) -> Asked:
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version}
    about: dict[str, Any] = {}
    if version >= "2026":
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "search_memory"}
        client = {"name": "bench", "version": "1"}
        told = {"protocolVersion": version, "clientInfo": client, "clientCapabilities": {}}
        about = {"_meta": {f"io.modelcontextprotocol/{name}": value for name, value in told.items()}}

    def asked(text: str) -> Request:
        call = {"name": "search_memory", "arguments": {"query": text, "limit": 10}, **about}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        return Request("/mcp", body, headers)

    return asked


def _search_memories(text: str) -> Request:
    types = ["fact", "foresight", "episode"]
    return Request(
        "/api/v1/memory/search", {"user_id": USER, "query": text, "types": types, "passages": False}
    )


def _mem0(text: str) -> Request:
    body = {"query": text, "filters": {"user_id": USER}, "threshold": 0, "top_k": 10}
    return Request("/v3/memories/search/", body)


def _everos(text: str) -> Request:
    return Request("/api/v2/memory/search", {"query": text, "user_id": USER, "top_k": 10})


def _supermemory(text: str) -> Request:
    return Request("/v4/search", {"q": text, "containerTag": USER, "threshold": 0})


_NO_MEMORY = {"X-Recollect-Memory": "off"}


def _completion(text: str) -> Request:
    body = {"model": "quick", "messages": [{"role": "user", "content": text}]}
    return Request("/v1/chat/completions", body, _NO_MEMORY)


def _response(text: str) -> Request:
    return Request("/v1/responses", {"model": "quick", "input": text}, _NO_MEMORY)


def _message(text: str) -> Request:
    body = {"model": "quick", "max_tokens": 100, "messages": [{"role": "user", "content": text}]}
    return Request("/v1/messages", body, _NO_MEMORY)


PAIRS: dict[str, tuple[Asked, Asked]] = {
    "search by MCP 2026-07-28 / memory/search": (_mcp("2026-07-28"), _search),
    "search by MCP 2025-11-25 / memory/search": (_mcp("2025-11-25"), _search),
    "search by mem0 / memory/search": (_mem0, _search_memories),
    "search by EverOS / memory/search": (_everos, _search_memories),
    "search by supermemory / memory/search": (_supermemory, _search_memories),
    "a chat by /v1/responses / /v1/chat/completions": (_response, _completion),
    "a chat by /v1/messages / /v1/chat/completions": (_message, _completion),
}
"""Each door beside the route that does the same. Chats come last: what follows them in the background would be measured
with what comes after. Add a door here."""


def measure_doors(folder: Path, messages: int, rounds: int) -> list[Row]:
    # Embedding a query is the same work by every door, and would hide what they add.
    with (
        servers.small_server("model") as model,
        _chatting(folder / "doors", model, {"RECOLLECT_EMBEDDING__KIND": "none"}) as (server, pid),
    ):
        server.add(USER, texts.texts(messages, _SEED), 0)
        for text in texts.texts(_MEMORIES, _SEED + 2):
            server.call("POST", "/api/v1/memory/entries", {"user_id": USER, "text": text[:200]})
        server.wait_until("indexed", USER, messages)
        return [_compared(server, pid, name, *pair, rounds) for name, pair in PAIRS.items()]


@contextmanager
def _chatting(folder: Path, model: str, embedding: Mapping[str, str]) -> Iterator[tuple[Server, int]]:
    settings = {**embedding, **NO_BACKGROUND_WORK, "RECOLLECT_LLM__BASE_URL": model}
    with servers.recollect(folder, settings) as (port, pid, _ready):
        yield Server(port), pid


def _compared(server: Server, pid: int, name: str, door: Asked, native: Asked, rounds: int) -> Row:
    """Request by request, each first in every other pair, so that other work on the machine hits both alike: what a
    door adds is the median of the differences within pairs. No text is sent twice: nothing is known from the other's
    request. On a busy machine the server's CPU time tells more than the time that passed.
    """
    pairs = rounds * REQUESTS
    words = iter(texts.texts(2 * (pairs + REQUESTS), _SEED + 1))
    took: dict[Asked, list[float]] = {door: [], native: []}
    worked = dict.fromkeys(took, 0.0)
    for number in range(-REQUESTS, pairs):
        for asked in (door, native) if number % 2 else (native, door):
            request = asked(f"{next(words)[:100]} {number}")
            before = servers.precise_cpu_seconds(pid)
            seconds = request.seconds(server)
            if number >= 0:  # The pairs before the first warm both up.
                took[asked].append(seconds * 1000)
                worked[asked] += (servers.precise_cpu_seconds(pid) - before) * 1000 / pairs
        progress(name, number + 1, pairs)
    ours, theirs = (statistics.median(took[asked]) for asked in (door, native))
    added = statistics.median(one - other for one, other in zip(took[door], took[native], strict=True))
    cpu, load = worked[door] - worked[native], os.getloadavg()[0]
    title = f"{name}: p50 ms ({added:+.2f}; CPU {cpu:+.2f}; load {load:.1f})"
    wanted = f"at most {AT_MOST_MS_ADDED:.0f} ms more"
    return row(title, ours, theirs, wanted, added <= AT_MOST_MS_ADDED)


def measure_gateway(folder: Path, rounds: int, requests: int, messages: int) -> list[Row]:
    """Conversations of ten exchanges. Through OpenAI's door, the proxy and straight to the model's server a client resends
    its history: that is what the server gets in any case.
    """
    with (
        servers.small_server("model") as model,
        servers.small_server("proxy", model) as proxy,
        _chatting(folder / "gateway", model, servers.real_embedder()) as (server, _pid),
    ):
        server.fill(USER, texts.texts(messages, _SEED))
        return [
            *_without_memory(model, proxy, server, rounds, requests),
            *(each for door in CHAT_DOORS for each in _with_memory(server, door, rounds, requests)),
        ]


def _without_memory(model: str, proxy: str, server: Server, rounds: int, requests: int) -> list[Row]:
    """All in short turns, many times: a machine's pace drifts within seconds.

    What each adds is what it takes beyond the straight way in the same round. Nobody's work is left to the next: what
    follows a chat is waited for.
    """

    def first_piece(port: int, door: str, name: str) -> float:
        return servers.load("chat", port=port, door=door, name=name, clients=16, requests=requests)["p50_ms"]

    straight_port, proxy_port = (int(address.rpartition(":")[2]) for address in (model, proxy))
    added: dict[str, list[float]] = {"proxy": [], **{door: [] for door in CHAT_DOORS}}
    for number in range(-1, rounds):
        straight = first_piece(straight_port, "openai", f"straight-{number}")
        found = {"proxy": first_piece(proxy_port, "openai", f"proxy-{number}")}
        for door in CHAT_DOORS:
            found[door] = first_piece(server.port, door, f"{door}-{number}")
            server.wait_for_jobs()
        if number >= 0:  # The round before the first warms all up.
            for way, milliseconds in found.items():
                added[way].append(milliseconds - straight)
        progress("chats, memory off", number + 1, rounds)
    load = os.getloadavg()[0]
    return [
        paired_row(
            f"first token, 16 chats, {title}, memory off: p50 ms added / by a bare proxy (load {load:.1f})",
            added[door],
            added["proxy"],
            at_most=AT_MOST_TIMES_THE_PROXY,
        )
        for door, title in CHAT_DOORS.items()
    ]


def _with_memory(server: Server, door: str, rounds: int, requests: int) -> list[Row]:
    took: dict[bool, list[float]] = {False: [], True: []}
    for number in range(-1, rounds):
        for memory, milliseconds in took.items():
            name = f"{door}-{'with' if memory else 'without'}-{number}"
            wanted = {"door": door, "name": name, "user": USER, "memory": memory, "clients": 1}
            found = servers.load("chat", port=server.port, requests=max(20, requests // 8), **wanted)
            if number >= 0:
                milliseconds.append(found["p50_ms"])
        progress(f"one chat, {CHAT_DOORS[door]}", number + 1, rounds)
    off, on = took.values()
    more = statistics.median(mine - other for mine, other in zip(on, off, strict=True))
    title = f"first token, 1 chat, {CHAT_DOORS[door]}, p50 ms"
    is_held = more <= AT_MOST_MS_WITH_MEMORY
    return [
        row(f"{title}: memory on / off", statistics.median(on), statistics.median(off)),
        row(f"{title}: added by memory / allowed", more, AT_MOST_MS_WITH_MEMORY, "at most 1.0", is_held),
    ]
