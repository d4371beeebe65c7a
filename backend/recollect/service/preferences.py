"""Preferences: what one user wants, for that user and the operator alone."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from recollect.memory.access import Caller
from recollect.memory.preferences import Preferences
from recollect.service.ports import PeopleStore
from recollect.service.presets import require_preset


async def get_preferences(people: PeopleStore, caller: Caller, user_id: str) -> Preferences:
    """Raises NotFound for another's."""
    caller.acting_for(user_id)
    return await people.preferences(caller.space, user_id)


async def change_preferences(
    people: PeopleStore, caller: Caller, user_id: str, changes: Mapping[str, Any]
) -> Preferences:
    """Change what is named; None is the default again. Raises NotFound for another's."""
    caller.acting_for(user_id)
    await require_preset(people, caller.space, changes.get("preset"))
    defaults = Preferences(caller.space, user_id)
    wanted = {name: getattr(defaults, name) if value is None else value for name, value in changes.items()}
    return await people.change_preferences(
        caller.space, user_id, lambda before: replace(before, **wanted).checked()
    )
