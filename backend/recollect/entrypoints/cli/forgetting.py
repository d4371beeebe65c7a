"""`recollect forget`, and what `recollect verify --forgotten` prints."""

from pathlib import Path
from typing import Annotated, Any

import typer

EPILOG = "Examples: recollect forget t1  |  recollect forget t1 t-12 --with-answers  |  recollect forget --user ann --yes"

Home = Annotated[
    Path | None,
    typer.Option("--home", help="Folder of journal and vault; else RECOLLECT_HOME, else ~/.recollect."),
]


def forget(
    thread: Annotated[str | None, typer.Argument(help="A thread, to be forgotten whole.")] = None,
    turn: Annotated[str | None, typer.Argument(help="Only this turn of the thread: t-12.")] = None,
    user: Annotated[str | None, typer.Option(help="A user, with all that is theirs.")] = None,
    with_answers: Annotated[
        bool, typer.Option("--with-answers", help="What was answered to the turn goes, too.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    space: Annotated[str, typer.Option("--space", help="The space to act in.")] = "default",
    home: Home = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Forget a message, a thread or a user, with all that came from them. It can't be undone."""
    from recollect.entrypoints.cli.main import with_home
    from recollect.entrypoints.cli.rendering import print_json, say

    if (thread is None) == (user is None):
        raise typer.BadParameter("name a thread, or a user with --user")
    if turn is None and with_answers:
        raise typer.BadParameter("--with-answers goes with a turn")
    what, path = _what(thread, turn, user)
    if not yes:
        typer.confirm(f"Forget {what}, with all that came from it, for good?", abort=True)
    query = {"answers": "true"} if with_answers else {}
    forgotten: dict[str, Any] = with_home(
        home, lambda client: client.call("DELETE", path, params=query), space
    )
    if json:
        print_json(forgotten)
        return
    went = f", {forgotten['entries']} memories" if "entries" in forgotten else ""
    say(f"forgot {forgotten['forgotten']} turns{went}")


def _what(thread: str | None, turn: str | None, user: str | None) -> tuple[str, str]:
    """In words, and its address."""
    from recollect.entrypoints.cli.client import path_of

    if thread is None:
        return f"the user {user!r}", path_of("/api/v1/users", str(user))
    if turn is None:
        return f"the thread {thread!r}", path_of("/api/v1/threads", thread)
    return f"{turn} of the thread {thread!r}", path_of(f"{path_of('/api/v1/threads', thread)}/turns", turn)


def print_forgotten(result: dict[str, Any]) -> None:
    """What was looked at, how much of it, and what was found."""
    from recollect.entrypoints.cli.rendering import print_table, say

    say(f"{result['tombstones']} messages were forgotten; looked at:")
    print_table(("what", "how many"), list(result["looked_at"].items()))
    say()
    for text in result["notes"]:
        say(f"note: {text}")
    for text in result["problems"]:
        say(f"FOUND: {text}")
    say("ok: nothing is left of them" if result["ok"] else "NOT OK")
