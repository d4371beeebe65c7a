"""`recollect import`: conversations and notes from elsewhere."""

import asyncio
import tempfile
import zipfile
from collections.abc import AsyncIterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from recollect.entrypoints.cli import render
from recollect.entrypoints.cli.options import Home, Json, Space, with_home
from recollect.entrypoints.cli.render import counted, say
from recollect.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recollect.entrypoints.cli.client import HomeClient
    from recollect.service.coordination import Progress

EPILOG = (
    "Examples: recollect import chatgpt-export.zip --user ann  |  recollect import ~/.claude/projects"
    "  |  recollect import ~/notes --dry-run"
)
_ENDINGS = (".md", ".markdown", ".json", ".jsonl")
_PIECE = 256 * 1024


def import_file(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="An export, as a file, a .zip or a folder.", exists=True)
    ],
    user: Annotated[str | None, typer.Option(help="Whose; default: me.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be imported.")] = False,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Import conversations and notes; what the file is, is found out.

    ChatGPT, Claude, Open WebUI: the export as it was downloaded. Claude Code: a transcript, or a folder of them.
    server-memory: its JSONL file. A folder of Markdown becomes notes, byte for byte.

    What is there already is not taken again: an import that was broken off goes on where it was.
    """
    with _opened(path) as file, render.progress_bar("importing") as progress:
        report = with_home(
            home, lambda client: _sent(client, file, path.name, user, dry_run, progress), space
        )
    render.show(report, print_report, as_json=json)


async def _sent(
    client: "HomeClient", file: IO[bytes], name: str, user: str | None, dry_run: bool, progress: "Progress"
) -> dict[str, Any]:
    async def pieces() -> AsyncIterator[bytes]:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece

    params = {"user_id": user, "name": name, "dry_run": "true" if dry_run else None}
    return await client.call_with_progress("/api/v1/imports", pieces(), progress, **params)


@contextmanager
def _opened(path: Path) -> "Iterator[IO[bytes]]":
    """The file itself; of a folder an archive of what may be imported, without hidden files."""
    if not path.is_dir():
        with path.open("rb") as file:
            yield file
        return
    path = path.resolve()
    found = [
        each
        for each in sorted(path.rglob("*"))
        if each.suffix.lower() in _ENDINGS
        and each.is_file()
        and not any(part.startswith(".") for part in each.relative_to(path).parts)
    ]
    if not found:
        raise InvalidInput(f"{path} holds no file that could be imported: {', '.join(_ENDINGS)}")
    with tempfile.TemporaryFile() as packed:
        with zipfile.ZipFile(
            packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False
        ) as archive:
            for each in found:
                # A folder that is called `.claude` is none of its files' concern.
                archive.write(each, f"{path.name.lstrip('.') or 'import'}/{each.relative_to(path)}")
        packed.seek(0)
        yield packed


def print_report(report: dict[str, Any]) -> None:
    """What was taken, what was there, what was left out and why."""
    would = "would be imported" if report["dry_run"] else "imported"
    taken = {
        "conversation": report["conversations"], "message": report["messages"], "note": report["notes"],
    }  # fmt: skip
    told = [counted(number, what) for what, number in taken.items() if number]
    if report["entities"] or report["relations"]:
        told += [f"{report['entities']} entities", counted(report["relations"], "relation")]
    say(f"{', '.join(report['formats'])}: {', '.join(told) or 'nothing new'} {would}")
    if report["branches"]:
        say(f"  {counted(report['branches'], 'message')} of these on other branches, kept and not remembered")
    if report["attachments"]:
        say(f"  {counted(report['attachments'], 'attachment')} named in their messages")
    for what, number in report["already"].items():
        if number:
            say(f"  already there: {what} ({number})")
    for reason, number in sorted(report["left_out"].items()):
        if number:
            say(f"  left out: {reason} ({number})")
    if report["messages"] and not report["dry_run"]:
        say("memories are made of them in the background; 'recollect status' says what waits")
