"""Commands on memories: list, show, edit, pin, delete, undo, why, forget, reprocess."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from recollect.entrypoints.cli.options import Home, Json, Space, with_home

_ENTRIES = "/api/v1/memory/entries"
_SKILLS = "/api/v1/memory/skills"

EntryId = Annotated[
    str, typer.Argument(metavar="ID", help="As 'recollect entries' shows it: ep-…, fa-…, sk-…")
]


def add_commands(cli: typer.Typer) -> None:
    """Put the commands on entries beside the others."""
    examples: dict[Callable[..., None], str] = {
        entries: "Examples: recollect entries --user ann --kind facts  |  recollect entries --since 2026-05-01 --json",
        skills: "Example: recollect skills --user ann",
        show: "Example: recollect show fa-3f9a2c71d0b4",
        edit: "Examples: recollect edit fa-3f9a2c71d0b4 --text 'Ann lives in Porto.'"
        "  |  recollect edit ep-3f9a2c71d0b4 --title 'The move' --file move.md"
        "  |  recollect edit sk-3f9a2c71d0b4 --file skill.md",
        pin: "Example: recollect pin fa-3f9a2c71d0b4",
        unpin: "Example: recollect unpin fa-3f9a2c71d0b4",
        delete: "Example: recollect delete fa-3f9a2c71d0b4",
        history: "Example: recollect history fa-3f9a2c71d0b4",
        undo: "Examples: recollect undo fa-3f9a2c71d0b4  |  recollect undo fa-3f9a2c71d0b4 --revision 2",
        why: "Example: recollect why pr-3f9a2c71d0b4",
    }
    for command, epilog in examples.items():
        cli.command(epilog=epilog)(command)


def entries(
    user: Annotated[str | None, typer.Option(help="Whose; unset: everybody's in the space.")] = None,
    agent: Annotated[str | None, typer.Option(help="This agent's cases.")] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help="episodes, facts, foresight, profile or cases; may be given again. Or skills, alone.",
        ),
    ] = None,
    since: Annotated[str | None, typer.Option(help="From this day or time on, UTC: 2026-05-08.")] = None,
    until: Annotated[str | None, typer.Option(help="Before this day or time, UTC.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 100,
    after: Annotated[str | None, typer.Option(help="Go on after this entry.")] = None,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """List memories, the newest first."""
    from recollect.entrypoints.cli.render import moment, print_entries, print_json

    given = {
        "user_id": user, "agent_id": agent, "kind": kinds or None, "since": moment(since, "--since"),
        "until": moment(until, "--until"), "after": after,
    }  # fmt: skip
    query: dict[str, Any] = {"limit": limit} | {
        key: value for key, value in given.items() if value is not None
    }
    found = with_home(home, lambda client: client.call("GET", _ENTRIES, params=query), space)
    print_json(found) if json else print_entries(found)


def skills(
    user: Annotated[str | None, typer.Option(help="Whose; unset: everybody's in the space.")] = None,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """List the skills that agents learned, and their files."""
    from recollect.entrypoints.cli.render import print_json, print_skills

    query = {} if user is None else {"user_id": user}
    found = with_home(home, lambda client: client.call("GET", _SKILLS, params=query), space)
    print_json(found) if json else print_skills(found)


def show(entry_id: EntryId, space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Print a memory, with the words it came from."""
    from recollect.entrypoints.cli.render import print_entry, print_json

    entry = _call("GET", entry_id, home, space)
    print_json(entry) if json else print_entry(entry)


def edit(
    entry_id: EntryId,
    title: Annotated[str | None, typer.Option(help="A new title, on one line.")] = None,
    text: Annotated[str | None, typer.Option(help="A new text.")] = None,
    file: Annotated[
        str | None, typer.Option(help="A file with the new text; - reads it from standard input.")
    ] = None,
    when: Annotated[str | None, typer.Option(help="When it happened, UTC: 2026-05-08T14:03.")] = None,
    revision: Annotated[int | None, typer.Option(min=1, help="Only if it still has this revision.")] = None,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Correct a memory. What you write wins over extraction for ever."""
    from recollect.entrypoints.cli.render import moment

    given = {
        "title": title,
        "text": _new_text(text, file),
        "when": moment(when, "--when"),
    }
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if not changes:
        raise typer.BadParameter("say what to change: --title, --text, --file or --when")
    if revision is not None:
        changes["revision"] = revision
    _changed(_call("PATCH", entry_id, home, space, json=changes), "is yours now", json)


def pin(entry_id: EntryId, space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Pin a memory: it comes first."""
    _changed(_call("PATCH", entry_id, home, space, json={"pinned": True}), "is pinned", json)


def unpin(entry_id: EntryId, space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Let a pinned memory go."""
    _changed(_call("PATCH", entry_id, home, space, json={"pinned": False}), "is no longer pinned", json)


def delete(
    entry_id: EntryId,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Forget a memory, with its history: it is never made again, and can't be brought back."""
    from recollect.entrypoints.cli.render import print_json, say

    if not yes and sys.stdin.isatty():
        typer.confirm(f"Forget {entry_id} for good?", abort=True)
    gone = _call("DELETE", entry_id, home, space)
    if json:
        print_json(gone)
        return
    say(f"deleted {gone['id']}")
    for each in gone["went_along"]:
        say(f"deleted {each['id']} ({each['kind']}), which was made of it")
    for each in gone["changed"]:
        say(f"changed {each}, which named it")


def history(entry_id: EntryId, space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Print every version of a memory, and who made it so."""
    from recollect.entrypoints.cli.render import print_history, print_json

    found = _call("GET", entry_id, home, space, "/history")
    print_json(found) if json else print_history(found)


def undo(
    entry_id: EntryId,
    revision: Annotated[
        int | None, typer.Option(min=1, help="Back to this revision; unset: the last change is undone.")
    ] = None,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Take back the last change of a memory, or all since a revision; undo again to have it back."""
    body = {} if revision is None else {"revision": revision}
    _changed(_call("POST", entry_id, home, space, "/undo", json=body), "is as it was", json)


def why(entry_id: EntryId, space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Print where a memory came from: what made it, of which words."""
    from recollect.entrypoints.cli.render import print_json, print_why

    reason = _call("GET", entry_id, home, space, "/why")
    print_json(reason) if json else print_why(reason)


def _call(
    method: str, entry_id: str, home: Path | None, space: str, more: str = "", **options: Any
) -> dict[str, Any]:
    from recollect.entrypoints.cli.client import path_of

    path = path_of(_ENTRIES, entry_id) + more
    answer: dict[str, Any] = with_home(home, lambda client: client.call(method, path, **options), space)
    return answer


def _changed(entry: dict[str, Any], how: str, json: bool) -> None:
    from recollect.entrypoints.cli.render import print_json, say

    print_json(entry) if json else say(
        f"{entry['id']} {how} (revision {entry['revision']}): {entry['title']}"
    )


def _new_text(text: str | None, file: str | None) -> str | None:
    """What an editor leaves around a text is no part of it."""
    if text is not None and file is not None:
        raise typer.BadParameter("give either --text or --file", param_hint="--file")
    if file == "-":
        return sys.stdin.read().strip()
    return text if file is None else Path(file).read_text(encoding="utf-8").strip()


FORGET_EPILOG = "Examples: recollect forget t1  |  recollect forget t1 t-12 --with-answers  |  recollect forget --user ann --yes"


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
    from recollect.entrypoints.cli.render import print_json, say

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
    from recollect.entrypoints.cli.render import print_table, say

    say(f"{result['tombstones']} messages were forgotten; looked at:")
    print_table(("what", "how many"), list(result["looked_at"].items()))
    say()
    for text in result["notes"]:
        say(f"note: {text}")
    for text in result["problems"]:
        say(f"FOUND: {text}")
    say("ok: nothing is left of them" if result["ok"] else "NOT OK")


REPROCESS_EPILOG = (
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
    from recollect.entrypoints.cli.render import print_json, say

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
