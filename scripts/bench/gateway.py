"""What the gateway itself costs: time to the first token through it, beside a proxy that does nothing else."""

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import servers
import texts
from driving import Server, fill
from reporting import progress, row

LOAD = Path(__file__).resolve().parent / "chat_load.py"
COMPLETIONS, MESSAGES = "/v1/chat/completions", "/api/v1/threads/{}/messages"
AT_MOST_TIMES_THE_PROXY = 2.0
AT_MOST_MS_WITH_MEMORY = 60.0
_SEED = 5


def measure_gateway(folder: Path, rounds: int, requests: int, messages: int) -> list[dict[str, Any]]:
    with servers.quick_backend() as backend, servers.quick_backend(f"http://127.0.0.1:{backend}") as proxy:
        settings = {**servers.real_embedder(), "RECOLLECT_LLM__BASE_URL": f"http://127.0.0.1:{backend}"}
        with servers.recollect(folder / "gateway", settings) as (port, _pid, _ready):
            fill(Server(port), "ann", texts.texts(messages, _SEED))
            return [
                _without_memory(backend, proxy, port, rounds, requests),
                *_with_memory(backend, port, rounds, requests),
            ]


def _without_memory(backend: int, proxy: int, port: int, rounds: int, requests: int) -> dict[str, Any]:
    ours, theirs = [], []
    for number in range(-1, rounds):
        straight = load(backend, COMPLETIONS, 16, requests, number)
        passed_on = load(proxy, COMPLETIONS, 16, requests, number)
        mine = load(port, MESSAGES, 16, requests, number, user_id="bob", memory=False)
        if number >= 0:  # The round before the first warms all up.
            ours.append(mine - straight)
            theirs.append(passed_on - straight)
        progress("chats, memory off", number + 1, rounds)
    ratio = statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
    return row(
        "first token, 16 chats, memory off: p50 ms added / by a bare proxy",
        statistics.median(ours), statistics.median(theirs), ratio,
        f"at most {AT_MOST_TIMES_THE_PROXY:.1f}", ratio <= AT_MOST_TIMES_THE_PROXY,
    )  # fmt: skip


def _with_memory(backend: int, port: int, rounds: int, requests: int) -> list[dict[str, Any]]:
    on, off = [], []
    for number in range(-1, rounds):
        without = load(port, MESSAGES, 1, max(20, requests // 8), number, user_id="ann", memory=False)
        remembered = load(port, MESSAGES, 1, max(20, requests // 8), number, user_id="ann", memory=True)
        if number >= 0:
            on.append(remembered)
            off.append(without)
        progress("chats, memory on", number + 1, rounds)
    more = statistics.median(mine - other for mine, other in zip(on, off, strict=True))
    return [
        row(
            "first token, 1 chat, p50 ms: memory on / off",
            statistics.median(on), statistics.median(off), statistics.median(on) / statistics.median(off), "", None,
        ),
        row(
            "first token, 1 chat, p50 ms: added by memory / allowed",
            more, AT_MOST_MS_WITH_MEMORY, more / AT_MOST_MS_WITH_MEMORY, "at most 1.0", more <= AT_MOST_MS_WITH_MEMORY,
        ),
    ]  # fmt: skip


def load(port: int, path: str, clients: int, requests: int, number: int, **fields: object) -> float:
    """The median time to the first piece, of one run of the load generator in a process of its own."""
    name = f"{'on' if fields.get('memory') else 'off'}-{number}-{clients}"
    command = [
        sys.executable,
        str(LOAD),
        str(port),
        path,
        str(clients),
        str(requests),
        name,
        json.dumps(fields),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures["p50_ms"]
