"""What commands share: their common options, and how they reach a home. Heavy imports wait until a command runs."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from recollect.entrypoints.cli.client import HomeClient
    from recollect.settings import Settings

T = TypeVar("T")
Home = Annotated[
    Path | None,
    typer.Option("--home", help="Folder of journal and vault; else RECOLLECT_HOME, else ~/.recollect."),
]
Space = Annotated[str, typer.Option("--space", help="The space to act in.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def settings_for(home: Path | None, **overrides: Any) -> "Settings":
    from recollect.settings import load_settings

    return load_settings(home=home, **overrides)


def with_home(home: Path | None, work: "Callable[[HomeClient], Awaitable[T]]", space: str | None = None) -> T:
    """Run `work` with a client of the home's server, or of the home itself where none runs."""
    from recollect.entrypoints.cli.client import home_client

    settings = settings_for(home)

    async def run() -> T:
        async with home_client(settings, space) as client:
            return await work(client)

    return asyncio.run(run())
