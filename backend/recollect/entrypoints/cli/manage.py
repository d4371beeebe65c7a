"""Commands on what a server keeps beside memories: jobs, keys, presets, webhooks."""

import secrets
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recollect.entrypoints.cli import render
from recollect.entrypoints.cli.options import (
    Home,
    Json,
    Limit,
    OwnerFilter,
    Space,
    call,
    path_of,
    text_of,
    with_home,
)
from recollect.entrypoints.cli.render import first_words, print_json, print_records, say, show
from recollect.errors import NotFound

if TYPE_CHECKING:
    from recollect.entrypoints.cli.client import HomeClient

jobs_cli = typer.Typer(help="List jobs that are not done, and retry dead ones.", no_args_is_help=False)
keys_cli = typer.Typer(help="Make, list, rotate and revoke API keys.", no_args_is_help=True)


@jobs_cli.callback(invoke_without_command=True, epilog="Example: recollect jobs --state dead")
def jobs(
    context: typer.Context,
    state: Annotated[str | None, typer.Option(help="queued, running or dead.")] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """List jobs that are not done."""
    context.obj = home
    if context.invoked_subcommand is not None:
        return
    columns = {
        "job": "job_id", "kind": "kind", "user": "user_id", "thread": "thread_id", "state": "state", "attempts": "attempts",
        "next run": "run_at", "error": "error",
    }  # fmt: skip
    found = call(home, None, "GET", "/api/v1/jobs", params={"limit": 1000, "state": state})
    show(found, lambda found: print_records(columns, found["jobs"]), as_json=json)


@jobs_cli.command(epilog="Example: recollect jobs retry 17")
def retry(
    context: typer.Context,
    job_id: Annotated[int, typer.Argument(help="A dead job.")],
    home: Home = None,
    json: Json = False,
) -> None:
    """Queue a dead job again; it runs at once."""
    job = call(home or context.obj, None, "POST", f"/api/v1/jobs/{job_id}/retry")
    print_json(job) if json else say(f"job {job['job_id']} ({job['kind']}) waits to run again")


@keys_cli.command(epilog="Example: recollect keys create --user ann --name laptop")
def create(
    space: Annotated[str, typer.Option(help="The space that it opens.")] = "default",
    user: Annotated[str | None, typer.Option(help="Only for this user of the space.")] = None,
    name: Annotated[str | None, typer.Option(help="A name to recognise it by.")] = None,
    expires: Annotated[
        str | None, typer.Option(help="After 90d, 24h or 30m, or on a day: 2027-05-08.")
    ] = None,
    scopes: Annotated[
        str | None,
        typer.Option(
            help="Of read,write,delete,admin; default: all of them, for a user's key all but admin."
        ),
    ] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Make a key. It is shown once. From the first key on, every request needs one."""
    wanted = None if scopes is None else [scope.strip() for scope in scopes.split(",")]
    body = {"space": space, "user_id": user, "name": name, "expires": _ending(expires), "scopes": wanted}
    key = call(home, None, "POST", "/api/v1/keys", json=body)
    print_json(key) if json else say(key["secret"])


def _ending(expires: str | None) -> int | None:
    """UTC milliseconds; a day counts from its beginning, in UTC."""
    if expires is not None and "-" not in expires:
        return time.time_ns() // 1_000_000 + render.seconds(expires, "--expires") * 1000
    return render.moment(expires, "--expires")


@keys_cli.command("list", epilog="Example: recollect keys list --json")
def list_keys(home: Home = None, json: Json = False) -> None:
    """List keys, without their secrets."""
    columns = {
        "key": "key_id", "space": "space", "user": "user_id", "name": "name", "scopes": "scopes",
        "created": "created", "last used": "last_used", "expires": "expires", "revoked": "revoked",
    }  # fmt: skip
    found = call(home, None, "GET", "/api/v1/keys")
    if json:
        print_json(found)
        return
    print_records(columns, [key | {"scopes": ",".join(key["scopes"])} for key in found["keys"]])


@keys_cli.command(epilog="Example: recollect keys revoke k_1f2e3d4c5b6a")
def revoke(
    key_id: Annotated[str, typer.Argument(help="As 'recollect keys list' shows it.")], home: Home = None
) -> None:
    """Revoke a key, at once and for good. Without any key the server stays closed: see 'keys open'."""
    key = call(home, None, "DELETE", path_of("/api/v1/keys", key_id))
    say(f"revoked {key['key_id']}")
    if not key["keys_left"]:
        say("No key is in force now: the server refuses every request but this command's, on loopback too.")
        say(
            "Make one with 'recollect keys create', or let everybody on this machine in: 'recollect keys open'."
        )


@keys_cli.command(epilog="Example: recollect keys rotate k_1f2e3d4c5b6a --overlap 24h")
def rotate(
    key_id: Annotated[str, typer.Argument(help="As 'recollect keys list' shows it.")],
    overlap: Annotated[str, typer.Option(help="How long the old key lives on: 24h, 30m, 0m.")] = "24h",
    home: Home = None,
    json: Json = False,
) -> None:
    """Make a new key in place of another: same space, user, scopes and lifetime. It is shown once."""
    body = {"overlap_seconds": render.seconds(overlap, "--overlap")}
    key = call(home, None, "POST", path_of("/api/v1/keys", key_id) + "/rotate", json=body)
    print_json(key) if json else say(key["secret"])


@keys_cli.command("open", epilog="Example: recollect keys open")
def open_server(home: Home = None) -> None:
    """Let every program on this machine in without a key, after the last key was revoked. A new key closes it again."""
    call(home, None, "POST", "/api/v1/keys/open")
    say("on loopback, requests without a key are let in now; the next key closes the server again")


presets_cli = typer.Typer(
    help="List, show, set and delete presets: named instructions for the model.", no_args_is_help=True
)
_PRESETS = "/api/v1/presets"
_CLEARABLE = ("persona", "temperature", "max_tokens", "model", "backend", "sources")

PresetName = Annotated[str, typer.Argument(help="The preset; upper and lower case are the same.")]


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


@presets_cli.command("show", epilog="Example: recollect presets show pirate")
def show_preset(name: PresetName, space: Space = "default", home: Home = None, json: Json = False) -> None:
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
    name: PresetName,
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


@presets_cli.command("delete", epilog="Example: recollect presets delete pirate")
def delete_preset(name: PresetName, space: Space = "default", home: Home = None) -> None:
    """Delete a preset, with its file in the vault."""
    call(home, space, "DELETE", path_of(_PRESETS, name))
    say(f"deleted {name}")


def _cleared(fields: list[str]) -> list[str]:
    names = [field.replace("-", "_") for field in fields]
    if unknown := [field for field in names if field not in _CLEARABLE]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(_CLEARABLE)}", param_hint="--clear")
    return names


webhooks_cli = typer.Typer(
    help="Have events posted to addresses, and see what was delivered.", no_args_is_help=True
)
_WEBHOOKS = "/api/v1/webhooks"
WebhookId = Annotated[str, typer.Argument(help="As 'recollect webhooks list' shows it.")]


@webhooks_cli.command(epilog="Example: recollect webhooks add https://example.org/hook --events turn.ended")
def add(
    url: Annotated[str, typer.Argument(help="Where deliveries are posted to; https.")],
    events: Annotated[
        str | None, typer.Option(help="Of turn.ended,memory.made,forgotten; default: all.")
    ] = None,
    user: OwnerFilter = None,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Have events posted to an address. Prints the secret that signs them, which is shown once."""
    secret = secrets.token_urlsafe(32)
    wanted = None if events is None else [event.strip() for event in events.split(",")]
    body = {"url": url, "secret": secret, "events": wanted, "user_id": user}
    made = call(home, space, "POST", _WEBHOOKS, json=body)
    if json:
        print_json(made | {"secret": secret})
    else:
        say(
            f"{made['webhook_id']} is told of {', '.join(made['events'])}; its secret, shown only now:\n{secret}"
        )


@webhooks_cli.command("list", epilog="Example: recollect webhooks list --user ann")
def list_webhooks(
    user: OwnerFilter = None, space: Space = "default", home: Home = None, json: Json = False
) -> None:
    """List webhooks, without their secrets."""
    columns = {"webhook": "webhook_id", "user": "user_id", "events": "events", "created": "created", "address": "url"}  # fmt: skip
    found = call(home, space, "GET", _WEBHOOKS, params={"user_id": user})
    if json:
        print_json(found)
        return
    print_records(columns, [each | {"events": ",".join(each["events"])} for each in found["webhooks"]])


@webhooks_cli.command(epilog="Example: recollect webhooks remove wh_1f2e3d4c5b6a7980")
def remove(webhook_id: WebhookId, space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Remove a webhook, with all that is still to be delivered to it."""
    gone = call(home, space, "DELETE", path_of(_WEBHOOKS, webhook_id))
    print_json(gone) if json else say(f"removed {gone['webhook_id']}")


@webhooks_cli.command(epilog="Example: recollect webhooks log wh_1f2e3d4c5b6a7980")
def log(
    webhook_id: WebhookId,
    limit: Limit = 100,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Show what is still to be delivered, then what was; each newest first."""
    columns = {"delivery": "delivery_id", "event": "event", "state": "state", "tries": "tries", "when": "at", "job": "job_id", "error": "error"}  # fmt: skip
    path = f"{path_of(_WEBHOOKS, webhook_id)}/deliveries"
    found = call(home, space, "GET", path, params={"limit": limit})
    show(found, lambda found: print_records(columns, found["deliveries"]), as_json=json)


@webhooks_cli.command("test", epilog="Example: recollect webhooks test wh_1f2e3d4c5b6a7980")
def try_it(webhook_id: WebhookId, space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Send a delivery of the event 'test' now. The exit code is 1 if it is not accepted."""
    told = call(home, space, "POST", f"{path_of(_WEBHOOKS, webhook_id)}/test")
    outcome = told["error"] or "accepted"
    print_json(told) if json else say(f"{told['delivery_id']}: {outcome}")
    if told["error"]:
        raise typer.Exit(1)
