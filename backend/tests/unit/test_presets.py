"""Who may change presets and preferences, which preset is in force, and what an unknown one is told."""

from dataclasses import replace

import pytest

from recollect.domain.access import Caller
from recollect.domain.people import Preferences, Preset, built_in_preset
from recollect.errors import InvalidInput, NotFound, Refused
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
from recollect.service.threads import NewThread, create_thread, update_thread
from tests.contract.journals import Journal

OPERATOR, ANN = Caller(), Caller(user_id="ann")
PIRATE = Preset("default", "Pirate", "Answer like a pirate.")
DEFAULT = built_in_preset("default")


@pytest.fixture
def people(journal: Journal) -> SqlPeopleStore:
    return journal.people


async def test_without_any_preset_there_is_the_built_in_one(people: SqlPeopleStore) -> None:
    assert await list_presets(people, "default", 10, None) == [DEFAULT]
    assert await get_preset(people, "default", "DEFAULT") == DEFAULT


async def test_the_built_in_preset_stands_among_the_others_on_its_page(people: SqlPeopleStore) -> None:
    for name in ("alpha", "zeta"):
        await put_preset(people, OPERATOR, replace(PIRATE, name=name))
    pages = [
        [preset.name for preset in await list_presets(people, "default", limit, after)]
        for limit, after in ((1, None), (2, None), (9, "alpha"), (9, "default"))
    ]
    assert pages == [["alpha"], ["alpha", "default"], ["default", "zeta"], ["zeta"]]


async def test_a_default_preset_of_ones_own_takes_the_place_of_the_built_in_one(
    people: SqlPeopleStore,
) -> None:
    own = replace(PIRATE, name="Default")
    await put_preset(people, OPERATOR, own)
    assert await list_presets(people, "default", 10, None) == [own]
    await delete_preset(people, OPERATOR, "default")
    assert await get_preset(people, "default", "default") == DEFAULT


async def test_changing_the_built_in_preset_makes_it_ones_own(people: SqlPeopleStore) -> None:
    await change_preset(people, OPERATOR, "default", {"temperature": 0.2})
    assert await people.preset("default", "default") == replace(DEFAULT, temperature=0.2)


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


async def test_a_change_to_what_cannot_be_changes_nothing(people: SqlPeopleStore) -> None:
    await put_preset(people, OPERATOR, PIRATE)
    with pytest.raises(InvalidInput) as caught:
        await change_preset(people, OPERATOR, "pirate", {"instructions": " "})
    assert caught.value.field == "instructions"
    assert await people.preset("default", "pirate") == PIRATE


async def test_a_user_reads_presets_and_changes_none(people: SqlPeopleStore) -> None:
    await put_preset(people, OPERATOR, PIRATE)
    attempts = (
        put_preset(people, ANN, PIRATE),
        change_preset(people, ANN, "pirate", {"persona": "Hook"}),
        delete_preset(people, ANN, "pirate"),
    )
    for attempt in attempts:
        with pytest.raises(Refused):
            await attempt
    assert await get_preset(people, ANN.space, "pirate") == PIRATE


async def test_the_first_preset_that_there_is_is_in_force(people: SqlPeopleStore) -> None:
    await put_preset(people, OPERATOR, PIRATE)
    assert await preset_in_force(people, "default", None, "gone", "pirate") == PIRATE
    assert await preset_in_force(people, "default", None, "gone") == DEFAULT
    assert await preset_in_force(people, "work", "pirate") == built_in_preset("work")


async def test_preferences_are_for_their_user_and_the_operator(people: SqlPeopleStore) -> None:
    await change_preferences(people, ANN, "ann", {"auto_memory": False})
    expected = Preferences("default", "ann", auto_memory=False)
    assert await get_preferences(people, ANN, "ann") == expected
    assert await get_preferences(people, OPERATOR, "ann") == expected
    with pytest.raises(NotFound):
        await get_preferences(people, ANN, "bob")
    with pytest.raises(NotFound):
        await change_preferences(people, ANN, "bob", {"auto_memory": False})


async def test_none_is_the_default_again(people: SqlPeopleStore) -> None:
    await change_preferences(people, ANN, "ann", {"auto_skills": False, "time_zone": "UTC"})
    await change_preferences(people, ANN, "ann", {"auto_skills": None, "time_zone": None})
    assert await get_preferences(people, ANN, "ann") == Preferences("default", "ann")


@pytest.mark.parametrize("changes", [{"time_zone": "Mars/Olympus"}, {"preset": "corsair"}])
async def test_preferences_that_cannot_be_are_refused_by_name(
    people: SqlPeopleStore, changes: dict[str, str]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        await change_preferences(people, ANN, "ann", changes)
    assert caught.value.field == next(iter(changes))
    assert await people.files() == []


async def test_a_thread_with_an_unknown_preset_is_refused_and_the_known_ones_are_named(
    journal: Journal, people: SqlPeopleStore
) -> None:
    await put_preset(people, OPERATOR, PIRATE)
    with pytest.raises(InvalidInput, match="there are: default, Pirate") as caught:
        await create_thread(
            journal.threads, journal.clock, ANN, NewThread(thread_id="t1", preset="corsair"), people
        )
    assert caught.value.field == "preset"
    assert await journal.threads.list_threads() == []


async def test_a_thread_takes_a_known_preset_and_lets_go_of_it(
    journal: Journal, people: SqlPeopleStore
) -> None:
    await put_preset(people, OPERATOR, PIRATE)
    thread = await create_thread(
        journal.threads, journal.clock, ANN, NewThread(thread_id="t1", preset="pirate"), people
    )
    assert thread.preset == "pirate"
    with pytest.raises(InvalidInput):
        await update_thread(journal.threads, ANN, "t1", None, {"preset": "corsair"}, people)
    changed = await update_thread(journal.threads, ANN, "t1", None, {"preset": None}, people)
    assert changed.preset is None
