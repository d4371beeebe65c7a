"""`recollect presets`: named instructions, from the command line."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from recollect.entrypoints.cli.options import Home, Json, Space, with_home

presets_cli = typer.Typer(
    help="List, show, set and delete presets: named instructions for the model.", no_args_is_help=True
)
_PRESETS = "/api/v1/presets"
_CLEARABLE = ("persona", "temperature", "max_tokens", "model", "backend")

Name = Annotated[str, typer.Argument(help="The preset; upper and lower case are the same.")]


@presets_cli.command("list", epilog="Example: recollect presets list --json")
def list_presets(space: Space = "default", home: Home = None, json: Json = False) -> None:
    """List presets."""
    from recollect.entrypoints.cli.render import print_json, print_table

    found = with_home(home, lambda client: client.call("GET", _PRESETS, params={"limit": 1000}), space)
    if json:
        print_json(found)
        return
    print_table(
        ("preset", "persona", "temperature", "max tokens", "model", "backend", "instructions"),
        [
            (item["name"], item["persona"], item["temperature"], item["max_tokens"], item["model"],
             item["backend"], _first_words(item["instructions"]))
            for item in found["presets"]
        ],
    )  # fmt: skip


@presets_cli.command(epilog="Example: recollect presets show pirate")
def show(name: Name, space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Print a preset: what is set, then its instructions."""
    from recollect.entrypoints.cli.client import path_of
    from recollect.entrypoints.cli.render import print_json, say

    preset = with_home(home, lambda client: client.call("GET", path_of(_PRESETS, name)), space)
    if json:
        print_json(preset)
        return
    for field in ("name", *_CLEARABLE, "revision"):
        if preset[field] is not None:
            say(f"{field}: {preset[field]}")
    say()
    say(preset["instructions"])


@presets_cli.command(
    "set",
    epilog="Examples: recollect presets set pirate --instructions 'Answer like a pirate.' --temperature 0.9"
    "  |  recollect presets set pirate --file pirate.md  |  cat pirate.md | recollect presets set pirate --file -",
)
def set_preset(
    name: Name,
    instructions: Annotated[str | None, typer.Option(help="What the model is told.")] = None,
    file: Annotated[
        str | None, typer.Option(help="A file with the instructions; - reads them from standard input.")
    ] = None,
    persona: Annotated[str | None, typer.Option(help="Who the model is to be.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, max=2, help="From 0 to 2.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Of an answer, at most.")] = None,
    model: Annotated[str | None, typer.Option(help="The model to ask.")] = None,
    backend: Annotated[str | None, typer.Option(help="The backend to ask.")] = None,
    clear: Annotated[
        list[str] | None, typer.Option(help=f"Unset {', '.join(_CLEARABLE)}; may be given again.")
    ] = None,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Create a preset, or change what is given of one that exists."""
    from recollect.entrypoints.cli.client import HomeClient, path_of
    from recollect.entrypoints.cli.render import print_json, say
    from recollect.errors import NotFound

    given = {"persona": persona, "temperature": temperature, "max_tokens": max_tokens, "model": model, "backend": backend}  # fmt: skip
    body: dict[str, Any] = {field: value for field, value in given.items() if value is not None}
    body |= dict.fromkeys(_cleared(clear or []))
    if (text := _instructions(instructions, file)) is not None:
        body["instructions"] = text

    async def work(client: HomeClient) -> Any:
        try:
            return await client.call("PATCH", path_of(_PRESETS, name), json=body)
        except NotFound:
            if text is None:
                raise
            return await client.call("PUT", path_of(_PRESETS, name), json=body)

    preset = with_home(home, work, space)
    print_json(preset) if json else say(f"preset {preset['name']} is set (revision {preset['revision']})")


@presets_cli.command(epilog="Example: recollect presets delete pirate")
def delete(name: Name, space: Space = "default", home: Home = None) -> None:
    """Delete a preset, with its file in the vault."""
    from recollect.entrypoints.cli.client import path_of
    from recollect.entrypoints.cli.render import say

    with_home(home, lambda client: client.call("DELETE", path_of(_PRESETS, name)), space)
    say(f"deleted {name}")


def _instructions(text: str | None, file: str | None) -> str | None:
    """What an editor leaves around a text is no part of it."""
    if text is not None and file is not None:
        raise typer.BadParameter("give either --instructions or --file", param_hint="--file")
    if file == "-":
        return sys.stdin.read().strip()
    return text if file is None else Path(file).read_text(encoding="utf-8").strip()


def _cleared(fields: list[str]) -> list[str]:
    names = [field.replace("-", "_") for field in fields]
    if unknown := [field for field in names if field not in _CLEARABLE]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(_CLEARABLE)}", param_hint="--clear")
    return names


def _first_words(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"
