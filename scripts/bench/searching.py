"""Hybrid search beside LanceDB's own calls on the same rows, by turns."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import servers
import texts
from driving import Server, fill
from reporting import paired_row

LOAD = Path(__file__).resolve().parent / "search_load.py"
AT_MOST = 2.0
CLIENTS = (1, 16)
MOST_ROWS_READ = 1_000_000
FEWEST_REQUESTS, MOST_REQUESTS = 40, 200
"""A round has fewer requests where each takes long, so that rounds of both sides stay close together."""
_SEED = 7


def measure_search(folder: Path, sizes: tuple[int, ...], rounds: int) -> list[dict[str, Any]]:
    """One owner of each size in one server; the larger one's rows must not slow down the smaller one's search."""
    rows = []
    with (
        servers.standin_embedder() as embedding,
        servers.recollect(folder / "search", embedding) as (port, _pid, _ready),
    ):
        for size in sizes:
            fill(Server(port), f"u{size}", texts.texts(size, _SEED))
        for size in sizes:
            with servers.raw_lance(folder / f"raw-{size}", size, _SEED) as raw:
                for clients in CLIENTS:
                    rows += _compare(port, raw, size, clients, rounds)
    return rows


def _compare(port: int, raw: servers.Ask, size: int, clients: int, rounds: int) -> list[dict[str, Any]]:
    requests = max(min(MOST_ROWS_READ // size, MOST_REQUESTS), FEWEST_REQUESTS, clients * 4)
    ours, theirs = [], []
    for number in range(-1, rounds):
        wanted = {"clients": clients, "requests": requests, "seed": 1000 + number}
        baseline = raw(wanted)
        mine = load(port, f"u{size}", wanted)
        if number >= 0:  # The round before the first warms both up.
            theirs.append(baseline)
            ours.append(mine)
    name = f"search, {size:,} messages, {clients} client{'s' if clients > 1 else ''}"
    return [
        paired_row(
            f"{name}: p{share} ms{how}",
            [figures[f"{place}_{share}_ms"] for figures in ours],
            [figures[f"p{share}_ms"] for figures in theirs],
            limit,
        )
        for share in (50, 95)
        for place, how, limit in (("inside", "", AT_MOST), ("outside", ", with HTTP", None))
    ]


def load(port: int, user: str, wanted: dict[str, int]) -> dict[str, float]:
    """One run of the load generator, in a process of its own."""
    numbers = [str(wanted[name]) for name in ("clients", "requests", "seed")]
    command = [sys.executable, str(LOAD), str(port), user, *numbers]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures
