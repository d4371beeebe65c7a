"""`recollect search` and `recollect reindex`."""

from typing import Annotated, Any

import typer

from recollect.entrypoints.cli.options import Home, Json, with_home

EPILOG = (
    "Examples: recollect search 'when does Marta move?' --user ann"
    "  |  recollect search 'parse_date' --mode keyword --max-tokens 1000 --json"
)
REINDEX_EPILOG = "Example: recollect reindex (while the server runs)"


def search(
    query: Annotated[str, typer.Argument(help="What to look for, in your own words.")],
    user: Annotated[str | None, typer.Option(help="Whose memory; unset: me.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only threads of this agent.")] = None,
    mode: Annotated[str, typer.Option(help="hybrid, keyword or vector.")] = "hybrid",
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            help="turn, stretch, note, episode, fact, foresight, profile or case; may be given again.",
        ),
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", help="Any of these tags; may be given again.")
    ] = None,
    thread: Annotated[str | None, typer.Option(help="Only this thread.")] = None,
    since: Annotated[str | None, typer.Option(help="From this day or time on, UTC: 2026-05-08.")] = None,
    until: Annotated[str | None, typer.Option(help="Before this day or time, UTC.")] = None,
    top_k: Annotated[int | None, typer.Option(min=1, max=1000, help="Most hits; unset: 10.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="The best hits with so many tokens together.")
    ] = None,
    neighbours: Annotated[int, typer.Option(min=0, max=20, help="Turns before and after each hit.")] = 0,
    whole: Annotated[
        bool, typer.Option("--whole", help="Whole texts instead of their best passages.")
    ] = False,
    space: Annotated[str, typer.Option("--space", help="The space to act in.")] = "default",
    home: Home = None,
    json: Json = False,
) -> None:
    """Find what a user's memory holds on a query, the best first."""
    from recollect.entrypoints.cli.render import moment, print_json

    body: dict[str, Any] = {
        "query": query,
        "user_id": user or (None if agent else "me"),
        "agent_id": agent,
        "mode": mode,
        "types": types or [],
        "tags": tags or [],
        "thread_id": thread,
        "since": moment(since, "--since"),
        "until": moment(until, "--until"),
        "top_k": top_k,
        "max_tokens": max_tokens,
        "neighbours": neighbours,
        "passages": not whole,
    }
    found = with_home(home, lambda client: client.call("POST", "/api/v1/memory/search", json=body), space)
    print_json(found) if json else _print_hits(found, user or "me")


def reindex(home: Home = None, json: Json = False) -> None:
    """Make the index anew from journal and vault, prove it, and swap it in; search goes on meanwhile."""
    from recollect.entrypoints.cli.render import print_json, progress_bar, say

    with progress_bar("indexing") as progress:
        result = with_home(home, lambda client: client.call_with_progress("/api/v1/reindex", {}, progress))
    if json:
        print_json(result)
    else:
        say(f"the index is new and equals the vault; {result['embedded']} texts were embedded")
        for path in result["unreadable"]:
            say(f"note: {path} cannot be read, and is found as it was before")


def _print_hits(found: dict[str, Any], user: str) -> None:
    from recollect.entrypoints.cli.render import say, shown_time

    for hit in found["hits"]:
        who = hit["sender_id"] or hit["role"] or hit["type"]
        say(
            f"{hit['score']:.2f}  {shown_time(hit['timestamp'])}  {who}  {hit['path'] or hit['thread_id'] or ''}"
        )
        for line in hit["text"].splitlines():
            say(f"      {line}")
        why = ", ".join(
            f"{name} {value:.2f}" for name, value in sorted(hit["why"].items(), key=lambda x: -x[1])
        )
        say(f"      ({why})")
        for turn in hit["neighbours"] or ():
            say(f"      | {turn['sender_id']}: {turn['content'][:200]}")
        say()
    if not found["hits"]:
        say(f"nothing found in {found['searched']['texts']} texts of the user {user}")
    for text in found["degraded"]:
        say(f"note: {text}")
