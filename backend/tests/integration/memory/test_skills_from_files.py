"""Skills from files alone: after a rebuild, and those that a person brought from another home."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from recollect.app import open_home
from recollect.service.rebuild import rebuild_home
from recollect.settings import Settings
from tests.http_client import Home
from tests.remembering import remembering
from tests.skill_house import (
    ENTRIES,
    edit,
    file_of,
    files_with,
    forget,
    learned,
    learned_with_quixel,
    rebuilt,
    skills,
    work,
)

pytestmark = pytest.mark.slow


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with remembering(tmp_path) as home:
        yield home


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

    async def test_it_stays_when_the_journal_is_made_again_from_the_vault(self, tmp_path: Path) -> None:
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

    async def test_by_the_ledger_alone_an_old_copy_brings_nothing_of_a_forgotten_case_back(
        self, tmp_path: Path
    ) -> None:
        async with remembering(tmp_path / "home") as home:
            await learned_with_quixel(home)
            shutil.copytree(tmp_path / "home/vault", tmp_path / "copy")
            await forget(home, "bob-quixel-2")
            gone = await home.app.skill_files.gone_cases()
        shutil.copytree(tmp_path / "copy", tmp_path / "home/vault", dirs_exist_ok=True)
        (tmp_path / "home/journal.db").unlink()
        await rebuild_home(Settings(home=tmp_path / "home"), open_home)
        async with remembering(tmp_path / "home") as home:
            assert await home.app.skill_files.gone_cases() == gone
            await home.app.vault_sweep.sweep()
            await home.drain()
            assert files_with(home, b"quixel") == []
            assert len((await skills(home))[0]["properties"]["cases"].split()) == 2
