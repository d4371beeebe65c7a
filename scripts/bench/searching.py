"""Hybrid search beside LanceDB's own calls on the same rows, by turns."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
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
AT_MOST_AFTER_A_CHANGE = 5.0
WATCHED_SECONDS = 2.5
"""A change by hand is seen within two seconds."""
CHANGES = 3
"""Of each kind."""
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
            rows += _after_changes(Server(port), folder / "search", f"u{size}", size, min(rounds, CHANGES))
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


def _after_changes(server: Server, home: Path, user: str, size: int, rounds: int) -> list[dict[str, Any]]:
    """The slowest search while a change of one text arrives, beside the slowest of as long a time without one."""

    def edit(number: int) -> None:
        body = {"user_id": user, "tags": [f"round-{number}"]}
        server.call("PATCH", f"/api/v1/threads/{user}-0", body)

    def write_note(number: int) -> None:
        notes = home / "vault" / "default" / "users" / user / "notes"
        notes.mkdir(parents=True, exist_ok=True)
        (notes / "n.md").write_text(f"round {number}\n")

    def delete(number: int) -> None:
        message = {"sender_id": user, "role": "user", "timestamp": number, "content": "soon gone"}
        thread = {"session_id": f"gone-{number}", "user_id": user}
        server.call("POST", "/api/v1/memory/add", {**thread, "messages": [message]})
        server.wait_until("embedded", user, size + 1)
        server.call("DELETE", f"/api/v1/threads/gone-{number}?user_id={user}")

    changes = {"edited thread": edit, "note": write_note, "deleted thread": delete}
    rows = []
    for what, change in changes.items():
        plain, after = [], []
        for number in range(rounds):
            plain.append(_slowest_search(server, user, lambda: None))
            after.append(_slowest_search(server, user, lambda: change(number)))  # noqa: B023 - called at once
        name = f"search, {size:,} messages, after one {what}: slowest ms"
        rows.append(paired_row(name, after, plain, AT_MOST_AFTER_A_CHANGE))
    return rows


def _slowest_search(server: Server, user: str, change: Callable[[], None]) -> float:
    change()
    slowest, until = 0.0, time.monotonic() + WATCHED_SECONDS
    for query in texts.queries(1_000, _SEED):
        timing = server.search(user, query)["timing"]
        slowest = max(slowest, timing["total_ms"] - timing["embed_ms"])
        if time.monotonic() > until:
            break
    return slowest


def load(port: int, user: str, wanted: dict[str, int]) -> dict[str, float]:
    """One run of the load generator, in a process of its own."""
    numbers = [str(wanted[name]) for name in ("clients", "requests", "seed")]
    command = [sys.executable, str(LOAD), str(port), user, *numbers]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures
