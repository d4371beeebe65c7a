"""Presets of a space, and preferences of a user."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from recollect.domain.access import Caller
from recollect.domain.people import DEFAULT_PRESET, Preferences, Preset, built_in_preset, preset_key
from recollect.errors import InvalidInput, NotFound, Refused
from recollect.infra.journal.people import SqlPresetStore

_NAMED = 20


async def get_preset(people: SqlPresetStore, space: str, name: str) -> Preset:
    """The space's own, or the built-in one. Raises NotFound."""
    if (preset := await find_preset(people, space, name)) is None:
        raise NotFound(f"there is no preset {name!r}; there are: {await _names(people, space)}")
    return preset


async def find_preset(people: SqlPresetStore, space: str, name: str) -> Preset | None:
    """The space's own, or the built-in one, or None."""
    preset = await people.preset(space, name)
    if preset is None and preset_key(name) == DEFAULT_PRESET:
        return built_in_preset(space)
    return preset


async def preset_in_force(people: SqlPresetStore, space: str, *names: str | None) -> Preset:
    """The first of these that there is (a request's, its thread's, its user's), else the default one."""
    for name in names:
        if name is not None and (preset := await find_preset(people, space, name)) is not None:
            return preset
    return await get_preset(people, space, DEFAULT_PRESET)


async def require_preset(people: SqlPresetStore, space: str, name: str | None) -> None:
    """Raises InvalidInput, with the names there are, for one that there is not."""
    if name is not None and await find_preset(people, space, name) is None:
        raise InvalidInput(
            f"preset: there is no preset {name!r}; there are: {await _names(people, space)}", field="preset"
        )


async def list_presets(people: SqlPresetStore, space: str, limit: int, after: str | None) -> list[Preset]:
    """By name, the built-in one among them."""
    found = await people.presets(space, limit=limit, after=after)
    begin = "" if after is None else preset_key(after)
    if begin < DEFAULT_PRESET and await people.preset(space, DEFAULT_PRESET) is None:
        found = sorted([*found, built_in_preset(space)], key=lambda preset: preset.key)
    return found[:limit]


async def put_preset(people: SqlPresetStore, caller: Caller, preset: Preset) -> tuple[Preset, bool]:
    """Create or replace; True where there was none of the space's own."""
    _operators_only(caller)
    preset.checked()
    return await people.change_preset(caller.space, preset.name, lambda _: preset)


async def change_preset(
    people: SqlPresetStore, caller: Caller, name: str, changes: Mapping[str, Any]
) -> Preset:
    """Change what is named. The built-in preset is copied first."""
    _operators_only(caller)
    space = caller.space

    def change(before: Preset | None) -> Preset:
        if before is None and preset_key(name) == DEFAULT_PRESET:
            before = built_in_preset(space)
        if before is None:
            raise NotFound(f"there is no preset {name!r}")
        return replace(before, **changes).checked()

    changed, _ = await people.change_preset(space, name, change)
    return changed


async def delete_preset(people: SqlPresetStore, caller: Caller, name: str) -> None:
    """Delete a preset. If it replaced the default one, the built-in preset is in force again."""
    _operators_only(caller)
    if await people.delete_preset(caller.space, name):
        return
    if preset_key(name) == DEFAULT_PRESET:
        raise InvalidInput("name: the built-in preset can be replaced, not deleted", field="name")
    raise NotFound(f"there is no preset {name!r}; there are: {await _names(people, caller.space)}")


async def _names(people: SqlPresetStore, space: str) -> str:
    presets = await list_presets(people, space, _NAMED + 1, None)
    more = ", …" if len(presets) > _NAMED else ""
    return ", ".join(preset.name for preset in presets[:_NAMED]) + more


def _operators_only(caller: Caller) -> None:
    if caller.user_id is not None:
        raise Refused("presets are for everybody in the space: only its operator may change them")


async def get_preferences(people: SqlPresetStore, caller: Caller, user_id: str) -> Preferences:
    """Raises Refused for another's."""
    caller.acting_for(user_id)
    return await people.preferences(caller.space, user_id)


async def change_preferences(
    people: SqlPresetStore, caller: Caller, user_id: str, changes: Mapping[str, Any]
) -> Preferences:
    """Change what is named; None is the default again. Raises Refused for another's."""
    caller.acting_for(user_id)
    await require_preset(people, caller.space, changes.get("preset"))
    defaults = Preferences(caller.space, user_id)
    wanted = {name: getattr(defaults, name) if value is None else value for name, value in changes.items()}
    return await people.change_preferences(
        caller.space, user_id, lambda before: replace(before, **wanted).checked()
    )
