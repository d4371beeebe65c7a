"""People rule over skills: what they write stays, what they delete is never made again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.http_client import Home
from tests.remembering import DAY, MAY_8, entries, remember, remembering, vault_files
from tests.skill_house import (
    DELETED,
    DISK,
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


class TestDeleting:
    async def test_its_file_goes_and_neither_its_cases_nor_new_ones_make_it_again(self, home: Home) -> None:
        skill = await learned(home)
        assert (await delete(home, skill)).json() == {
            "id": skill["id"], "deleted": True, "went_along": [], "changed": []
        }  # fmt: skip
        assert skill_files(home) == []
        told = await work(home, "mail", 2)
        assert (await skills(home), told["skill"]["detail"]["why"]) == ([], DELETED)
        assert (await home.client.get(f"{ENTRIES}/{skill['id']}")).status_code == 404
        assert len(await entries(home, "cases")) == 3

    async def test_it_stays_deleted_after_a_restart_and_a_rebuild_from_the_vault_alone(
        self, tmp_path: Path
    ) -> None:
        async with remembering(tmp_path) as home:
            await delete(home, await learned(home))
            await home.drain()
        async with remembering(tmp_path) as home:
            await work(home, "mail", 2)
            assert skill_files(home) == []
        await rebuilt(tmp_path)
        async with remembering(tmp_path) as home:
            told = await work(home, "backup", 3)
            assert (skill_files(home), told["skill"]["detail"]["why"]) == ([], DELETED)

    async def test_its_grave_holds_not_a_word(self, home: Home, tmp_path: Path) -> None:
        await delete(home, await learned(home))
        await home.drain()
        cases = [case.entry_id for case in await entries(home, "cases")]
        deletion = vault_files(tmp_path)["default/agents/agent/forgotten.md"].decode()
        line = deletion.splitlines()[-1].split()
        assert line[1].startswith("sk-")
        assert line[2:] == ["skills", "-", *cases]
        for table in ("skill_files", "skill_versions"):
            assert await home.app.database.read(f"SELECT * FROM {table}") == []

    async def test_it_is_not_made_again_when_its_cases_are_forgotten_too(self, home: Home) -> None:
        await delete(home, await learned(home))
        for thread in ("bob-web-0", "bob-database-1"):
            await forget(home, thread)
        await work(home, "web", 4)
        told = await work(home, "database", 5)
        assert (skill_files(home), told["skill"]["detail"]["why"]) == ([], DELETED)

    async def test_another_user_can_neither_delete_it_nor_does_it_keep_theirs_from_being_made(
        self, home: Home
    ) -> None:
        skill = await learned(home)
        for verb in ("", "/history", "/why", "/deletion"):
            answer = await home.client.get(f"{ENTRIES}/{skill['id']}{verb}", params={"user_id": "ann"})
            assert answer.status_code == 404
        assert (await delete(home, skill, user="ann")).status_code == 404
        assert (await edit(home, skill, user_id="ann", text=skill["text"])).status_code == 404
        assert [each["id"] for each in await skills(home)] == [skill["id"]]
        await delete(home, skill)
        assert (await learned(home, "ann"))["title"] == skill["title"]
        assert (await skills(home)) == []

    async def test_a_person_who_has_another_skill_goes_on_improving_that(self, home: Home) -> None:
        await delete(home, await learned(home))
        for day, name in enumerate(("French", "Spanish"), 2):
            await translate(home, name, day)
        messages = tool_task("mixed", MAY_8 + 4 * DAY, TRANSLATE.format("Greek"))
        messages += tool_task("again", MAY_8 + 5 * DAY, DISK.format("mail"))
        await remember(home, "mixed", messages, user_id="bob")
        await home.drain()
        (other,) = await skills(home)
        assert ("Greek" in other["text"], "mail" in other["text"]) == (True, False)

    async def test_a_task_of_another_kind_makes_its_own_skill(self, home: Home) -> None:
        await delete(home, await learned(home))
        for day, name in enumerate(("French", "Spanish"), 2):
            await translate(home, name, day)
        assert len(skill_files(home)) == 1


class TestEditing:
    async def test_what_a_person_writes_survives_new_cases(self, home: Home) -> None:
        skill = await learned(home)
        step = next(line for line in skill["text"].splitlines() if line.startswith("1. "))
        text = skill["text"].replace(step, "1. Ask Bob before anything is deleted.")
        text += "\n## Notes\n- Bob is away on Fridays.\n"
        answer = (await edit(home, skill, text=text, revision=skill["revision"])).raise_for_status()
        assert (answer.json()["edited"], answer.json()["revision"]) == (True, skill["revision"] + 1)
        await work(home, "mail", 2)
        (improved,) = await skills(home)
        assert len(improved["properties"]["cases"].split()) == 3
        assert "mail" in improved["text"]
        assert step not in improved["text"]
        for own in ("1. Ask Bob before anything is deleted.", "- Bob is away on Fridays."):
            assert own in improved["text"]

    async def test_which_cases_it_has_is_not_for_the_text_to_say(self, home: Home) -> None:
        skill = await learned(home)
        text = f"---\nname: {skill['title']}\ndescription: Tidies up.\n---\n\n# Tidy\n"
        edited = (await edit(home, skill, text=text)).raise_for_status().json()
        assert edited["properties"]["cases"] == skill["properties"]["cases"]
        assert edited["properties"]["description"] == "Tidies up."
        await work(home, "mail", 2)
        (improved,) = await skills(home)
        assert (improved["id"], "Steps" in improved["text"]) == (skill["id"], False)
        assert "description: Tidies up." in improved["text"]

    async def test_what_is_no_skill_is_refused_in_words(self, home: Home) -> None:
        skill = await learned(home)
        text = skill["text"]
        refused = {
            "front matter included": {"text": "Just words."},
            "must stay": {"text": text.replace(f"name: {skill['title']}", "name: other")},
            "description": {"text": f"---\nname: {skill['title']}\n---\n"},
            "can't be pinned": {"pinned": True},
            "by its text alone": {"title": "Other"},
        }
        for words, changes in refused.items():
            answer = await edit(home, skill, **changes)
            error = answer.json()["error"]
            assert (answer.status_code, error["field"]) == (422, next(iter(changes)))
            assert words in error["message"]
        conflict = await edit(home, skill, text=text, revision=skill["revision"] + 1)
        assert conflict.status_code == 409
        assert file_of(home, skill).read_text() == text


class TestHistory:
    async def test_every_change_is_kept_and_can_be_undone(self, home: Home) -> None:
        skill = await learned(home)
        address = f"{ENTRIES}/{skill['id']}"
        text = skill["text"].replace("## Steps", "## Steps\n0. Ask Bob.")
        (await edit(home, skill, text=text)).raise_for_status()
        file = file_of(home, skill)
        file.write_text(file.read_text().replace("Ask Bob.", "Ask Ann."))
        await home.app.vault_sweep.sweep()
        await work(home, "mail", 2)
        told = (await home.client.get(f"{address}/history")).json()["versions"]
        assert [each["actor"] for each in told] == [None, "person", "person", "extraction"]
        assert [each["cause"] for each in told][1:3] == ["text changed by a person", "written by hand"]
        assert (told[0]["text"], told[0]["edited"]) == (skill["text"], False)
        back = (await home.client.post(f"{address}/undo", json={"revision": told[1]["revision"]})).json()
        assert ("Ask Bob." in back["text"], back["revision"]) == (True, told[-1]["revision"] + 1)
        assert len(back["properties"]["cases"].split()) == 3
        again = (await home.client.post(f"{address}/undo")).json()
        assert "Ask Ann." in again["text"]

    async def test_an_edit_that_is_undone_is_nobodys_again(self, home: Home) -> None:
        skill = await learned(home)
        nothing = await home.client.post(f"{ENTRIES}/{skill['id']}/undo")
        assert (nothing.status_code, "never changed" in nothing.text) == (409, True)
        text = skill["text"].replace("## Steps", "## Steps\n0. Ask Bob.")
        (await edit(home, skill, text=text)).raise_for_status()
        back = (await home.client.post(f"{ENTRIES}/{skill['id']}/undo")).raise_for_status().json()
        assert (back["text"], back["edited"]) == (skill["text"], False)

    async def test_nothing_of_a_forgotten_case_is_left_in_a_section_that_a_person_changed(
        self, home: Home
    ) -> None:
        skill = await learned_with_quixel(home)
        own = "## When to use\n- Bob asks for it."
        await edit(home, skill, text=skill["text"].replace("## When to use", own))
        await work(home, "mail", 3)
        await forget(home, "bob-quixel-2")
        (skill,) = await skills(home)
        assert own in skill["text"]
        assert "- Free some space on the full disk of the web server" in skill["text"]
        assert files_with(home, b"quixel") == []

    async def test_what_it_said_of_a_forgotten_case_goes_with_it(self, home: Home) -> None:
        skill = await learned_with_quixel(home)
        await edit(home, skill, text=(await skills(home))[0]["text"].replace("## Steps", "## Steps\n0. Ask."))
        await work(home, "mail", 3)
        past = (await home.client.get(f"{ENTRIES}/{skill['id']}/history")).json()
        assert "quixel" in str(past)
        await forget(home, "bob-quixel-2")
        left = await home.app.database.read("SELECT * FROM skill_versions")
        left += await home.app.database.read("SELECT * FROM skill_files")
        told = str([tuple(row) for row in left])
        assert ("quixel" in told, "mail" in told) == (False, True)
        proof = await home.app.forgotten_verifier.verify()
        assert proof.problems == []


async def test_why_tells_the_chain_from_a_skill_by_its_cases_to_the_words(home: Home) -> None:
    skill = await learned(home)
    query = {"user_id": "bob"}
    reason = (await home.client.get(f"{ENTRIES}/{skill['id']}/why", params=query)).json()
    assert (reason["kind"], reason["strategy"], reason["model"]) == ("skills", "skill", "stand-in")
    assert [each["id"] for each in reason["made_of"]] == skill["properties"]["cases"].split()
    words = [quote["content"] for each in reason["made_of"] for quote in each["quotes"]]
    assert DISK.format("web") in words
