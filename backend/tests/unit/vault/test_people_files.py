"""Presets and preferences are in the vault as in the journal, whoever changed them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.identity import text_digest
from recollect.domain.job import PEOPLE, Unfinished
from recollect.domain.people import (
    PEOPLE_BYTES,
    Preferences,
    Preset,
    parse_preset,
    render_preferences,
    render_preset,
)
from recollect.service.rebuild import RebuildReport, rebuild_people
from recollect.service.vault.people_files import PeopleFiles
from tests.contract.journals import Journal
from tests.persons_vault import PersonsVault
from tests.unit.vault_house import House as VaultHouse

PIRATE = Preset("default", "Pirate", "Answer like a pirate.", temperature=0.7)
PATH = "default/presets/pirate.md"
ANNS = "default/users/ann/preferences.md"


class House(VaultHouse):
    """With presets and preferences."""

    def __init__(self, journal: Journal, vault: PersonsVault) -> None:
        super().__init__(journal, vault)
        self.people = journal.people
        self.files = PeopleFiles(self.people, self.vault, self.reports)
        self.edits = self.editing(self.files)
        self.journal.jobs.handlers = {PEOPLE: self.files.handle}

    async def put(self, preset: Preset = PIRATE, *, work: bool = True) -> None:
        await self.people.change_preset(preset.space, preset.name, lambda _: preset)
        if work:
            await self.work()

    async def choose(self, **wanted: Any) -> None:
        await self.people.change_preferences("default", "ann", lambda before: replace(before, **wanted))
        await self.work()

    async def save(self, path: str, text: str) -> None:
        """A person saves a file, the watcher tells, and the jobs that follow run."""
        self.vault.files[path] = text
        await self.edits.look_at([path])
        await self.work()

    async def remove(self, *paths: str) -> None:
        for path in paths:
            del self.vault.files[path]
        await self.edits.sweep()
        await self.work()

    async def instructions(self, name: str = "pirate") -> str | None:
        preset = await self.people.preset("default", name)
        return None if preset is None else preset.instructions


@pytest.fixture
def house(journal: Journal, vault: PersonsVault) -> House:
    return House(journal, vault)


async def test_a_preset_is_written_and_a_changed_one_written_again(house: House) -> None:
    await house.put()
    assert house.vault.files == {PATH: render_preset(PIRATE)}
    await house.put(replace(PIRATE, temperature=1.0))
    assert house.vault.files == {PATH: render_preset(replace(PIRATE, temperature=1.0))}


async def test_a_deleted_preset_leaves_the_vault(house: House) -> None:
    await house.put()
    await house.people.delete_preset("default", "pirate")
    await house.work()
    assert house.vault.files == {}
    assert await house.people.files() == []


async def test_instructions_edited_by_hand_are_in_force_and_the_file_stays_as_it_was_saved(
    house: House,
) -> None:
    await house.put()
    saved = render_preset(PIRATE).replace("like a pirate", "like a corsair") + "\n\n"
    await house.save(PATH, saved)
    assert await house.instructions() == "Answer like a corsair."
    assert house.vault.files == {PATH: saved}


async def test_a_change_made_while_an_edit_is_imported_is_not_lost(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.put()
    apply_file, late = house.people.apply_file, [replace(PIRATE, instructions="Said through the API.")]

    async def after_the_api(*applied: Any, **revision: Any) -> bool:
        if late:
            await house.put(late.pop(), work=False)
        return await apply_file(*applied, **revision)

    monkeypatch.setattr(house.people, "apply_file", after_the_api)
    theirs = render_preset(PIRATE).replace("like a pirate", "like a corsair")
    await house.save(PATH, theirs)
    await house.work()
    assert await house.instructions() == "Said through the API."
    assert house.vault.files[PATH] == render_preset(replace(PIRATE, instructions="Said through the API."))
    assert house.conflicts == [theirs]


async def test_a_file_renamed_while_its_preset_is_changed_does_not_bring_the_old_words_back(
    house: House,
) -> None:
    await house.put()
    await house.put(replace(PIRATE, instructions="Said through the API."), work=False)
    house.vault.files["default/presets/mine.md"] = house.vault.files.pop(PATH)
    with pytest.raises(Unfinished):
        await house.files.settle("default/presets/mine.md")
    await house.work()
    assert await house.instructions() == "Said through the API."
    assert "Said through the API." in house.vault.files[PATH]


async def test_our_own_writing_is_no_hand_edit(house: House) -> None:
    await house.put()
    await house.edits.look_at([PATH])
    await house.edits.sweep()
    assert await house.journal.jobs.list_jobs(space=None) == []
    assert list(house.reports.recent) == []


async def test_a_file_that_cannot_be_read_is_reported_once_and_the_last_good_one_stays_in_force(
    house: House,
) -> None:
    await house.put()
    broken = render_preset(PIRATE).replace("temperature: 0.7", "temperature: [hot")
    await house.save(PATH, broken)
    await house.edits.sweep()
    await house.work()
    assert await house.instructions() == PIRATE.instructions
    assert house.vault.files == {PATH: broken}
    assert house.reports.unreadable == 1
    await house.save(PATH, render_preset(replace(PIRATE, instructions="Mended.")))
    assert await house.instructions() == "Mended."


async def test_health_names_a_preset_that_is_not_applied_until_it_is_mended_or_gone(house: House) -> None:
    await house.put()
    assert house.files.problem() is None
    await house.save(PATH, "x" * (PEOPLE_BYTES + 1))
    await house.save("default/presets/odd.md", "---\ntemperature: [a private word\n---\n")
    await house.save(ANNS, "---\nstrategies: [a private word\n---\n")
    told = house.files.problem() or ""
    assert f"{PATH}: the file is not UTF-8 text, or longer than 4,000,000 bytes" in told
    assert "default/presets/odd.md: the log says why" in told
    assert "a user's preferences.md: the log says which" in told
    assert [word for word in ("ann", "private") if word in told] == []
    await house.save(PATH, render_preset(PIRATE))
    await house.save(ANNS, render_preferences(Preferences("default", "ann")))
    assert PATH not in (house.files.problem() or "")
    assert "preferences" not in (house.files.problem() or "")
    del house.vault.files["default/presets/odd.md"]
    await house.edits.sweep()
    assert house.files.problem() is None
    await house.save(PATH, "nonsense")
    await house.put()
    assert house.files.problem() is not None
    await house.put(replace(PIRATE, persona="Hook"))
    assert house.files.problem() is None


async def test_an_unreadable_file_is_kept_beside_when_the_api_changes_the_preset(house: House) -> None:
    await house.put()
    await house.save(PATH, "nonsense")
    await house.put(replace(PIRATE, instructions="Arr."))
    assert house.conflicts == ["nonsense"]
    assert parse_preset(house.vault.files[PATH], space="", name="")[0].instructions == "Arr."


async def test_where_both_changed_it_the_api_wins_and_the_persons_version_is_kept(house: House) -> None:
    await house.put()
    house.vault.files[PATH] = theirs = render_preset(replace(PIRATE, instructions="By hand."))
    await house.put(replace(PIRATE, instructions="By the API."))
    assert await house.instructions() == "By the API."
    assert house.conflicts == [theirs]


async def test_a_conflict_file_is_no_preset(house: House) -> None:
    await house.save("default/presets/pirate.conflict-0a1b2c3d.md", render_preset(PIRATE))
    assert await house.people.presets("default") == []


async def test_properties_of_the_persons_own_are_kept_beside_before_the_file_is_replaced(
    house: House,
) -> None:
    await house.put()
    theirs = render_preset(PIRATE).replace("kind: preset\n", "kind: preset\naliases: [arr]\n")
    await house.save(PATH, theirs)
    assert house.conflicts == []
    await house.put(replace(PIRATE, persona="Hook"))
    assert house.conflicts == [theirs]


async def test_a_file_cannot_speak_for_another_space_or_user(house: House) -> None:
    await house.save("default/presets/x.md", render_preset(replace(PIRATE, space="work")))
    await house.save("default/users/bob/preferences.md", render_preferences(Preferences("default", "ann")))
    assert await house.people.files() == []
    assert house.reports.unreadable == 2


async def test_a_copy_of_a_preset_is_reported_and_left_out(house: House) -> None:
    await house.put()
    await house.save("default/presets/copy.md", render_preset(replace(PIRATE, instructions="Copied.")))
    assert await house.instructions() == PIRATE.instructions
    assert house.reports.unreadable == 1


async def test_a_file_that_was_renamed_keeps_its_preset(house: House) -> None:
    await house.put()
    await house.edits.sweep()
    moved = "default/presets/Arr.md"
    house.vault.files[moved] = house.vault.files.pop(PATH)
    await house.edits.look_at([PATH, moved])
    await house.work()
    await house.edits.sweep()
    assert await house.people.path_of(PIRATE) == moved
    assert await house.instructions() == PIRATE.instructions


async def test_preferences_are_written_and_the_defaults_again_once_a_person_removed_their_file(
    house: House,
) -> None:
    await house.choose(auto_memory=False)
    assert house.vault.files == {ANNS: render_preferences(Preferences("default", "ann", auto_memory=False))}
    await house.remove(ANNS)
    assert await house.people.preferences("default", "ann") == Preferences("default", "ann")


async def test_files_that_vanish_in_numbers_are_no_deletion_and_can_be_written_again(house: House) -> None:
    for number in range(5):
        await house.put(replace(PIRATE, name=f"p{number}"))
    await house.edits.sweep()
    written = dict(house.vault.files)
    await house.remove(*list(written)[:3])
    assert len(await house.people.presets("default")) == 5
    assert "3 of 5 files vanished" in (house.edits.problem() or "")
    await house.edits.accept_losses()
    await house.work()
    assert house.vault.files == written


async def test_an_edit_that_was_written_over_is_an_old_copy_when_it_comes_back(house: House) -> None:
    await house.put()
    theirs = render_preset(PIRATE).replace("like a pirate", "like a corsair")
    await house.save(PATH, theirs)
    await house.put(replace(PIRATE, instructions="Said through the API."))
    await house.save(PATH, theirs)
    assert await house.instructions() == "Said through the API."
    assert "Said through the API." in house.vault.files[PATH]


async def test_an_edited_preset_that_is_removed_by_hand_stays_removed_but_one_made_by_hand_may_come_back(
    house: House,
) -> None:
    await house.put()
    edited = render_preset(PIRATE).replace("like a pirate", "like a corsair")
    made = render_preset(replace(PIRATE, name="Mine"))
    ours, mine = PATH, PATH.replace("pirate", "mine")
    for path, text in ((ours, edited), (mine, made)):
        await house.save(path, text)
        await house.remove(path)
        await house.save(path, text)
    assert dict(house.vault.files) == {mine: made}


async def test_an_emptied_file_changes_nothing(house: House) -> None:
    await house.put()
    await house.save(PATH, "")
    await house.edits.sweep()
    await house.work()
    assert await house.instructions() == PIRATE.instructions


async def test_what_was_written_when_we_died_is_known_as_ours(house: House) -> None:
    await house.put(work=False)
    text = render_preset(PIRATE)
    (file,) = await house.people.files()
    await house.people.announce(file, text_digest(text))
    house.vault.files[PATH] = text
    await house.put(replace(PIRATE, instructions="Newer."))
    assert house.conflicts == []


async def test_the_vault_alone_brings_presets_and_preferences_back(house: House, tmp_path: Path) -> None:
    await house.put()
    await house.put(replace(PIRATE, space="Büro", name="海盗 ☠"))
    await house.choose(time_zone="Asia/Tokyo", preset="Pirate")
    report = RebuildReport()
    async with Journal(tmp_path / "other.db") as other:
        await rebuild_people(house.vault, other.people, report)
        back = await other.people.files()
        holds = [await other.people.holds(file.path) for file in back]
    assert (report.presets, report.preferences, report.problems) == (2, 1, [])
    known = await house.people.files()
    assert [(file.path, file.digest) for file in back] == [(file.path, file.digest) for file in known]
    assert holds == [await house.people.holds(file.path) for file in known]
    assert all(file.is_written for file in back)


async def test_a_rebuild_says_what_it_could_not_bring_back(house: House, tmp_path: Path) -> None:
    await house.put()
    house.vault.files["default/presets/again.md"] = render_preset(PIRATE)
    house.vault.files["default/presets/zzz.md"] = "nonsense"
    report = RebuildReport()
    async with Journal(tmp_path / "other.db") as other:
        await rebuild_people(house.vault, other.people, report)
    assert report.presets == 1
    assert sorted(problem.split(":")[0] for problem in report.problems) == [PATH, "default/presets/zzz.md"]


@pytest.mark.parametrize("by_hand", [True, False])
async def test_a_deleted_preset_does_not_come_back_to_where_a_person_moved_its_file_from(
    house: House, *, by_hand: bool
) -> None:
    other = PATH.replace("pirate", "corsair")
    await house.put()
    moved = house.vault.files[PATH]
    for path, to in ((PATH, other), (other, PATH), (PATH, other)):
        del house.vault.files[path]
        await house.save(to, moved)
        await house.sweep()
        assert house.vault.files == {to: moved}
    if by_hand:
        await house.remove(other)
    else:
        await house.people.delete_preset("default", "pirate")
        await house.work()
    for path in (PATH, other):
        await house.save(path, moved)
    assert (dict(house.vault.files), await house.instructions()) == ({}, None)


async def test_a_preset_whose_file_was_moved_is_there_after_a_rebuild(house: House) -> None:
    other = PATH.replace("pirate", "corsair")
    await house.put()
    moved = house.vault.files.pop(PATH)
    await house.save(other, moved)
    await house.sweep()
    for table in ("people", "vault_files"):
        await house.journal.database.execute(f"DELETE FROM {table}")
    await rebuild_people(house.vault, house.people, report := RebuildReport())
    assert (dict(house.vault.files), report.presets, report.problems) == ({other: moved}, 1, [])
