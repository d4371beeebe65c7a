"""Search beside LanceDB's own calls on the same rows, by turns; and what the index takes: memory and disk."""

import time
from collections.abc import Callable
from pathlib import Path

import servers
import texts
from driving import Server
from reporting import Row, paired_row, progress, row

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
MEGABYTES = 600
FILES = 300
TIMES_TEXT_AND_VECTORS = 5
SMALL_WRITE = 20
_SEED = 7


def measure_search(folder: Path, sizes: tuple[int, ...], rounds: int) -> list[Row]:
    """One owner of each size in one server; the larger one's rows must not slow down the smaller one's search."""
    rows = []
    with (
        servers.standin_embedder() as embedding,
        servers.recollect(folder / "search", embedding) as (port, _pid, _ready),
    ):
        for size in sizes:
            Server(port).fill(f"u{size}", texts.texts(size, _SEED))
        for size in sizes:
            rows += _after_changes(Server(port), folder / "search", f"u{size}", size, min(rounds, CHANGES))
            with servers.raw_lance(folder / f"raw-{size}", size, _SEED) as raw:
                for clients in CLIENTS:
                    rows += _compare(port, raw, size, clients, rounds)
    return rows


def _compare(port: int, raw: servers.Ask, size: int, clients: int, rounds: int) -> list[Row]:
    requests = max(min(MOST_ROWS_READ // size, MOST_REQUESTS), FEWEST_REQUESTS, clients * 4)
    ours, theirs = [], []
    for number in range(-1, rounds):
        wanted = {"clients": clients, "requests": requests, "seed": 1000 + number}
        baseline = raw(wanted)
        mine = servers.load("search", port=port, user=f"u{size}", **wanted)
        if number >= 0:  # The round before the first warms both up.
            theirs.append(baseline)
            ours.append(mine)
    name = f"search, {size:,} messages, {clients} client{'s' if clients > 1 else ''}"
    return [
        paired_row(
            f"{name}: p{share} ms{how}",
            [figures[f"{place}_p{share}_ms"] for figures in ours],
            [figures[f"p{share}_ms"] for figures in theirs],
            at_most=limit,
        )
        for share in (50, 95)
        for place, how, limit in (("inside", "", AT_MOST), ("outside", ", with HTTP", None))
    ]


def _after_changes(server: Server, home: Path, user: str, size: int, rounds: int) -> list[Row]:
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
        rows.append(paired_row(name, after, plain, at_most=AT_MOST_AFTER_A_CHANGE))
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


def measure_memory(folder: Path, messages: int) -> list[Row]:
    """With the real model: all indexed, all embedded, and searched."""
    with servers.recollect(folder / "resident", servers.real_embedder()) as (port, pid, _ready):
        empty = servers.resident_megabytes(pid)
        server = Server(port)
        server.fill("ann", texts.texts(messages, _SEED))
        for query in texts.queries(100, _SEED):
            found = server.search("ann", query)
            if found["degraded"]:
                raise RuntimeError(f"not the whole search was measured: {found['degraded']}")
        full, most = servers.resident_megabytes(pid), servers.most_resident_megabytes(pid)
    name = f"resident MB with {messages:,} messages embedded and searched"
    return [
        row(f"{name} / empty", full, empty, f"under {MEGABYTES} MB", full < MEGABYTES),
        row(f"{name}, at its most / empty", most, empty),
    ]


def measure_soak(folder: Path, messages: int) -> list[Row]:
    """One owner, each small write in the index before the next is sent: the index can't take many as one."""
    some = texts.texts(messages, _SEED)
    home = folder / "soak"
    sizes = []
    with (
        servers.standin_embedder() as embedding,
        servers.recollect(home, embedding) as (port, _pid, _ready),
    ):
        server = Server(port)
        for first in range(0, messages, SMALL_WRITE):
            written = some[first : first + SMALL_WRITE]
            server.add("ann", written, first)
            server.wait_until("indexed", "ann", first + len(written))
            sizes.append(servers.files_and_bytes(home / "index"))
            progress("soaking", first, messages)
        server.wait_until("embedded", "ann", messages)
        sizes.append(servers.files_and_bytes(home / "index"))
    if not sizes[-1][0]:
        raise RuntimeError(f"there is no index at {home / 'index'}")
    payload = (sum(len(text.encode()) for text in some) + messages * texts.DIMENSIONS * 4) / 1e6
    most_files = max(files for files, _ in sizes)
    most_bytes, end_bytes = max(size for _, size in sizes) / 1e6, sizes[-1][1] / 1e6
    name = f"index after {messages:,} messages in writes of {SMALL_WRITE}"
    wanted = f"under {TIMES_TEXT_AND_VECTORS}"
    return [
        row(
            f"{name}: files, at most / at the end",
            most_files,
            sizes[-1][0],
            f"under {FILES} files",
            most_files < FILES,
        ),
        *(
            row(
                f"{name}: MB {when} / text and vectors",
                size,
                payload,
                wanted,
                size < TIMES_TEXT_AND_VECTORS * payload,
            )
            for when, size in (("at the end", end_bytes), ("at most", most_bytes))
        ),
    ]
