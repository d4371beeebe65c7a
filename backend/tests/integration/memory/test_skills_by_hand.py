"""Skills as files: removed, renamed, copied, brought along and rebuilt by the people who own them."""

import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from recollect.app import open_home
from recollect.service.rebuild import rebuild_home
from recollect.settings import Settings
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
    rebuilt,
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
        assert "quixel" not in str(kept)

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


class TestRebuilt:
    """From the vault alone."""

    async def test_a_skill_that_nobody_touched_is_improved_as_before(self, tmp_path: Path) -> None:
        async with remembering(tmp_path) as home:
            await learned(home)
        await rebuilt(tmp_path)
        async with remembering(tmp_path) as home:
            await work(home, "mail", 2)
            (improved,) = await skills(home)
            assert (improved["edited"], "of the mail server" in improved["text"]) == (False, True)

    async def test_what_a_person_wrote_in_it_stays_theirs(self, tmp_path: Path) -> None:
        async with remembering(tmp_path) as home:
            skill = await learned(home)
            await edit(home, skill, text=skill["text"].replace("## Steps", "## Steps\n0. Ask Bob."))
        file = file_of(home, skill)
        file.write_text(file.read_text().replace("## When to use", "## When to use\n- On Fridays."))
        await rebuilt(tmp_path)
        async with remembering(tmp_path) as home:
            await work(home, "mail", 2)
            (improved,) = await skills(home)
            for own in ("0. Ask Bob.", "- On Fridays."):
                assert own in improved["text"]

    async def test_a_forgotten_case_leaves_it(self, tmp_path: Path) -> None:
        async with remembering(tmp_path) as home:
            await learned_with_quixel(home)
        await rebuilt(tmp_path)
        async with remembering(tmp_path) as home:
            await forget(home, "bob-quixel-2")
            (skill,) = await skills(home)
            assert ("quixel" in skill["text"], "database" in skill["text"]) == (False, True)


class TestFromAnotherHome:
    """A skill that a person brought along, made of cases that this home never had."""

    PATH = "default/agents/agent/skills/other/SKILL.md"
    TEXT = (
        "---\nname: other\ndescription: Bakes bread.\nmetadata:\n  recollect: 1\n  tools: [oven]\n"
        "  cases: [ca-0123456789ab, ca-ba9876543210]\n  basis: 0c3d5ae9b1f2\n---\n\n# Other\n\n## Steps\n1. Bake it.\n"
    )

    def bring(self, home: Home) -> Path:
        file = home.app.settings.vault_path / self.PATH
        file.parent.mkdir(parents=True)
        file.write_text(self.TEXT)
        return file

    async def listed(self, home: Home) -> list[str]:
        answer = (await home.client.get(ENTRIES, params={"kind": "skills"})).raise_for_status()
        return sorted(entry["title"] for entry in answer.json()["entries"])

    async def test_it_stays_as_it_is_and_is_listed(self, home: Home) -> None:
        skill = await learned(home)
        file = self.bring(home)
        await home.app.vault_sweep.sweep()
        await work(home, "quixel", 2)
        await forget(home, "bob-quixel-2")
        assert file.read_text() == self.TEXT
        assert await self.listed(home) == sorted([skill["title"], "other"])
        assert (await home.app.forgotten_verifier.verify()).problems == []

    async def test_it_stays_when_the_journal_is_made_anew_from_the_vault(self, tmp_path: Path) -> None:
        async with remembering(tmp_path) as home:
            await learned(home)
            file = self.bring(home)
        await rebuilt(tmp_path)
        async with remembering(tmp_path) as home:
            await work(home, "mail", 2)
            assert file.read_text() == self.TEXT

    async def test_its_history_stays_and_so_does_one_that_cannot_be_read(self, home: Home) -> None:
        file = self.bring(home)
        await learned(home)
        await home.app.vault_sweep.sweep()
        file.write_text(self.TEXT.replace("Bake it.", "Bake it well."))
        await home.app.vault_sweep.sweep()
        file.write_text("---\nname: [\n---\n")
        await work(home, "mail", 2)
        assert file.read_text() == "---\nname: [\n---\n"
        assert [each.text for each in await home.app.skill_files.versions(self.PATH)] == [self.TEXT]

    async def test_one_that_names_a_case_which_was_here_and_is_forgotten_does_not_keep_it(
        self, home: Home
    ) -> None:
        await learned_with_quixel(home)
        (await home.client.delete("/api/v1/threads/bob-quixel-2")).raise_for_status()
        (gone,) = await home.app.skill_files.gone_cases()
        file = self.bring(home)
        file.write_text(self.TEXT.replace("ca-0123456789ab", gone).replace("Bake it", "Ask quixel"))
        await home.drain()
        await work(home, "mail", 3)
        assert files_with(home, b"quixel") == []
        assert (await home.app.forgotten_verifier.verify()).problems == []

    async def test_a_rebuild_over_a_healthy_journal_still_knows_what_was_forgotten(
        self, tmp_path: Path
    ) -> None:
        async with remembering(tmp_path) as home:
            await learned(home)
            (await home.client.delete("/api/v1/threads/bob-web-0")).raise_for_status()
            gone = await home.app.skill_files.gone_cases()
        await rebuild_home(Settings(home=tmp_path), open_home)
        async with remembering(tmp_path) as home:
            assert len(gone) == 1
            assert await home.app.skill_files.gone_cases() == gone
