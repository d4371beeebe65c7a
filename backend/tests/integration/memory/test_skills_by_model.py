"""Skills by a model: what it writes is held against the cases, told in receipts, and paid for once."""

from pathlib import Path

import pytest

from recollect.domain.access import Caller
from recollect.domain.extraction.case import OTHER_TOOL
from recollect.domain.extraction.skill import Skill
from recollect.domain.markdown.skill_file import parse_skill
from recollect.domain.model import ThreadRef
from tests.eventually import eventually
from tests.http_client import Home, Json
from tests.remembering import DAY, MAY_8, MortalModel, entries, remember, remembering, states, vault_files
from tests.standins.tool_tasks import tool_task

pytestmark = pytest.mark.slow

TASKS = (
    "Free some space on the full disk of the server",
    "Free some space on the full disk of the database server",
    "Free some space on the full disk of the mail server",
)
STEPS_OF_THE_MODEL = (
    "Then call `disk_usage` and look at what it says.",
    "Then call `delete_files` and look at what it says.",
)


async def work(home: Home, number: int, task: str | None = None) -> Json:
    """Bob's agent does a task of the same kind; returns the receipt of the strategy skill."""
    thread = f"w{number}"
    messages = tool_task(thread, MAY_8 + number * DAY, task or TASKS[number])
    await remember(home, thread, messages, user_id="bob")
    await home.drain()
    (case,) = [each for each in await entries(home, "cases") if each.sources[0].thread_id == thread]
    receipts = await home.app.cells.receipts(ThreadRef("default", "bob", thread), [case.cell])
    return receipts[case.cell].get("skill", {})


def skills(home: Home) -> dict[str, Skill]:
    files = vault_files(home.app.settings.home)
    found = {path: parse_skill(text.decode()).skill for path, text in files.items() if "/skills/" in path}
    return {path: skill for path, skill in found.items() if skill is not None}


def the_skill(home: Home) -> Skill:
    (skill,) = skills(home).values()
    return skill


async def test_a_model_writes_the_skill_and_the_receipt_says_what_it_cost(
    model: MortalModel, tmp_path: Path
) -> None:
    async with remembering(tmp_path, model) as home:
        first = await work(home, 0)
        assert first["state"] == "nothing worth keeping"
        second = await work(home, 1)
        skill = the_skill(home)
        assert (skill.name, skill.by) == ("disk-usage-delete-files", "stand-in")
        assert skill.steps == STEPS_OF_THE_MODEL
        assert (second["state"], second["skill"], second["by"]) == ("extracted", skill.name, "stand-in")
        assert second["cost"]["prompt_tokens"] > 0


async def test_a_new_case_improves_the_guide_that_there_is_by_one_call(
    model: MortalModel, tmp_path: Path
) -> None:
    async with remembering(tmp_path, model) as home:
        await work(home, 0)
        await work(home, 1)
        before, asked = the_skill(home), model.asked("skills")
        await work(home, 2)
        after = the_skill(home)
        assert (after.name, len(after.cases)) == (before.name, 3)
        assert any("mail server" in line for line in after.when)
        assert model.asked("skills") - asked == 1
        prompts = [str(body) for body in model.calls()["bodies"] if "short guide" in str(body)]
        assert before.description in prompts[-1]


async def test_a_tool_that_no_case_used_is_refused_and_counted(model: MortalModel, tmp_path: Path) -> None:
    async with remembering(tmp_path, model) as home:
        await work(home, 0)
        model.control("invent", only="skills")
        receipt = await work(home, 1)
        assert not any("format_disk" in step for step in the_skill(home).steps)
        assert receipt["refused"] == {OTHER_TOOL: 1}


@pytest.mark.parametrize("mode", ["wrong_schema", "truncated"])
async def test_an_answer_that_cannot_be_used_makes_no_skill_and_the_next_case_tries_again(
    mode: str, model: MortalModel, tmp_path: Path
) -> None:
    async with remembering(tmp_path, model) as home:
        await work(home, 0)
        model.control(mode, only="skills")
        asked = model.asked("skills")
        receipt = await work(home, 1)
        assert (receipt["state"], skills(home)) == ("failed", {})
        assert "the model's answer can't be used" in receipt["why"]
        assert model.asked("skills") - asked == 2
        model.control()
        await work(home, 2)
        assert (len(the_skill(home).cases), the_skill(home).steps) == (3, STEPS_OF_THE_MODEL)


async def test_a_model_that_is_down_is_waited_for(model: MortalModel, tmp_path: Path) -> None:
    async with remembering(tmp_path, model) as home:
        await work(home, 0)
        model.control("error", only="skills")
        await remember(home, "w1", tool_task("w1", MAY_8 + DAY, TASKS[1]), user_id="bob")
        await eventually(lambda: model.asked("skills") > 0)
        assert skills(home) == {}
        model.control()
        await home.drain()
        assert the_skill(home).by == "stand-in"


async def test_a_case_that_a_person_corrects_is_corrected_in_its_skill(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        await work(home, 0)
        await work(home, 1)
        (_, case) = await entries(home, "cases")
        change = {"title": "Free some space in the archive of the server", "user_id": "bob"}
        (await home.client.patch(f"/api/v1/memory/entries/{case.entry_id}", json=change)).raise_for_status()
        (first, _) = await entries(home, "cases")
        gone = await home.client.delete(f"/api/v1/memory/entries/{first.entry_id}", params={"user_id": "bob"})
        gone.raise_for_status()
        await work(home, 2)
        await home.drain()
        assert any("archive" in line for line in the_skill(home).when)


async def test_without_a_model_there_are_no_cases_and_one_that_comes_later_makes_them(
    model: MortalModel, tmp_path: Path
) -> None:
    async with remembering(tmp_path, alone=True) as home:
        for number, task in enumerate(TASKS[:2]):
            messages = tool_task(f"w{number}", MAY_8 + number * DAY, task)
            told = states(await remember(home, f"w{number}", messages, user_id="bob"))
            assert (told["case"]["state"], told["case"]["detail"]["why"]) == ("off", "no model is configured")
        assert (await entries(home, "cases"), skills(home)) == ([], {})
    async with remembering(tmp_path, model) as home:
        await home.app.reprocessor.reprocess(Caller("default", None))
        await home.drain()
        assert (the_skill(home).by, the_skill(home).steps) == ("stand-in", STEPS_OF_THE_MODEL)


async def test_one_job_for_three_cases_makes_what_three_jobs_would(
    model: MortalModel, tmp_path: Path
) -> None:
    files = []
    for on in (True, False):
        folder = tmp_path / str(on)
        async with remembering(folder, model, strategies={"skill": {"enabled": on}}) as home:
            await work(home, 0)
            await work(home, 1)
            assert len(skills(home)) == on
        async with remembering(folder, model) as home:
            await work(home, 2)
            files.append({path: vault_files(folder)[path] for path in skills(home)})
    assert len(files[0]) == 1
    assert files[0] == files[1]


@pytest.mark.parametrize("is_there", [True, False])
async def test_nothing_of_a_forgotten_case_is_left_in_its_skill_whether_the_model_is_there_or_not(
    is_there: bool, model: MortalModel, tmp_path: Path
) -> None:
    own = "Ask Bob first."
    async with remembering(tmp_path, model) as home:
        await work(home, 0)
        await work(home, 1, "Free some space on the full disk of the quixel server")
        await work(home, 2)
        path = tmp_path / "vault" / next(iter(skills(home)))
        path.write_text(path.read_text() + f"\n## Mine\n{own}\n", encoding="utf-8")
    async with remembering(tmp_path, model, alone=not is_there) as home:
        (await home.client.delete("/api/v1/threads/w1", params={"user_id": "bob"})).raise_for_status()
        await home.drain()
        (left,) = skills(home)
        text = vault_files(tmp_path)[left].decode()
        assert "quixel" not in (left + text).lower()
        assert own in text
        assert (the_skill(home).steps == STEPS_OF_THE_MODEL, len(the_skill(home).cases)) == (is_there, 2)
        answers = await home.app.database.read(
            "SELECT count(*) AS kept FROM model_answers WHERE name = 'skill'"
        )
        receipts = await home.app.database.read("SELECT detail_json FROM receipts")
        assert answers[0]["kept"] == 0
        assert not [row for row in receipts if "quixel" in row["detail_json"]]
