"""`recollect skills`: list what agents learned, and put it where agents read it."""

import hashlib
import json as json_module
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from recollect.entrypoints.cli import render
from recollect.entrypoints.cli.options import Home, Json, OwnerFilter, Space, call, settings_for
from recollect.entrypoints.cli.render import print_json, say, show
from recollect.errors import Conflict, InvalidInput

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
    epilog="Examples: recollect skills export ~/.claude/skills --user ann"
    "  |  recollect skills export ./skills --agent clerk --force"
)
def export(
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
    vault, files = settings_for(home).vault_path, _Files()
    exported: list[dict[str, str]] = []
    for skill in _skills(home, space, user)["skills"]:
        if agent is not None and skill["agent"] != file_name(agent):
            continue
        name = agents_name(skill["name"], skill["tools"], [each["name"] for each in exported])
        files[f"{name}/SKILL.md"] = for_agents(skill["text"], name).encode()
        files |= {f"{name}/{path}": content for path, content in _beside(vault / skill["path"])}
        exported.append({"name": name, "agent": skill["agent"], "path": skill["path"]})
    states = _write(folder, files, force=force)
    if json:
        print_json({"folder": str(folder), "skills": exported, "files": states})
        return
    for path, state in states.items():
        say(f"{state} {folder / path}")
    say(f"{render.counted(len(exported), 'skill')} in {folder}")


def _skills(home: Path | None, space: str, user: str | None) -> dict[str, Any]:
    return call(home, space, "GET", "/api/v1/memory/skills", params={"user_id": user})


def _beside(skill: Path) -> Iterator[tuple[str, bytes]]:
    """What a person put beside a skill: no links, no hidden files, no conflict files, and no other skill."""
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
