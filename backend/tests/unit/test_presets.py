"""Who may change presets and preferences, which preset is in force, and what an unknown one is told."""

from dataclasses import replace

import pytest

from recollect.domain.access import Caller
from recollect.domain.people import Preferences, Preset, built_in_preset
from recollect.errors import InvalidInput, NotFound
from recollect.infra.journal.people import SqlPeopleStore
from recollect.service.people import (
    change_preferences,
    change_preset,
    delete_preset,
    get_preferences,
    get_preset,
    list_presets,
    preset_in_force,
    put_preset,
)
from tests.contract.journals import Journal

OPERATOR, ANN = Caller(), Caller(user_id="ann")
PIRATE = Preset("default", "Pirate", "Answer like a pirate.")
DEFAULT = built_in_preset("default")


@pytest.fixture
def people(journal: Journal) -> SqlPeopleStore:
    return journal.people


async def test_a_default_preset_of_ones_own_takes_the_place_of_the_built_in_one(
    people: SqlPeopleStore,
) -> None:
    own = replace(PIRATE, name="Default")
    await put_preset(people, OPERATOR, own)
    assert await list_presets(people, "default", 10, None) == [own]
    await delete_preset(people, OPERATOR, "default")
    assert await get_preset(people, "default", "default") == DEFAULT


async def test_the_built_in_preset_cannot_be_deleted(people: SqlPeopleStore) -> None:
    with pytest.raises(InvalidInput):
        await delete_preset(people, OPERATOR, "default")


async def test_a_preset_that_is_not_there_is_not_found_and_the_others_are_named(
    people: SqlPeopleStore,
) -> None:
    await put_preset(people, OPERATOR, PIRATE)
    with pytest.raises(NotFound, match="default, Pirate"):
        await get_preset(people, "default", "corsair")
    for attempt in (
        change_preset(people, OPERATOR, "corsair", {}),
        delete_preset(people, OPERATOR, "corsair"),
    ):
        with pytest.raises(NotFound):
            await attempt


async def test_the_first_preset_that_there_is_is_in_force(people: SqlPeopleStore) -> None:
    await put_preset(people, OPERATOR, PIRATE)
    assert await preset_in_force(people, "default", None, "gone", "pirate") == PIRATE
    assert await preset_in_force(people, "default", None, "gone") == DEFAULT
    assert await preset_in_force(people, "work", "pirate") == built_in_preset("work")


async def test_none_is_the_default_again(people: SqlPeopleStore) -> None:
    await change_preferences(people, ANN, "ann", {"auto_skills": False, "time_zone": "UTC"})
    await change_preferences(people, ANN, "ann", {"auto_skills": None, "time_zone": None})
    assert await get_preferences(people, ANN, "ann") == Preferences("default", "ann")
