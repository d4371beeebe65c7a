"""`recollect settings`: every setting, its value, and where it comes from."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recollect.entrypoints.cli.options import Home, Json, settings_for
from recollect.entrypoints.cli.render import print_json, print_table, say, show
from recollect.errors import HomeUnusable, InvalidInput

if TYPE_CHECKING:
    from recollect.settings import Settings

settings_cli = typer.Typer(help="Show settings and where they come from; check them.", no_args_is_help=True)


@settings_cli.command(
    "show",
    epilog="Examples: recollect settings show  |  recollect settings show llm  |  recollect settings show --json",
)
def show_settings(
    name: Annotated[
        str | None, typer.Argument(help="Only this setting or group: llm, llm.model, RECOLLECT_LLM__MODEL.")
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Print every setting, its value, and where it comes from. Secrets are masked."""
    from recollect.settings import did_you_mean, place_of

    settings = list(_shown(settings_for(home), home))
    if name is not None:
        place = place_of(name.replace(".", "__").upper())
        settings = [each for each in settings if place_of(each["variable"])[: len(place)] == place]
        if not settings:
            raise InvalidInput(f"there is no setting {name}{did_you_mean(place, '.'.join)}")
    rows = [(each["name"], _words(each["value"]), each["from"]) for each in settings]
    show({"settings": settings}, lambda _: print_table(("setting", "value", "from"), rows), as_json=json)


def _shown(settings: "Settings", home: Path | None) -> Iterator[dict[str, Any]]:
    from recollect.settings import Settings, SettingSources, place_of, setting_names

    sources = SettingSources({"home": home} if home else {})
    values, defaults = settings.model_dump(mode="json"), Settings.model_construct().model_dump(mode="json")
    for variable in setting_names():
        place = place_of(variable)
        value, default = values, defaults
        for part in place:
            value, default = value[part], default[part]
        source = sources.of(place, exact=value == default)
        yield {
            "name": ".".join(place), "variable": variable, "value": _masked(value), "from": source or "default",
        }  # fmt: skip


def _masked(value: Any) -> Any:
    """Keys are masked by the settings themselves; an address may hold a password, too."""
    from recollect.infra.secrets import mask_secrets

    if isinstance(value, dict):
        return {name: _masked(item) for name, item in value.items()}
    return mask_secrets(value)[0] if isinstance(value, str) else value


def _words(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "empty"
    return str(value).lower() if isinstance(value, bool) else str(value)


@settings_cli.command("check", epilog="Example: recollect settings check")
def check_settings(home: Home = None, json: Json = False) -> None:
    """Check file and variables; name each mistake, where it is, and what was probably meant.

    The exit code is 1 if there is one.
    """
    from recollect.settings import hidden_problems, settings_file, unknown_variables

    problems = [f"{name}: there is no such setting{meant}" for name, meant in unknown_variables().items()]
    try:
        settings_for(home)
        problems += hidden_problems(home)
    except (HomeUnusable, OSError) as error:
        problems = [str(error), *(each for each in problems if each.upper() not in str(error).upper())]
    if json:
        print_json({"ok": not problems, "problems": problems})
    else:
        file = settings_file(home)
        ok = f"and {file} are valid" if file.is_file() else f"is valid; there is no {file}"
        say("\n".join(problems) or f"ok: the environment {ok}")
    if problems:
        raise typer.Exit(1)
