"""Commands that take in what comes from elsewhere, and put files where others read them: import, export, skills."""

import asyncio
import hashlib
import json as json_module
import os
import sys
import tempfile
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from recollect.entrypoints.cli import render
from recollect.entrypoints.cli.options import (
    Home,
    Json,
    OwnerFilter,
    Space,
    call,
    path_of,
    settings_for,
    threads_of,
    with_home,
)
from recollect.entrypoints.cli.render import counted, print_json, say, show
from recollect.errors import Conflict, InvalidInput

if TYPE_CHECKING:
    from recollect.entrypoints.cli.client import HomeClient
    from recollect.service.coordination import Progress
    from recollect.settings import Settings

commands = typer.Typer()
_ENDINGS = (".md", ".markdown", ".json", ".jsonl")
_PIECE = 256 * 1024


@commands.command(
    "import",
    epilog="Examples: recollect import chatgpt-export.zip --user ann  |  recollect import ~/.claude/projects"
    "  |  recollect import ~/notes --dry-run",
)
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
    show(report, print_report, as_json=json)


async def _sent(
    client: "HomeClient", file: IO[bytes], name: str, user: str | None, dry_run: bool, progress: "Progress"
) -> dict[str, Any]:
    async def pieces() -> AsyncIterator[bytes]:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece

    params = {"user_id": user, "name": name, "dry_run": "true" if dry_run else None}
    return await client.call_with_progress("/api/v1/imports", pieces(), progress, **params)


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
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


class Form(StrEnum):
    MARKDOWN = "markdown"
    JSON = "json"


@commands.command(
    epilog="Examples: recollect export t1 --user ann > trip.md  |  recollect export --user ann --to ~/chats"
    "  |  recollect export --user ann --to ann.json"
)
def export(
    thread: Annotated[str | None, typer.Argument(help="Only this thread.")] = None,
    user: OwnerFilter = None,
    to: Annotated[
        Path | None,
        typer.Option(
            help="A file .md or .json, or a folder for a file per thread; default: standard output."
        ),
    ] = None,
    form: Annotated[
        Form | None, typer.Option("--format", help="Default: that of the file's name, else Markdown.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there already.")] = False,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Write conversations as Markdown or JSON: a thread, a user's, or all of the space."""
    by_ending = {".md": Form.MARKDOWN, ".json": Form.JSON}.get(to.suffix.lower()) if to else None
    form = form or by_ending or (Form.JSON if json and to is None else Form.MARKDOWN)
    threads = with_home(home, lambda client: _with_turns(client, thread, user), space)
    if not threads:
        typer.echo("recollect: there is no conversation to export", err=True)
    if to is None:
        text = _exported(threads, form)
        sys.stdout.write(render.tame(text) if sys.stdout.isatty() else text)
        return
    files = {to: _exported(threads, form)} if by_ending else _files(to, threads, form)
    if not force and (there := [str(file) for file in files if file.exists()]):
        raise Conflict(f"{', '.join(there[:5])}: there already; nothing was written. Replace with --force")
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    told = {"threads": len(threads), "files": [str(file) for file in files]}
    show(told, lambda _: say(f"exported {counted(len(threads), 'thread')} to {to}"), as_json=json)


async def _with_turns(client: "HomeClient", thread: str | None, user: str | None) -> list[dict[str, Any]]:
    found = await threads_of(client, thread, user)
    threads = [each for each in found if thread or not each["incognito"]]
    for each in threads:
        path = path_of("/api/v1/threads", each["thread_id"]) + "/turns"
        params = {"user_id": each["user_id"], "max_turns": max(1, each["turn_count"])}
        each["turns"] = (await client.call("GET", path, params=params))["turns"]
    return threads


def _files(folder: Path, threads: list[dict[str, Any]], form: Form) -> dict[Path, str]:
    """A file per thread, in a folder per user: users may have threads of the same id."""
    from recollect.domain.markdown.transcript import markdown_of
    from recollect.domain.paths import file_name

    ending = "md" if form is Form.MARKDOWN else "json"
    return {
        folder / file_name(each["user_id"]) / f"{file_name(each['thread_id'])}.{ending}": (
            markdown_of(each)
            if form is Form.MARKDOWN
            else json_module.dumps(each, ensure_ascii=False, indent=2)
        )
        for each in threads
    }


def _exported(threads: list[dict[str, Any]], form: Form) -> str:
    from recollect.domain.markdown.transcript import markdown_of

    if form is Form.JSON:
        return json_module.dumps({"threads": threads}, ensure_ascii=False, indent=2) + "\n"
    return "\n".join(map(markdown_of, threads))


skills_cli = typer.Typer(
    help="List the skills that agents learned, and export them to where agents read skills.",
    no_args_is_help=False,
)
RECORD = ".recollect-export.json"
"""Names the files that were exported, with their digests: one that has another was changed since."""

_Files = dict[str, bytes]
"""By their paths below the folder."""


@skills_cli.callback(invoke_without_command=True, epilog="Example: recollect skills --user ann")
def skills(
    context: typer.Context,
    user: OwnerFilter = None,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """List the skills that agents learned, and their files."""
    context.obj = (user, space, home)
    if context.invoked_subcommand is None:
        show(_skills(home, space, user), render.print_skills, as_json=json)


@skills_cli.command(
    "export",
    epilog="Examples: recollect skills export ~/.claude/skills --user ann"
    "  |  recollect skills export ./skills --agent clerk --force",
)
def export_skills(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Each skill becomes DIR/<name>/SKILL.md.")],
    user: OwnerFilter = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent's; default: every agent's.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that differ, whoever wrote them.")
    ] = False,
    space: Annotated[str | None, typer.Option("--space", help="The space to work in.")] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Write skills, with the files beside them, into a folder that agents read skills from.

    Replaces files that it wrote itself and that nobody changed since. If any other file differs, it writes nothing.
    Links in the folder are not followed, and nothing is removed.
    """
    from recollect.domain.extraction.skill import agents_name
    from recollect.domain.markdown.skill_file import for_agents
    from recollect.domain.paths import file_name

    before = context.obj  # Options may stand before the command, too.
    user, space, home = user or before[0], space or before[1], home or before[2]
    settings, files = settings_for(home), _Files()
    exported: list[dict[str, str]] = []
    for skill in _skills(home, space, user)["skills"]:
        if agent is not None and skill["agent"] != file_name(agent):
            continue
        name = agents_name(skill["name"], skill["tools"], [each["name"] for each in exported])
        files[f"{name}/SKILL.md"] = for_agents(skill["text"], name).encode()
        files |= {f"{name}/{path}": content for path, content in _beside(settings, skill["path"])}
        exported.append({"name": name, "agent": skill["agent"], "path": skill["path"]})
    states = _write(folder, files, force=force)
    if json:
        print_json({"folder": str(folder), "skills": exported, "files": states})
        return
    for path, state in states.items():
        say(f"{state} {folder / path}")
    say(f"{counted(len(exported), 'skill')} in {folder}")


def _skills(home: Path | None, space: str, user: str | None) -> dict[str, Any]:
    return call(home, space, "GET", "/api/v1/memory/skills", params={"user_id": user})


def _beside(settings: "Settings", path: str) -> Iterator[tuple[str, bytes]]:
    """What a person put beside a skill: no links, no hidden files, no conflict files, and no other skill."""
    if settings.files_url is None:
        return _beside_on_disk(settings.vault_path / path)
    return _beside_elsewhere(settings.files_url, path)


def _beside_elsewhere(url: str, skill: str) -> Iterator[tuple[str, bytes]]:
    from recollect.infra.object_stores import objects_at

    objects, (folder, _, name) = objects_at(url), skill.rpartition("/")
    paths = sorted(each.path for each in objects.list(folder))
    others = [path.removesuffix(name) for path in paths if path.endswith(f"/{name}") and path != skill]
    for path in paths:
        beside = path.removeprefix(f"{folder}/")
        is_hidden = any(part.startswith(".") for part in beside.split("/"))
        if is_hidden or ".conflict-" in beside or path == skill or path.startswith(tuple(others)):
            continue
        if (found := objects.get(path)) is not None:
            yield beside, found.content


def _beside_on_disk(skill: Path) -> Iterator[tuple[str, bytes]]:
    for at, folders, names in os.walk(skill.parent):
        if Path(at) != skill.parent and skill.name in names:
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(at, name)
            if name.startswith(".") or ".conflict-" in name or path == skill or path.is_symlink():
                continue
            if path.is_file():
                yield path.relative_to(skill.parent).as_posix(), path.read_bytes()


def _write(folder: Path, files: _Files, *, force: bool) -> dict[str, str]:
    """What became of each file. Raises before anything is written."""
    root = folder.expanduser().resolve()
    for path in (*files, RECORD):
        _refuse_links(root, path)
    record = _record(root)
    there = {path: (root / path).read_bytes() for path in files if (root / path).exists()}
    differing = [path for path, found in there.items() if found != files[path]]
    foreign = [path for path in differing if record.get(path) != _digest(there[path])]
    if foreign and not force:
        raise Conflict(
            f"{', '.join(foreign)}: changed since the last export, or not from Recollect; nothing was written. Move "
            "them away, or replace them with --force"
        )
    states = {
        path: "replaced" if path in differing else "unchanged" if path in there else "wrote" for path in files
    }
    for path, state in states.items():
        if state != "unchanged":
            _put(root / path, files[path])
    if files:
        record |= {path: _digest(content) for path, content in files.items()}
        _put(
            root / RECORD,
            json_module.dumps(record, ensure_ascii=False, indent=1, sort_keys=True).encode() + b"\n",
        )
    return states


def _refuse_links(root: Path, path: str) -> None:
    """Raises where a link, or something that is no file or folder, stands in the way."""
    place = root
    for part in Path(path).parts:
        place /= part
        if place.is_symlink():
            raise InvalidInput(f"{place} is a link: links are not followed, and nothing was written")
        if place.exists() and place.is_dir() == (place == root / path):
            raise InvalidInput(f"{place} is in the way: nothing was written")


def _record(root: Path) -> dict[str, str]:
    try:
        found = json_module.loads((root / RECORD).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _put(path: Path, content: bytes) -> None:
    """Beside first, then in its place: a file is there as a whole or as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with beside.open("xb") as file:
        file.write(content)
    beside.replace(path)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
