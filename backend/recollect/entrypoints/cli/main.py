"""`recollect`: every command. Heavy imports wait until a command runs, so that help comes at once."""

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from recollect import __version__
from recollect.entrypoints.cli import chat, memory, search, setup
from recollect.entrypoints.cli.options import Home, Json, Space, settings_for, with_home
from recollect.entrypoints.cli.presets import presets_cli
from recollect.errors import RecollectError

if TYPE_CHECKING:
    pass

cli = typer.Typer(
    name="recollect",
    help="A self-hosted memory server for LLM chat and agents.",
    epilog="Start with: recollect serve",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
jobs_cli = typer.Typer(help="See jobs that are not done, and retry dead ones.", no_args_is_help=False)
keys_cli = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)
cli.add_typer(jobs_cli, name="jobs")
cli.add_typer(keys_cli, name="keys")
cli.add_typer(presets_cli, name="presets")
cli.command(epilog=chat.EPILOG)(chat.chat)
cli.command(epilog=search.EPILOG)(search.search)
cli.command(epilog=search.REINDEX_EPILOG)(search.reindex)
cli.command(epilog=setup.EPILOG)(setup.setup)
cli.command(epilog=memory.FORGET_EPILOG)(memory.forget)
memory.add_commands(cli)
cli.command(epilog=memory.REPROCESS_EPILOG)(memory.reprocess)


def main() -> None:
    """The console script: friendly errors, exit codes 0, 1 and 2."""
    os.umask(0o077)  # What is said in confidence is for its owner's eyes, whatever the home's permissions.
    try:
        cli()
    except RecollectError as error:
        _fail(error.message)
    except UnicodeError:
        _fail("the text is not valid UTF-8")
    except OSError as error:
        _fail(f"{error.filename or 'the system'}: {error.strerror or error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(message: str) -> NoReturn:
    sys.stderr.write(f"recollect: {message}\n".encode("utf-8", "replace").decode())
    sys.exit(1)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"recollect {__version__}")
        raise typer.Exit


@cli.callback()
def options(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A self-hosted memory server for LLM chat and agents."""


@cli.command(epilog="Example: recollect serve --port 8600")
def serve(
    home: Home = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; any but loopback needs API keys.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 picks a free one.")] = None,
) -> None:
    """Run the server until Ctrl-C or SIGTERM."""
    from recollect.app import open_app
    from recollect.entrypoints.http.server import run_server
    from recollect.entrypoints.logs import logging_to_stderr
    from recollect.infra.home_lock import limit_arenas

    limit_arenas()
    settings = settings_for(home, host=host, port=port)
    with logging_to_stderr(settings):
        run_server(open_app(settings))


@cli.command(
    epilog="Examples: recollect add 'Marta moves to Porto' --session t1 --user ann"
    "  |  recollect add --file chat.jsonl --session t1"
)
def add(
    text: Annotated[str | None, typer.Argument(help="The message; - reads it from standard input.")] = None,
    session: Annotated[str, typer.Option(help="The thread it belongs to.")] = "cli",
    user: Annotated[str | None, typer.Option(help="Who owns the thread.")] = None,
    role: Annotated[str, typer.Option(help="user, assistant, system or tool.")] = "user",
    sender: Annotated[str | None, typer.Option(help="Who spoke; unset: the user, or the role.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="A file with one message a line, as JSON like that of memory/add.")
    ] = None,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Add one message, or a file of them, to a thread."""
    from recollect.entrypoints.cli import client as adding
    from recollect.entrypoints.cli.render import print_json, progress_bar, say

    messages = adding.messages_of(
        text, file, role=role, sender=sender or (user or "me" if role == "user" else role)
    )
    with progress_bar("adding") as progress:
        receipts = with_home(
            home, lambda client: adding.add_all(client, session, user, messages, progress), space
        )
    if json:
        print_json({"session_id": session, "receipts": receipts})
        return
    counts = {status: sum(receipt["status"] == status for receipt in receipts) for status in adding.STATUSES}
    say(", ".join(f"{count} {status}" for status, count in counts.items() if count))


@cli.command(epilog="Example: recollect threads --user ann --json")
def threads(
    user: Annotated[str | None, typer.Option(help="Only this user's.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """List threads."""
    from recollect.entrypoints.cli.render import print_json, print_table, shown_time

    query: dict[str, Any] = {"limit": limit} | ({"user_id": user} if user else {})
    found = with_home(home, lambda client: client.call("GET", "/api/v1/threads", params=query), space)
    if json:
        print_json(found)
        return
    print_table(
        ("thread", "user", "title", "turns", "updated"),
        [
            (
                item["thread_id"],
                item["user_id"],
                item["title"],
                item["turn_count"],
                shown_time(item["updated"]),
            )
            for item in found["threads"]
        ],
    )


@cli.command(epilog="Example: recollect verify --json")
def verify(
    repair: Annotated[
        bool, typer.Option("--repair", help="Write files anew that are missing from the vault.")
    ] = False,
    forgotten: Annotated[
        bool, typer.Option("--forgotten", help="Prove instead that nothing is left of what was forgotten.")
    ] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Prove that no message is missing, that the vault says what the journal says, and the index what the vault says.

    Exit code 1 if not.
    """
    from recollect.entrypoints.cli.memory import print_forgotten
    from recollect.entrypoints.cli.render import print_json, print_verification, progress_bar

    body = {"repair": repair, "forgotten": forgotten}
    with progress_bar("verifying") as progress:
        result = with_home(home, lambda client: client.call_with_progress("/api/v1/verify", body, progress))
    show = print_forgotten if forgotten else print_verification
    print_json(result) if json else show(result)
    if not result["ok"]:
        raise typer.Exit(1)


@cli.command(epilog="Example: recollect rebuild (stop the server first)")
def rebuild(home: Home = None, json: Json = False) -> None:
    """Bring the journal back from the vault alone."""
    from dataclasses import asdict

    from recollect.app import open_home
    from recollect.entrypoints.cli.render import print_json, print_verification, progress_bar, say
    from recollect.service.rebuild import rebuild_home

    settings = settings_for(home)
    with progress_bar("rebuilding") as progress:
        report, result = asyncio.run(rebuild_home(settings, open_home, progress))
    verification = {"ok": result.ok, **asdict(result)}
    if json:
        print_json({**asdict(report), "verification": verification})
    else:
        say(f"brought back {report.threads} threads, {report.turns} turns, {report.memcells} memcells,")
        say(
            f"{report.presets} presets, the preferences of {report.preferences} users, {report.entries} entries"
        )
        say(f"and {report.forgotten} tombstones; the vault does not hold: {', '.join(report.lost)}")
        for problem in report.problems:
            say(f"PROBLEM: {problem}")
        print_verification(verification)
    if not result.ok or report.problems:
        raise typer.Exit(1)


@cli.command(epilog="Example: recollect backup ~/recollect-2026-05-08.tar.gz")
def backup(
    target: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
    home: Home = None,
    json: Json = False,
) -> None:
    """Save journal and vault as they are at one moment, while the server runs, and prove the file."""
    import shutil

    from recollect.entrypoints.cli.render import print_json, progress_bar, say

    if target.exists():
        raise typer.BadParameter(f"{target} exists already", param_hint="TARGET")
    target.absolute().parent.mkdir(parents=True, exist_ok=True)
    target.touch(exist_ok=False)  # Refused here and now, if it cannot be written.
    target.unlink()
    with progress_bar("backing up") as progress:
        result = with_home(home, lambda client: client.call_with_progress("/api/v1/backup", {}, progress))
    shutil.move(result["path"], target)
    result["path"] = str(target)
    print_json(result) if json else say(f"saved and verified {result['files']} files in {target}")


@cli.command(epilog="Example: recollect restore backup.tar.gz --home ~/.recollect-restored")
def restore(
    archive: Annotated[
        Path, typer.Argument(help="A file made by 'recollect backup'.", exists=True, dir_okay=False)
    ],
    home: Home = None,
    json: Json = False,
) -> None:
    """Unpack a backup into an empty home, and verify it."""
    from dataclasses import asdict

    from recollect.app import open_home
    from recollect.entrypoints.cli.render import print_json, print_verification, progress_bar
    from recollect.service.rebuild import restore_home

    settings = settings_for(home)
    with progress_bar("restoring") as progress:
        result = asyncio.run(restore_home(archive, settings, open_home, progress))
    verification = {"ok": result.ok, **asdict(result)}
    print_json(verification) if json else print_verification(verification)
    if not result.ok:
        raise typer.Exit(1)


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
    from recollect.entrypoints.cli.render import print_json, print_table, shown_time

    query = {"limit": 1000} | ({"state": state} if state else {})
    found = with_home(home, lambda client: client.call("GET", "/api/v1/jobs", params=query))
    if json:
        print_json(found)
        return
    print_table(
        ("job", "kind", "thread", "state", "attempts", "next run", "error"),
        [
            (item["job_id"], item["kind"], item["thread_id"], item["state"], item["attempts"],
             shown_time(item["run_at"]), item["error"])
            for item in found["jobs"]
        ],
    )  # fmt: skip


@jobs_cli.command(epilog="Example: recollect jobs retry 17")
def retry(
    context: typer.Context,
    job_id: Annotated[int, typer.Argument(help="A dead job.")],
    home: Home = None,
    json: Json = False,
) -> None:
    """Give a dead job another chance, now."""
    from recollect.entrypoints.cli.render import print_json, say

    job = with_home(home or context.obj, lambda client: client.call("POST", f"/api/v1/jobs/{job_id}/retry"))
    print_json(job) if json else say(f"job {job['job_id']} ({job['kind']}) waits to run again")


@keys_cli.command(epilog="Example: recollect keys create --user ann --name laptop")
def create(
    space: Annotated[str, typer.Option(help="The space it opens.")] = "default",
    user: Annotated[str | None, typer.Option(help="Only this user of the space.")] = None,
    name: Annotated[str | None, typer.Option(help="To recognise it by.")] = None,
    home: Home = None,
    json: Json = False,
) -> None:
    """Make a key. It is shown once; from the first key on, every request needs one."""
    from recollect.entrypoints.cli.render import print_json, say

    body = {"space": space, "user_id": user, "name": name}
    key = with_home(home, lambda client: client.call("POST", "/api/v1/keys", json=body))
    print_json(key) if json else say(key["secret"])


@keys_cli.command("list", epilog="Example: recollect keys list --json")
def list_keys(home: Home = None, json: Json = False) -> None:
    """List keys, without their secrets."""
    from recollect.entrypoints.cli.render import print_json, print_table, shown_time

    found = with_home(home, lambda client: client.call("GET", "/api/v1/keys"))
    if json:
        print_json(found)
        return
    print_table(
        ("key", "space", "user", "name", "created", "revoked"),
        [
            (item["key_id"], item["space"], item["user_id"], item["name"], shown_time(item["created"]),
             shown_time(item["revoked"]))
            for item in found["keys"]
        ],
    )  # fmt: skip


@keys_cli.command(epilog="Example: recollect keys revoke k_1f2e3d4c5b6a")
def revoke(
    key_id: Annotated[str, typer.Argument(help="As 'keys list' shows it.")], home: Home = None
) -> None:
    """Revoke a key, at once and for good."""
    from recollect.entrypoints.cli.client import path_of
    from recollect.entrypoints.cli.render import say

    key = with_home(home, lambda client: client.call("DELETE", path_of("/api/v1/keys", key_id)))
    say(f"revoked {key['key_id']}")


if __name__ == "__main__":
    main()
