"""`recollect reprocess`: make memories anew with the model and prompts that are in force now."""

from pathlib import Path
from typing import Annotated, Any

import typer

EPILOG = (
    "Examples: recollect reprocess --user ann  |  recollect reprocess --thread t1 --strategy facts"
    "  |  recollect reprocess --ask-again"
)


def reprocess(
    user: Annotated[str | None, typer.Option(help="Whose; unset: everybody's in the space.")] = None,
    thread: Annotated[str | None, typer.Option(help="Only this thread.")] = None,
    strategies: Annotated[
        list[str] | None,
        typer.Option("--strategy", help="episode, facts, foresight or case; may be given again."),
    ] = None,
    ask_again: Annotated[
        bool, typer.Option("--ask-again", help="Ask the model anew, though it has answered before.")
    ] = False,
    space: Annotated[str, typer.Option("--space", help="The space to act in.")] = "default",
    home: Annotated[
        Path | None,
        typer.Option("--home", help="Folder of journal and vault; else RECOLLECT_HOME, else ~/.recollect."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Make the memories of conversations anew. What is made takes the place of what was; your own words stay."""
    from recollect.entrypoints.cli.main import with_home
    from recollect.entrypoints.cli.rendering import print_json, say

    body: dict[str, Any] = {
        "user_id": user,
        "thread_id": thread,
        "strategies": strategies or [],
        "ask_again": ask_again,
    }
    queued = with_home(
        home, lambda client: client.call("POST", "/api/v1/memory/reprocess", json=body), space=space
    )
    if json:
        print_json(queued)
    else:
        say(f"{queued['memcells']} memcells, {queued['jobs']} jobs queued; 'recollect jobs' shows what waits")
