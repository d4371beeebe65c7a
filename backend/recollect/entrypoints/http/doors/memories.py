"""What the memory SDKs have in common, each in its own words: messages in, a user's memories out.

They know facts, plans and episodes as memories. A memory that was superseded is history, and not listed.
"""

import math
from collections.abc import Sequence
from typing import Any

from recollect.domain.entries.entry import EPISODES, FACTS, FORESIGHT, KnownEntry
from recollect.domain.model import Append, JsonObject, NewTurn, Receipt, Role, ThreadRef
from recollect.domain.recall.hits import Hit
from recollect.entrypoints.http.access import body_bytes
from recollect.entrypoints.http.doors.mcp_tools import Asking
from recollect.entrypoints.http.requests import SearchBody
from recollect.service.entries import EntryFilter, ShownEntry
from recollect.service.threads import Flushed, flush_thread, memorize, refuse_backlog

KINDS = (FACTS, FORESIGHT, EPISODES)
_ROWS = ["fact", "foresight", "episode"]
_PAGE = 500


async def add(asking: Asking, append: Append) -> list[Receipt]:
    """Store messages, as the native route does."""
    home = asking.home
    asking.act_as("POST", "/api/v1/memory/add", thread=append.thread_id)
    size, backlog = body_bytes(asking.request.scope), home.settings.limits.backlog
    overtaken = home.search.indexer.overtaken
    await refuse_backlog(home.THREADS, home.jobs, overtaken, home.quotas, append, size, backlog)
    receipts = await memorize(home.THREADS, append)
    home.metrics.observe_messages(receipt.status for receipt in receipts)
    return receipts


async def flush(asking: Asking, thread_id: str, seconds: float = 0) -> Flushed:
    """Have memories made of a thread now, and wait for them for so long."""
    home = asking.home
    return await flush_thread(
        home.THREADS, home.cells, home.jobs, asking.caller, thread_id, asking.user_id, seconds
    )


async def search(asking: Asking, **wanted: Any) -> list[Hit]:
    """The best first; `wanted` are fields of the native search."""
    asking.act_as("POST", "/api/v1/memory/search")
    body = SearchBody(user_id=asking.user_id, types=wanted.pop("types", _ROWS), passages=False, **wanted)
    found = await asking.home.search.recall.search(asking.caller, body.search())
    asking.home.metrics.observe_search(body.mode, degraded=bool(found.degraded))
    return found.hits


async def holding(asking: Asking, wanted: EntryFilter, most: int) -> list[ShownEntry]:
    """The memories that hold, the newest first."""
    asking.act_as("GET", "/api/v1/memory/entries")
    found: list[ShownEntry] = []
    after: str | None = None
    while len(found) < most:
        page = await asking.home.entries.list_entries(asking.caller, wanted, _PAGE, after)
        found += [shown for shown in page if shown.known.holds]
        if len(page) < _PAGE:
            break
        after = page[-1].known.entry_id
    return found[:most]


async def made_of(
    asking: Asking, thread_id: str, receipts: Sequence[Receipt], since: int
) -> list[KnownEntry]:
    """The memories that came from messages of this time or later."""
    turns = {receipt.turn_id for receipt in receipts}
    return [
        shown.known
        for shown in await holding(asking, EntryFilter(asking.user_id, kinds=KINDS, since=since), _PAGE)
        if any(source.thread_id == thread_id and source.turn_id in turns for source in shown.known.sources)
    ]


async def keep_beside(
    asking: Asking, thread_id: str, receipts: Sequence[Receipt], stage: str, detail: JsonObject
) -> None:
    """Keep what a protocol has beside a message, and Recollect has no place for, in the receipts of its turns."""
    thread = ThreadRef(asking.caller.space, asking.user_id, thread_id)
    for receipt in receipts:
        if receipt.turn_id is not None:
            await asking.home.chats.record_receipt(thread, receipt.turn_id, stage, detail)


async def kept_beside(asking: Asking, known: KnownEntry, stage: str) -> JsonObject:
    """What `keep_beside` keeps for the turns that a memory came from; what came later wins."""
    found: JsonObject = {}
    threads: dict[ThreadRef, list[str]] = {}
    for source in known.sources:
        threads.setdefault(source.thread_in(known.space), []).append(source.turn_id)
    for thread, turns in threads.items():
        for stages in (await asking.home.cells.receipts(thread, turns)).values():
            found |= stages.get(stage, {})
    return found


def share(score: float) -> float:
    """A score between 0 and 1, as these protocols have it: comparable within one answer."""
    return round(1 / (1 + math.exp(-max(-50.0, score))), 4)


def turn(role: Role, content: str, at: int, user_id: str) -> NewTurn:
    return NewTurn(role, content, at, user_id if role == "user" else role)
