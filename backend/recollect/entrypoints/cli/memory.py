"""Commands on what is remembered: messages, search, memories, forgetting."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recollect.entrypoints.cli import render
from recollect.entrypoints.cli.options import (
    Home,
    Json,
    Limit,
    OwnerFilter,
    Since,
    Space,
    Until,
    call,
    path_of,
    text_of,
    threads_of,
    with_home,
)
from recollect.entrypoints.cli.render import counted, moment, print_json, say, show

if TYPE_CHECKING:
    from recollect.entrypoints.cli.client import HomeClient

commands = typer.Typer()
_ENTRIES = "/api/v1/memory/entries"

EntryId = Annotated[
    str, typer.Argument(metavar="ID", help="As 'recollect entries' shows it: ep-…, fa-…, sk-…")
]


@commands.command(
    epilog="Examples: recollect add 'Marta moves to Porto' --session t1 --user ann"
    "  |  recollect add --file chat.jsonl --session t1"
)
def add(
    text: Annotated[str | None, typer.Argument(help="The message; - reads it from standard input.")] = None,
    session: Annotated[str, typer.Option(help="The thread that it belongs to.")] = "cli",
    user: Annotated[str | None, typer.Option(help="Who owns the thread.")] = None,
    role: Annotated[str, typer.Option(help="user, assistant, system or tool.")] = "user",
    sender: Annotated[str | None, typer.Option(help="Who spoke; default: the user, or the role.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="A file with one message per line, in the JSON of memory/add.")
    ] = None,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Add one message, or a file of them, to a thread."""
    from recollect.entrypoints.cli import client as adding

    messages = adding.messages_of(
        text, file, role=role, sender=sender or (user or "me" if role == "user" else role)
    )
    with render.progress_bar("adding") as progress:
        added = with_home(
            home, lambda client: adding.add_all(client, session, user, messages, progress), space
        )
    if json:
        print_json(added)
        return
    counts = {
        status: sum(receipt["status"] == status for receipt in added["receipts"])
        for status in adding.STATUSES
    }
    say(", ".join(f"{count} {status}" for status, count in counts.items() if count))
    if waiting := added["waiting"]:
        until = render.shown_time(waiting["until"])
        verb = "waits" if waiting["messages"] == 1 else "wait"
        say(
            f"{counted(waiting['messages'], 'message')} {verb} to be remembered, until {until} at the latest; "
            f"'recollect flush' does it now"
        )


@commands.command(
    epilog="Examples: recollect search 'when does Marta move?' --user ann"
    "  |  recollect search 'parse_date' --mode keyword --max-tokens 1000 --json"
)
def search(
    query: Annotated[str, typer.Argument(help="What to look for, in your own words.")],
    user: Annotated[str | None, typer.Option(help="Whose memory; default: me.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only threads of this agent.")] = None,
    mode: Annotated[str, typer.Option(help="hybrid, keyword or vector.")] = "hybrid",
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            help="turn, stretch, note, episode, fact, foresight, profile or case; may be repeated.",
        ),
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", help="Any of these tags; may be repeated.")
    ] = None,
    thread: Annotated[str | None, typer.Option(help="Only this thread.")] = None,
    since: Since = None,
    until: Until = None,
    top_k: Annotated[
        int | None, typer.Option(min=1, max=1000, help="At most this many hits; default: 10.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="The best hits that fit into this many tokens.")
    ] = None,
    neighbours: Annotated[int, typer.Option(min=0, max=20, help="Turns before and after each hit.")] = 0,
    whole: Annotated[
        bool, typer.Option("--whole", help="Whole texts instead of their best passages.")
    ] = False,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Search a user's memory; the best hits come first."""
    body: dict[str, Any] = {
        "query": query, "user_id": user or (None if agent else "me"), "agent_id": agent, "mode": mode,
        "types": types or [], "tags": tags or [], "thread_id": thread, "since": moment(since, "--since"),
        "until": moment(until, "--until"), "top_k": top_k, "max_tokens": max_tokens, "neighbours": neighbours,
        "passages": not whole,
    }  # fmt: skip
    found = call(home, space, "POST", "/api/v1/memory/search", json=body)
    show(found, lambda found: render.print_hits(found, user or "me"), as_json=json)


@commands.command(epilog="Example: recollect threads --user ann --json")
def threads(
    user: OwnerFilter = None,
    limit: Limit = 100,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """List threads."""
    columns = {
        "thread": "thread_id", "user": "user_id", "turns": "turn_count", "updated": "updated", "title": "title",
    }  # fmt: skip
    found = call(home, space, "GET", "/api/v1/threads", params={"limit": limit, "user_id": user})
    show(found, lambda found: render.print_records(columns, found["threads"]), as_json=json)


@commands.command(
    epilog="Examples: recollect flush t1 --user ann  |  recollect flush --user ann --timeout 120"
)
def flush(
    thread: Annotated[str | None, typer.Argument(help="The thread; default: every thread of --user.")] = None,
    user: Annotated[str | None, typer.Option(help="Whose.")] = None,
    timeout: Annotated[
        float, typer.Option(min=0, max=600, help="Wait at most this many seconds for each thread.")
    ] = 30,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Remember now: close what is open of a thread, or of all of a user's, and make memories of it.

    The exit code is 1 if memories could not be made.
    """
    if thread is None and user is None:
        raise typer.BadParameter("name a thread, or a user with --user")
    flushed = with_home(home, lambda client: _flush(client, thread, user, timeout), space)
    if json:
        print_json({"threads": flushed})
    else:
        for each in flushed:
            ending = {"done": "remembered", "pending": "memories are still being made"}
            told = ending.get(each["status"], each["error"])
            say(f"{each['session_id']}: {counted(len(each['memcells']), 'memcell')} closed; {told}")
        if not flushed:
            say("nothing waits to be remembered")
    if any(each["status"] == "failed" for each in flushed):
        raise typer.Exit(1)


async def _flush(
    client: "HomeClient", thread: str | None, user: str | None, seconds: float
) -> list[dict[str, Any]]:
    """Of a user's threads those of which something waits."""
    flushed = []
    for each in await threads_of(client, thread, user):
        owner = each["user_id"]
        now = each if thread else (await threads_of(client, each["thread_id"], owner))[0]
        if thread or now["waiting"]:
            body = {"session_id": each["thread_id"], "user_id": owner, "timeout": seconds}
            flushed.append(await client.call("POST", "/api/v1/memory/flush", json=body))
    return flushed


@commands.command(
    epilog="Examples: recollect entries --user ann --kind facts  |  recollect entries --since 2026-05-01 --json"
)
def entries(
    user: OwnerFilter = None,
    agent: Annotated[str | None, typer.Option(help="This agent's cases.")] = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            help="episodes, facts, foresight, profile or cases; may be repeated. Or skills, alone.",
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 100,
    after: Annotated[str | None, typer.Option(help="Continue after this entry.")] = None,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """List memories, the newest first."""
    query = {
        "user_id": user, "agent_id": agent, "kind": kinds or None, "since": moment(since, "--since"),
        "until": moment(until, "--until"), "after": after, "limit": limit,
    }  # fmt: skip
    show(call(home, space, "GET", _ENTRIES, params=query), render.print_entries, as_json=json)


@commands.command("show", epilog="Example: recollect show fa-3f9a2c71d0b4")
def show_entry(entry_id: EntryId, space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Print a memory, with the messages that it came from."""
    show(_call("GET", entry_id, home, space), render.print_entry, as_json=json)


@commands.command(
    epilog="Examples: recollect edit fa-3f9a2c71d0b4 --text 'Ann lives in Porto.'"
    "  |  recollect edit ep-3f9a2c71d0b4 --title 'The move' --file move.md"
    "  |  recollect edit sk-3f9a2c71d0b4 --file skill.md"
)
def edit(
    entry_id: EntryId,
    title: Annotated[str | None, typer.Option(help="A new title, on one line.")] = None,
    text: Annotated[str | None, typer.Option(help="A new text.")] = None,
    file: Annotated[
        str | None, typer.Option(help="A file with the new text; - reads it from standard input.")
    ] = None,
    when: Annotated[str | None, typer.Option(help="When it happened, in UTC: 2026-05-08T14:03.")] = None,
    revision: Annotated[int | None, typer.Option(min=1, help="Only if it still has this revision.")] = None,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Correct a memory. Extraction never changes what you wrote."""
    given = {"title": title, "text": text_of(text, file, "--text"), "when": moment(when, "--when")}
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if not changes:
        raise typer.BadParameter("say what to change: --title, --text, --file or --when")
    if revision is not None:
        changes["revision"] = revision
    _changed(_call("PATCH", entry_id, home, space, json=changes), "is yours now", json)


@commands.command(epilog="Example: recollect pin fa-3f9a2c71d0b4")
def pin(entry_id: EntryId, space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Pin a memory: it ranks higher in searches that share a word with it."""
    _changed(_call("PATCH", entry_id, home, space, json={"pinned": True}), "is pinned", json)


@commands.command(epilog="Example: recollect unpin fa-3f9a2c71d0b4")
def unpin(entry_id: EntryId, space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Take the pin off a memory."""
    _changed(_call("PATCH", entry_id, home, space, json={"pinned": False}), "is no longer pinned", json)


@commands.command(epilog="Example: recollect delete fa-3f9a2c71d0b4")
def delete(
    entry_id: EntryId,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Delete a memory and its history. It is never made again, and can't be brought back."""
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


@commands.command(epilog="Example: recollect history fa-3f9a2c71d0b4")
def history(entry_id: EntryId, space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Print every version of a memory, and who changed it."""
    show(_call("GET", entry_id, home, space, "/history"), render.print_history, as_json=json)


@commands.command(
    epilog="Examples: recollect undo fa-3f9a2c71d0b4  |  recollect undo fa-3f9a2c71d0b4 --revision 2"
)
def undo(
    entry_id: EntryId,
    revision: Annotated[
        int | None, typer.Option(min=1, help="Back to this revision; default: undo the last change.")
    ] = None,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Undo the last change of a memory, or all since a revision; undo again to redo."""
    body = {} if revision is None else {"revision": revision}
    _changed(_call("POST", entry_id, home, space, "/undo", json=body), "is as it was", json)


@commands.command(epilog="Example: recollect why pr-3f9a2c71d0b4")
def why(entry_id: EntryId, space: Space = "default", home: Home = None, json: Json = False) -> None:
    """Print where a memory came from: what made it, from which messages."""
    show(_call("GET", entry_id, home, space, "/why"), render.print_why, as_json=json)


def _call(
    method: str, entry_id: str, home: Path | None, space: str, more: str = "", **options: Any
) -> dict[str, Any]:
    return call(home, space, method, path_of(_ENTRIES, entry_id) + more, **options)


def _changed(entry: dict[str, Any], how: str, json: bool) -> None:
    print_json(entry) if json else say(
        f"{entry['id']} {how} (revision {entry['revision']}): {entry['title']}"
    )


@commands.command(
    epilog="Examples: recollect forget t1 --user ann  |  recollect forget t1 t-12 --with-answers"
    "  |  recollect forget --user ann --yes"
)
def forget(
    thread: Annotated[str | None, typer.Argument(help="The thread to forget.")] = None,
    turn: Annotated[str | None, typer.Argument(help="Only this turn of the thread: t-12.")] = None,
    user: Annotated[
        str | None, typer.Option(help="Whose thread; without a thread: the user, with all that is theirs.")
    ] = None,
    with_answers: Annotated[
        bool, typer.Option("--with-answers", help="Forget the answers to the turn, too.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Forget a message, a thread or a user, with all that came from them. It can't be undone."""
    if thread is None and user is None:
        raise typer.BadParameter("name a thread, or a user with --user")
    if turn is None and with_answers:
        raise typer.BadParameter("--with-answers goes with a turn")
    what, path = _what(thread, turn, user)
    if not yes:
        typer.confirm(f"Forget {what}, with all that came from it, for good?", abort=True)
    whose = None if thread is None else user
    params = {"answers": "true" if with_answers else None, "user_id": whose}
    forgotten = call(home, space, "DELETE", path, params=params)
    if json:
        print_json(forgotten)
        return
    went = f", {forgotten['entries']} memories" if "entries" in forgotten else ""
    say(f"forgot {forgotten['forgotten']} turns{went}")


def _what(thread: str | None, turn: str | None, user: str | None) -> tuple[str, str]:
    """What to forget, in words, and its path."""
    if thread is None:
        return f"the user {user!r}", path_of("/api/v1/users", str(user))
    path, named = (
        path_of("/api/v1/threads", thread),
        f"the thread {thread!r}" + (f" of {user!r}" if user else ""),
    )
    return (named, path) if turn is None else (f"{turn} of {named}", path_of(f"{path}/turns", turn))


@commands.command(
    epilog="Examples: recollect reprocess --user ann  |  recollect reprocess --thread t1 --strategy facts"
    "  |  recollect reprocess --ask-again"
)
def reprocess(
    user: OwnerFilter = None,
    thread: Annotated[str | None, typer.Option(help="Only this thread.")] = None,
    strategies: Annotated[
        list[str] | None,
        typer.Option("--strategy", help="episode, facts, foresight or case; may be repeated."),
    ] = None,
    ask_again: Annotated[
        bool, typer.Option("--ask-again", help="Don't use the model's cached answers: ask it again.")
    ] = False,
    space: Space = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Make the memories of conversations again. They replace the old ones; what you wrote stays."""
    body = {"user_id": user, "thread_id": thread, "strategies": strategies or [], "ask_again": ask_again}
    queued = call(home, space, "POST", "/api/v1/memory/reprocess", json=body)
    told = f"{queued['memcells']} memcells, {queued['jobs']} jobs queued; 'recollect jobs' shows what waits"
    print_json(queued) if json else say(told)
