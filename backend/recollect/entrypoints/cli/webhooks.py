"""`recollect webhooks`: addresses that are told of what happens."""

import secrets
from typing import Annotated

import typer

from recollect.entrypoints.cli import render
from recollect.entrypoints.cli.options import Home, Json, Limit, OwnerFilter, Space, call, path_of
from recollect.entrypoints.cli.render import print_json, say, show

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
    render.print_records(columns, [each | {"events": ",".join(each["events"])} for each in found["webhooks"]])


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
    show(found, lambda found: render.print_records(columns, found["deliveries"]), as_json=json)


@webhooks_cli.command("test", epilog="Example: recollect webhooks test wh_1f2e3d4c5b6a7980")
def try_it(webhook_id: WebhookId, space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Send a delivery of the event 'test' now. The exit code is 1 if it is not accepted."""
    told = call(home, space, "POST", f"{path_of(_WEBHOOKS, webhook_id)}/test")
    outcome = told["error"] or "accepted"
    print_json(told) if json else say(f"{told['delivery_id']}: {outcome}")
    if told["error"]:
        raise typer.Exit(1)
