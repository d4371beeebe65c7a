"""A measurement is a row: ours, what it stands beside, their ratio, and whether that is what was wanted."""

import statistics
import sys
from collections.abc import Sequence
from typing import Any


def row(
    name: str, ours: float, baseline: float, ratio: float, wanted: str, holds: bool | None
) -> dict[str, Any]:
    return {
        "name": name,
        "ours": ours,
        "baseline": baseline,
        "ratio": ratio,
        "wanted": wanted,
        "holds": holds,
    }


def paired_row(
    name: str, ours: Sequence[float], baseline: Sequence[float], at_most: float | None
) -> dict[str, Any]:
    """Ratios are taken in pairs that ran one after another; the median of them is what counts."""
    ratio = statistics.median(mine / other for mine, other in zip(ours, baseline, strict=True))
    wanted = "" if at_most is None else f"at most {at_most:.1f}"
    holds = None if at_most is None else ratio <= at_most
    return row(name, statistics.median(ours), statistics.median(baseline), ratio, wanted, holds)


def progress(name: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{name}: {done:,} of {total:,} ")
        sys.stderr.flush()


def show(rows: list[dict[str, Any]]) -> None:
    width = max(len(item["name"]) for item in rows)
    print(f"{'':{width}}  {'ours':>10}  {'baseline':>10}  {'ratio':>6}  wanted")
    for item in rows:
        verdict = {True: "ok", False: "NOT MET", None: ""}[item["holds"]]
        print(
            f"{item['name']:{width}}  {item['ours']:>10.2f}  {item['baseline']:>10.2f}  {item['ratio']:>6.2f}"
            f"  {item['wanted']}  {verdict}"
        )
