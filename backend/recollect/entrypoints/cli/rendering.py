"""What commands print: tables for people, JSON for scripts."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from recollect.service.ports import Progress


def print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell), overflow="fold") for cell in row))
    Console(highlight=False).print(table)


def shown_time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """A bar on a terminal, silence in a pipe."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


def print_verification(result: dict[str, Any]) -> None:
    columns = (
        "space", "messages", "buffered", "celled", "skipped", "forgotten", "missing", "doubled", "indexed", "embedded",
    )  # fmt: skip
    rows = [
        [space, *(counts[name] for name in columns[1:])]
        for space, counts in sorted(result["coverage"].items())
    ]
    print_table(columns, rows)
    say()
    say(f"{result['threads']} threads, {result['parts']} transcript files")
    if result["pending"] or result["pending_files"]:
        say(
            f"still to be written: {result['pending']} turns, {result['pending_files']} files to bring up to date"
        )
    if result["repaired"]:
        say(f"{result['repaired']} files were missing and have been written anew")
    for space, counts in sorted(result["coverage"].items()):
        say(f"digest of {space}: {counts['digest']}")
    for text in result["notes"]:
        say(f"note: {text}")
    for text in result["problems"]:
        say(f"PROBLEM: {text}")
    if not result["ok"]:
        say("NOT OK")
    elif result["pending"] or result["pending_files"]:
        say("ok so far: nothing is missing; the vault is still being written")
    else:
        say("ok: nothing is missing, the vault equals the journal, and the index the vault")
