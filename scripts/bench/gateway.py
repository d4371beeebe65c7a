"""What the gateway itself costs: time to the first token through it, beside a proxy that does nothing else.

Conversations of ten exchanges: through the native door, where a client sends its new message, and through OpenAI's,
where it resends its history. Straight to the model's server and through the proxy it resends its history, too: that is
what the server gets in any case.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import servers
import texts
from driving import Server, fill
from reporting import progress, row

from tests.cache_chat import NO_BACKGROUND_WORK

LOAD = Path(__file__).resolve().parent / "chat_load.py"
DOORS = {"native": "native messages", "openai": "/v1/chat/completions"}
AT_MOST_TIMES_THE_PROXY = 2.0
AT_MOST_MS_WITH_MEMORY = 60.0
_SEED = 5


def measure_gateway(folder: Path, rounds: int, requests: int, messages: int) -> list[dict[str, Any]]:
    with servers.quick_backend() as backend, servers.quick_backend(f"http://127.0.0.1:{backend}") as proxy:
        settings = {
            **servers.real_embedder(),
            **NO_BACKGROUND_WORK,
            "RECOLLECT_LLM__BASE_URL": f"http://127.0.0.1:{backend}",
        }
        with servers.recollect(folder / "gateway", settings) as (port, _pid, _ready):
            server = Server(port)
            fill(server, "ann", texts.texts(messages, _SEED))
            return [
                *_without_memory(backend, proxy, server, rounds, requests),
                *(each for door in DOORS for each in _with_memory(port, door, rounds, requests)),
            ]


def _without_memory(
    backend: int, proxy: int, server: Server, rounds: int, requests: int
) -> list[dict[str, Any]]:
    """All in short turns, many times: a machine's pace drifts within seconds.

    What each adds is what it takes beyond the straight way in the same round. Nobody's work is left to the next: what
    follows a chat is waited for.
    """
    added: dict[str, list[float]] = {"proxy": [], **{door: [] for door in DOORS}}
    for number in range(-1, rounds):
        common = {"clients": 16, "requests": requests}
        straight = load(port=backend, door="openai", name=f"straight-{number}", **common)
        found = {"proxy": load(port=proxy, door="openai", name=f"proxy-{number}", **common)}
        for door in DOORS:
            found[door] = load(port=server.port, door=door, name=f"{door}-{number}", **common)
            server.wait_for_jobs()
        if number >= 0:  # The round before the first warms all up.
            for way, milliseconds in found.items():
                added[way].append(milliseconds - straight)
        progress("chats, memory off", number + 1, rounds)
    return [_beside_the_proxy(title, added[door], added["proxy"]) for door, title in DOORS.items()]


def _beside_the_proxy(title: str, ours: list[float], theirs: list[float]) -> dict[str, Any]:
    ratio = statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
    name = f"first token, 16 chats, {title}, memory off: p50 ms added / by a bare proxy (load {os.getloadavg()[0]:.1f})"
    return row(
        name, statistics.median(ours), statistics.median(theirs), ratio,
        f"at most {AT_MOST_TIMES_THE_PROXY:.1f}", ratio <= AT_MOST_TIMES_THE_PROXY,
    )  # fmt: skip


def _with_memory(port: int, door: str, rounds: int, requests: int) -> list[dict[str, Any]]:
    on, off = [], []
    for number in range(-1, rounds):
        common = {"clients": 1, "requests": max(20, requests // 8), "user": "ann"}
        without = load(port=port, door=door, name=f"{door}-without-{number}", memory=False, **common)
        remembered = load(port=port, door=door, name=f"{door}-with-{number}", memory=True, **common)
        if number >= 0:
            on.append(remembered)
            off.append(without)
        progress(f"one chat, {DOORS[door]}", number + 1, rounds)
    more = statistics.median(mine - other for mine, other in zip(on, off, strict=True))
    title = f"first token, 1 chat, {DOORS[door]}, p50 ms"
    return [
        row(
            f"{title}: memory on / off",
            statistics.median(on), statistics.median(off), statistics.median(on) / statistics.median(off), "", None,
        ),
        row(
            f"{title}: added by memory / allowed",
            more, AT_MOST_MS_WITH_MEMORY, more / AT_MOST_MS_WITH_MEMORY, "at most 1.0", more <= AT_MOST_MS_WITH_MEMORY,
        ),
    ]  # fmt: skip


def load(**wanted: object) -> float:
    """The median time to the first piece, of one run of the load generator in a process of its own."""
    command = [sys.executable, str(LOAD), json.dumps(wanted)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures["p50_ms"]
