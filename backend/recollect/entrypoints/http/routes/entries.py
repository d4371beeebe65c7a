"""Entries and skills: read, correct, pin, delete, undo, and ask where they came from."""

from typing import Annotated, get_args

from fastapi import APIRouter, Query, Request
from pydantic import Field

from recollect.app import App
from recollect.domain.entries.entry import SKILLS, is_skill_id
from recollect.domain.model import MAX_TIMESTAMP
from recollect.entrypoints.http import entry_schemas as schemas
from recollect.entrypoints.http.answers import next_page
from recollect.entrypoints.http.chat_schemas import TimeZone
from recollect.entrypoints.http.deps import Calling, Home, PathId, UserQuery, note
from recollect.entrypoints.http.direct_route import BodyRoute
from recollect.entrypoints.http.errors import documented
from recollect.entrypoints.http.requests import Id
from recollect.errors import InvalidInput
from recollect.service.entries import Entries, EntryFilter
from recollect.service.skills.view import SkillEntries

router = APIRouter(prefix="/api/v1/memory", tags=["memory"], route_class=BodyRoute)
PAGE = 100
Moment = Annotated[int, Field(ge=0, le=MAX_TIMESTAMP)]
"""UTC milliseconds, out of a query."""


def verbs(home: App, entry_id: str) -> Entries | SkillEntries:
    """Skills are files of their own, with verbs of their own."""
    return home.skills if is_skill_id(entry_id) else home.entries


@router.get("/entries", responses=documented(404), response_model_exclude_unset=True)
async def list_entries(
    home: Home,
    caller: Calling,
    user_id: UserQuery = None,
    agent_id: Annotated[Id | None, Query(description="This agent's instead.")] = None,
    kind: Annotated[
        list[schemas.Kind] | None,
        Query(
            max_length=6, description="Only these; may be given again, but for `skills`, which come alone."
        ),
    ] = None,
    since: Annotated[Moment | None, Query(description="Only what happened at this time or later.")] = None,
    until: Annotated[Moment | None, Query(description="Only what happened before this time.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
    after: Annotated[Id | None, Query(description="`next` of the page before.")] = None,
) -> schemas.EntriesAnswer:
    """What was made of a user's conversations, or of an agent's, the newest first by when it happened."""
    if since is not None and until is not None and since >= until:
        raise InvalidInput("until: must be after since", field="until")
    wanted = EntryFilter(user_id, agent_id, tuple(dict.fromkeys(kind or ())), since, until)
    if SKILLS in wanted.kinds and len(wanted.kinds) > 1:
        raise InvalidInput("kind: skills are listed alone", field="kind")
    listing = home.skills.list_entries if SKILLS in wanted.kinds else home.entries.list_entries
    found = await listing(caller, wanted, limit + 1, after)
    page = [schemas.EntryAnswer.of(shown) for shown in found[:limit]]
    return schemas.EntriesAnswer(entries=page, **next_page(found, limit, lambda shown: shown.known.entry_id))


@router.get("/months", responses=documented(404))
async def list_months(
    home: Home,
    caller: Calling,
    user_id: UserQuery = None,
    kind: Annotated[
        list[schemas.UserKind] | None, Query(max_length=4, description="Only these; may be given again.")
    ] = None,
    time_zone: Annotated[
        TimeZone, Query(description="An IANA name such as Europe/Lisbon: where months begin.")
    ] = "UTC",
) -> schemas.MonthsAnswer:
    """The months in which something that was made of a user's conversations happened, the newest first."""
    wanted = EntryFilter(user_id, kinds=tuple(dict.fromkeys(kind or get_args(schemas.UserKind))))
    found = await home.entries.months(caller, wanted, time_zone)
    return schemas.MonthsAnswer(
        months=[schemas.MonthAnswer(month=f"{day:%Y-%m}", entries=count) for day, count in found]
    )


@router.post("/entries", status_code=201, responses=documented(429))
async def add_entry(
    home: Home, caller: Calling, body: schemas.NewEntry, request: Request
) -> schemas.ShownEntryAnswer:
    """Write a memory by hand. It wins over what was said before; what is said later may supersede it."""
    note(request, user=body.user_id)
    added = await home.entries.add_entry(caller, body.user_id, body.kind, body.text, body.when)
    return schemas.ShownEntryAnswer.of(added)


@router.get("/entries/{entry_id}", responses=documented(404))
async def get_entry(
    home: Home, caller: Calling, entry_id: PathId, user_id: UserQuery = None
) -> schemas.ShownEntryAnswer:
    """One entry, with the words it came from."""
    return schemas.ShownEntryAnswer.of(await verbs(home, entry_id).get_entry(caller, entry_id, user_id))


@router.patch("/entries/{entry_id}", responses=documented(404, 409))
async def edit_entry(
    home: Home, caller: Calling, entry_id: PathId, body: schemas.EntryChanges, request: Request
) -> schemas.ShownEntryAnswer:
    """Change what is named, of a skill its text. What a person wrote wins over what was said before; a pin changes no words."""
    note(request, user=body.user_id)
    return schemas.ShownEntryAnswer.of(
        await verbs(home, entry_id).edit_entry(caller, entry_id, body.user_id, body.edit())
    )


@router.delete("/entries/{entry_id}", responses=documented(404, 409))
async def delete_entry(
    home: Home, caller: Calling, entry_id: PathId, user_id: UserQuery = None
) -> schemas.DeletedEntryAnswer:
    """Forget an entry, with its history. It is never derived again, and can't be brought back."""
    return schemas.DeletedEntryAnswer.of(await verbs(home, entry_id).delete_entry(caller, entry_id, user_id))


@router.get("/entries/{entry_id}/deletion", responses=documented(404))
async def preview_deletion(
    home: Home, caller: Calling, entry_id: PathId, user_id: UserQuery = None
) -> schemas.DeletionAnswer:
    """What would go along if the entry were deleted. Nothing is changed."""
    return schemas.DeletionAnswer.of(await verbs(home, entry_id).what_goes(caller, entry_id, user_id))


@router.get("/entries/{entry_id}/history", responses=documented(404))
async def get_history(
    home: Home, caller: Calling, entry_id: PathId, user_id: UserQuery = None
) -> schemas.HistoryAnswer:
    """Every version of an entry, and who made it so."""
    known, versions = await verbs(home, entry_id).history(caller, entry_id, user_id)
    return schemas.HistoryAnswer(
        id=known.entry_id,
        revision=known.revision,
        versions=[schemas.VersionAnswer.of(each) for each in versions],
    )


@router.post("/entries/{entry_id}/undo", responses=documented(404, 409))
async def undo(
    home: Home, caller: Calling, entry_id: PathId, request: Request, body: schemas.UndoBody | None = None
) -> schemas.ShownEntryAnswer:
    """Take back the last change, or all since a revision. That is a change too, and can be undone."""
    wanted = body or schemas.UndoBody()
    note(request, user=wanted.user_id)
    return schemas.ShownEntryAnswer.of(
        await verbs(home, entry_id).undo(caller, entry_id, wanted.user_id, wanted.revision)
    )


@router.get("/entries/{entry_id}/why", responses=documented(404))
async def why(home: Home, caller: Calling, entry_id: PathId, user_id: UserQuery = None) -> schemas.WhyAnswer:
    """The chain from an entry to the words it came from."""
    return schemas.WhyAnswer.told(await verbs(home, entry_id).why(caller, entry_id, user_id))


@router.get("/skills", responses=documented(404))
async def list_skills(home: Home, caller: Calling, user_id: UserQuery = None) -> schemas.SkillsAnswer:
    """The skills that were made of a user's conversations with agents, or all of the space."""
    found = await home.skills.list_skills(caller, user_id)
    return schemas.SkillsAnswer(skills=[schemas.SkillAnswer.of(shown) for shown in found])
