"""What the journal keeps of the files of skills."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from recollect.domain.entries.entry import CASES, Deletion, EntryChange
from recollect.domain.extraction.skill import Skill
from recollect.domain.identity import text_digest
from recollect.domain.job import DELETIONS, SKILLS, Unfinished
from recollect.domain.strategy import STRATEGY
from recollect.domain.vault_file import KnownFile, VaultFile
from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.journal.database import Database
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SkillParts, SqlSkillFiles
from recollect.infra.journal.sqlite import SqliteConnector
from recollect.service.skills.files import SkillDeletions, SkillShelf
from recollect.service.vault.reader import EditReports
from tests.fakes import START, FakeClock
from tests.persons_vault import PersonsVault, new_vault

OWNER = "default/agents/coder"
PATH = f"{OWNER}/skills/bake/SKILL.md"
CASE = "ca-0123456789ab"
BAKE = Skill("bake", "How to bake.", cases=(CASE,))


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
def shelf(database: Database, files: SqlSkillFiles, vault: PersonsVault) -> SkillShelf:
    return shelf_of(database, files, vault)


def shelf_of(database: Database, files: SqlSkillFiles, vault: PersonsVault) -> SkillShelf:
    async def forget_words(space: str) -> None:
        """A journal in a temporary folder is not overwritten."""

    deletions = SkillDeletions(SqlEntryStore(database, clock=FakeClock()))
    return SkillShelf(files, vault, EditReports(), deletions, forget_words, FailPoints(None))


@pytest.fixture
async def vault(tmp_path: Path) -> PersonsVault:
    return await new_vault(tmp_path / "vault")


async def write(files: SqlSkillFiles, text: str) -> None:
    file = await announce(files, text)
    await files.record(file, text_digest(text), SkillParts(text))


async def announce(files: SqlSkillFiles, text: str) -> KnownFile:
    file = await files.file_at(PATH)
    await files.announce(file, text_digest(text), SkillParts(text))
    return file


async def test_a_file_that_was_only_announced_is_not_missed(files: SqlSkillFiles) -> None:
    await announce(files, "one")
    assert await files.seen() == []


async def test_every_change_is_kept_with_who_made_it(files: SqlSkillFiles) -> None:
    await write(files, "one")
    await files.see(PATH, "two")
    await files.see(PATH, "two")
    file = await announce(files, "three")
    await files.see(PATH, "three")  # By whoever watches the vault, before it is recorded.
    await files.record(file, text_digest("three"), SkillParts("three"))
    past = [(each.revision, each.text, each.actor, each.at) for each in await files.versions(PATH)]
    assert past == [(1, "one", "person", START), (2, "two", "extraction", START)]
    (seen,) = await files.seen(f"{OWNER}/skills/")
    assert (seen.text, seen.revision) == ("three", 3)
    assert await files.seen("default/agents/other/") == []


async def test_what_a_person_wrote_is_not_taken_for_what_we_did(files: SqlSkillFiles) -> None:
    await write(files, "one")
    await files.see(PATH, "two")
    assert await files.last_written(PATH, "two") == "one"
    await announce(files, "three")  # And placed, by a run that was killed.
    for text in ("three", "four"):
        await files.see(PATH, text)
    assert await files.last_written(PATH, "four") == "three"


async def test_of_very_many_versions_the_newest_are_kept(files: SqlSkillFiles) -> None:
    for number in range(60):
        await files.see(PATH, str(number))
    past = await files.versions(PATH)
    assert ([past[0].text, past[-1].text], len(past)) == (["9", "58"], 50)


async def test_a_file_is_forgotten_with_its_versions(files: SqlSkillFiles) -> None:
    await write(files, "one")
    await write(files, "two")
    await files.removed(PATH)
    assert (await files.seen(), await files.versions(PATH)) == ([], [])


async def test_a_removal_of_ours_that_is_cut_short_is_not_taken_for_a_persons(
    shelf: SkillShelf, vault: PersonsVault
) -> None:
    await shelf.put_skill(OWNER, Skill("bake", "How to bake."))
    vault.take_away()
    with pytest.raises(StorageUnavailable):
        await shelf.remove_file(PATH)
    vault.bring_back()
    del vault.files[PATH]
    assert await shelf.missing(OWNER) == {}


async def test_what_a_person_wrote_does_not_come_back_if_its_removal_is_cut_short(
    shelf: SkillShelf, vault: PersonsVault
) -> None:
    await shelf.put_skill(OWNER, Skill("bake", "How to bake."))
    vault.files[PATH] += "\nMy own.\n"
    await shelf.look_at([PATH])
    vault.take_away()
    with pytest.raises(StorageUnavailable):
        await shelf.remove_file(PATH)
    vault.bring_back()
    await shelf.look_at([PATH])
    assert (dict(vault.files), await shelf.store.seen()) == ({}, [])


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
    shelf = shelf_of(database, files, vault)
    await shelf.put_skill(OWNER, Skill("bake", "How to bake."))
    vault.has_read.clear()
    vault.may_tell.clear()
    looking = asyncio.create_task(shelf.look_at([PATH]))
    await vault.has_read.wait()
    removing = asyncio.create_task(shelf.remove_file(PATH))
    await files.seen()  # Meanwhile the removal has its turn, unless it waits.
    vault.may_tell.set()
    await asyncio.gather(looking, removing)
    assert await files.seen() == []


async def test_an_old_copy_of_a_skill_is_no_edit_and_one_of_a_removed_skill_goes(
    shelf: SkillShelf, vault: PersonsVault
) -> None:
    async def put_back(text: str) -> dict[str, str]:
        vault.files[PATH] = text
        await shelf.look_at([PATH])
        return dict(vault.files)

    await shelf.put_skill(OWNER, Skill("bake", "How to bake."))
    old = vault.files[PATH]
    current = (await shelf.put_skill(OWNER, Skill("bake", "How to bake bread."))).text
    assert await put_back(current) == {PATH: current}
    assert await put_back(old) == {PATH: current}
    await shelf.remove_file(PATH)
    assert await put_back(current) == {}
    assert await put_back("A person's own.") == {PATH: "A person's own."}


async def test_what_we_wrote_last_is_an_edit_when_a_person_puts_it_back(
    shelf: SkillShelf, vault: PersonsVault
) -> None:
    ours = (await shelf.put_skill(OWNER, Skill("bake", "How to bake."))).text
    await shelf.rewrite(PATH, f"{ours}\nMy own.\n", "person", "the text changed")
    assert "My own." in vault.files[PATH]
    vault.files[PATH] = ours
    await shelf.look_at([PATH])
    assert (vault.files[PATH], [seen.text for seen in await shelf.store.seen()]) == (ours, [ours])


async def test_an_old_copy_does_not_come_back_to_where_a_person_moved_a_skill_from_but_the_skill_may(
    shelf: SkillShelf, vault: PersonsVault
) -> None:
    moved = PATH.replace("bake", "mine")

    async def move(path: str, to: str) -> None:
        vault.files[to] = vault.files.pop(path)
        await shelf.look_at([to])
        await shelf.let_go([path])

    old = (await shelf.put_skill(OWNER, BAKE)).text
    current = (await shelf.put_skill(OWNER, replace(BAKE, description="How to bake bread."))).text
    await move(PATH, moved)
    await move(moved, PATH)
    assert (dict(vault.files), list(await shelf.store.held())) == ({PATH: current}, [PATH])
    await move(PATH, moved)
    vault.files[PATH] = old
    await shelf.look_at([PATH])
    assert dict(vault.files) == {moved: current}


async def remove_by_hand(shelf: SkillShelf, vault: PersonsVault, path: str) -> None:
    del vault.files[path]
    await shelf.let_go([path])


async def remove_past_the_vault(shelf: SkillShelf, vault: PersonsVault, path: str) -> None:
    await shelf.remove_file(path)


@pytest.mark.parametrize("remove", [remove_by_hand, remove_past_the_vault])
async def test_no_version_of_a_removed_skill_comes_back_a_persons_included_nor_where_it_was_before(
    shelf: SkillShelf, vault: PersonsVault, remove: Callable[[SkillShelf, PersonsVault, str], Awaitable[None]]
) -> None:
    moved = PATH.replace("bake", "mine")
    ours = (await shelf.put_skill(OWNER, BAKE)).text
    vault.files[moved] = vault.files.pop(PATH)
    await shelf.look_at([moved])
    await shelf.let_go([PATH])
    edited = [f"{ours}\nMy own.\n", f"{ours}\nMy second.\n"]
    for text in edited:
        vault.files[moved] = text
        await shelf.look_at([moved])
    await remove(shelf, vault, moved)
    for path, text in ((PATH, ours), (moved, ours), *((moved, each) for each in edited)):
        vault.files[path] = text
        await shelf.look_at([path])
        assert dict(vault.files) == {}


async def test_a_skill_that_was_moved_and_edited_does_not_come_back_as_it_was_to_where_it_was(
    shelf: SkillShelf, vault: PersonsVault
) -> None:
    moved = PATH.replace("bake", "mine")
    ours = (await shelf.put_skill(OWNER, BAKE)).text
    vault.files[moved] = f"{vault.files.pop(PATH)}\nMy own.\n"
    await shelf.look_at([moved])
    await shelf.let_go([PATH])
    vault.files[PATH] = ours
    await shelf.look_at([PATH])
    assert dict(vault.files) == {moved: f"{ours}\nMy own.\n"}


async def test_what_a_person_saved_just_before_a_skill_was_deleted_does_not_come_back(
    shelf: SkillShelf, vault: PersonsVault
) -> None:
    await shelf.put_skill(OWNER, BAKE)
    vault.files[PATH] += "\nMy own.\n"
    edited = vault.files[PATH]
    await shelf.remove_file(PATH)
    vault.files[PATH] = edited
    await shelf.look_at([PATH])
    assert dict(vault.files) == {}


async def test_a_skill_that_is_all_a_persons_own_may_come_back(
    shelf: SkillShelf, vault: PersonsVault
) -> None:
    vault.files[PATH] = own = "---\nname: bake\ndescription: How I bake.\n---\n"
    await shelf.look_at([PATH])
    await remove_by_hand(shelf, vault, PATH)
    vault.files[PATH] = own
    await shelf.look_at([PATH])
    assert dict(vault.files) == {PATH: own}


async def test_a_persons_version_is_an_old_copy_once_a_skill_was_improved(
    shelf: SkillShelf, vault: PersonsVault
) -> None:
    vault.files[PATH] = edited = (await shelf.put_skill(OWNER, BAKE)).text + "\nMy own.\n"
    await shelf.look_at([PATH])
    improved = (await shelf.put_skill(OWNER, replace(BAKE, description="How to bake bread."))).text
    vault.files[PATH] = edited
    await shelf.look_at([PATH])
    assert dict(vault.files) == {PATH: improved}


async def test_a_skill_that_a_person_moved_is_not_doubled_while_the_vault_goes_back_in_time(
    shelf: SkillShelf, vault: PersonsVault
) -> None:
    moved = PATH.replace("bake", "mine")
    await shelf.put_skill(OWNER, BAKE)
    vault.files[moved] = vault.files.pop(PATH)
    await shelf.look_at([moved])
    shelf.reports.see_old_copy()
    await shelf.let_go([PATH])
    assert (list(vault.files), list(await shelf.store.held())) == ([moved], [moved])


async def test_the_folder_of_a_removed_skill_goes_with_an_old_copy_though_a_new_one_is_about_to_be_written(
    shelf: SkillShelf, vault: PersonsVault
) -> None:
    old = (await shelf.put_skill(OWNER, BAKE)).text
    await shelf.remove_file(PATH)
    await announce(shelf.store, "new")
    vault.files[PATH] = old
    await shelf.look_at([PATH])
    assert not (vault.root / PATH).parent.exists()


async def test_a_file_that_names_a_forgotten_case_is_made_again_though_nobody_touched_it(
    database: Database, shelf: SkillShelf
) -> None:
    await shelf.put_skill(OWNER, BAKE)
    await shelf.look_at([PATH])
    assert await kinds_of_jobs(database) == []
    forgotten = EntryChange("default", OWNER, "person", "", deletions=(Deletion(CASE, CASES, "", ()),))
    await shelf.deletions.entries.apply(forgotten)
    for _ in range(2):
        await shelf.look_at([PATH])
    assert await kinds_of_jobs(database) == [STRATEGY]


async def test_the_job_of_a_file_is_not_taken_for_one_that_asks_for_skills_after_a_turn(
    database: Database, files: SqlSkillFiles
) -> None:
    await files.queue(PATH)
    assert SKILLS not in await kinds_of_jobs(database)


async def kinds_of_jobs(database: Database) -> list[str]:
    jobs = await database.read("SELECT kind FROM jobs WHERE kind != ?", (DELETIONS,))
    return [row["kind"] for row in jobs]


class EditedOnceRead(PersonsVault):
    """A person saves a file right after it was read for the first time."""

    saved: str | None = None

    async def look(self, path: str, limit: int | None = None) -> VaultFile | None:
        found = await super().look(path, limit)
        if self.saved is not None:
            self.files[path], self.saved = self.saved, None
        return found


async def test_what_is_saved_while_a_skill_is_improved_is_not_written_over(
    database: Database, files: SqlSkillFiles, vault: PersonsVault
) -> None:
    vault = EditedOnceRead(vault.root)
    shelf = shelf_of(database, files, vault)
    ours = (await shelf.put_skill(OWNER, BAKE)).text
    vault.saved = f"{ours}\nMy own.\n"
    with pytest.raises(StorageUnavailable):
        await shelf.put_skill(OWNER, replace(BAKE, description="How to bake bread."))
    assert vault.files[PATH] == f"{ours}\nMy own.\n"


class EditedOnceWritten(PersonsVault):
    """A person saves a file right after another one was written for the first time."""

    saved: tuple[str, str] | None = None

    async def write_unless_foreign(self, path: str, text: str, ours: frozenset[str]) -> VaultFile | None:
        found = await super().write_unless_foreign(path, text, ours)
        if self.saved is not None:
            (edited, words), self.saved = self.saved, None
            self.files[edited] = words
        return found


@pytest.mark.parametrize("broken", [False, True])
async def test_what_is_saved_while_a_skill_gets_another_name_is_in_its_new_file(
    database: Database, files: SqlSkillFiles, vault: PersonsVault, *, broken: bool
) -> None:
    vault = EditedOnceWritten(vault.root)
    shelf = shelf_of(database, files, vault)
    saved = f"{(await shelf.put_skill(OWNER, BAKE)).text}\nMy own.\n"
    vault.saved = PATH, saved.replace("name:", "name: [") if broken else saved
    put = await shelf.put_skill(OWNER, replace(BAKE, name="cook"), instead_of=PATH)
    assert list(vault.files) == [put.path]
    assert "My own." in vault.files[put.path]


async def test_a_file_that_is_saved_as_no_text_while_its_skill_is_improved_stays_as_it_is(
    shelf: SkillShelf, vault: PersonsVault
) -> None:
    saved = f"{(await shelf.put_skill(OWNER, BAKE)).text}\nKäse\n".encode("latin-1")
    (vault.root / PATH).write_bytes(saved)
    with pytest.raises(Unfinished):
        await shelf.put_skill(OWNER, replace(BAKE, description="How to bake bread."), instead_of=PATH)
    assert (vault.root / PATH).read_bytes() == saved


async def test_a_skill_that_is_removed_while_it_is_improved_does_not_come_back(
    shelf: SkillShelf, vault: PersonsVault
) -> None:
    await shelf.put_skill(OWNER, Skill("bake", "How to bake."))
    await shelf.remove_file(PATH)
    with pytest.raises(Unfinished):
        await shelf.put_skill(OWNER, Skill("bake", "How to bake bread."), instead_of=PATH)
    assert vault.files == {}


async def test_no_skill_is_missing_from_a_vault_that_is_away(shelf: SkillShelf, vault: PersonsVault) -> None:
    await shelf.put_skill(OWNER, Skill("bake", "How to bake."))
    vault.take_away()
    with pytest.raises(StorageUnavailable):
        await shelf.missing(OWNER)
