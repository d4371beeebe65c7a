"""supermemory's npm client: a document is a thread of its own, of the user whom `containerTag` names."""

import itertools
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request

from recollect.domain.entries.edit import EntryEdit
from recollect.domain.entries.entry import KnownEntry
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import DEFAULT_USER, Append, JsonObject, Thread, ThreadRef, Turn
from recollect.domain.recall.hits import Hit
from recollect.entrypoints.http.deps import Calling, Home, PathId, note
from recollect.entrypoints.http.direct_route import BodyRoute, direct
from recollect.entrypoints.http.doors import memories
from recollect.entrypoints.http.doors.memories import Asking
from recollect.entrypoints.http.doors.supermemory_body import (
    Batch,
    Bulk,
    Document,
    DocumentChanges,
    DocumentsWanted,
    MemoryNamed,
    ProfileWanted,
    SearchWanted,
    Tagged,
)
from recollect.entrypoints.http.requests import Tag
from recollect.errors import AlreadyExists, InvalidInput, NotFound, RecollectError
from recollect.service import threads
from recollect.service.entries import EntryFilter
from recollect.service.forget.forget import delete_thread, forget_turn

router = APIRouter(route_class=BodyRoute, include_in_schema=False)
"""Not in our API document: it is documented where the protocol is."""
_METADATA = "supermemory"
"""Stage of the receipts that keep what a client says of a document."""
_MOST_TURNS, _RECENT = 1000, 10
Container = Annotated[Tag | None, Query(alias="containerTag")]
"""The client names none here: for an id that several containers have."""
_NOTHING = ("connectionId", "filepath", "ogImage", "raw", "source", "spatialPoint", "summary")
"""What a document has there, and a thread does not."""


def _asking(home: Home, caller: Calling, request: Request, tagged: Tagged) -> tuple[Asking, tuple[str, ...]]:
    """Who asks, and the tag that narrows it."""
    of_key = caller.user_id if not caller.is_hint else None
    named = caller.acting_for(None if of_key else tagged.container_tag)
    note(request, user=named or DEFAULT_USER)
    tags = (tagged.container_tag,) if of_key and tagged.container_tag else ()
    return Asking(home, caller, named or DEFAULT_USER, request, named), tags


async def _add(asking: Asking, tags: tuple[str, ...], body: Document) -> JsonObject:
    """New content takes the place of what the user has under that id; the same content again changes nothing."""
    home, thread_id = asking.home, body.custom_id or f"sm_{secrets.token_hex(11)}"
    ref = ThreadRef(asking.caller.space, asking.user_id, thread_id)
    known = None if body.custom_id is None else await home.THREADS.find(ref)
    metadata = body.metadata
    if known is not None:
        turns = await _turns(asking, known)
        if any(turn.role != "user" for turn in turns):
            raise AlreadyExists("customId: a chat has this id; choose another", field="customId")
        kept = await _kept(asking, known, turns)
        metadata = kept if metadata is None else metadata
        is_same = _content(turns) == body.content and metadata == kept and set(tags) <= set(known.tags)
        if turns and is_same:
            return {"id": thread_id, "status": "done"}
        if turns:
            asking.act_as("DELETE", "/api/v1/threads/thread/turns/turn", thread=thread_id)
    said = memories.turn("user", body.content, home.clock(), asking.user_id)
    one_shot = body.custom_id is None
    append = Append(asking.caller.space, thread_id, (said,), asking.user_id, tags=tags, one_shot=one_shot)
    receipts = await memories.add(asking, append)
    if metadata:
        await memories.keep_beside(asking, thread_id, receipts, _METADATA, metadata)
    if known is not None and (turn_id := receipts[-1].turn_id) is not None:
        await _forget_before(asking, known, turn_id)
    await memories.flush(asking, thread_id)
    return {"id": thread_id, "status": "queued"}


async def _forget_before(asking: Asking, thread: Thread, turn_id: str) -> None:
    """What was said before this turn, also what another request added meanwhile."""
    home = asking.home
    asking.act_as("DELETE", "/api/v1/threads/thread/turns/turn", thread=thread.thread_id)
    before = itertools.takewhile(lambda turn: turn.turn_id != turn_id, await _turns(asking, thread))
    for turn in before:
        try:
            await forget_turn(
                home.THREADS, home.forgetting, asking.caller, thread.thread_id, turn.turn_id, thread.user_id
            )
        except NotFound:
            continue  # It was forgotten meanwhile.


@router.post("/v3/documents")
async def add_document(home: Home, caller: Calling, body: Document, request: Request) -> JsonObject:
    """Stored as the user's words; memories are made of them at once, in the background."""
    return await _add(*_asking(home, caller, request, body), body)


@router.post("/v3/documents/batch")
async def add_documents(home: Home, caller: Calling, body: Batch, request: Request) -> JsonObject:
    """What can't be added is told in its place, unless nothing could be."""
    results: list[JsonObject] = []
    problems: list[RecollectError] = []
    for each in body.documents:
        document = Document(content=each) if isinstance(each, str) else each
        tagged = body if document.container_tag is None else document
        try:
            results.append(await _add(*_asking(home, caller, request, tagged), document))
        except RecollectError as error:
            problems.append(error)
            results.append({"id": "", "status": "error", "error": error.message, "details": error.code})
    if len(problems) == len(results):
        raise problems[0]
    return {"results": results, "success": len(results) - len(problems), "failed": len(problems)}


async def _thread(asking: Asking, document_id: str, method: str) -> Thread:
    """Of the user who is named, else of the one who has this document."""
    asking.act_as(method, "/api/v1/threads/thread", thread=document_id)
    return await threads.owned_thread(asking.home.THREADS, asking.caller, document_id, asking.named)


async def _turns(asking: Asking, thread: Thread) -> list[Turn]:
    return await threads.turns_of_path(asking.home.THREADS, thread.ref, None, _MOST_TURNS, backwards=False)


def _content(turns: Sequence[Turn]) -> str:
    return "\n\n".join(turn.content for turn in turns)


async def _kept(asking: Asking, thread: Thread, turns: Sequence[Turn]) -> JsonObject:
    """What was said of it as metadata."""
    places = [(thread.user_id, thread.thread_id, turn.turn_id) for turn in turns]
    kept: JsonObject = {}
    for told in (await asking.home.cells.told_of_turns(thread.space, _METADATA, places)).values():
        kept |= told
    return kept


async def _document(asking: Asking, thread: Thread, *, with_content: bool) -> JsonObject:
    turns = await _turns(asking, thread)
    kept = await _kept(asking, thread, turns)
    return {
        "id": thread.thread_id,
        **dict.fromkeys(_NOTHING),
        "content": _content(turns) if with_content else None,
        "createdAt": write_time(thread.created),
        "updatedAt": write_time(thread.updated),
        "customId": thread.thread_id,
        "metadata": kept or None,
        "status": "done",
        "taskType": "memory",
        "title": thread.title,
        "type": "text",
        "containerTags": [thread.user_id],
    }


@router.post("/v3/documents/list")
async def list_documents(home: Home, caller: Calling, body: DocumentsWanted, request: Request) -> JsonObject:
    """A user's chats are documents too."""
    asking, tags = _asking(home, caller, request, body)
    asking.act_as("GET", "/api/v1/threads")
    found = await home.THREADS.list_threads(
        space=caller.space, user_id=asking.user_id, limit=memories.MOST_MEMORIES
    )
    found = [thread for thread in found if not tags or tags[0] in thread.tags]
    if body.order == "desc":
        found.reverse()
    page = found[(body.page - 1) * body.limit : body.page * body.limit]
    documents = [await _document(asking, each, with_content=body.include_content) for each in page]
    pages = -(-len(found) // body.limit)
    numbers = {"currentPage": body.page, "totalItems": len(found), "totalPages": pages}
    return {"memories": documents, "pagination": {**numbers, "limit": body.limit}}


@router.get("/v3/documents/processing")
async def list_processing(home: Home, caller: Calling, request: Request) -> JsonObject:
    """What is added is stored when its answer comes: nothing is in between."""
    _asking(home, caller, request, Tagged())
    return {"documents": [], "totalCount": 0}


@router.delete("/v3/documents/bulk")
async def delete_documents(home: Home, caller: Calling, body: Bulk, request: Request) -> JsonObject:
    if not body.ids:
        raise InvalidInput(
            "ids: name the documents; a whole user is forgotten by 'recollect forget'", field="ids"
        )
    asking, tags = _asking(home, caller, request, body)
    problems = []
    for document_id in body.ids:
        try:
            await _forget(asking, document_id, tags)
        except RecollectError as error:
            problems.append({"id": document_id, "error": error.message})
    return {"success": not problems, "deletedCount": len(body.ids) - len(problems), "errors": problems}


async def _forget(asking: Asking, document_id: str, tags: tuple[str, ...] = ()) -> None:
    thread = await _thread(asking, document_id, "DELETE")
    if not set(tags) <= set(thread.tags):
        raise NotFound(f"there is no document {document_id!r} in this container")
    await delete_thread(asking.home.THREADS, asking.caller, thread.thread_id, thread.user_id)


@router.get("/v3/documents/{document_id}")
async def get_document(
    home: Home, caller: Calling, document_id: PathId, request: Request, container: Container = None
) -> JsonObject:
    asking, _ = _asking(home, caller, request, Tagged(containerTag=container))
    return await _document(asking, await _thread(asking, document_id, "GET"), with_content=True)


@router.patch("/v3/documents/{document_id}")
async def change_document(
    home: Home, caller: Calling, document_id: PathId, body: DocumentChanges, request: Request
) -> JsonObject:
    """New content takes the place of the old, which is forgotten with what was made of it."""
    asking, tags = _asking(home, caller, request, body)
    thread = await _thread(asking, document_id, "PATCH")
    if body.content is None:
        raise InvalidInput("content: only the content can be changed", field="content")
    changed = Document(content=body.content, customId=document_id, metadata=body.metadata)
    return await _add(replace(asking, user_id=thread.user_id), tags, changed)


@router.delete("/v3/documents/{document_id}", status_code=204)
async def delete_document(
    home: Home, caller: Calling, document_id: PathId, request: Request, container: Container = None
) -> None:
    """Forgotten, with what was made of it."""
    asking, tags = _asking(home, caller, request, Tagged(containerTag=container))
    await _forget(asking, document_id, tags)


async def _hits(asking: Asking, tags: tuple[str, ...], body: SearchWanted, types: list[str]) -> list[Hit]:
    """Our scores compare texts within one answer: no number of another scale says where to cut, but 0 says not to."""
    wanted = {"query": body.q, "top_k": body.limit, "types": types, "tags": list(tags)}
    return await memories.search(asking, **wanted, relevant_only=body.threshold != 0)


@direct(router, "/v4/search")
async def search_memories(home: Home, caller: Calling, body: SearchWanted, request: Request) -> JsonObject:
    """Memories; with `hybrid`, messages too, or messages alone."""
    began = time.monotonic()
    asking, tags = _asking(home, caller, request, body)
    types = {"memories": memories.ROWS, "hybrid": [*memories.ROWS, "turn"], "documents": ["turn"]}[body.mode]
    return _found(began, await _results(asking, await _hits(asking, tags, body, types)))


def _found(began: float, results: list[JsonObject]) -> JsonObject:
    timing = round((time.monotonic() - began) * 1000, 1)
    return {"results": results, "total": len(results), "timing": timing}


async def _results(asking: Asking, hits: Sequence[Hit]) -> list[JsonObject]:
    found = {
        known.entry_id: known
        for _, known in await memories.found_entries(asking, [hit for hit in hits if hit.row.is_entry])
    }
    kept = await memories.kept_beside(asking, list(found.values()), _METADATA)
    told: list[JsonObject] = []
    for hit in hits:
        name = hit.row.row_id
        result: JsonObject = {
            "id": name,
            "similarity": memories.share(hit.score),
            "metadata": kept.get(name) or None,
        }
        if not hit.row.is_entry:
            told.append({**result, "chunk": hit.text, "updatedAt": write_time(hit.row.timestamp)})
        elif name in found:
            told.append({**result, **_memory(found[name])})
    return told


def _memory(known: KnownEntry) -> JsonObject:
    told: JsonObject = {
        "memory": known.entry.text,
        "updatedAt": write_time(known.said),
        "version": known.revision,
    }
    if known.sources:
        told["documents"] = [
            {
                "id": known.sources[0].thread_id,
                "createdAt": write_time(known.entry.when),
                "updatedAt": write_time(known.said),
            }
        ]
    return told


@router.post("/v3/search")
async def search_documents(home: Home, caller: Calling, body: SearchWanted, request: Request) -> JsonObject:
    """Messages, grouped by the documents that they are in."""
    began = time.monotonic()
    asking, tags = _asking(home, caller, request, body)
    found: dict[str, JsonObject] = {}
    for hit in await _hits(asking, tags, body, ["turn"]):
        row, score = hit.row, memories.share(hit.score)
        when = write_time(row.timestamp)
        told = found.setdefault(
            row.thread_id,
            {
                "documentId": row.thread_id, "title": None, "type": "text", "score": score, "chunks": [],
                "metadata": None, "createdAt": when, "updatedAt": when,
            },
        )  # fmt: skip
        told["chunks"].append({"content": hit.text, "score": score, "isRelevant": True})
    return _found(began, list(found.values()))


@router.post("/v4/profile")
async def get_profile(home: Home, caller: Calling, body: ProfileWanted, request: Request) -> JsonObject:
    """`static`: the user's page. `dynamic`: what happened last."""
    asking, tags = _asking(home, caller, request, body)
    asking.act_as("GET", "/api/v1/users/user/profile")
    page = await home.entries.profile(caller, asking.user_id)
    last = await memories.holding(asking, EntryFilter(asking.user_id, kinds=("episodes",)), _RECENT)
    told: JsonObject = {
        "profile": {
            "static": [shown.known.entry.text for shown in page],
            "dynamic": [shown.known.entry.text for shown in last],
        }
    }
    if body.q is not None:
        began = time.monotonic()
        hits = await _hits(asking, tags, SearchWanted(q=body.q), memories.ROWS)
        told["searchResults"] = _found(began, await _results(asking, hits))
    return told


async def _named(asking: Asking, body: MemoryNamed) -> str:
    if body.id is not None:
        return body.id
    if body.content is None:
        raise InvalidInput("id: name the memory by id or by its exact content", field="id")
    for shown in await memories.holding(asking, EntryFilter(asking.user_id, kinds=memories.KINDS)):
        if shown.known.entry.text == body.content:
            return shown.known.entry_id
    raise NotFound("there is no memory with this content")


@router.delete("/v4/memories")
async def forget_memory(home: Home, caller: Calling, body: MemoryNamed, request: Request) -> JsonObject:
    asking, _ = _asking(home, caller, request, body)
    memory_id = await _named(asking, body)
    await memories.delete(asking, memory_id, asking.user_id)
    return {"id": memory_id, "forgotten": True}


@router.patch("/v4/memories")
async def change_memory(home: Home, caller: Calling, body: MemoryNamed, request: Request) -> JsonObject:
    """A person's word: it wins over what was said before."""
    asking, _ = _asking(home, caller, request, body)
    if body.new_content is None:
        raise InvalidInput("newContent: what is it to say?", field="newContent")
    memory_id = await _named(asking, body)
    asking.act_as("PATCH", "/api/v1/memory/entries/entry", entry=memory_id)
    edit = EntryEdit(text=body.new_content)
    shown = await home.entries.edit_entry(caller, memory_id, asking.user_id, edit)
    return {
        "id": memory_id,
        "memory": shown.known.entry.text,
        "version": shown.known.revision,
        "createdAt": write_time(shown.known.said),
        **dict.fromkeys(("parentMemoryId", "rootMemoryId", "forgetAfter", "forgetReason")),
    }


for _path in ("/v3/documents/file", "/v3/settings", "/v3/connections/{rest:path}"):

    @router.api_route(_path, methods=["GET", "POST", "PATCH", "DELETE"])
    async def refuse(_home: Home, _caller: Calling) -> JsonObject:
        raise InvalidInput("Recollect has no file uploads, connections or settings here: see docs/clients.md")
