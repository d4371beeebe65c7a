"""What a message costs, measured; and, from that, what so many users need, reckoned. See docs/scale.md.

`python scripts/bench/scale.py cost` measures a real server with a stand-in model and writes its figures;
`python scripts/bench/scale.py simulate --users 1000000` reads them and adds what its options assume.
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path

from scale_cost import Cost, measure_cost

FIGURES = Path(__file__).with_name("data") / "scale.json"
_DAY = 86_400
_GB = 1e9


def assumed(default: float, meaning: str) -> float:
    value: float = field(default=default, metadata={"meaning": meaning})
    return value


@dataclass(frozen=True)
class Assumed:
    """What nobody measured: each is an option."""

    active: float = assumed(0.3, "share of the users who chat on a day")
    messages: float = assumed(20, "messages of such a user on that day, answers included")
    sessions: float = assumed(
        2, "times a day that such a user comes; rows no longer in memory are loaded then"
    )
    peak: float = assumed(3, "the busiest hour beside the mean one")
    years: float = assumed(3, "how long messages are kept")
    busy: float = assumed(0.6, "share of anything that is planned to be used")
    cores: float = assumed(16, "cores of a machine")
    memory_gb: float = assumed(64, "memory of a machine")
    disk_gb: float = assumed(4_000, "disk of a machine, or of a database")
    files: float = assumed(250e6, "files of a file system: those of ext4 on 4 TB by default")
    process_cores: float = assumed(1, "cores that one process can use; Python runs on one at a time")
    commits: float = assumed(2_700, "durable commits a second of a database")
    evaluated: float = assumed(10_000, "prompt tokens that a GPU evaluates a second")
    generated: float = assumed(1_500, "tokens that a GPU writes a second")
    written: float = assumed(250, "tokens that the model writes a message: half an answer, and its memories")


@dataclass(frozen=True)
class Need:
    """Of one resource: what the users load it with in the busiest hour, and what one unit takes."""

    resource: str
    load: float
    one_takes: float
    limits_home: bool = True
    """Whether a single home runs out of it; the journal counts with the disk there."""

    @property
    def units(self) -> int:
        return math.ceil(self.load / self.one_takes)


def rows_of_a_user(cost: Cost, given: Assumed) -> float:
    return given.active * given.messages * 365 * given.years * cost.indexed_rows


def needs(cost: Cost, given: Assumed, users: float) -> list[Need]:
    """Of a deployment in its last year, with the rows that users have then."""
    in_a_second = users * given.active * given.peak / _DAY
    messages, starts = in_a_second * given.messages, in_a_second * given.sessions
    kept = given.active * given.messages * 365 * given.years
    thousand_rows = rows_of_a_user(cost, given) / 1000
    in_the_hour = users * given.active * min(1, given.sessions * given.peak / 24)

    talking = messages * cost.cpu_ms / 1000
    searching = messages / 2 * thousand_rows * cost.search_ms_per_1000_rows / 1000
    loading = starts * thousand_rows * cost.load_ms_per_1000_rows / 1000
    model = messages * (cost.evaluated_tokens / given.evaluated + given.written / given.generated)
    in_memory = in_the_hour * thousand_rows * 1000 * cost.memory_bytes_per_row
    disk = cost.journal_bytes + cost.vault_bytes + cost.index_bytes
    return [
        Need("cores of a process", talking + searching + loading, given.process_cores * given.busy),
        Need("commits a second", messages * cost.commits, given.commits * given.busy),
        Need("GB of rows in memory", in_memory / _GB, given.memory_gb * given.busy),
        Need("GB on disk", users * kept * disk / _GB, given.disk_gb * given.busy),
        Need(
            "files", users * (kept * cost.vault_files + cost.index_files_per_user), given.files * given.busy
        ),
        Need("GB of the journal", users * kept * cost.journal_bytes / _GB, given.disk_gb * given.busy, False),
        Need("GPUs", model, given.busy, False),
    ]


def first_full(found: Sequence[Need]) -> Need:
    """What a single home runs out of first."""
    return max((need for need in found if need.limits_home), key=lambda need: need.load / need.one_takes)


def told(cost: Cost, given: Assumed, users: int) -> str:
    found = needs(cost, given, users)
    units = {need.resource: need.units for need in found}
    first = first_full(found)
    lines = [f"{'':22}{'load':>14}{'one takes':>14}{'units':>10}{'full at users':>16}"]
    for need in found:
        full = users * need.one_takes / need.load
        lines.append(
            f"{need.resource:22}{need.load:14,.1f}{need.one_takes:14,.1f}{need.units:10,}{full:16,.0f}"
        )
    by_cores = math.ceil(units["cores of a process"] * given.process_cores / given.cores)
    machines = max(by_cores, units["GB of rows in memory"], units["GB on disk"], units["files"])
    databases = max(units["commits a second"], units["GB of the journal"])
    return "\n".join(
        [
            *lines,
            "",
            f"Rows of a user: {rows_of_a_user(cost, given):,.0f}; a search looks at each up to 100,000.",
            f"First full: {first.resource}, at {users * first.one_takes / first.load:,.0f} users a home.",
            f"Homes side by side, each with users of its own: {first.units:,}, on {machines:,} machines.",
            f"Or as many deployments on PostgreSQL and S3, with servers that stand by: {databases:,} databases.",
            f"Beside either: {units['GPUs']:,} GPUs.",
        ]
    )


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    cost = commands.add_parser("cost", help="measure, and write the figures")
    cost.add_argument("--quick", action="store_true", help="a tenth of the messages")
    simulate = commands.add_parser(
        "simulate",
        help="reckon what so many users need",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="Example: python scripts/bench/scale.py simulate --users 1000000 --years 1",
    )
    simulate.add_argument("--users", type=int, nargs="+", default=[10_000, 1_000_000, 100_000_000])
    for each in fields(Assumed):
        assert each.default is not MISSING
        option = f"--{each.name.replace('_', '-')}"
        simulate.add_argument(option, type=float, default=each.default, help=each.metadata["meaning"])
    for command in (cost, simulate):
        command.add_argument("--figures", type=Path, default=FIGURES, help="the file of what was measured")
    return parser.parse_args(arguments)


def main() -> None:
    given = parsed(sys.argv[1:])
    if given.command == "cost":
        with tempfile.TemporaryDirectory(prefix="recollect-scale-") as name:
            cost = measure_cost(Path(name), quick=given.quick)
        text = json.dumps(asdict(cost), indent=2)
        given.figures.write_text(f"{text}\n", encoding="utf-8")
        print(text)
        return
    cost = Cost(**json.loads(given.figures.read_text(encoding="utf-8")))
    options = Assumed(**{each.name: getattr(given, each.name) for each in fields(Assumed)})
    for users in given.users:
        print(f"{users:,} users\n{told(cost, options, users)}\n")


if __name__ == "__main__":
    main()
