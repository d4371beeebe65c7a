"""Skills as files: removed, renamed and copied by the people who own them."""

import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.http_client import Home, Json
from tests.remembering import DAY, MAY_8, remember, remembering, vault_files
from tests.skill_house import (
    DELETED,
    ENTRIES,
    TRANSLATE,
    delete,
    edit,
    file_of,
    files_with,
    forget,
    learned,
    learned_with_quixel,
    skill_files,
    skills,
    translate,
    work,
)
from tests.standins.tool_tasks import tool_task

pytestmark = pytest.mark.slow


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with remembering(tmp_path) as home:
        yield home


class TestByHand:
    async def test_a_skill_whose_file_is_removed_is_not_made_again(self, home: Home) -> None:
        skill = await learned(home)
        await home.app.vault_sweep.sweep()
        shutil.rmtree(file_of(home, skill).parent)
        await home.app.vault_sweep.sweep()
        told = await work(home, "mail", 2)
        assert (skill_files(home), told["skill"]["detail"]["why"]) == ([], DELETED)

    async def test_a_removal_while_nobody_watched_is_noticed_at_the_next_start(self, tmp_path: Path) -> None:
        async with remembering(tmp_path) as home:
            skill = await learned(home)
        file_of(home, skill).unlink()
        async with remembering(tmp_path) as home:
            await eventually(lambda: "default/agents/agent/forgotten.md" in vault_files(tmp_path), seconds=20)
            await work(home, "mail", 2)
            assert skill_files(home) == []

    async def test_an_emptied_vault_is_no_deletion(self, home: Home, tmp_path: Path) -> None:
        skill = await learned(home)
        before = file_of(home, skill).read_bytes()
        await home.app.vault_sweep.sweep()
        shutil.move(tmp_path / "vault/default", tmp_path / "aside")
        await home.app.vault_sweep.sweep()
        assert await home.app.entry_store.deletions("default", "default/agents/agent") == []
        await home.app.vault_sweep.accept_losses()
        assert file_of(home, skill).read_bytes() == before
        await work(home, "mail", 2)
        assert len((await skills(home))[0]["properties"]["cases"].split()) == 3

    async def test_of_a_missing_file_nothing_is_kept_of_a_forgotten_case(
        self, home: Home, tmp_path: Path
    ) -> None:
        await learned_with_quixel(home)
        shutil.move(tmp_path / "vault/default/agents", tmp_path / "aside")
        await forget(home, "bob-quixel-2")
        kept = await home.app.database.read("SELECT * FROM skill_files")
        kept += await home.app.database.read("SELECT * FROM skill_versions")
        assert "quixel" not in str([tuple(row) for row in kept])

    async def test_a_skill_that_was_renamed_lives_on(self, home: Home) -> None:
        skill = await learned(home)
        await home.app.vault_sweep.sweep()
        file = file_of(home, skill)
        file.parent.rename(file.parent.with_name("tidy-up"))
        file = file.parent.with_name("tidy-up") / "SKILL.md"
        file.write_text(file.read_text().replace(f"name: {skill['title']}", "name: tidy-up"))
        await home.app.vault_sweep.sweep()
        await work(home, "mail", 2)
        (renamed,) = await skills(home)
        assert (renamed["title"], len(renamed["properties"]["cases"].split())) == ("tidy-up", 3)

    async def test_one_that_cannot_be_read_is_left_alone_and_said_to_be(self, home: Home) -> None:
        skill = await learned(home)
        file = file_of(home, skill)
        file.write_text(skill["text"].replace("description:", "description: ["))
        told = await work(home, "mail", 2)
        why = "the file of its skill is missing, or can't be read"
        assert (told["skill"]["detail"]["why"], len(skill_files(home))) == (why, 1)
        file.write_text(skill["text"])
        await work(home, "backup", 3)
        assert len((await skills(home))[0]["properties"]["cases"].split()) == 4

    async def test_one_that_cannot_be_read_holds_nothing_of_a_forgotten_case(self, home: Home) -> None:
        skill = await learned_with_quixel(home)
        file = file_of(home, skill)
        file.write_text(file.read_text().replace("description:", "description: ["))
        await forget(home, "bob-quixel-2")
        assert files_with(home, b"quixel") == []
        await work(home, "mail", 3)
        assert len((await skills(home))[0]["properties"]["cases"].split()) == 3

    async def test_an_old_copy_that_nobody_saw_before_the_next_case_is_no_edit(self, home: Home) -> None:
        skill = await learned(home)
        await home.app.vault_sweep.stop()
        file = file_of(home, skill)
        old = file.read_text()
        await work(home, "mail", 2)
        (skill,) = await skills(home)
        await edit(home, skill, text=skill["text"].replace("## Steps", "## Steps\n0. Ask Bob."))
        file.write_text(old)
        await work(home, "backup", 3)
        (improved,) = await skills(home)
        assert len(improved["properties"]["cases"].split()) == 4
        assert "0. Ask Bob." in improved["text"]

    async def test_one_without_its_properties_is_still_made_of_its_cases(self, home: Home) -> None:
        skill = await learned_with_quixel(home)
        own = skill["text"].replace("## Steps", "## Steps\n0. Ask Bob.")
        await edit(home, skill, text=own)
        await work(home, "mail", 3)
        file = file_of(home, skill)
        bare = re.sub(r"metadata:\n(?:  .*\n)+", "", file.read_text())
        file.write_text(re.sub(r"\[\[.*?\]\] ", "", bare))
        await home.app.vault_sweep.sweep()
        await work(home, "backup", 4)
        (improved,) = await skills(home)
        assert len(improved["properties"]["cases"].split()) == 5
        assert "0. Ask Bob." in improved["text"]
        await forget(home, "bob-quixel-2")
        assert files_with(home, b"quixel") == []

    async def test_one_that_a_person_brings_back_is_improved_again(self, home: Home) -> None:
        skill = await learned(home)
        await delete(home, skill)
        file = file_of(home, skill)
        file.parent.mkdir()
        file.write_text(skill["text"].replace("## Steps", "## Steps\n0. Ask Bob."))
        await work(home, "mail", 2)
        (back,) = await skills(home)
        assert len(back["properties"]["cases"].split()) == 3
        await home.app.vault_sweep.sweep()
        assert ("0. Ask Bob." in file.read_text(), len(skill_files(home))) == (True, 1)

    async def test_an_old_copy_of_a_deleted_one_is_removed_and_the_log_says_so(
        self, home: Home, caplog: pytest.LogCaptureFixture
    ) -> None:
        skill = await learned(home)
        await delete(home, skill)
        file = file_of(home, skill)
        file.parent.mkdir()
        file.write_text(skill["text"])
        await home.app.vault_sweep.sweep()
        assert (skill_files(home), await skills(home)) == ([], [])
        assert f"{skill['path']}: an old copy of a removed file is removed" in caplog.text


class TestRenamedFolder:
    """A person gave a skill's folder another name, and left the name in the file as it was."""

    def rename(self, home: Home, skill: Json, to: str = "tidy-up") -> Path:
        folder = file_of(home, skill).parent
        moved = folder.parent / to
        moved.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(moved)
        return moved / "SKILL.md"

    def copy(self, home: Home, skill: Json) -> Path:
        folder = file_of(home, skill).parent
        shutil.copytree(folder, folder.with_name("mine"))
        return folder.with_name("mine") / "SKILL.md"

    async def test_it_is_the_same_skill_where_it_stands_and_is_improved_there(self, home: Home) -> None:
        skill = await learned(home)
        await edit(home, skill, text=skill["text"].replace("## Steps", "## Steps\n0. Ask Bob."))
        await home.app.vault_sweep.sweep()
        file = self.rename(home, skill)
        await home.app.vault_sweep.sweep()
        assert await home.app.entry_store.deletions("default", "default/agents/agent") == []
        await work(home, "mail", 2)
        (improved,) = await skills(home)
        assert (improved["id"], improved["path"].split("/")[-2]) == (skill["id"], "tidy-up")
        assert len(improved["properties"]["cases"].split()) == 3
        assert ("0. Ask Bob." in file.read_text(), len(skill_files(home))) == (True, 1)
        told = (await home.client.get(f"{ENTRIES}/{skill['id']}/history")).json()["versions"]
        assert [each["actor"] for each in told] == [None, "person", "extraction"]

    async def test_a_case_that_comes_before_anybody_looked_improves_it_too(self, home: Home) -> None:
        skill = await learned(home)
        self.rename(home, skill, "disks/tidy-up")
        await work(home, "mail", 2)
        await home.app.vault_sweep.sweep()
        (improved,) = await skills(home)
        assert (improved["edited"], "of the mail server" in improved["text"]) == (False, True)
        assert await home.app.entry_store.deletions("default", "default/agents/agent") == []

    async def test_forgetting_reaches_it(self, home: Home) -> None:
        skill = await learned_with_quixel(home)
        self.rename(home, skill)
        await home.app.vault_sweep.sweep()
        await forget(home, "bob-quixel-2")
        assert files_with(home, b"quixel") == []
        assert len((await skills(home))[0]["properties"]["cases"].split()) == 2
        await forget(home, "bob-web-0")
        assert skill_files(home) == []

    async def test_a_new_skill_does_not_go_into_its_folder(self, home: Home) -> None:
        skill = await learned(home)
        for day, name in enumerate(("French", "Spanish"), 2):
            await translate(home, name, day)
        other = next(each for each in await skills(home) if each["id"] != skill["id"])
        await delete(home, other)
        await home.drain()
        file = self.rename(home, skill, other["title"])
        before = file.read_text()
        for day, language in enumerate(("French", "Spanish"), 8):
            thread = f"ann-{language}"
            messages = tool_task(thread, MAY_8 + day * DAY, TRANSLATE.format(language), user="ann")
            await remember(home, thread, messages, user_id="ann")
            await home.drain()
        assert file.read_text() == before
        (made,) = await skills(home, "ann")
        assert made["title"] == f"{skill['title']}-3"

    async def test_a_copy_stays_as_it_is_until_a_case_of_it_is_forgotten(self, home: Home) -> None:
        skill = await learned_with_quixel(home)
        copy = self.copy(home, skill)
        copy.write_text(copy.read_text() + "\n## Notes\n- My own.\n")
        before = copy.read_text()
        await home.app.vault_sweep.sweep()
        await work(home, "mail", 3)
        assert copy.read_text() == before
        assert len({each["id"] for each in await skills(home)}) == 2
        await forget(home, "bob-quixel-2")
        assert files_with(home, b"quixel") == []
        assert "- My own." in copy.read_text()
        assert (await home.app.forgotten_verifier.verify()).problems == []

    async def test_a_copy_goes_with_the_skill_when_too_little_is_left(self, home: Home) -> None:
        self.copy(home, await learned(home))
        await forget(home, "bob-web-0")
        assert (skill_files(home), files_with(home, b"the web server")) == ([], [])

    async def test_a_copy_that_cannot_be_read_keeps_nothing_of_a_forgotten_case(self, home: Home) -> None:
        skill = await learned_with_quixel(home)
        copy = self.copy(home, skill)
        copy.write_text(copy.read_text().replace("description:", "description: ["))
        await forget(home, "bob-quixel-2")
        assert files_with(home, b"quixel") == []
        assert (await home.app.forgotten_verifier.verify()).problems == []

    async def test_forgetting_reaches_copies_for_other_agents(self, home: Home, tmp_path: Path) -> None:
        skill = await learned_with_quixel(home)
        folder = file_of(home, skill).parent
        others = tmp_path / "vault/default/agents/other/skills"
        for name in ("mine", "broken"):
            shutil.copytree(folder, others / name)
        await home.app.vault_sweep.sweep()
        mine, broken = others / "mine/SKILL.md", others / "broken/SKILL.md"
        mine.write_text(mine.read_text() + "\n## Notes\n- My own.\n")
        broken.write_text(broken.read_text().replace("description:", "description: ["))
        await home.app.vault_sweep.sweep()
        await forget(home, "bob-quixel-2")
        assert files_with(home, b"quixel") == []
        assert ("- My own." in mine.read_text(), broken.exists()) == (True, False)
        assert (await home.app.forgotten_verifier.verify()).problems == []
        assert len(await skills(home)) == 2

    async def test_a_copy_that_is_deleted_leaves_the_skill(self, home: Home) -> None:
        skill = await learned(home)
        self.copy(home, skill)
        other = next(each for each in await skills(home) if each["id"] != skill["id"])
        assert (await delete(home, other)).status_code == 200
        await work(home, "mail", 2)
        (left,) = await skills(home)
        assert (left["id"], len(left["properties"]["cases"].split())) == (skill["id"], 3)
