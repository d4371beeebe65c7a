"""Entries for tests, with little said about them."""

from typing import Any

from recollect.domain.entries.entry import FACTS, KnownEntry, Source
from recollect.domain.model import Entry

ANN = "default/users/ann"
DAY = 24 * 60 * 60 * 1000
WHEN = 1_778_248_980_000
"""2026-05-08T14:03:00Z"""


def entry(entry_id: str = "fa-1", text: str = "Ann lives in Berlin.", **fields: Any) -> Entry:
    given = {"title": text, "when": WHEN, "by": "facts, rules", "extra": {}, **fields}
    return Entry(entry_id=entry_id, text=text, **given)


def known(
    entry_id: str = "fa-1",
    text: str = "Ann lives in Berlin.",
    *,
    owner: str = ANN,
    kind: str = FACTS,
    turns: tuple[str, ...] = (),
    thread: str = "t1",
    user: str | None = None,
    space: str = "default",
    cell: str = "",
    revision: int = 0,
    **fields: Any,
) -> KnownEntry:
    """`turns` are those of the thread that it cites, which is its owner's, or Ann's where that is an agent."""
    links = tuple(f"threads/{thread}/0001#^{turn}" for turn in turns)
    made = entry(entry_id, text, **{"sources": links, **fields})
    whose = user or ("ann" if "/agents/" in owner else owner.rpartition("/")[2])
    sources = tuple(Source(whose, thread, turn) for turn in turns)
    strategy = made.by.partition(",")[0]
    return KnownEntry(space, owner, kind, made, sources, cell=cell, strategy=strategy, revision=revision)
