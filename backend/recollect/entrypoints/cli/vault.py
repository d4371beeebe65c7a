"""Commands for files that RECOLLECT_FILES_URL names: a folder to edit, and back."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.entrypoints.cli import render
from recollect.entrypoints.cli.options import Home, Json, settings_for
from recollect.entrypoints.cli.render import counted, say, show
from recollect.errors import InvalidInput

if TYPE_CHECKING:
    from recollect.service.vault.folder_copy import CopyReport, FolderCopy

vault_cli = typer.Typer(
    help="Edit files that are in S3, or in a shared folder: pull them into a folder, and push back what you changed.",
    no_args_is_help=True,
)
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder.")]


@vault_cli.command(
    epilog="Example: recollect vault pull ~/vault, edit there, then recollect vault push ~/vault"
)
def pull(folder: Folder, home: Home = None, json: Json = False) -> None:
    """Bring a folder up to date with the files in S3, or in a shared folder.

    What you changed in it stays, for a push. Where both sides changed a file, it gets theirs, and yours is
    kept beside as <name>.conflict-<digest>.md (other than Markdown: with its own ending). Hidden files stay where they are.
    """
    _exchange(home, folder, "pulling", lambda copy: copy.pull(), as_json=json)


@vault_cli.command(
    epilog="Examples: recollect vault push ~/vault  |  a home's folder moves there: recollect vault push"
    " ~/.recollect/vault"
)
def push(
    folder: Folder,
    force: Annotated[
        bool, typer.Option("--force", help="Remove files there, too, though a fifth of them is gone here.")
    ] = False,
    home: Home = None,
    json: Json = False,
) -> None:
    """Send what you changed in a folder back, where the server sees it at its next look.

    Where both sides changed a file, theirs stays, and yours is kept on both sides as
    <name>.conflict-<digest>.md. What you removed is removed there, unless it was changed there since.
    """
    _exchange(home, folder, "pushing", lambda copy: copy.push(force=force), as_json=json)


def _exchange(
    home: Path | None,
    folder: Path,
    title: str,
    work: "Callable[[FolderCopy], CopyReport]",
    *,
    as_json: bool,
) -> None:
    from dataclasses import asdict

    from recollect.infra.object_stores import objects_at
    from recollect.service.vault.folder_copy import FolderCopy

    settings = settings_for(home)
    if settings.files_url is None:
        raise InvalidInput(
            f"RECOLLECT_FILES_URL is not set: the files are in a folder already, {settings.vault_path}; edit them there"
        )
    with render.progress_bar(title) as progress:
        report = work(FolderCopy(objects_at(settings.files_url), folder, progress))
    show(asdict(report), print_copy, as_json=as_json)


def print_copy(report: dict[str, list[str]]) -> None:
    """How much went which way, and the names of conflicts."""
    done = [
        f"{counted(len(report[what]), 'file')} {what}"
        for what in ("brought", "sent", "removed")
        if report[what]
    ]
    say(", ".join(done) or "nothing to do")
    for path in report["conflicts"]:
        say(f"changed on both sides: your version is kept as {path}")
    for problem in report["left_out"]:
        say(f"PROBLEM: {problem}")
    if report["waiting"]:
        say(f"{counted(len(report['waiting']), 'file')} changed here and not pushed yet")
