"""What the memory SDKs and agents' tools have in common, each in its own words: messages in, a user's memories out.

They know facts, plans and episodes as memories. A memory that was superseded is history, and not listed.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Request
from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter

from recollect.app import App
from recollect.domain.access import Caller
from recollect.domain.entries.entry import EPISODES, FACTS, FORESIGHT, KnownEntry
from recollect.domain.job import FLUSH
from recollect.domain.model import (
    DEFAULT_USER,
    MAX_TIMESTAMP,
    Append,
    JsonObject,
    NewTurn,
    Receipt,
    Role,
    ThreadRef,
)
from recollect.domain.paths import AGENT, file_name, owner_folder
from recollect.domain.recall.hits import Hit
from recollect.domain.strategy import STRATEGY
from recollect.entrypoints.http.access import act_as, body_bytes
from recollect.entrypoints.http.deps import note
from recollect.entrypoints.http.requests import SearchBody, Text, not_blank, storable_json
from recollect.errors import NotFound
from recollect.service.entries import EntryFilter, ShownEntry
from recollect.service.remember.boundaries import Flushed, flush_thread
from recollect.service.threads import owned_thread

Words = Annotated[Text, AfterValidator(not_blank)]
Metadata = Annotated[dict[str, Any], AfterValidator(storable_json)]
KINDS = (FACTS, FORESIGHT, EPISODES)
ROWS = ["fact", "foresight", "episode"]
MOST_MEMORIES = 10_000
"""Listed at most; the oldest are left out."""
WAIT_SECONDS = 30.0
"""How long an add waits for its memories where a client expects them in the answer."""
_PAGE = 500
_DEEPEST_FILTER = 5
_LONGEST_ID = 512
_Moment: TypeAdapter[int] = TypeAdapter(
    Annotated[int, BeforeValidator(math.floor), Field(ge=0, le=MAX_TIMESTAMP)]
)


@dataclass(frozen=True, slots=True)
class Asking:
    """A request, and whose memory it is about."""

    home: App
    caller: Caller
    user_id: str
    request: Request
    named: str | None = None
    """The user whom the request or its key names. None: nobody, so an id alone says whose it is."""

    def act_as(self, method: str, path: str, **ids: str) -> None:
        """What the native route asks of a key, counts and records holds here too. Raises Refused and OverQuota."""
        act_as(self.request.scope, self.user_id, method, path)
        note(self.request, **ids)


def asking_for(home: App, caller: Caller, request: Request, user_id: str | None) -> Asking:
    """For the user whom the request names, else the key's, else `me`. Raises Refused for a user's key and another user."""
    named = caller.acting_for(user_id)
    acting = named or DEFAULT_USER
    note(request, user=acting)
    return Asking(home, caller, acting, request, named)


async def add(asking: Asking, append: Append) -> list[Receipt]:
    """Store messages, as the native route does."""
    asking.act_as("POST", "/api/v1/memory/add", thread=append.thread_id)
    return await asking.home.ingest.memorize(append, body_bytes(asking.request.scope))


async def flush(asking: Asking, thread_id: str, seconds: float = 0) -> Flushed:
    """Have memories made of a thread now, and wait for them for so long."""
    home = asking.home
    return await flush_thread(
        home.THREADS, home.cells, home.jobs, asking.caller, thread_id, asking.user_id, seconds
    )


async def made_yet(asking: Asking, thread_id: str) -> tuple[bool, str | None]:
    """Whether memories were made of a thread, and why not where that was given up. Changes nothing."""
    home = asking.home
    asking.act_as("GET", "/api/v1/threads/thread", thread=thread_id)
    thread = await owned_thread(home.THREADS, asking.caller, thread_id, asking.user_id)
    found = await home.jobs.list_jobs(space=thread.space, user_id=thread.user_id, thread_id=thread_id)
    making = [job for job in found if job.kind == FLUSH or (job.kind == STRATEGY and "cell" in job.payload)]
    waits = await home.cells.count_buffered(thread.ref) or any(job.state != "dead" for job in making)
    return not waits, next((job.error or job.kind for job in making), None)


async def search(asking: Asking, **wanted: Any) -> list[Hit]:
    """The best first; `wanted` are fields of the native search. In a thread that the user doesn't have is nothing."""
    asking.act_as("POST", "/api/v1/memory/search")
    body = SearchBody(user_id=asking.user_id, types=wanted.pop("types", ROWS), passages=False, **wanted)
    try:
        found = await asking.home.search.recall.search(asking.caller, body.search())
    except NotFound:
        return []
    asking.home.metrics.observe_search(body.mode, degraded=bool(found.degraded))
    return found.hits


async def holding(asking: Asking, wanted: EntryFilter, most: int = MOST_MEMORIES) -> list[ShownEntry]:
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


async def placed(
    asking: Asking,
    found: Sequence[KnownEntry],
    thread_id: str | None = None,
    agent_id: str | None = None,
    tags: Collection[str] = (),
) -> list[KnownEntry]:
    """Those that came from such a thread: narrowed as a search is."""
    places = {
        (source.user_id, source.thread_id)
        for known in found
        for source in known.sources
        if thread_id in (None, source.thread_id)
    }
    if agent_id is not None or tags:
        threads = [
            thread
            for user_id in {user_id for user_id, _ in places}
            for thread in await asking.home.THREADS.some(
                asking.caller.space, user_id, [name for user, name in places if user == user_id]
            )
        ]
        places = {
            (thread.user_id, thread.thread_id)
            for thread in threads
            if agent_id in (None, thread.agent_id or AGENT)
            and (not tags or not set(tags).isdisjoint(thread.tags))
        }
    elif thread_id is None:
        return list(found)
    return [
        known
        for known in found
        if any((source.user_id, source.thread_id) in places for source in known.sources)
    ]


async def owner_of(asking: Asking, known: KnownEntry) -> str | None:
    """Whose it is; None where its folder doesn't say, and nobody who has chats is called so."""
    if known.sources:
        return known.sources[0].user_id
    if known.owner == owner_folder(known.space, asking.user_id):
        return asking.user_id
    folder = known.owner.rpartition("/")[2]
    if file_name(folder) == folder:
        return folder
    users = await asking.home.THREADS.users(known.space, MOST_MEMORIES)
    return next((user_id for user_id, _, _ in users if file_name(user_id) == folder), None)


async def delete(asking: Asking, entry_id: str, user_id: str | None = None) -> None:
    """For good: it is never derived again. Nobody named: its id says whose it is; a user's key reaches that user's."""
    asking.act_as("DELETE", "/api/v1/memory/entries/entry", entry=entry_id)
    whose = user_id or asking.named or asking.caller.user_id
    await asking.home.entries.delete_entry(asking.caller, entry_id, whose)


async def delete_all(asking: Asking, thread_id: str | None, tags: Collection[str] = ()) -> int:
    """The memories of a user, or of some of their threads. The messages they came from stay."""
    found = [shown.known for shown in await holding(asking, EntryFilter(asking.user_id, kinds=KINDS))]
    wanted = await placed(asking, found, thread_id, tags=tags)
    for known in wanted:
        try:
            await delete(asking, known.entry_id, asking.user_id)
        except NotFound:
            continue  # It went along with another.
    return len(wanted)


async def found_entries(asking: Asking, hits: Sequence[Hit]) -> list[tuple[Hit, KnownEntry]]:
    """Without those that were forgotten since they were found."""
    owner = owner_folder(asking.caller.space, asking.user_id)
    ids = [hit.row.row_id for hit in hits]
    found = await asking.home.entry_store.some(asking.caller.space, owner, ids)
    by_id = {known.entry_id: known for known in found}
    return [(hit, by_id[hit.row.row_id]) for hit in hits if hit.row.row_id in by_id]


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


async def kept_beside(asking: Asking, found: Sequence[KnownEntry], stage: str) -> dict[str, JsonObject]:
    """What `keep_beside` keeps for the turns that each of these memories came from; what came later wins."""
    turns = {
        (source.user_id, source.thread_id, source.turn_id) for known in found for source in known.sources
    }
    if not turns:
        return {}
    told = await asking.home.cells.told_of_turns(asking.caller.space, stage, turns)
    kept: dict[str, JsonObject] = {}
    for known in found:
        for source in known.sources:
            kept.setdefault(known.entry_id, {}).update(
                told.get((source.user_id, source.thread_id, source.turn_id), {})
            )
    return kept


def share(score: float) -> float:
    """A score between 0 and 1, as these protocols have it: comparable within one answer."""
    return round(1 / (1 + math.exp(-max(-50.0, score))), 4)


def turn(role: Role, content: str, at: int, user_id: str) -> NewTurn:
    return NewTurn(role, content, at, user_id if role == "user" else role)


@dataclass(slots=True)
class Bounds:
    """What filters say: ids by their names, and from when until before when."""

    names: dict[str, str] = field(default_factory=dict)
    since: int | None = None
    until: int | None = None


def bounds_of(filters: JsonObject, names: Collection[str], moment: str) -> Bounds:
    """Raises ValueError, in words, for a filter that Recollect does not have."""
    bounds = Bounds()
    for name, value in _pairs(filters):
        if name == moment and isinstance(value, dict) and value.keys() <= {"gt", "gte", "lt", "lte"}:
            _narrow(bounds, name, value)
        elif name in names and isinstance(value, str) and 0 < len(value) <= _LONGEST_ID:
            if bounds.names.setdefault(name, value) != value:
                raise ValueError(f"filters.{name}: names two ids, and nothing has both")
        else:
            raise ValueError(
                f"filters.{name}: only {', '.join(names)}, each equal to one id, and {moment} with gt, gte, lt or lte"
                " are possible, joined by AND"
            )
    return bounds


def _pairs(filters: JsonObject, depth: int = 0) -> list[tuple[str, Any]]:
    if depth > _DEEPEST_FILTER:
        raise ValueError("filters: nested too deeply")
    found: list[tuple[str, Any]] = []
    for name, value in filters.items():
        if name in ("AND", "OR") and value is None:
            continue  # As a client sends what is not set.
        if name == "AND" and isinstance(value, list) and all(isinstance(each, dict) for each in value):
            found += [pair for each in value for pair in _pairs(each, depth + 1)]
        elif isinstance(value, dict) and list(value) == ["eq"]:
            found.append((name, value["eq"]))
        else:
            found.append((name, value))
    return found


def _narrow(bounds: Bounds, name: str, value: JsonObject) -> None:
    for operator, given in value.items():
        at = read_moment(given, f"filters.{name}.{operator}") + (operator in ("gt", "lte"))
        if operator.startswith("g"):
            bounds.since = max(bounds.since or 0, at)
        else:
            bounds.until = at if bounds.until is None else min(bounds.until, at)


def read_moment(given: Any, field: str) -> int:
    """UTC milliseconds of ISO 8601, a date, or seconds since 1970."""
    try:
        if isinstance(given, str):
            read = datetime.fromisoformat(given)
            given = (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
        return _Moment.validate_python(given * 1000)
    except (ValueError, TypeError, OverflowError):
        problem = f"{field}: must be a date as 2026-05-08, a time in ISO 8601, or seconds, since 1970"
        raise ValueError(problem) from None
