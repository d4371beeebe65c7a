"""Presets of a space, preferences of a user, and who is asking."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from recollect.domain.model import DEFAULT_USER
from recollect.entrypoints.http import people_schemas as schemas
from recollect.entrypoints.http.answers import next_page
from recollect.entrypoints.http.deps import Calling, Home, PathId
from recollect.entrypoints.http.direct_route import BodyRoute
from recollect.entrypoints.http.entry_schemas import EntryAnswer, ProfileAnswer
from recollect.entrypoints.http.errors import documented
from recollect.entrypoints.http.requests import Id
from recollect.errors import Refused
from recollect.service import people

router = APIRouter(prefix="/api/v1", tags=["people"], route_class=BodyRoute)
PAGE = 100


@router.get("/presets", responses=documented(), response_model_exclude_unset=True)
async def list_presets(
    home: Home,
    caller: Calling,
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
    after: Annotated[Id | None, Query(description="`next` of the page before.")] = None,
) -> schemas.PresetsAnswer:
    """The presets of the space, by name; the built-in one is among them."""
    found = await people.list_presets(home.people, caller.space, limit + 1, after)
    page = [schemas.PresetAnswer.of(preset) for preset in found[:limit]]
    return schemas.PresetsAnswer(presets=page, **next_page(found, limit, lambda preset: preset.name))


@router.get("/presets/{name}", responses=documented(404))
async def get_preset(home: Home, caller: Calling, name: PathId) -> schemas.PresetAnswer:
    return schemas.PresetAnswer.of(await people.get_preset(home.people, caller.space, name))


@router.put("/presets/{name}", responses={**documented(), 201: {"model": schemas.PresetAnswer}})
async def put_preset(
    home: Home, caller: Calling, name: PathId, body: schemas.PresetBody, response: Response
) -> schemas.PresetAnswer:
    """Create a preset (201) or replace it as a whole (200)."""
    preset, is_new = await people.put_preset(home.people, caller, body.preset(caller.space, name))
    if is_new:
        response.status_code = 201
    return schemas.PresetAnswer.of(preset)


@router.patch("/presets/{name}", responses=documented(404))
async def change_preset(
    home: Home, caller: Calling, name: PathId, body: schemas.PresetChanges
) -> schemas.PresetAnswer:
    """Change what is named; null clears it."""
    return schemas.PresetAnswer.of(await people.change_preset(home.people, caller, name, body.changes()))


@router.delete("/presets/{name}", responses=documented(404))
async def delete_preset(home: Home, caller: Calling, name: PathId) -> schemas.DeletedPresetAnswer:
    """Threads that name it go on with their user's preset, or with the default one."""
    await people.delete_preset(home.people, caller, name)
    return schemas.DeletedPresetAnswer(name=name)


@router.get("/users", responses=documented(), response_model_exclude_unset=True)
async def list_users(
    home: Home,
    caller: Calling,
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
    after: Annotated[Id | None, Query(description="`next` of the page before.")] = None,
) -> schemas.UsersAnswer:
    """Who has chats in the space, for its operator."""
    if caller.user_id is not None:
        raise Refused("the list of users is for the operator: use a key that belongs to no single user")
    found = await home.THREADS.users(caller.space, limit + 1, after or "")
    page = [schemas.UserAnswer(user_id=user, threads=threads, last_used=at) for user, threads, at in found]
    return schemas.UsersAnswer(users=page[:limit], **next_page(page, limit, lambda user: user.user_id))


@router.get("/users/{user_id}/profile", responses=documented(404))
async def get_profile(home: Home, caller: Calling, user_id: PathId) -> ProfileAnswer:
    """What holds about a user, line by line, for that user and the operator."""
    found = await home.entries.profile(caller, user_id)
    return ProfileAnswer(user_id=user_id, entries=[EntryAnswer.of(shown) for shown in found])


@router.get("/users/{user_id}/preferences", responses=documented(404))
async def get_preferences(home: Home, caller: Calling, user_id: PathId) -> schemas.PreferencesAnswer:
    """For that user and the operator; the defaults, where nothing was chosen."""
    return schemas.PreferencesAnswer.of(await people.get_preferences(home.people, caller, user_id))


@router.patch("/users/{user_id}/preferences", responses=documented(404))
async def change_preferences(
    home: Home, caller: Calling, user_id: PathId, body: schemas.PreferenceChanges
) -> schemas.PreferencesAnswer:
    """Change what is named; null is the default again."""
    changed = await people.change_preferences(home.people, caller, user_id, body.changes())
    return schemas.PreferencesAnswer.of(changed)


class WhoamiAnswer(BaseModel):
    space: str
    user_id: str | None = Field(
        description="The key's user; null: the operator of the space, who sees all of it."
    )
    default_user: str = Field(description="Whose a thread is that an operator opens without naming a user.")


@router.get("/whoami", responses=documented())
async def whoami(caller: Calling) -> WhoamiAnswer:
    """The space and the user that requests like this one stand for."""
    return WhoamiAnswer(space=caller.space, user_id=caller.user_id, default_user=DEFAULT_USER)
