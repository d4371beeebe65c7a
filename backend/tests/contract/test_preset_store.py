"""What the store of presets and preferences promises."""

from dataclasses import replace

import pytest

from recollect.domain.job import PEOPLE, PURGE, Job
from recollect.domain.people import Preferences, Preset
from recollect.domain.vault_file import KnownFile
from recollect.infra.journal.forgetting import SqlForgetting
from tests.contract.journals import Journal
from tests.fakes import START

PIRATE = Preset("default", "Pirate", "Answer like a pirate.", "Captain Hook", 0.7, 200, "qwen3-8b", "big")
PATH = "default/presets/pirate.md"
ANNS = "default/users/ann/preferences.md"


class People:
    """The store, and what a test needs to see what it did."""

    def __init__(self, journal: Journal) -> None:
        self.store = journal.people
        self._journal = journal

    async def put(self, preset: Preset) -> bool:
        return (await self.store.change_preset(preset.space, preset.name, lambda _: preset))[1]

    async def jobs(self) -> list[Job]:
        """Those that wait, but for purges."""
        return [job for job in await self._journal.waiting() if job.kind != PURGE]

    async def forget(self, user_id: str) -> None:
        await SqlForgetting(self._journal.database, clock=self._journal.clock).forget_user("default", user_id)
        self.store.clear_cache()

    async def written(self, path: str, digest: str) -> None:
        """The file is written as what is in force now."""
        file = await self.store.file(path)
        assert file is not None
        await self.store.record(file, digest)


@pytest.fixture
def people(journal: Journal) -> People:
    return People(journal)


async def test_a_space_has_its_own_presets_alone(people: People) -> None:
    await people.put(PIRATE)
    await people.put(replace(PIRATE, space="work"))
    assert await people.store.presets("default") == [PIRATE]
    assert await people.store.preset("elsewhere", "pirate") is None


async def test_preferences_are_changed_one_by_one_and_are_their_users_alone(people: People) -> None:
    store = people.store
    await store.change_preferences("default", "ann", lambda before: replace(before, auto_memory=False))
    await store.change_preferences("default", "ann", lambda before: replace(before, time_zone="Asia/Tokyo"))
    expected = Preferences("default", "ann", auto_memory=False, time_zone="Asia/Tokyo")
    assert await store.preferences("default", "ann") == expected
    assert await store.preferences("default", "Ann") == Preferences("default", "Ann")
    assert await store.preferences("work", "ann") == Preferences("work", "ann")


async def test_the_file_of_what_changed_is_to_be_written(people: People) -> None:
    await people.put(PIRATE)
    (job,) = await people.jobs()
    assert (job.kind, job.space, job.payload, job.run_at) == (PEOPLE, "default", {"path": PATH}, START)
    assert await people.store.file(PATH) == KnownFile(PATH, PEOPLE, "default", "default/presets", revision=1)
    assert await people.store.holds(PATH) == PIRATE


async def test_what_is_put_as_it_is_already_is_no_change(people: People) -> None:
    await people.put(PIRATE)
    await people.put(PIRATE)
    file = await people.store.file(PATH)
    assert file is not None
    assert file.revision == 1


async def test_files_of_one_preset_share_a_lane_and_others_do_not(people: People) -> None:
    await people.put(PIRATE)
    await people.put(replace(PIRATE, persona=None))
    await people.put(replace(PIRATE, name="calm"))
    assert len({job.lane for job in await people.jobs()}) == len(await people.jobs()) == 2


async def test_a_file_that_was_written_before_the_last_change_has_yet_to_be_written(people: People) -> None:
    await people.put(PIRATE)
    await people.put(replace(PIRATE, persona=None))
    file = await people.store.file(PATH)
    assert file is not None
    await people.store.record(replace(file, revision=1), "d1")
    file = await people.store.file(PATH)
    assert file is not None
    assert not file.is_written


async def test_what_was_made_again_meanwhile_stays_when_the_old_file_is_removed(people: People) -> None:
    await people.put(PIRATE)
    await people.written(PATH, "d1")
    await people.store.delete_preset("default", "pirate")
    await people.put(PIRATE)
    await people.store.removed(PATH)
    assert await people.store.file(PATH) == KnownFile(PATH, PEOPLE, "default", "default/presets", revision=3)


async def test_a_file_that_a_person_made_may_lie_under_any_name(people: People) -> None:
    path = "default/presets/My pirate.md"
    await people.store.apply_file(path, PIRATE, "d7")
    assert await people.store.path_of(replace(PIRATE, name="PIRATE")) == path
    await people.put(replace(PIRATE, persona=None))
    assert [file.path for file in await people.store.files()] == [path]


async def test_a_preset_that_was_renamed_in_its_file_has_its_old_name_no_longer(people: People) -> None:
    corsair = replace(PIRATE, name="Corsair")
    await people.store.apply_file(PATH, PIRATE, "d1")
    await people.store.apply_file(PATH, corsair, "d2")
    assert await people.store.presets("default") == [corsair]


async def test_a_new_preset_gets_a_file_of_its_own_where_another_has_its_place(people: People) -> None:
    await people.store.apply_file(PATH, replace(PIRATE, name="Corsair"), "d1")
    await people.put(PIRATE)
    assert [file.path for file in await people.store.files()] == ["default/presets/pirate-2.md", PATH]


async def test_what_has_yet_to_be_written_is_not_let_go(people: People) -> None:
    await people.put(PIRATE)
    assert not await people.store.let_go(PATH)
    assert await people.store.presets("default") == [PIRATE]


async def test_of_a_forgotten_user_nothing_is_known_and_nothing_waits(people: People) -> None:
    for user in ("ann", "bob"):
        await people.store.change_preferences("default", user, lambda old: replace(old, auto_skills=False))
    await people.forget("ann")
    assert await people.store.preferences("default", "ann") == Preferences("default", "ann")
    assert await people.store.file(ANNS) is None
    assert [job.payload["path"] for job in await people.jobs()] == ["default/users/bob/preferences.md"]
    assert not await people.store.apply_file(ANNS, Preferences("default", "ann"), "d1"), "it was read before"
