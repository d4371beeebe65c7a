"""`recollect mcp`: the memory as tools for agents on this machine."""

import asyncio
from typing import Annotated

import typer

from recollect.entrypoints.cli.options import Home, settings_for

mcp_cli = typer.Typer(help="Serve the memory to an agent, over the Model Context Protocol.")
User = Annotated[str | None, typer.Option(help="Whose memory; default: the key's user, else me.")]
Key = Annotated[
    str | None,
    typer.Option(envvar="RECOLLECT_API_KEY", help="An API key; default: the right of who owns the home."),
]
Url = Annotated[
    str | None, typer.Option(help="A server's address; default: the one that runs on this home, else none.")
]


@mcp_cli.callback(
    invoke_without_command=True,
    epilog="Examples: recollect mcp --user ann  |  recollect mcp --url https://memory.example --key rk_…",
)
def serve_stdio(
    context: typer.Context,
    user: User = None,
    key: Key = None,
    url: Url = None,
    space: Annotated[str | None, typer.Option("--space", help="The space; default: the key's.")] = None,
    home: Home = None,
) -> None:
    """Serve the memory to an agent over stdin and stdout, as agents start it themselves.

    Where a server runs on this home, it answers; else the home is opened for as long as the agent runs.
    """
    if context.invoked_subcommand is None:
        from recollect.entrypoints.cli.stdio import run_stdio

        asyncio.run(run_stdio(settings_for(home), url, key, user, space))
