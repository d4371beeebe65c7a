"""What the journal keeps of the files of skills."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.sql.database import Database
from recollect.infra.sql.skill_files import SqlSkillFiles
from recollect.memory.extraction.skill import Skill
from recollect.memory.job import Unfinished
from recollect.service.skill_shelf import SkillShelf
from recollect.service.take_in import EditReports
from tests.fakes import START, FakeClock, FakeVault

OWNER = "default/agents/coder"
PATH = f"{OWNER}/skills/bake/SKILL.md"


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[SqlSkillFiles]:
    database = Database(tmp_path / "journal.db")
    await database.open()
    yield SqlSkillFiles(database, clock=FakeClock())
    await database.close()


async def write(files: SqlSkillFiles, text: str) -> None:
    await files.announce(PATH, text)
    await files.record(PATH, text)


async def test_a_file_that_was_only_announced_is_not_missed(files: SqlSkillFiles) -> None:
    await files.announce(PATH, "one")
    assert await files.seen() == []


async def test_every_change_is_kept_with_who_made_it(files: SqlSkillFiles) -> None:
    await write(files, "one")
    await files.see(PATH, "two")
    await files.see(PATH, "two")
    await files.announce(PATH, "three")
    await files.see(PATH, "three")  # By whoever watches the vault, before it is recorded.
    await files.record(PATH, "three")
    past = [(each.revision, each.text, each.actor, each.at) for each in await files.versions(PATH)]
    assert past == [(1, "one", "person", START), (2, "two", "extraction", START)]
    (seen,) = await files.seen(f"{OWNER}/skills/")
    assert (seen.text, seen.revision) == ("three", 3)
    assert await files.seen("default/agents/other/") == []


async def test_what_a_person_wrote_is_not_taken_for_what_we_did(files: SqlSkillFiles) -> None:
    await write(files, "one")
    await files.see(PATH, "two")
    assert await files.last_written(PATH, "two") == "one"


async def test_of_very_many_versions_the_newest_are_kept(files: SqlSkillFiles) -> None:
    for number in range(60):
        await files.see(PATH, str(number))
    past = await files.versions(PATH)
    assert ([past[0].text, past[-1].text], len(past)) == (["9", "58"], 50)


async def test_a_file_is_forgotten_with_its_versions(files: SqlSkillFiles) -> None:
    await write(files, "one")
    await write(files, "two")
    await files.forget(PATH)
    assert (await files.seen(), await files.versions(PATH)) == ([], [])


async def test_a_removal_of_ours_that_is_cut_short_is_not_taken_for_a_persons(files: SqlSkillFiles) -> None:
    vault = FakeVault()
    shelf = SkillShelf(vault, files, EditReports(), FailPoints(None))
    await shelf.put(OWNER, Skill("bake", "How to bake."))
    vault.broken = "the disk is full"
    with pytest.raises(StorageUnavailable):
        await shelf.remove(OWNER, "bake")
    del vault.files[PATH]
    assert await shelf.missing(OWNER) == {}


async def test_a_skill_that_is_removed_while_it_is_improved_does_not_come_back(files: SqlSkillFiles) -> None:
    vault = FakeVault()
    shelf = SkillShelf(vault, files, EditReports(), FailPoints(None))
    await shelf.put(OWNER, Skill("bake", "How to bake."))
    await shelf.remove_file(PATH)
    with pytest.raises(Unfinished):
        await shelf.put(OWNER, Skill("bake", "How to bake bread."), instead_of="bake")
    assert vault.files == {}


async def test_no_skill_is_missing_from_a_vault_that_is_away(files: SqlSkillFiles) -> None:
    vault = FakeVault()
    shelf = SkillShelf(vault, files, EditReports(), FailPoints(None))
    await shelf.put(OWNER, Skill("bake", "How to bake."))
    vault.files, vault.missing = {}, True
    with pytest.raises(StorageUnavailable):
        await shelf.missing(OWNER)
