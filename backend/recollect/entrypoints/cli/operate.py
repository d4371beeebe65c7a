"""Commands of whoever runs the server: serve, verify, rebuild, backup, export, restore, reindex, jobs, keys."""

import asyncio
import json as json_module
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recollect.entrypoints.cli import render
from recollect.entrypoints.cli.options import (
    Home,
    Json,
    OwnerFilter,
    Space,
    call,
    call_with_progress,
    path_of,
    settings_for,
    threads_of,
    with_home,
)
from recollect.entrypoints.cli.render import print_json, say, show
from recollect.errors import Conflict

if TYPE_CHECKING:
    from recollect.entrypoints.cli.client import HomeClient

commands = typer.Typer()
jobs_cli = typer.Typer(help="List jobs that are not done, and retry dead ones.", no_args_is_help=False)
keys_cli = typer.Typer(help="Make, list, rotate and revoke API keys.", no_args_is_help=True)


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


@commands.command(epilog="Examples: recollect verify --json  |  recollect verify --forgotten")
def verify(
    repair: Annotated[
        bool, typer.Option("--repair", help="Write files that are missing from the vault.")
    ] = False,
    forgotten: Annotated[
        bool, typer.Option("--forgotten", help="Check instead that nothing is left of what was forgotten.")
    ] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Check that no message is missing, that the vault equals the journal, and the index the vault.

    The exit code is 1 if a check fails.
    """
    body = {"repair": repair, "forgotten": forgotten}
    result = call_with_progress(home, "verifying", "/api/v1/verify", body)
    show(result, render.print_forgotten if forgotten else render.print_verification, as_json=json)
    if not result["ok"]:
        raise typer.Exit(1)


@commands.command(epilog="Example: recollect rebuild (stop the server first)")
def rebuild(home: Home = None, json: Json = False) -> None:
    """Make the journal again from the vault alone."""
    from dataclasses import asdict

    from recollect.app import open_home
    from recollect.service.rebuild import rebuild_home

    settings = settings_for(home)
    with render.progress_bar("rebuilding") as progress:
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
        render.print_verification(verification)
    if not result.ok or report.problems:
        raise typer.Exit(1)


@commands.command(epilog="Example: recollect backup ~/recollect-2026-05-08.tar.gz")
def backup(
    target: Annotated[Path, typer.Argument(help="The file to write; it must not exist.")],
    home: Home = None,
    json: Json = False,
) -> None:
    """Save journal and vault as they are at one moment, while the server runs, and verify the file."""
    import shutil

    if target.exists():
        raise typer.BadParameter(f"{target} exists already", param_hint="TARGET")
    target.absolute().parent.mkdir(parents=True, exist_ok=True)
    target.touch(exist_ok=False)  # Fails before the work, if it cannot be written.
    target.unlink()
    result = call_with_progress(home, "backing up", "/api/v1/backup")
    shutil.move(result["path"], target)
    result["path"] = str(target)
    print_json(result) if json else say(f"saved and verified {result['files']} files in {target}")


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
    show(told, lambda _: say(f"exported {render.counted(len(threads), 'thread')} to {to}"), as_json=json)


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


@commands.command(epilog="Example: recollect restore backup.tar.gz --home ~/.recollect-restored")
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
    from recollect.service.rebuild import restore_home

    settings = settings_for(home)
    with render.progress_bar("restoring") as progress:
        result = asyncio.run(restore_home(archive, settings, open_home, progress))
    show({"ok": result.ok, **asdict(result)}, render.print_verification, as_json=json)
    if not result.ok:
        raise typer.Exit(1)


@commands.command(epilog="Example: recollect reindex (while the server runs)")
def reindex(home: Home = None, json: Json = False) -> None:
    """Build a new index from journal and vault, verify it, and swap it in; search goes on meanwhile."""
    show(call_with_progress(home, "indexing", "/api/v1/reindex"), render.print_reindexed, as_json=json)


@commands.command(epilog="Examples: recollect upgrade  |  recollect upgrade --undo")
def upgrade(
    undo: Annotated[
        bool, typer.Option("--undo", help="Put back the files that an upgrade replaced, byte for byte.")
    ] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Write old transcripts and memories in the form of today. The files of before are kept."""
    doing = "putting back" if undo else "upgrading"
    result = call_with_progress(home, doing, "/api/v1/upgrade", {"undo": undo})
    show(result, lambda result: render.print_upgraded(result, undo=undo), as_json=json)


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
    show(found, lambda found: render.print_records(columns, found["jobs"]), as_json=json)


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
    render.print_records(columns, [key | {"scopes": ",".join(key["scopes"])} for key in found["keys"]])


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
