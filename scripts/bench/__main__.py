"""`make bench`: what Recollect costs, beside a baseline in the same run.

Absolute times on a shared machine mean little: every figure stands beside what it is compared with, and the
two are measured in turns.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import servers
from doors import measure_doors, measure_gateway
from driving import Server
from memory_cost import measure_memory_cost
from remembering import measure_remembering
from reporting import Row, paired_row, progress, row, show
from searching import measure_memory, measure_search, measure_soak

ADD = "/api/v1/memory/add"


def add(
    port: int, clients: int, requests: int, thread: str, size: int = 1, path: str = ADD
) -> dict[str, float]:
    wanted = {"clients": clients, "requests": requests, "thread": thread, "size": size}
    return servers.load("add", port=port, path=path, **wanted)


def measure_add(folder: Path, rounds: int, requests: int) -> list[Row]:
    rows = []
    with (
        servers.small_server("add", str(folder / "bare.db")) as bare,
        servers.recollect(folder / "add") as (port, _pid, _ready),
    ):
        bare_port = int(bare.rpartition(":")[2])
        add(bare_port, 4, 400, "warm-up", path="/add")
        add(port, 4, 400, "warm-up")
        for clients in (1, 16):
            ours, theirs = [], []
            for number in range(rounds):
                theirs.append(add(bare_port, clients, requests, f"b{clients}-{number}", path="/add"))
                ours.append(add(port, clients, requests, f"o{clients}-{number}"))
            rows += compare(
                f"memory/add, {clients} client{'s' if clients > 1 else ''}", ours, theirs, clients
            )
    return rows


def compare(
    name: str, ours: list[dict[str, float]], theirs: list[dict[str, float]], clients: int
) -> list[Row]:
    def compared(title: str, key: str, **wanted: float | None) -> Row:
        return paired_row(
            f"{name}: {title}", [run[key] for run in ours], [run[key] for run in theirs], **wanted
        )

    return [
        compared("requests/s", "requests_per_second", at_least=0.6),
        compared("p50 ms", "p50_ms"),
        compared("p95 ms", "p95_ms", at_most=2.0 if clients == 16 else None),
    ]


def measure_lag(folder: Path, requests: int) -> list[Row]:
    """How many messages search lacks at most while many are added, and how long after the last one it has all of them;
    with the limits that ship.
    """
    settings = {
        **servers.real_embedder(),
        "RECOLLECT_LIMITS__BACKLOG": "2000",
        "RECOLLECT_LIMITS__UNSEARCHED": "5000",
    }
    stages = ("indexed", "embedded")
    with servers.recollect(folder / "lag", settings) as (port, _pid, _ready):
        server = Server(port)

        def unsearched() -> dict[str, int]:
            covered = server.coverage()
            return {stage: covered["messages"] - covered[stage] for stage in stages}

        most = dict.fromkeys(stages, 0)
        with ThreadPoolExecutor(1) as adding:
            added = adding.submit(add, port, 16, requests, "lag")
            while not added.done():
                lacking = unsearched()
                most = {stage: max(most[stage], lacking[stage]) for stage in stages}
                time.sleep(1)
            added.result()
        ended = time.perf_counter()
        lags: dict[str, float] = {}
        while len(lags) < len(stages):
            for stage, number in unsearched().items():
                if number == 0:
                    lags.setdefault(stage, time.perf_counter() - ended)
            time.sleep(0.1)
    rows = []
    for what, found in (("most messages that search lacks while", most), ("s that search needs after", lags)):
        title = f"{what} 16 clients add {requests:,}: by words / by meaning"
        rows.append(row(title, found["indexed"], found["embedded"]))
    return rows


def measure_growth(folder: Path, messages: int, rounds: int) -> list[Row]:
    """The cost of one more message in a small home and in a large one, measured in turns."""
    rows = []
    for name, threads in (("one thread", 1), ("many threads", 50)):
        place = folder / name.replace(" ", "-")
        with servers.recollect(place / "small") as small, servers.recollect(place / "large") as large:
            fill(small[0], 1_000, threads, name)
            fill(large[0], messages, threads, name)
            costs = [(cost_per_message(*large[:2]), cost_per_message(*small[:2])) for _ in range(rounds)]
        late, early = zip(*costs, strict=True)
        title = f"CPU ms a message, {name}: at {messages:,} / at 1,000"
        rows.append(paired_row(title, late, early, at_most=1.2))
    return rows


def fill(port: int, messages: int, threads: int, name: str) -> None:
    """Add messages in batches: all to one thread, or to ever new ones, `threads` at a time."""
    add(port, 1, 10, "long", 100)
    done = step = 1_000
    while done < messages:
        step += 1
        add(port, threads, 50, "long" if threads == 1 else f"t{step}", 100)
        done += 5_000
        progress(f"growing, {name}", done, messages)
    Server(port).wait_for_jobs()


def cost_per_message(port: int, pid: int) -> float:
    """CPU milliseconds a message, memcells and transcripts included."""
    Server(port).wait_for_jobs()
    before = servers.cpu_seconds(pid)
    add(port, 1, 400, "long")
    Server(port).wait_for_jobs()
    return (servers.cpu_seconds(pid) - before) * 1000 / 400


def measure_start_and_memory(folder: Path) -> list[Row]:
    home = folder / "memory"
    with servers.recollect(home) as (port, pid, first):
        empty = servers.resident_megabytes(pid)
        add(port, 4, 100, "memory", 100)
        Server(port).wait_for_jobs()
        full = servers.resident_megabytes(pid)
    with servers.recollect(home) as (_port, _pid, again):
        starts = max(again, first)
    return [
        row("resident MB after 10,000 messages / empty", full, empty, "under 600 MB", full < 600),
        row("start to ready, s: with 10,000 messages / first", again, first, "under 3 s", starts < 3),
    ]


MEASURES: dict[str, Callable[[Path, bool], list[Row]]] = {
    "start": lambda folder, quick: measure_start_and_memory(folder),
    "add": lambda folder, quick: measure_add(folder, 3 if quick else 7, 1000 if quick else 3000),
    "lag": lambda folder, quick: measure_lag(folder, 2_000 if quick else 20_000),
    "growth": lambda folder, quick: measure_growth(folder, 10_000 if quick else 100_000, 5 if quick else 11),
    "search": lambda folder, quick: measure_search(
        folder, (1_000, 10_000) if quick else (10_000, 100_000), 3 if quick else 7
    ),
    "memory": lambda folder, quick: measure_memory(folder, 1_000 if quick else 10_000),
    "soak": lambda folder, quick: measure_soak(folder, 2_000 if quick else 20_000),
    "gateway": lambda folder, quick: measure_gateway(
        folder, 5 if quick else 15, 160, 1_000 if quick else 10_000
    ),
    "doors": lambda folder, quick: measure_doors(folder, 1_000, 20 if quick else 100),
    "remembering": lambda folder, quick: measure_remembering(folder, 10_000 if quick else 50_000),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="Example: make bench, or python scripts/bench --quick --only add"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, fewer rounds")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--only", choices=[*MEASURES, "cost"], help="measure only this")
    parser.add_argument(
        "--conversations",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="of which memories are made to count what they cost, as recall.py reads them; without it that is left out",
    )
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as name:
        folder = Path(name)
        for what, measure in MEASURES.items():
            if arguments.only in (None, what):
                rows += measure(folder, arguments.quick)
        if arguments.only in (None, "cost"):
            rows += measure_memory_cost(folder, arguments.conversations, 1 if arguments.quick else None)
    print(json.dumps(rows, indent=2)) if arguments.json else show(rows)
    return 0 if all(item["holds"] is not False for item in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
