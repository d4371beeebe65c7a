"""EverOS' client, over a user's episodes, facts and profile, and an agent's cases."""

import secrets
from collections.abc import Sequence

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from recollect.domain.entries.edit import EntryEdit
from recollect.domain.entries.entry import CASES, EPISODES, FACTS, KnownEntry
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import Append, JsonObject
from recollect.domain.recall.hits import Hit, Mode
from recollect.entrypoints.http.deps import Calling, Home
from recollect.entrypoints.http.direct_route import BodyRoute, direct
from recollect.entrypoints.http.doors import memories
from recollect.entrypoints.http.doors.everos_body import (
    AddBody,
    DeleteBody,
    EditBody,
    FlushBody,
    GetBody,
    IdsBody,
    Operation,
    Scoped,
    SearchBody,
    UpdateBody,
)
from recollect.entrypoints.http.doors.memories import Asking, asking_for
from recollect.entrypoints.http.errors import EVEROS
from recollect.errors import InvalidInput, NotFound, RecollectError, Refused
from recollect.service.entries import EntryFilter, ShownEntry
from recollect.service.remember.boundaries import flush_thread

router = APIRouter(prefix=EVEROS, route_class=BodyRoute, include_in_schema=False)
"""Not in our API document: it is documented where the protocol is."""
_MODES: dict[str, Mode] = {"keyword": "keyword", "vector": "vector"}
_DAY_MS = 86_400_000


def _answer(data: JsonObject) -> JsonObject:
    return {"request_id": secrets.token_hex(12), "data": data}


def _episode(known: KnownEntry, scope: Scoped, facts: Sequence[KnownEntry] = ()) -> JsonObject:
    sources = known.sources
    return {
        "id": known.entry_id,
        "app_id": scope.app_id,
        "project_id": scope.project_id,
        "user_id": sources[0].user_id if sources else None,
        "session_id": sources[0].thread_id if sources else None,
        "timestamp": write_time(known.entry.when),
        "sender_ids": sorted({source.user_id for source in sources}),
        "summary": known.entry.title,
        "subject": known.entry.title,
        "episode": known.entry.text,
        "type": "Conversation",
        "atomic_facts": [{"id": fact.entry_id, "content": fact.entry.text} for fact in facts],
        "tags": list(scope.tags),
        "edited_at": write_time(known.said) if known.is_edited else None,
    }


def _case(known: KnownEntry, scope: Scoped, agent_id: str | None) -> JsonObject:
    return {
        "id": known.entry_id,
        "app_id": scope.app_id,
        "project_id": scope.project_id,
        "agent_id": agent_id or "",
        "session_id": known.sources[0].thread_id if known.sources else "",
        "task_intent": known.entry.title,
        "approach": known.entry.text,
        "quality_score": 0.5,
        "timestamp": write_time(known.entry.when),
    }


async def _profile(asking: Asking, scope: Scoped) -> JsonObject:
    asking.act_as("GET", "/api/v1/users/user/profile")
    lines = [shown.known for shown in await asking.home.entries.profile(asking.caller, asking.user_id)]
    items = [
        {"id": line.entry_id, "category": line.category or "other", "description": line.entry.text}
        for line in lines
    ]
    return {
        "id": f"profile-{asking.user_id}",
        "app_id": scope.app_id,
        "project_id": scope.project_id,
        "user_id": asking.user_id,
        "profile_data": {"explicit_info": items, "implicit_traits": []},
        "updated_at": write_time(max((line.said for line in lines), default=0)) if lines else None,
    }


@router.post("/add")
async def add(home: Home, caller: Calling, body: AddBody, request: Request) -> JSONResponse:
    """Whose they are: the sender of the first message that a user sent."""
    owner = next((each.sender_id for each in body.messages if each.role == "user"), None)
    asking = asking_for(home, caller, request, owner)
    turns = [each.turn(f"messages[{number}]") for number, each in enumerate(body.messages)]
    agent = next((each.sender_id for each in body.messages if each.role == "assistant"), None)
    append = Append(caller.space, body.session_id, turns, asking.user_id, agent, body.tags)
    await memories.add(asking, append)
    if body.async_mode:
        return JSONResponse(_answer({"message_count": len(turns), "status": "queued"}), 202)
    flushed = await memories.flush(asking, body.session_id, memories.WAIT_SECONDS)
    status = "extracted" if flushed.memcells else "accumulated"
    return JSONResponse(_answer({"message_count": len(turns), "status": status}))


@router.post("/flush")
async def flush(home: Home, caller: Calling, body: FlushBody, request: Request) -> JsonObject:
    """Of the one thread that has this id, where no user is named."""
    asking_for(home, caller, request, None).act_as("POST", "/api/v1/memory/flush", thread=body.session_id)
    try:
        flushed = await flush_thread(
            home.THREADS,
            home.cells,
            home.jobs,
            caller,
            body.session_id,
            caller.user_id,
            memories.WAIT_SECONDS,
        )
    except NotFound:
        return _answer({"status": "no_extraction"})
    return _answer({"status": "extracted" if flushed.memcells else "no_extraction"})


@direct(router, "/search")
async def search(home: Home, caller: Calling, body: SearchBody, request: Request) -> JsonObject:
    """Facts come with their episode where that is found too, else as an episode of their own."""
    asking = asking_for(home, caller, request, body.user_id)
    bounds = body.bounds()
    hits = await memories.search(
        asking,
        query=body.query,
        top_k=body.top_k if body.top_k > 0 else 10,
        mode=_MODES.get(body.method, "hybrid"),
        agent_id=body.agent_id,
        types=["case"] if body.agent_id else memories.ROWS,
        tags=list(body.tags),
        thread_id=bounds.names.get("session_id"),
        since=bounds.since,
        until=bounds.until,
    )
    hits = [hit for hit in hits if memories.share(hit.score) >= (body.min_score or 0)]
    told: JsonObject = {"profiles": [], "agent_cases": [], "agent_skills": [], "unprocessed_messages": []}
    if body.agent_id:
        cases = [
            {**_case(shown.known, body, body.agent_id), "score": memories.share(hit.score)}
            for hit in hits
            if (shown := await _seen(asking, hit)) is not None
        ]
        return _answer({**told, "episodes": [], "agent_cases": cases})
    if body.include_profile:
        told["profiles"] = [await _profile(asking, body)]
    found = await memories.found_entries(asking, hits)
    known = [(each, memories.share(hit.score)) for hit, each in found]
    return _answer({**told, "episodes": _grouped(known, body)})


async def _seen(asking: Asking, hit: Hit) -> ShownEntry | None:
    """Of an agent's cases those that came from the user's own threads."""
    try:
        return await asking.home.entries.get_entry(asking.caller, hit.row.row_id, asking.user_id)
    except NotFound:
        return None


def _grouped(found: Sequence[tuple[KnownEntry, float]], scope: Scoped) -> list[JsonObject]:
    """The best first: an episode is as good as the best of its facts."""
    told: dict[str, JsonObject] = {}
    with_episode = {known.cell for known, _ in found if known.kind == EPISODES and known.cell}
    for known, score in found:
        place = known.cell if known.cell in with_episode else known.entry_id
        fact = {"id": known.entry_id, "content": known.entry.text, "score": score}
        if place not in told:
            told[place] = {**_episode(known, scope), "score": score, "atomic_facts": []}
        if known.kind == EPISODES:
            told[place] |= {**_episode(known, scope), "atomic_facts": told[place]["atomic_facts"]}
        else:
            told[place]["atomic_facts"].append(fact)
    return list(told.values())


@router.post("/get")
async def get(home: Home, caller: Calling, body: GetBody, request: Request) -> JsonObject:
    asking = asking_for(home, caller, request, body.user_id)
    told: JsonObject = {"episodes": [], "profiles": [], "agent_cases": [], "agent_skills": []}
    if body.memory_type == "profile":
        told["profiles"] = [await _profile(asking, body)]
        return _answer({**told, "total_count": 1, "count": 1})
    if body.memory_type == "agent_skill":
        raise InvalidInput(
            "memory_type: skills are files: see 'recollect skills export'", field="memory_type"
        )
    is_case, bounds = body.memory_type == "agent_case", body.bounds()
    wanted = EntryFilter(
        asking.user_id,
        body.agent_id,
        (CASES if is_case else EPISODES,),
        bounds.since,
        bounds.until,
    )
    found = [shown.known for shown in await memories.holding(asking, wanted)]
    found = await memories.placed(asking, found, bounds.names.get("session_id"), tags=body.tags)
    if body.sort_order == "asc":
        found.reverse()
    page = found[(body.page - 1) * body.page_size : body.page * body.page_size]
    if is_case:
        told["agent_cases"] = [_case(known, body, body.agent_id) for known in page]
    else:
        facts = await _facts_of(asking, page)
        told["episodes"] = [_episode(known, body, facts.get(known.cell, ())) for known in page]
    return _answer({**told, "total_count": len(found), "count": len(page)})


async def _facts_of(asking: Asking, episodes: Sequence[KnownEntry]) -> dict[str, list[KnownEntry]]:
    """By memcell."""
    cells = {known.cell for known in episodes if known.cell}
    found: dict[str, list[KnownEntry]] = {}
    if cells:
        first, last = (pick(known.entry.when for known in episodes) for pick in (min, max))
        wanted = EntryFilter(asking.user_id, kinds=(FACTS,), since=first - _DAY_MS, until=last + _DAY_MS)
        for shown in await memories.holding(asking, wanted):
            if shown.known.cell in cells:
                found.setdefault(shown.known.cell, []).append(shown.known)
    return found


@router.post("/update")
async def update(home: Home, caller: Calling, body: UpdateBody, request: Request) -> JsonObject:
    """A person's word: it wins over what was said before."""
    asking = asking_for(home, caller, request, body.user_id)
    asking.act_as("PATCH", "/api/v1/memory/entries/entry", entry=body.memory_id)
    title = body.patch.subject or body.patch.summary
    if title is None and body.patch.episode is None:
        raise InvalidInput("patch: nothing is to be changed; give episode, summary or subject", field="patch")
    edit = EntryEdit(title=title, text=body.patch.episode)
    shown = await home.entries.edit_entry(caller, body.memory_id, asking.named, edit)
    return _answer({**_episode(shown.known, Scoped()), "unchanged": False})


@router.post("/delete")
async def delete(home: Home, caller: Calling, body: DeleteBody, request: Request) -> JsonObject:
    """The memories of a user, or of one of their sessions. The messages they came from stay."""
    if body.user_id is None:
        raise InvalidInput("user_id: say whose memories are to be deleted", field="user_id")
    asking = asking_for(home, caller, request, body.user_id)
    count = await memories.delete_all(asking, body.session_id, body.tags)
    names = ["user_id", *(["session_id"] if body.session_id else [])]
    return _answer({"filters": names, "count": count})


@router.post("/delete_by_ids")
async def delete_by_ids(home: Home, caller: Calling, body: IdsBody, request: Request) -> JsonObject:
    asking = asking_for(home, caller, request, body.user_id)
    for memory_id in dict.fromkeys(body.memory_ids):
        await memories.delete(asking, memory_id)
    return _answer({"memory_type": body.memory_type, "success": True})


@router.post("/edit")
async def edit_profile(home: Home, caller: Calling, body: EditBody, request: Request) -> JsonObject:
    """Lines of the profile; a new one is a fact in the person's own words."""
    asking = asking_for(home, caller, request, body.user_id)
    results = [await _applied(asking, number, each) for number, each in enumerate(body.operations)]
    profile = await _profile(asking, body)
    applied = sum(each["status"] == "applied" for each in results)
    told = {"user_id": asking.user_id, "version": home.clock(), "applied": applied, "results": results}
    return _answer({**told, "profile": profile["profile_data"]})


async def _applied(asking: Asking, number: int, wanted: Operation) -> JsonObject:
    told: JsonObject = {"op_index": number, "action": wanted.action, "type": wanted.type, "status": "applied"}
    entries, caller, user_id = asking.home.entries, asking.caller, asking.user_id
    try:
        if wanted.action == "add":
            asking.act_as("POST", "/api/v1/memory/entries")
            shown = await entries.add_entry(caller, user_id, FACTS, wanted.words)
            return {**told, "new_item_id": shown.known.entry_id}
        if wanted.item_id is None:
            raise InvalidInput("item_id: name the line", field="item_id")
        told["item_id"] = wanted.item_id
        if wanted.action == "delete":
            await memories.delete(asking, wanted.item_id)
        else:
            asking.act_as("PATCH", "/api/v1/memory/entries/entry", entry=wanted.item_id)
            await entries.edit_entry(caller, wanted.item_id, user_id, EntryEdit(text=wanted.words))
    except Refused:
        raise
    except RecollectError as error:
        return {**told, "status": "rejected", "error": error.message}
    return told


for _path in ("/feedback", "/tag/bind", "/tag/unbind", "/tag/replace"):

    @router.post(_path)
    async def refuse(_home: Home, _caller: Calling) -> JsonObject:
        raise InvalidInput(
            "Recollect has no feedback or tags of memories at EverOS' door: see docs/clients.md"
        )
