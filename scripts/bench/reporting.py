"""A measurement is a row: ours, what it stands beside, their ratio, and whether that is what was wanted."""

import statistics
import sys
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


def row(
    name: str,
    ours: float,
    baseline: float,
    wanted: str = "",
    holds: bool | None = None,
    *,
    ratio: float | None = None,
) -> Row:
    """`ratio`: where it is not that of the two, such as the median of ratios in pairs."""
    ratio = ours / max(baseline, 1e-9) if ratio is None else ratio
    return {
        "name": name,
        "ours": ours,
        "baseline": baseline,
        "ratio": ratio,
        "wanted": wanted,
        "holds": holds,
    }


def paired_row(
    name: str,
    ours: Sequence[float],
    baseline: Sequence[float],
    *,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Row:
    """Ratios are taken in pairs that ran one after another; the median of them is what counts."""
    ratio = statistics.median(mine / other for mine, other in zip(ours, baseline, strict=True))
    wanted, holds = "", None
    if at_most is not None:
        wanted, holds = f"at most {at_most:.2f}", ratio <= at_most
    elif at_least is not None:
        wanted, holds = f"at least {at_least:.2f}", ratio >= at_least
    return row(name, statistics.median(ours), statistics.median(baseline), wanted, holds, ratio=ratio)


def progress(name: str, done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{name}: {done:,} of {total:,} ")
        sys.stderr.flush()


def show(rows: list[Row]) -> None:
    width = max(len(item["name"]) for item in rows)
    print(f"{'':{width}}  {'ours':>10}  {'baseline':>10}  {'ratio':>6}  wanted")
    for item in rows:
        verdict = {True: "ok", False: "NOT MET", None: ""}[item["holds"]]
        print(
            f"{item['name']:{width}}  {item['ours']:>10.2f}  {item['baseline']:>10.2f}  {item['ratio']:>6.2f}"
            f"  {item['wanted']}  {verdict}"
        )
