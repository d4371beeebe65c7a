"""What commands print: tables for people, JSON for scripts."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import typer

Json = dict[str, Any]
_TIMES = frozenset({"created", "expires", "last_used", "revoked", "run_at", "updated"})
_LAST_COLUMN = 20
"""The least width of a last column that wraps: that of a time."""
_unsafe = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def moment(text: str | None, option: str) -> int | None:
    """UTC milliseconds of `2026-05-08` or `2026-05-08T14:03`; in UTC, unless it names a zone."""
    if text is None:
        return None
    try:
        named = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no day or time like 2026-05-08 or 2026-05-08T14:03", param_hint=option
        ) from None
    return int((named if named.tzinfo else named.replace(tzinfo=UTC)).timestamp() * 1000)


def seconds(text: str, option: str) -> int:
    """Of `30m`, `24h`, `90d` or `2w`."""
    if not (found := re.fullmatch(r"([0-9]{1,9})([mhdw])", text)):
        raise typer.BadParameter(f"{text!r} is no time like 30m, 24h, 90d or 2w", param_hint=option)
    return int(found[1]) * _UNITS[found[2]]


def print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def show(found: Json, print_it: Callable[[Json], None], *, as_json: bool) -> None:
    """Print what the server answered: for scripts, or for people."""
    print_json(found) if as_json else print_it(found)


def say(text: str = "") -> None:
    sys.stdout.write(tame(text) + "\n")


def tame(text: str) -> str:
    """What somebody or a model said must not steer the terminal."""
    return _unsafe.sub("\ufffd", text)


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table where it fits the terminal, else each row as lines. Only the last column wraps: ids can be copied.

    In a pipe it is as wide as it must be: one row a line.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    in_pipe = not console.is_terminal and "COLUMNS" not in os.environ
    texts = [["" if cell is None else tame(str(cell)).replace("\t", " ") for cell in row] for row in rows]
    if in_pipe:
        texts = [[" ".join(cell.splitlines()) for cell in row] for row in texts]
    *fixed, last = (max(map(cell_len, column)) for column in zip(columns, *texts, strict=True))
    if in_pipe:
        console.width = sum(fixed) + 2 * len(fixed) + last
    if sum(fixed) + 2 * len(fixed) + min(last, _LAST_COLUMN) > console.width:
        for row in texts:
            _print_lines(columns, row, console.width)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in columns:
        table.add_column(title, no_wrap=title != columns[-1])
    for row in texts:
        table.add_row(*(Text(cell, overflow="fold") for cell in row))
    console.print(table)


def _print_lines(columns: Sequence[str], row: Sequence[str], width: int) -> None:
    """The first cell, then the others that are not empty below it, with as many on a line as fit."""
    say(row[0])
    line = ""
    for title, cell in zip(columns[1:], row[1:], strict=True):
        item = f"  {title}: {cell}" if title else f"  {cell}"
        if line and len(line) + len(item) > width:
            say(line)
            line = ""
        line += item if cell else ""
    if line:
        say(line)


def print_records(columns: Mapping[str, str], records: Sequence[Json]) -> None:
    """A table: the titles of its columns, and the fields that they show."""
    rows = [
        [shown_time(record[field]) if field in _TIMES else record[field] for field in columns.values()]
        for record in records
    ]
    print_table(list(columns), rows)


def shown_time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, silence in a pipe."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)


def print_verification(result: Json) -> None:
    columns = (
        "space", "messages", "buffered", "celled", "skipped", "forgotten", "missing", "doubled", "indexed", "embedded",
    )  # fmt: skip
    rows = [
        [space, *(counts[name] for name in columns[1:])]
        for space, counts in sorted(result["coverage"].items())
    ]
    print_table(columns, rows)
    say()
    say(f"{counted(result['threads'], 'thread')}, {counted(result['parts'], 'transcript file')}")
    if result["pending"] or result["pending_files"]:
        say(
            f"still to be written: {result['pending']} turns, {result['pending_files']} files to bring up to date"
        )
    if result["repaired"]:
        say(f"{result['repaired']} files were missing and have been written again")
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


def print_forgotten(result: Json) -> None:
    """What was looked at, how much of it, and what was found."""
    say(f"{result['tombstones']} messages were forgotten; looked at:")
    print_table(("what", "how many"), list(result["looked_at"].items()))
    say()
    for text in result["notes"]:
        say(f"note: {text}")
    for text in result["problems"]:
        say(f"FOUND: {text}")
    say("ok: nothing is left of them" if result["ok"] else "NOT OK")


def print_hits(found: Json, user: str) -> None:
    for hit in found["hits"]:
        who = hit["sender_id"] or hit["role"] or hit["type"]
        end = f" until {shown_time(hit['until'])}" if hit["until"] else ""
        say(
            f"{hit['score']:.2f}  {shown_time(hit['timestamp'])}{end}  {who}  {hit['path'] or hit['thread_id'] or ''}"
        )
        for line in "\n".join((hit["text"], *hit["said"])).splitlines():
            say(f"      {line}")
        why = ", ".join(
            f"{name} {value:.2f}" for name, value in sorted(hit["why"].items(), key=lambda x: -x[1])
        )
        say(f"      ({why})")
        for turn in hit["neighbours"] or ():
            say(f"      | {turn['sender_id']}: {turn['content'][:200]}")
        say()
    if not found["hits"]:
        say(f"nothing found in {found['searched']['texts']} texts of the user {user}")
    for text in found["degraded"]:
        say(f"note: {text}")


def print_reindexed(result: Json) -> None:
    say(f"the index is new and equals the vault; {result['embedded']} texts were embedded")
    for path in result["unreadable"]:
        say(f"note: {path} cannot be read, and is found as it was before")


def print_upgraded(result: Json, *, undo: bool) -> None:
    done = "put back" if undo else "upgraded"
    say(f"{done} {counted(result['files'], 'file')}; {result['current']} needed nothing")
    for left in result["left"]:
        say(f"left alone: {left}")
    if result["files"] and not undo:
        say("The files of before are kept: 'recollect upgrade --undo' puts them back.")
    if undo and not result["files"] and not result["left"]:
        say(
            "There is no upgrade to undo: none was done, it was undone, or its copies went with a forgetting."
        )
    elif undo:
        say("The notes index.md stay: the server keeps them, and they are no part of the upgrade.")


def print_entries(found: Json) -> None:
    rows = [
        (*(entry[name] for name in ("id", "kind", "owner")),
         shown_time(entry["when"])[:10], _marks(entry), first_words(entry["title"]))
        for entry in found["entries"]
    ]  # fmt: skip
    print_table(("entry", "kind", "owner", "day", "", "title"), rows)
    if "next" in found:
        say(f"there is more: --after {found['next']}")


def print_skills(found: Json) -> None:
    for skill in found["skills"]:
        say(f"{skill['name']} (agent {skill['agent']}, of {counted(len(skill['cases']), 'case')})")
        say(f"  {first_words(skill['description'])}")
        say(f"  {skill['path']}")


def print_entry(entry: Json) -> None:
    say(entry["title"])
    _quoted(entry["text"] if entry["text"] != entry["title"] else "", "  ")
    say()
    told = {
        "id": f"{entry['id']} ({entry['kind']} of {entry['owner']}, revision {entry['revision']})",
        "when": shown_time(entry["when"]),
        "until": shown_time(entry["until"]),
        "marks": _marks(entry),
        "by": entry["by"],
        **entry["properties"],
        "memcell": entry["memcell"],
        "file": entry["path"],
        "messages": " ".join(entry["message_ids"]),
    }
    for name, value in told.items():
        if value:
            say(f"{name}: {value}")
    for linked in entry["linked"]:
        say(f"{linked['relation'].replace('_', ' ')}: {linked['id']} {first_words(linked['title'])}")
    _print_quotes(entry["quotes"], "")


def print_history(found: Json) -> None:
    for version in found["versions"]:
        who = (
            f"{version['actor']}, {shown_time(version['at'])}: {version['cause']}" if version["actor"] else ""
        )
        now = " (in force)" if version["revision"] == found["revision"] else ""
        say(f"revision {version['revision']}{now}  {who or version['by']}".rstrip())
        say(f"  {version['title']}  {_marks(version)}".rstrip())
        _quoted(version["text"] if version["text"] != version["title"] else "", "    ")
        say()


def print_why(reason: Json, indent: str = "") -> None:
    """The entry, what made it, its memcell, its turns; then the same for each entry that it came from."""
    say(f"{indent}{reason['id']} ({reason['kind']}, {shown_time(reason['when'])}): {reason['title']}")
    if reason["text"] != reason["title"]:
        _quoted(reason["text"], f"{indent}  ")
    if reason["edited"]:
        say(f"{indent}  in a person's own words")
    made_by = ", ".join(filter(None, [reason["strategy"], reason["model"]]))
    if made_by:
        say(f"{indent}  made by {made_by}")
    if (cell := reason["memcell"]) is not None:
        say(
            f"{indent}  of memcell {cell['memcell_id']} ({_span(cell['turn_ids'])}, closed by {cell['reason']})"
        )
    _print_quotes(reason["quotes"], f"{indent}  ")
    for origin in reason["made_of"]:
        say(f"{indent}  made of:")
        print_why(origin, f"{indent}    ")
    if reason["left_out"]:
        say(f"{indent}  and of {reason['left_out']} more that are listed above, or are gone")


def _print_quotes(quotes: Sequence[Json], indent: str) -> None:
    for quote in quotes:
        place = f"{quote['thread_id']} {quote['turn_id']}"
        if quote["forgotten"]:
            say(f"{indent}from {place}: forgotten")
            continue
        say(
            f"{indent}from {place}, {quote['sender_id']} ({quote['role']}), {shown_time(quote['timestamp'])}:"
        )
        _quoted(quote["content"], f"{indent}  > ")


def _quoted(text: str, mark: str) -> None:
    for line in text.splitlines():
        say(f"{mark}{line}")


def _marks(entry: Json) -> str:
    marks = [name for name in ("pinned", "edited") if entry[name]]
    return ", ".join([*marks, *(["superseded"] if entry["superseded_by"] else [])])


def _span(turn_ids: Sequence[str]) -> str:
    return turn_ids[0] if len(turn_ids) == 1 else f"{turn_ids[0]} to {turn_ids[-1]}"


def first_words(text: str, most: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
