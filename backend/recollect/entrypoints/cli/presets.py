"""`recollect presets`: named instructions, from the command line."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from recollect.entrypoints.cli.options import Home, Json, Space, call, path_of, text_of, with_home
from recollect.entrypoints.cli.render import first_words, print_json, print_records, say
from recollect.errors import NotFound

if TYPE_CHECKING:
    from recollect.entrypoints.cli.client import HomeClient

presets_cli = typer.Typer(
    help="List, show, set and delete presets: named instructions for the model.", no_args_is_help=True
)
_PRESETS = "/api/v1/presets"
_CLEARABLE = ("persona", "temperature", "max_tokens", "model", "backend", "sources")

Name = Annotated[str, typer.Argument(help="The preset; upper and lower case are the same.")]


@presets_cli.command("list", epilog="Example: recollect presets list --json")
def list_presets(space: Space = "default", home: Home = None, json: Json = False) -> None:
    """List presets."""
    columns = {"preset": "name"} | {name.replace("_", " "): name for name in (*_CLEARABLE, "instructions")}
    found = call(home, space, "GET", _PRESETS, params={"limit": 1000})
    if json:
        print_json(found)
        return
    short = [{**item, "instructions": first_words(item["instructions"], 60)} for item in found["presets"]]
    print_records(columns, short)


@presets_cli.command(epilog="Example: recollect presets show pirate")
def show(name: Name, space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Print a preset: what is set, then its instructions."""
    preset = call(home, space, "GET", path_of(_PRESETS, name))
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
    persona: Annotated[str | None, typer.Option(help="Who the model plays.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, max=2, help="From 0 to 2.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="The most tokens of an answer.")] = None,
    model: Annotated[str | None, typer.Option(help="The model to ask.")] = None,
    backend: Annotated[str | None, typer.Option(help="The backend to ask.")] = None,
    sources: Annotated[
        str | None, typer.Option(help="What it takes of files, images, links, results; or none.")
    ] = None,
    clear: Annotated[
        list[str] | None, typer.Option(help=f"Unset {', '.join(_CLEARABLE)}; may be repeated.")
    ] = None,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Create a preset, or change the given parts of one that exists."""
    given = {"persona": persona, "temperature": temperature, "max_tokens": max_tokens, "model": model, "backend": backend, "sources": sources}  # fmt: skip
    body: dict[str, Any] = {field: value for field, value in given.items() if value is not None}
    body |= dict.fromkeys(_cleared(clear or []))
    if (text := text_of(instructions, file, "--instructions")) is not None:
        body["instructions"] = text

    async def work(client: "HomeClient") -> Any:
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
    call(home, space, "DELETE", path_of(_PRESETS, name))
    say(f"deleted {name}")


def _cleared(fields: list[str]) -> list[str]:
    names = [field.replace("-", "_") for field in fields]
    if unknown := [field for field in names if field not in _CLEARABLE]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(_CLEARABLE)}", param_hint="--clear")
    return names
