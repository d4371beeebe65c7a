"""Adds, chats and searches on SQLite and on PostgreSQL, measured by turns: requests a second, and p95.

One server on each database, side by side, with a stand-in for the chat model and for the embedder. Adds stand beside
bare SQL: the same rows, written by the database's own driver. The PostgreSQL is one of its own: Debian's (package
postgresql), in a temporary folder, by an ordinary user, with its own defaults.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import servers
import texts
from bare_sql import Bare, bare_postgres, bare_sqlite
from driving import Server
from load import Figures
from reporting import Row, paired_row, show

from tests import buckets
from tests.postgres import NEEDED, PROGRAMS, Cluster, free_port

CLIENTS = (1, 16)
EACH_ADDS, EACH_CHATS, EACH_SEARCHES = 40, 2, 5
"""Requests of a client in a round; one client alone sends four times as many."""
MESSAGES = 1_000
"""Of the user who searches and chats."""
AT_LEAST = 0.5
"""Of bare SQL with a durable commit for each add."""
EACH, GROUPED = "bare, a commit each", "bare, one commit for all clients"
_USER = "ann"
_SEED = 7


@dataclass
class Side:
    """A deployment on one database, and bare SQL on the same one."""

    name: str
    ports: list[int]
    bare: Bare

    def __post_init__(self) -> None:
        self.server = Server(self.ports[0])

    def load(self, kind: str, **wanted: object) -> Figures:
        """And until nothing is left to do that would be measured with what comes next."""
        found = servers.load(kind, port=self.ports, **wanted)
        found.setdefault("p95_ms", found.get("outside_p95_ms", 0.0))
        self.server.wait_for_jobs()
        self.server.wait_until("embedded", None, self.server.coverage()["messages"])
        return found


@dataclass
class Part:
    """One kind of request by so many clients. Each run gets the number of its round."""

    what: str
    clients: int
    each: int
    runs: dict[str, Callable[[int], Figures]]

    @property
    def requests(self) -> int:
        return self.clients * self.each if self.clients > 1 else 4 * self.each

    @property
    def title(self) -> str:
        return f"{self.what}, {self.clients} client{'s' if self.clients > 1 else ''}"

    def by_turns(self, seconds: float) -> dict[str, list[Figures]]:
        """Rounds for about so long, one at least, after one that warms all up."""
        found: dict[str, list[Figures]] = {name: [] for name in self.runs}
        until, took, number = time.monotonic() + seconds, 0.0, -1
        while number < 1 or time.monotonic() + took < until:
            begun = time.monotonic()
            print(f"{self.title}: {f'round {number + 1}' if number >= 0 else 'warming up'}", file=sys.stderr)
            for name, run in self.runs.items():
                figures = run(number)
                if number >= 0:
                    found[name].append(figures)
            took, number = time.monotonic() - begun, number + 1
        return found


def measure(folder: Path, members: int, seconds: float) -> list[Row]:
    with _sides(folder, members) as sides:
        for side in sides:
            side.server.fill(_USER, texts.texts(MESSAGES, _SEED))
        share = seconds / len(CLIENTS) / 3
        rows = [row for clients in CLIENTS for row in _adds(sides, clients, share)]
        for what, each, load in (("chats", EACH_CHATS, _chat), ("searches", EACH_SEARCHES, _search)):
            for clients in CLIENTS:
                rows += _on_both(sides, Part(what, clients, each, {}), load, share)
        return rows


@contextmanager
def _sides(folder: Path, members: int) -> Iterator[list[Side]]:
    with ExitStack() as stack:
        cluster = Cluster("max_connections=200")
        stack.callback(cluster.remove)
        embedding = stack.enter_context(servers.standin_embedder())
        model = stack.enter_context(servers.small_server("model"))

        def started(name: str, at: int = 0, **more: str) -> int:
            settings = {**embedding, "RECOLLECT_LLM__BASE_URL": model, **more}
            port, _pid, _ready = stack.enter_context(servers.recollect(folder / name, settings, at))
            return port

        on_sqlite = Side("SQLite", [started("sqlite")], bare_sqlite(folder / "bare.db"))
        shared = {"RECOLLECT_DATABASE_URL": cluster.url("journal")}
        name, ports = "PostgreSQL", [free_port() for _ in range(members)]
        if members > 1:
            stack.callback(buckets.stop)
            name, shared["RECOLLECT_FILES_URL"] = f"{members} on PostgreSQL", buckets.new_url()
        for port in ports:
            own = {"RECOLLECT_MEMBER_URL": f"http://127.0.0.1:{port}"} if members > 1 else {}
            started(f"postgres-{port}", port, **shared, **own)
        yield [on_sqlite, Side(name, ports, bare_postgres(cluster.url("bare")))]


def _adds(sides: Sequence[Side], clients: int, seconds: float) -> Iterator[Row]:
    part = Part("adds", clients, EACH_ADDS, {})
    baselines = (EACH, GROUPED) if clients > 1 else (EACH,)
    for side in sides:
        for how in baselines:
            part.runs[f"{side.name} / {how}"] = _bare(side, part, grouped=how == GROUPED)
        part.runs[side.name] = _add(side, part)
    found = part.by_turns(seconds)
    for side in sides:
        for how in baselines:
            name = f"{side.name} / {how}"
            at_least = AT_LEAST if how == EACH else None
            yield from _rows(f"{part.title}: {name}", found[side.name], found[name], at_least)


def _bare(side: Side, part: Part, *, grouped: bool) -> Callable[[int], Figures]:
    return lambda number: side.bare.adds(part.clients, part.requests, grouped=grouped)


def _add(side: Side, part: Part) -> Callable[[int], Figures]:
    wanted = {"path": "/api/v1/memory/add", "clients": part.clients, "requests": part.requests}
    return lambda number: side.load("add", thread=f"{part.clients}-{number}", **wanted)


def _chat(side: Side, part: Part) -> Callable[[int], Figures]:
    wanted = {
        "door": "native",
        "user": _USER,
        "memory": True,
        "clients": part.clients,
        "requests": part.requests,
    }
    return lambda number: side.load("chat", name=f"{part.clients}-{number}", **wanted)


def _search(side: Side, part: Part) -> Callable[[int], Figures]:
    wanted = {"user": _USER, "clients": part.clients, "requests": part.requests}
    return lambda number: side.load("search", seed=100 * part.clients + number + 1, **wanted)


def _on_both(
    sides: Sequence[Side],
    part: Part,
    load: Callable[[Side, Part], Callable[[int], Figures]],
    seconds: float,
) -> Iterator[Row]:
    part.runs |= {side.name: load(side, part) for side in sides}
    found = part.by_turns(seconds)
    baseline, other = (side.name for side in sides)
    yield from _rows(f"{part.title}: {other} / {baseline}", found[other], found[baseline])


def _rows(
    title: str, ours: Sequence[Figures], theirs: Sequence[Figures], at_least: float | None = None
) -> Iterator[Row]:
    for name, key, wanted in (("a second", "requests_per_second", at_least), ("p95 ms", "p95_ms", None)):
        yield paired_row(
            f"{title}: {name}", [run[key] for run in ours], [run[key] for run in theirs], at_least=wanted
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Example: python scripts/bench/databases.py --seconds 60",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=100,
        help="about how long it measures (100), besides half a minute to start; a round of each at least",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument(
        "--members",
        type=int,
        default=1,
        metavar="N",
        help="as many servers on the PostgreSQL, files in a stand-in for S3; each connection goes to the next one",
    )
    arguments = parser.parse_args()
    if PROGRAMS is None:
        parser.error(NEEDED)
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as name:
        rows = measure(Path(name), arguments.members, arguments.seconds)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        show(rows)
        print(f"load average: {before:.1f} before, {os.getloadavg()[0]:.1f} after")
    return 0 if all(each["holds"] is not False for each in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
