"""What the journal keeps of the files of skills."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from recollect.domain.extraction.skill import Skill
from recollect.domain.job import Unfinished
from recollect.domain.vault_file import VaultFile
from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.journal.database import Database
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SqlEntryFileStore, SqlSkillFiles
from recollect.infra.journal.sqlite import SqliteConnector
from recollect.service.skills.files import SkillDeletions, SkillFollower, SkillShelf
from recollect.service.vault.reader import EditReports
from tests.fakes import START, FakeClock
from tests.persons_vault import PersonsVault, new_vault

OWNER = "default/agents/coder"
PATH = f"{OWNER}/skills/bake/SKILL.md"


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(SqliteConnector(tmp_path / "journal.db"))
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def files(database: Database) -> SqlSkillFiles:
    return SqlSkillFiles(database, clock=FakeClock())


@pytest.fixture
async def vault(tmp_path: Path) -> PersonsVault:
    return await new_vault(tmp_path / "vault")


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


async def test_a_removal_of_ours_that_is_cut_short_is_not_taken_for_a_persons(
    files: SqlSkillFiles, vault: PersonsVault
) -> None:
    shelf = SkillShelf(vault, files, EditReports(), FailPoints(None))
    await shelf.put(OWNER, Skill("bake", "How to bake."))
    vault.take_away()
    with pytest.raises(StorageUnavailable):
        await shelf.remove_file(PATH)
    vault.bring_back()
    del vault.files[PATH]
    assert await shelf.missing(OWNER) == {}


class SlowToAnswer(PersonsVault):
    """Reads a file, and tells what it read only once it is let to."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.has_read, self.may_tell = asyncio.Event(), asyncio.Event()
        self.may_tell.set()

    async def look(self, path: str, limit: int | None = None) -> VaultFile | None:
        found = await super().look(path, limit)
        self.has_read.set()
        await self.may_tell.wait()
        return found


async def test_a_skill_that_is_removed_while_somebody_looks_at_it_is_not_missed(
    database: Database, files: SqlSkillFiles, vault: PersonsVault
) -> None:
    vault = SlowToAnswer(vault.root)
    shelf = SkillShelf(vault, files, EditReports(), FailPoints(None))
    deletions = SkillDeletions(SqlEntryStore(database, clock=FakeClock()))

    async def forget_words(space: str) -> None:
        raise AssertionError(f"nothing of {space} is forgotten")

    entry_files = SqlEntryFileStore(database, clock=FakeClock())
    follower = SkillFollower(shelf, deletions, entry_files, forget_words)
    await shelf.put(OWNER, Skill("bake", "How to bake."))
    vault.has_read.clear()
    vault.may_tell.clear()
    looking = asyncio.create_task(follower.look_at([PATH]))
    await vault.has_read.wait()
    removing = asyncio.create_task(shelf.remove_file(PATH))
    await files.seen()  # Meanwhile the removal has its turn, unless it waits.
    vault.may_tell.set()
    await asyncio.gather(looking, removing)
    assert await files.seen() == []


async def test_an_old_copy_of_a_skill_is_no_edit_and_one_of_a_removed_skill_goes(
    files: SqlSkillFiles, vault: PersonsVault
) -> None:
    shelf = SkillShelf(vault, files, EditReports(), FailPoints(None))

    async def put_back(text: str) -> bool:
        vault.files[PATH] = text
        found = await vault.look(PATH)
        assert found is not None
        return await shelf.replace_old_copy(PATH, found)

    await shelf.put(OWNER, Skill("bake", "How to bake."))
    old = vault.files[PATH]
    current = (await shelf.put(OWNER, Skill("bake", "How to bake bread."))).text
    assert not await put_back(current)
    assert (await put_back(old), dict(vault.files)) == (True, {PATH: current})
    await shelf.remove_file(PATH)
    assert (await put_back(current), dict(vault.files)) == (True, {})
    assert not await put_back("A person's own.")


async def test_a_skill_that_is_removed_while_it_is_improved_does_not_come_back(
    files: SqlSkillFiles, vault: PersonsVault
) -> None:
    shelf = SkillShelf(vault, files, EditReports(), FailPoints(None))
    await shelf.put(OWNER, Skill("bake", "How to bake."))
    await shelf.remove_file(PATH)
    with pytest.raises(Unfinished):
        await shelf.put(OWNER, Skill("bake", "How to bake bread."), instead_of=PATH)
    assert vault.files == {}


async def test_no_skill_is_missing_from_a_vault_that_is_away(
    files: SqlSkillFiles, vault: PersonsVault
) -> None:
    shelf = SkillShelf(vault, files, EditReports(), FailPoints(None))
    await shelf.put(OWNER, Skill("bake", "How to bake."))
    vault.take_away()
    with pytest.raises(StorageUnavailable):
        await shelf.missing(OWNER)
