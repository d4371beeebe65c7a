"""What commands share: their options, and how they reach a home. Heavy imports wait until a command runs."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote

import typer

from recollect.entrypoints.cli.render import progress_bar
from recollect.errors import InvalidInput

if TYPE_CHECKING:
    from recollect.entrypoints.cli.client import HomeClient
    from recollect.settings import Settings

T = TypeVar("T")
Home = Annotated[
    Path | None,
    typer.Option("--home", help="Folder of journal and vault; default: RECOLLECT_HOME, else ~/.recollect."),
]
Space = Annotated[str, typer.Option("--space", help="The space to work in.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
OwnerFilter = Annotated[str | None, typer.Option(help="Whose; default: everybody's in the space.")]
Since = Annotated[str | None, typer.Option(help="From this day or time on, in UTC: 2026-05-08.")]
Until = Annotated[str | None, typer.Option(help="Before this day or time, in UTC.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="List at most this many.")]


def settings_for(home: Path | None, **overrides: Any) -> "Settings":
    from recollect.settings import load_settings

    return load_settings(home=home, **overrides)


def with_home(home: Path | None, work: "Callable[[HomeClient], Awaitable[T]]", space: str | None = None) -> T:
    """Run `work` with a client of the home's server, or of the home itself where no server runs."""
    from recollect.entrypoints.cli.client import home_client

    settings = settings_for(home)

    async def run() -> T:
        async with home_client(settings, space, briefly=True) as client:
            return await work(client)

    return asyncio.run(run())


def call(home: Path | None, space: str | None, method: str, path: str, **options: Any) -> dict[str, Any]:
    """One request to the HTTP API; its answer."""
    answer: dict[str, Any] = with_home(home, lambda client: client.call(method, path, **options), space)
    return answer


def call_with_progress(
    home: Path | None, title: str, path: str, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A request that takes a while, with a progress bar on a terminal."""
    with progress_bar(title) as progress:
        return with_home(home, lambda client: client.call_with_progress(path, body or {}, progress))


def path_of(collection: str, identifier: str) -> str:
    """The path of what a person named by its id: the id must not lead anywhere else."""
    if identifier in {"", ".", ".."}:
        raise InvalidInput(f"{identifier!r} is no id")
    return f"{collection}/{quote(identifier, safe='')}"


async def threads_of(client: "HomeClient", thread: str | None, user: str | None) -> list[dict[str, Any]]:
    """One thread, or all threads of a user or of the space, oldest first."""
    if thread is not None:
        return [await client.call("GET", path_of("/api/v1/threads", thread), params={"user_id": user})]
    found: list[dict[str, Any]] = []
    after = None
    while True:
        params = {"user_id": user, "limit": 1000, "after": after}
        page = await client.call("GET", "/api/v1/threads", params=params)
        found += page["threads"]
        if (after := page.get("next")) is None:
            return found


def text_of(text: str | None, file: str | None, option: str) -> str | None:
    """A text from an option, or from `--file` (`-`: standard input) without blank lines around it."""
    if text is not None and file is not None:
        raise typer.BadParameter(f"give either {option} or --file", param_hint="--file")
    if file == "-":
        return sys.stdin.read().strip()
    return text if file is None else Path(file).read_text(encoding="utf-8").strip()
