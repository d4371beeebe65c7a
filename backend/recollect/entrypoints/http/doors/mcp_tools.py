"""The tools that an agent has: search, remember, forget, profile, why, recent."""

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, Field

from recollect.domain.entries.entry import KnownEntry
from recollect.domain.entries.links import successor_ids
from recollect.domain.identity import turn_id, turn_number
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import Append, NewTurn, ThreadRef, Turn
from recollect.domain.recall.hits import Hit
from recollect.domain.recall.rows import NOTE
from recollect.entrypoints.http.doors import memories
from recollect.entrypoints.http.doors.memories import Asking
from recollect.entrypoints.http.requests import Body, Id, SearchBody, Text, not_blank
from recollect.entrypoints.http.routes.entries import verbs
from recollect.service.entries import EntryFilter, ShownEntry
from recollect.service.forget.forget import forget_note, forget_turn
from recollect.service.sources import Quote, Reason
from recollect.service.threads import get_turn

MAX_TEXT = 20_000
_NOTES = "notes/"
AnyId = Annotated[Id, Field(description="An `id` from another tool's answer. Never guess one.")]
Kind = Literal["facts", "episodes", "foresight"]


class Memory(BaseModel):
    id: str = Field(description="For `why` and `forget`.")
    type: str = Field(description="fact, episode, foresight, profile, turn (a message), note, …")
    text: str
    when: str = Field(description="When it was said or happened, UTC.")
    until: str | None = Field(None, description="When it ceased, or will cease, to hold.")
    superseded_by: str | None = Field(None, description="The id of the memory that holds instead.")


class FoundMemory(Memory):
    said_by: str | None = Field(None, description="Who said it, of a message.")


class SearchMemory(Body):
    query: Annotated[
        Text,
        Field(
            min_length=1,
            max_length=10_000,
            description="A question or keywords, in the person's own language. Times such as 'last week' work.",
        ),
        AfterValidator(not_blank),
    ]
    limit: int = Field(10, ge=1, le=50, description="Most memories to return.")


class FoundMemories(BaseModel):
    memories: list[FoundMemory] = Field(description="The best first.")
    problems: list[str] = Field(description="What this search could not use; empty when all is well.")


async def search_memory(asking: Asking, given: SearchMemory) -> FoundMemories:
    asking.act_as("POST", "/api/v1/memory/search")
    body = SearchBody(query=given.query, user_id=asking.user_id, top_k=given.limit)
    found = await asking.home.search.recall.search(asking.caller, body.search())
    asking.home.metrics.observe_search(body.mode, degraded=bool(found.degraded))
    return FoundMemories(memories=[_found(hit) for hit in found.hits], problems=found.degraded)


def _found(hit: Hit) -> FoundMemory:
    row = hit.row
    identifier = row.row_id
    if row.thread_id and not row.is_entry:
        identifier = _message_id(row.thread_id, turn_id(row.position))
    elif row.type == NOTE:
        identifier = _NOTES + row.path.split("/", 4)[4]
    return FoundMemory(
        id=identifier,
        type=row.type,
        text=hit.text,
        when=write_time(row.timestamp),
        until=write_time(hit.until) if hit.until else None,
        superseded_by=row.superseded_by or None,
        said_by=(row.sender or row.role or None) if not row.is_entry else None,
    )


class Remember(Body):
    text: Annotated[
        Text,
        Field(
            min_length=1,
            max_length=MAX_TEXT,
            description="What to remember, as the person would say it, complete in itself: names instead of "
            "pronouns, dates instead of 'tomorrow'.",
        ),
        AfterValidator(not_blank),
    ]


class Remembered(BaseModel):
    id: str = Field(description="Of the message that was stored: for `forget`.")
    stored: bool = Field(description="It is on disk, and search finds it.")


async def remember(asking: Asking, given: Remember) -> Remembered:
    """A message of the person's, in a thread of its own: that closes the chats that wait, and is the memory's source."""
    home, caller, user_id = asking.home, asking.caller, asking.user_id
    thread_id = f"t_{secrets.token_hex(8)}"
    said = NewTurn("user", given.text, home.clock(), user_id)
    append = Append(caller.space, thread_id, (said,), user_id, one_shot=True)
    (receipt,) = await memories.add(asking, append)
    await memories.flush(asking, thread_id)
    await home.search.corpus_cache.read_ahead(ThreadRef(caller.space, user_id, thread_id))
    return Remembered(id=_message_id(thread_id, receipt.turn_id or ""), stored=receipt.status == "accepted")


class Forget(Body):
    id: AnyId


class Forgotten(BaseModel):
    id: str
    went_along: list[str] = Field(description="Ids of the memories that were made of it alone: gone too.")
    memories: int = Field(description="How many memories are gone, of a message all that came from it.")


async def forget(asking: Asking, given: Forget) -> Forgotten:
    home, caller, user_id = asking.home, asking.caller, asking.user_id
    if (place := _place(given.id)) is not None:
        thread_id, turn = place
        asking.act_as("DELETE", "/api/v1/threads/thread/turns/turn", thread=thread_id, turn=turn)
        gone = await forget_turn(home.THREADS, home.forgetting, caller, thread_id, turn, user_id)
        return Forgotten(id=given.id, went_along=[], memories=gone.entries)
    if given.id.startswith(_NOTES):
        asking.act_as("DELETE", "/api/v1/memory/notes/note")
        await forget_note(home.user_notes, home.forgetting, caller, user_id, given.id.removeprefix(_NOTES))
        return Forgotten(id=given.id, went_along=[], memories=0)
    asking.act_as("DELETE", "/api/v1/memory/entries/entry", entry=given.id)
    deleted = await verbs(home, given.id).delete_entry(caller, given.id, user_id)
    along = [each.entry_id for each in deleted.goes_along]
    return Forgotten(id=given.id, went_along=along, memories=1 + len(along))


class Nothing(Body):
    """A tool without arguments."""


class ProfilePage(BaseModel):
    lines: list[Memory] = Field(description="What holds of the person now, by topic.")


async def profile(asking: Asking, _given: Nothing) -> ProfilePage:
    asking.act_as("GET", "/api/v1/users/user/profile")
    found = await asking.home.entries.profile(asking.caller, asking.user_id)
    return ProfilePage(lines=[_memory(shown.known) for shown in found])


class Why(Body):
    id: AnyId


class Said(BaseModel):
    id: str
    by: str | None = Field(None, description="Who said it; absent where the message was forgotten.")
    when: str | None = None
    text: str | None = None


class Sources(BaseModel):
    memory: Memory
    by: str | None = Field(None, description="What made it, and with which model; absent for a message.")
    edited: bool = Field(description="A person wrote or corrected it.")
    said: list[Said] = Field(description="The messages that it came from.")
    made_of: list[Memory] = Field(description="The memories that it came from.")


async def why(asking: Asking, given: Why) -> Sources:
    home, caller, user_id = asking.home, asking.caller, asking.user_id
    if (place := _place(given.id)) is not None:
        thread_id, named = place
        asking.act_as("GET", "/api/v1/threads/thread/turns", thread=thread_id)
        turn = await get_turn(home.THREADS, caller, thread_id, user_id, named)
        told = Memory(id=given.id, type="turn", text=turn.content, when=write_time(turn.timestamp))
        return Sources(memory=told, by=None, edited=turn.edited, said=[_said(given.id, turn)], made_of=[])
    asking.act_as("GET", "/api/v1/memory/entries/entry/why", entry=given.id)
    reason = await verbs(home, given.id).why(caller, given.id, user_id)
    chain = _chain(reason)
    said = {_quoted(quote).id: _quoted(quote) for each in chain for quote in each.quotes}
    return Sources(
        memory=_memory(reason.known),
        by=reason.known.entry.by or None,
        edited=reason.known.is_edited,
        said=list(said.values()),
        made_of=[_memory(each.known) for each in chain[1:]],
    )


class Recent(Body):
    limit: int = Field(20, ge=1, le=100, description="Most memories to return.")
    kind: Kind | None = Field(None, description="Only these; unset: facts, episodes and foresight.")


class RecentMemories(BaseModel):
    memories: list[Memory] = Field(description="The newest first.")


async def recent(asking: Asking, given: Recent) -> RecentMemories:
    asking.act_as("GET", "/api/v1/memory/entries")
    kinds = (given.kind,) if given.kind else ("facts", "episodes", "foresight")
    wanted = EntryFilter(asking.user_id, kinds=kinds)
    found: Sequence[ShownEntry] = await asking.home.entries.list_entries(asking.caller, wanted, given.limit)
    return RecentMemories(memories=[_memory(shown.known) for shown in found])


def _message_id(thread_id: str, turn: str) -> str:
    return f"{thread_id}#{turn}"


def _place(identifier: str) -> tuple[str, str] | None:
    """Thread and turn of a message's id; None for a memory or a note."""
    thread_id, _, turn = identifier.rpartition("#")
    return (thread_id, turn) if thread_id and turn_number(turn) is not None else None


def _memory(known: KnownEntry) -> Memory:
    entry, ends = known.entry, known.ends
    return Memory(
        id=known.entry_id,
        type=known.kind,
        text=entry.text if entry.text.strip() else entry.title,
        when=write_time(entry.when),
        until=None if ends is None else write_time(ends),
        superseded_by=next(iter(successor_ids(entry)), None),
    )


def _chain(reason: Reason) -> list[Reason]:
    return [reason, *(deeper for each in reason.made_of for deeper in _chain(each))]


def _quoted(quote: Quote) -> Said:
    source = quote.source
    return _said(_message_id(source.thread_id, source.turn_id), quote.turn)


def _said(identifier: str, turn: Turn | None) -> Said:
    if turn is None:
        return Said(id=identifier)
    return Said(id=identifier, by=turn.sender_id, when=write_time(turn.timestamp), text=turn.content)


class Told(NamedTuple):
    """What a tool answers: for the model, and for a program."""

    text: str
    structure: dict[str, Any]


def _in_both_forms(
    call: Callable[[Asking, Any], Awaitable[BaseModel]],
) -> Callable[[Asking, Any], Awaitable[Told]]:
    async def told(asking: Asking, given: Any) -> Told:
        structure = (await call(asking, given)).model_dump(mode="json", exclude_none=True)
        return Told(json.dumps(structure, ensure_ascii=False), structure)

    return told


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: what it is for, what it takes and answers, and which hints a client gets."""

    title: str
    description: str
    takes: type[BaseModel]
    call: Callable[[Asking, Any], Awaitable[Told]]
    schemas: tuple[dict[str, Any], dict[str, Any]]
    """Of what it takes and answers."""
    reads: bool = True
    destroys: bool = False
    repeatable: bool = True


def _tool(
    title: str,
    takes: type[BaseModel],
    gives: type[BaseModel],
    call: Callable[[Asking, Any], Awaitable[BaseModel]],
    description: str,
    **hints: bool,
) -> Tool:
    schemas = takes.model_json_schema(), gives.model_json_schema()
    return Tool(title, description, takes, _in_both_forms(call), schemas, **hints)


OWN: Mapping[str, Tool] = {
    "search_memory": _tool(
        "Search memory",
        SearchMemory,
        FoundMemories,
        search_memory,
        "Search what is remembered of the person: facts, earlier conversations in every app, their notes. Use it "
        "before you answer anything that may depend on what they told, decided or prefer.",
    ),
    "remember": _tool(
        "Remember",
        Remember,
        Remembered,
        remember,
        "Remember something for good. Use it when the person asks for that, or tells a lasting fact, preference or "
        "decision. One statement a call. Search finds it at once; facts are made of it in the background.",
        reads=False,
        repeatable=False,
    ),
    "forget": _tool(
        "Forget",
        Forget,
        Forgotten,
        forget,
        "Forget one memory, message or note for good, by its id. Only when the person asks for it: show them what "
        "you found first. A forgotten memory is never made again, but the message it came from stays; a forgotten "
        "message takes along all memories that came from it (`why` tells its id). It can't be undone.",
        reads=False,
        destroys=True,
        repeatable=False,
    ),
    "profile": _tool(
        "Profile",
        Nothing,
        ProfilePage,
        profile,
        "What holds of the person now: who they are, their work, people, preferences and wishes. Use it at the "
        "start of a conversation.",
    ),
    "why": _tool(
        "Why",
        Why,
        Sources,
        why,
        "Where a memory comes from: the messages and memories it was made of, with their words.",
    ),
    "recent": _tool(
        "Recent memories",
        Recent,
        RecentMemories,
        recent,
        "The newest memories by when they happened. Use it for 'what did we do lately?'.",
    ),
}
