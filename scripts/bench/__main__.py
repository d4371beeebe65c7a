"""`make bench`: what Recollect costs, beside a baseline in the same run.

Absolute times on a shared machine mean little: every figure stands beside what it is compared with, and the
two are measured in turns.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import servers
from caching import measure_caching
from doors import measure_doors
from footprint import measure_memory, measure_soak
from gateway import measure_gateway
from memory_cost import measure_memory_cost
from remembering import measure_remembering
from reporting import progress, row, show
from searching import measure_search

LOAD = Path(__file__).resolve().parent / "load.py"
ADD = "/api/v1/memory/add"


def load(port: int, path: str, clients: int, requests: int, thread: str, size: int = 1) -> dict[str, float]:
    """One run of the load generator, in a process of its own."""
    command = [sys.executable, str(LOAD), str(port), path, str(clients), str(requests), thread, str(size)]
    result: dict[str, float] = json.loads(
        subprocess.run(command, capture_output=True, check=True, text=True).stdout
    )
    return result


def measure_add(folder: Path, rounds: int, requests: int) -> list[dict[str, Any]]:
    rows = []
    with (
        servers.bare(folder / "bare.db") as bare_port,
        servers.recollect(folder / "add") as (port, _pid, _ready),
    ):
        for warm_up in ((bare_port, "/add"), (port, ADD)):
            load(*warm_up, 4, 400, "warm-up")
        for clients in (1, 16):
            ours, theirs = [], []
            for number in range(rounds):
                theirs.append(load(bare_port, "/add", clients, requests, f"b{clients}-{number}"))
                ours.append(load(port, ADD, clients, requests, f"o{clients}-{number}"))
            rows += compare(
                f"memory/add, {clients} client{'s' if clients > 1 else ''}", ours, theirs, clients
            )
    return rows


def measure_lag(folder: Path, requests: int) -> list[dict[str, Any]]:
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
        most = dict.fromkeys(stages, 0)
        with ThreadPoolExecutor(1) as adding:
            added = adding.submit(load, port, ADD, 16, requests, "lag")
            while not added.done():
                lacking = unsearched(port)
                most = {stage: max(most[stage], lacking[stage]) for stage in stages}
                time.sleep(1)
            added.result()
        ended = time.perf_counter()
        lags: dict[str, float] = {}
        while len(lags) < len(stages):
            for stage, number in unsearched(port).items():
                if number == 0:
                    lags.setdefault(stage, time.perf_counter() - ended)
            time.sleep(0.1)
    rows = []
    for what, found in (("most messages that search lacks while", most), ("s that search needs after", lags)):
        title = f"{what} 16 clients add {requests:,}: by words / by meaning"
        words, meaning = (found[stage] for stage in stages)
        rows.append(row(title, words, meaning, words / max(meaning, 1e-9), "", None))
    return rows


def unsearched(port: int) -> dict[str, int]:
    """Messages that are not found yet: by words (`indexed`), by meaning (`embedded`)."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/coverage") as answer:
        covered = json.load(answer)
    return {stage: covered["messages"] - covered[stage] for stage in ("indexed", "embedded")}


def compare(
    name: str, ours: list[dict[str, float]], theirs: list[dict[str, float]], clients: int
) -> list[dict[str, Any]]:
    """Ratios per round, in pairs that ran one after another; the median of them is what counts."""
    speed = statistics.median(
        mine["requests_per_second"] / bare["requests_per_second"]
        for mine, bare in zip(ours, theirs, strict=True)
    )
    tail = statistics.median(mine["p95_ms"] / bare["p95_ms"] for mine, bare in zip(ours, theirs, strict=True))
    middle = {
        key: (median_of(ours, key), median_of(theirs, key))
        for key in ("requests_per_second", "p50_ms", "p95_ms")
    }
    rows = [row(f"{name}: requests/s", *middle["requests_per_second"], speed, "at least 0.60", speed >= 0.6)]
    rows.append(
        row(f"{name}: p50 ms", *middle["p50_ms"], middle["p50_ms"][0] / middle["p50_ms"][1], "", None)
    )
    limit = clients == 16
    rows.append(
        row(
            f"{name}: p95 ms",
            *middle["p95_ms"],
            tail,
            "at most 2.0" if limit else "",
            tail <= 2 if limit else None,
        )
    )
    return rows


def median_of(runs: list[dict[str, float]], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def measure_growth(folder: Path, messages: int, rounds: int) -> list[dict[str, Any]]:
    """The cost of one more message in a small home and in a large one, measured in turns."""
    rows = []
    for name, threads in (("one thread", 1), ("many threads", 50)):
        place = folder / name.replace(" ", "-")
        with servers.recollect(place / "small") as small, servers.recollect(place / "large") as large:
            fill(small[0], 1_000, threads, name)
            fill(large[0], messages, threads, name)
            costs = [(cost_per_message(*large[:2]), cost_per_message(*small[:2])) for _ in range(rounds)]
        late, early = (statistics.median(cost[side] for cost in costs) for side in (0, 1))
        ratio = statistics.median(cost[0] / cost[1] for cost in costs)
        title = f"CPU ms a message, {name}: at {messages:,} / at 1,000"
        rows.append(row(title, late, early, ratio, "at most 1.20", ratio <= 1.2))
    return rows


def fill(port: int, messages: int, threads: int, name: str) -> None:
    """Add messages in batches: all to one thread, or to ever new ones, `threads` at a time."""
    load(port, ADD, 1, 10, "long", 100)
    done = step = 1_000
    while done < messages:
        step += 1
        load(port, ADD, threads, 50, "long" if threads == 1 else f"t{step}", 100)
        done += 5_000
        progress(f"growing, {name}", done, messages)
    wait_until_idle(port)


def cost_per_message(port: int, pid: int) -> float:
    """CPU milliseconds a message, memcells and transcripts included."""
    wait_until_idle(port)
    before = servers.cpu_seconds(pid)
    load(port, ADD, 1, 400, "long")
    wait_until_idle(port)
    return (servers.cpu_seconds(pid) - before) * 1000 / 400


def wait_until_idle(port: int) -> None:
    """Until no job is due: what waits for a pause may wait."""
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/jobs?limit=1000") as answer:
            jobs = json.load(answer)["jobs"]
        if all(job["state"] == "queued" and job["kind"] == "boundary" for job in jobs):
            return
        time.sleep(0.2)


def measure_start_and_memory(folder: Path) -> list[dict[str, Any]]:
    rows = []
    home = folder / "memory"
    with servers.recollect(home) as (port, pid, first):
        empty = servers.resident_megabytes(pid)
        load(port, ADD, 4, 100, "memory", 100)
        wait_until_idle(port)
        full = servers.resident_megabytes(pid)
        rows.append(
            row(
                "resident MB after 10,000 messages / empty",
                full,
                empty,
                full / empty,
                "under 600 MB",
                full < 600,
            )
        )
    with servers.recollect(home) as (_port, _pid, again):
        rows.append(
            row(
                "start to ready, s: with 10,000 messages / first",
                again,
                first,
                again / first,
                "under 3 s",
                max(again, first) < 3,
            )
        )
    return rows


MEASURES: dict[str, Callable[[Path, bool], list[dict[str, Any]]]] = {
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
    "caching": measure_caching,
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
    rows: list[dict[str, Any]] = []
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
