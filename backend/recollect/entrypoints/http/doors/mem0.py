"""mem0's client, over a user's memories: the paths of its platform, and those of the server that people host themselves."""

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from recollect.domain.entries.edit import EntryEdit, Version
from recollect.domain.entries.entry import FACTS, KnownEntry, said_at
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import Append, JsonObject, Receipt
from recollect.entrypoints.http.deps import Calling, Home, PathId
from recollect.entrypoints.http.direct_route import BodyRoute, direct
from recollect.entrypoints.http.doors import memories
from recollect.entrypoints.http.doors.mem0_body import (
    AddMemories,
    Batch,
    Filtered,
    MemoryChanges,
    Name,
    Names,
    Run,
    SearchMemories,
    event_id_of,
    read_event_id,
)
from recollect.entrypoints.http.doors.memories import Asking, asking_for
from recollect.entrypoints.http.routes.people import list_users
from recollect.errors import InvalidInput, NotFound
from recollect.service.entries import EntryFilter
from recollect.service.forget.forget import forget_user


def _project(org_id: str | None = None, project_id: str | None = None) -> None:
    """The client sends back, with each request, what the ping told it. There is one project: the key's space."""


router = APIRouter(route_class=BodyRoute, include_in_schema=False, dependencies=[Depends(_project)])
"""Not in our API document: it is documented where the protocol is."""
_METADATA = "mem0"
"""Stage of the receipts that keep what a client says of a message."""


async def _rows(asking: Asking, found: Sequence[KnownEntry]) -> list[JsonObject]:
    last_changes = asking.home.entry_store.last_changes
    kept, changed = await asyncio.gather(
        memories.kept_beside(asking, found, _METADATA),
        last_changes(asking.caller.space, [known.entry_id for known in found]),
    )
    rows = []
    for known in found:
        owner, metadata = await memories.owner_of(asking, known), kept.get(known.entry_id, {})
        rows.append(_row(owner, known, metadata, changed.get(known.entry_id, known.said)))
    return rows


def _row(owner: str | None, known: KnownEntry, metadata: JsonObject, changed: int) -> JsonObject:
    """A memory as both protocols tell it."""
    run_id = known.sources[0].thread_id if known.sources else None
    return {
        "id": known.entry_id,
        "memory": known.entry.text,
        "user_id": owner,
        "agent_id": None,
        "run_id": run_id,
        "session_id": run_id,
        "hash": hashlib.md5(known.entry.text.encode(), usedforsecurity=False).hexdigest(),
        "metadata": metadata,
        "categories": [known.category] if known.category else [known.kind],
        "created_at": write_time(known.entry.when),
        "updated_at": write_time(changed),
        "expiration_date": write_time(known.ends) if known.ends else None,
    }


async def _add(asking: Asking, body: AddMemories) -> tuple[str, list[Receipt], int]:
    """Stored in the thread that `run_id` names, else in one of their own."""
    at = asking.home.clock() if body.timestamp is None else memories.read_moment(body.timestamp, "timestamp")
    thread_id = body.run_id or f"mem0_{secrets.token_hex(8)}"
    turns = [memories.turn(role, text, at, asking.user_id) for role, text in body.said()]
    tags = () if body.app_id is None else (body.app_id,)
    own = body.run_id is None
    append = Append(asking.caller.space, thread_id, turns, asking.user_id, body.agent_id, tags, one_shot=own)
    receipts = await memories.add(asking, append)
    if body.metadata:
        await memories.keep_beside(asking, thread_id, receipts, _METADATA, body.metadata)
    return thread_id, receipts, at


async def _keep(asking: Asking, body: AddMemories) -> list[JsonObject]:
    """With `infer` off: each message is a fact in the words of whoever sent it."""
    for name in ("metadata", "agent_id", "app_id", "run_id"):
        if getattr(body, name):
            raise InvalidInput(f"{name}: is kept with messages; with infer off there are none", field=name)
    asking.act_as("POST", "/api/v1/memory/entries")
    made = []
    for _, text in body.said():
        when = None if body.timestamp is None else memories.read_moment(body.timestamp, "timestamp")
        shown = await asking.home.entries.add_entry(asking.caller, asking.user_id, FACTS, text, when)
        made.append(shown.known)
    return [_told(known) for known in made]


def _told(known: KnownEntry) -> JsonObject:
    return {
        "id": known.entry_id,
        "memory": known.entry.text,
        "event": "ADD",
        "data": {"memory": known.entry.text},
    }


async def _found(asking: Asking, body: SearchMemories, top_k: int) -> list[JsonObject]:
    hits = await memories.search(
        asking,
        query=body.query,
        top_k=body.top_k or body.limit or top_k,
        agent_id=body.agent_id,
        thread_id=body.run_id,
        tags=[body.app_id] if body.app_id else [],
        since=body.since,
        until=body.until,
        relevant_only=body.threshold != 0,
    )
    found = await memories.found_entries(asking, hits)
    rows = await _rows(asking, [known for _, known in found])
    return [{**row, "score": memories.share(hit.score)} for row, (hit, _) in zip(rows, found, strict=True)]


async def _listed(asking: Asking, body: Filtered) -> list[KnownEntry]:
    wanted = EntryFilter(asking.user_id, kinds=memories.KINDS, since=body.since, until=body.until)
    found = [shown.known for shown in await memories.holding(asking, wanted)]
    tags = (body.app_id,) if body.app_id else ()
    return await memories.placed(asking, found, body.run_id, body.agent_id, tags)


async def _changed(asking: Asking, memory_id: str, body: MemoryChanges) -> JsonObject:
    if body.metadata is not None:
        raise InvalidInput(
            "metadata: of a memory it cannot be changed; text and timestamp can", field="metadata"
        )
    when = None if body.timestamp is None else memories.read_moment(body.timestamp, "timestamp")
    if body.text is None and when is None:
        raise InvalidInput("text: nothing is to be changed; give text or timestamp", field="text")
    asking.act_as("PATCH", "/api/v1/memory/entries/entry", entry=memory_id)
    edit = EntryEdit(text=body.text, when=when)
    shown = await asking.home.entries.edit_entry(asking.caller, memory_id, asking.named, edit)
    (row,) = await _rows(asking, [shown.known])
    return row


async def _delete_all(asking: Asking, names: Names) -> int:
    """The memories go for good; the messages they came from stay."""
    if (names.user_id or names.agent_id or names.app_id or names.run_id) is None:
        raise InvalidInput("user_id: say whose memories are to be deleted", field="user_id")
    if names.agent_id or names.app_id:
        raise InvalidInput(
            "user_id: memories are deleted by user_id and run_id; agent_id and app_id only narrow a search",
            field="agent_id" if names.agent_id else "app_id",
        )
    return await memories.delete_all(asking, names.run_id)


def _version(known: KnownEntry, before: Version | None, version: Version) -> JsonObject:
    changed = write_time(version.at if version.at is not None else said_at(version.entry))
    return {
        "id": f"{known.entry_id}.{version.revision}",
        "memory_id": known.entry_id,
        "old_memory": None if before is None else before.entry.text,
        "new_memory": version.entry.text,
        "event": "ADD" if before is None else "UPDATE",
        "created_at": changed,
        "updated_at": changed,
    }


async def _history(asking: Asking, memory_id: str) -> list[JsonObject]:
    asking.act_as("GET", "/api/v1/memory/entries/entry/history", entry=memory_id)
    known, found = await asking.home.entries.history(asking.caller, memory_id, asking.named)
    return [_version(known, before, each) for before, each in zip([None, *found], found, strict=False)]


async def _shown(asking: Asking, memory_id: str) -> JsonObject:
    asking.act_as("GET", "/api/v1/memory/entries/entry", entry=memory_id)
    shown = await asking.home.entries.get_entry(asking.caller, memory_id, asking.named)
    (row,) = await _rows(asking, [shown.known])
    return row


async def _entities(asking: Asking) -> list[JsonObject]:
    asking.act_as("GET", "/api/v1/users")
    found = await list_users(asking.home, asking.caller, 1000)
    return [
        {
            "type": "user",
            "name": user.user_id,
            "total_memories": None,
            "updated_at": write_time(user.last_used),
        }
        for user in found.users
    ]


# What follows are routes: first the platform's, then the hosted server's.


@router.get("/v1/ping/")
async def ping(home: Home, caller: Calling, request: Request) -> JsonObject:
    """The client's first call: its key is right."""
    asking_for(home, caller, request, None)
    return {"status": "ok", "org_id": "recollect", "project_id": caller.space, "user_email": None}


@router.post("/v3/memories/add/")
async def add_memories(home: Home, caller: Calling, body: AddMemories, request: Request) -> JsonObject:
    """Store messages; memories are made of them at once, in the background."""
    asking = asking_for(home, caller, request, body.user_id)
    if body.infer is False:
        return {"status": "SUCCEEDED", "results": await _keep(asking, body)}
    thread_id, _, _ = await _add(asking, body)
    await memories.flush(asking, thread_id)
    return {
        "message": "Stored; memories are being made",
        "status": "PENDING",
        "event_id": event_id_of(asking.user_id, thread_id),
    }


@router.get("/v1/event/{event_id}/")
async def get_event(home: Home, caller: Calling, event_id: str, request: Request) -> JsonObject:
    """Whether memories were made of what was added."""
    user_id, thread_id = read_event_id(event_id)
    if caller.user_id not in (None, user_id):
        raise NotFound(f"there is no event {event_id[:100]!r}")
    asking = asking_for(home, caller, request, user_id)
    is_over, error = await memories.made_yet(asking, thread_id)
    status = "PENDING" if not is_over else "FAILED" if error else "SUCCEEDED"
    return {"id": event_id, "status": status, "error": error}


@router.post("/v3/memories/")
async def list_memories(
    home: Home,
    caller: Calling,
    body: Filtered,
    request: Request,
    page: Annotated[int, Query(ge=1)] = 1,
    page_size: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> JsonObject:
    """What holds of a user, the newest first."""
    asking = asking_for(home, caller, request, body.user_id)
    found = await _listed(asking, body)
    shown = found[(page - 1) * page_size : page * page_size]
    rest = f"?page={page + 1}&page_size={page_size}" if page * page_size < len(found) else None
    before = f"?page={page - 1}&page_size={page_size}" if page > 1 else None
    rows = await _rows(asking, shown)
    return {"count": len(found), "next": rest, "previous": before, "results": rows}


@direct(router, "/v3/memories/search/")
async def search_memories(home: Home, caller: Calling, body: SearchMemories, request: Request) -> JsonObject:
    """The memories that answer a query, the best first."""
    return {"results": await _found(asking_for(home, caller, request, body.user_id), body, 10)}


@router.get("/v1/memories/{memory_id}/")
@router.get("/memories/{memory_id}")
async def get_memory(home: Home, caller: Calling, memory_id: PathId, request: Request) -> JsonObject:
    return await _shown(asking_for(home, caller, request, None), memory_id)


@router.put("/v1/memories/{memory_id}/")
@router.put("/memories/{memory_id}")
async def update_memory(
    home: Home, caller: Calling, memory_id: PathId, body: MemoryChanges, request: Request
) -> JsonObject:
    """A person's word: it wins over what was said before."""
    return await _changed(asking_for(home, caller, request, body.user_id), memory_id, body)


@router.delete("/v1/memories/{memory_id}/")
@router.delete("/memories/{memory_id}")
async def delete_memory(
    home: Home,
    caller: Calling,
    memory_id: PathId,
    request: Request,
    delete_linked: Annotated[
        bool, Query(description="What is made of it alone always goes with it.")
    ] = False,
) -> JsonObject:
    """It is never derived again."""
    await memories.delete(asking_for(home, caller, request, None), memory_id)
    return {"message": "Memory deleted successfully!"}


@router.get("/v1/memories/{memory_id}/history/")
@router.get("/memories/{memory_id}/history")
async def get_memory_history(
    home: Home, caller: Calling, memory_id: PathId, request: Request
) -> list[JsonObject]:
    return await _history(asking_for(home, caller, request, None), memory_id)


def _names(
    user_id: Annotated[Name | None, Query()] = None,
    agent_id: Annotated[Name | None, Query()] = None,
    app_id: Annotated[Name | None, Query()] = None,
    run_id: Annotated[Run | None, Query()] = None,
) -> Filtered:
    return Filtered(user_id=user_id, agent_id=agent_id, app_id=app_id, run_id=run_id)


Named = Annotated[Filtered, Depends(_names)]


@router.delete("/v1/memories/")
@router.delete("/memories")
async def delete_memories(home: Home, caller: Calling, request: Request, names: Named) -> JsonObject:
    """All memories of a user, or of one of their threads. The messages they came from stay."""
    count = await _delete_all(asking_for(home, caller, request, names.user_id), names)
    return {"message": f"{count} memories deleted successfully!"}


@router.put("/v1/batch/")
async def update_batch(home: Home, caller: Calling, body: Batch, request: Request) -> JsonObject:
    for each in body.memories:
        await _changed(asking_for(home, caller, request, each.user_id), each.memory_id, each)
    return {"message": f"Successfully updated {len(body.memories)} memories"}


@router.delete("/v1/batch/")
async def delete_batch(home: Home, caller: Calling, body: Batch, request: Request) -> JsonObject:
    for each in body.memories:
        await memories.delete(asking_for(home, caller, request, each.user_id), each.memory_id)
    return {"message": f"Successfully deleted {len(body.memories)} memories"}


@router.get("/v1/entities/")
async def list_entities(home: Home, caller: Calling, request: Request) -> JsonObject:
    """Who has chats here, for the operator."""
    rows = await _entities(asking_for(home, caller, request, None))
    return {"count": len(rows), "next": None, "previous": None, "results": rows}


@router.delete("/v2/entities/{kind}/{name}/")
async def delete_entity(
    home: Home, caller: Calling, kind: PathId, name: PathId, request: Request
) -> JsonObject:
    """Forget a user: messages, memories and all that came from them."""
    if kind != "user":
        raise InvalidInput(f"kind: a user can be deleted, not {kind[:50]}", field="kind")
    asking = asking_for(home, caller, request, name)
    asking.act_as("DELETE", "/api/v1/users/user")
    await forget_user(home.forgetting, home.people, caller, name)
    return {"message": "Entity deleted successfully!"}


@router.post("/memories")
async def add_and_wait(home: Home, caller: Calling, body: AddMemories, request: Request) -> JsonObject:
    """Store messages, and tell what is made of them within half a minute; the rest is made later."""
    asking = asking_for(home, caller, request, body.user_id)
    if body.infer is False:
        return {"results": await _keep(asking, body)}
    thread_id, receipts, at = await _add(asking, body)
    await memories.flush(asking, thread_id, memories.WAIT_SECONDS)
    made = await memories.made_of(asking, thread_id, receipts, at)
    return {"results": [_told(known) for known in made]}


@router.get("/memories")
async def list_hosted(home: Home, caller: Calling, request: Request, names: Named) -> JsonObject:
    asking = asking_for(home, caller, request, names.user_id)
    return {"results": await _rows(asking, await _listed(asking, names))}


@direct(router, "/search")
async def search_hosted(home: Home, caller: Calling, body: SearchMemories, request: Request) -> JsonObject:
    return {"results": await _found(asking_for(home, caller, request, body.user_id), body, 100)}


for _path in ("/v1/exports/", "/v1/exports/get/", "/v1/summary/", "/v1/feedback/", "/reset", "/configure"):

    @router.post(_path)
    async def refuse(_home: Home, _caller: Calling) -> JsonObject:
        raise InvalidInput("Recollect has no exports, summaries, feedback, reset or configuration here")
