"""Cases and skills: what agents do with tools becomes files that agents read, and people may change."""

import asyncio
from pathlib import Path

from recollect.domain.extraction.skill import Skill
from recollect.domain.job import SKILLS, Job
from recollect.domain.markdown.skill_file import parse_skill
from recollect.domain.strategy import STRATEGY
from tests.http_client import Home, Json
from tests.remembering import DAY, MAY_8, MortalModel, entries, remember, remembering, states, vault_files
from tests.standins.tool_tasks import tool_task

DATABASE_TASK = "Free some space on the full disk of the database server"
MAIL_TASK = "Free some space on the full disk of the mail server"


async def work(home: Home, thread: str, task: str, day: int = 0, user: str = "bob", **fields: str) -> None:
    """One task, its case, and the skill that follows."""
    await remember(
        home, thread, tool_task(thread, MAY_8 + day * DAY, task, user=user), user_id=user, **fields
    )
    await home.drain()


def skill_paths(home: Path) -> list[str]:
    return [path for path in vault_files(home) if path.endswith("/SKILL.md")]


def read_skill(home: Path, path: str) -> Skill:
    skill = parse_skill(vault_files(home)[path].decode()).skill
    assert skill is not None
    return skill


async def two_tasks(home: Home) -> str:
    """Returns the path of the one skill that they make."""
    await work(home, "w1", "Free some space on the full disk of the server")
    await work(home, "w2", DATABASE_TASK, day=1)
    (path,) = skill_paths(home.app.settings.home)
    return path


async def test_two_tasks_of_one_kind_make_one_skill(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        await work(home, "w1", "Free some space on the full disk of the server")
        assert skill_paths(tmp_path) == []
        await work(home, "w2", DATABASE_TASK, day=1)
        (path,) = skill_paths(tmp_path)
        skill = read_skill(tmp_path, path)
        cases = await entries(home, "cases")
        assert path == f"default/agents/agent/skills/{skill.name}/SKILL.md"
        assert set(skill.cases) == {case.entry_id for case in cases}
        assert skill.tools == ("disk_usage", "delete_files")
        assert [case.entry.extra["outcome"] for case in cases] == ["worked", "worked"]


async def test_a_case_names_its_task_its_tools_and_its_messages(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        flushed = await remember(home, "w1", tool_task("w1", MAY_8), user_id="bob", agent_id="coder")
        (case,) = await entries(home, "cases")
        assert states(flushed)["case"]["detail"]["wrote"] == [case.entry_id]
        assert case.owner == "default/agents/coder"
        assert case.entry.extra["tools"] == "disk_usage, delete_files"
        assert case.entry.sources[0] == "users/bob/threads/w1/0001#^t-1"


async def test_a_task_of_another_kind_makes_no_part_of_it(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        path = await two_tasks(home)
        before = vault_files(tmp_path)[path]
        await work(home, "w3", "Translate the letter of my grandmother into French", day=2)
        assert (skill_paths(tmp_path), vault_files(tmp_path)[path]) == ([path], before)


async def test_a_skill_never_mixes_the_cases_of_two_users(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        await work(home, "a1", "Free some space on the full disk of the server", user="ann")
        await work(home, "b1", DATABASE_TASK, day=1)
        assert skill_paths(tmp_path) == []
        await work(home, "a2", MAIL_TASK, day=2, user="ann")
        await work(home, "b2", MAIL_TASK, day=3)
        users = {case.entry_id: case.entry.extra["user"] for case in await entries(home, "cases")}
        made_of = [
            {users[case] for case in read_skill(tmp_path, path).cases} for path in skill_paths(tmp_path)
        ]
        assert sorted(map(sorted, made_of)) == [["ann"], ["bob"]]


async def test_a_skill_is_shown_to_those_whose_cases_it_was_made_of(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        path = await two_tasks(home)
        listed = (await home.client.get("/api/v1/memory/skills", params={"user_id": "bob"})).json()["skills"]
        others = (await home.client.get("/api/v1/memory/skills", params={"user_id": "ann"})).json()["skills"]
        of_all = (await home.client.get("/api/v1/memory/skills")).json()["skills"]
        (shown,) = listed
        assert (shown["path"], shown["text"]) == (path, vault_files(tmp_path)[path].decode())
        assert shown["cases"] == [each.entry_id for each in await entries(home, "cases")]
        assert (others, of_all) == ([], listed)


async def test_a_skill_is_listed_and_read_as_an_entry_by_those_whose_cases_it_was_made_of(
    tmp_path: Path,
) -> None:
    async def listed(home: Home, **query: str) -> Json:
        wanted = {"kind": "skills", **query}
        answer: Json = (await home.client.get("/api/v1/memory/entries", params=wanted)).json()
        return answer

    async with remembering(tmp_path) as home:
        path = await two_tasks(home)
        cases = await entries(home, "cases")
        (skill,) = (await listed(home, user_id="bob"))["entries"]
        assert (skill["path"], skill["text"]) == (path, vault_files(tmp_path)[path].decode())
        assert (skill["kind"], skill["when"]) == ("skills", cases[-1].entry.when)
        assert skill["properties"]["cases"] == " ".join(case.entry_id for case in cases)
        assert len(skill["message_ids"]) == sum(len(case.sources) for case in cases)
        assert await listed(home, agent_id="agent") == {"entries": [skill]}
        nobodys = [{"user_id": "ann"}, {"agent_id": "other"}, {"until": str(skill["when"])}]
        assert [await listed(home, **query) for query in nobodys] == [{"entries": []}] * 3
        address = f"/api/v1/memory/entries/{skill['id']}"
        shown = (await home.client.get(address, params={"user_id": "bob"})).json()
        assert {each["relation"] for each in shown["linked"]} == {"made_of"}
        assert (await home.client.get(address, params={"user_id": "ann"})).status_code == 404


async def test_skills_come_in_pages_the_newest_first(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        for name in ("a", "b", "c"):
            file = tmp_path / f"vault/default/agents/clerk/skills/{name}/SKILL.md"
            file.parent.mkdir(parents=True)
            file.write_text(f"---\nname: {name}\ndescription: How to {name}.\n---\n", encoding="utf-8")
        query: Json = {"kind": "skills", "limit": 2}
        first = (await home.client.get("/api/v1/memory/entries", params=query)).json()
        query["after"] = first["next"]
        second = (await home.client.get("/api/v1/memory/entries", params=query)).json()
        names = [entry["title"] for page in (first, second) for entry in page["entries"]]
        assert (len(first["entries"]), sorted(names), "next" in second) == (2, ["a", "b", "c"], False)


async def test_a_memcell_and_a_chat_turn_at_the_same_time_make_one_case_of_the_same_work(
    model: MortalModel, tmp_path: Path
) -> None:
    async with remembering(tmp_path, model, strategies={"case": {"enabled": False}}) as home:
        await remember(home, "w1", tool_task("w1", MAY_8), user_id="bob")
        await home.drain()
        (making,) = [pool for pool in home.app._handlers() if STRATEGY in pool]
        cells = await home.app.cell_texts.cells_of("default", thread_id="w1")
        turn_ids = [f"t-{number}" for number in range(1, 7)]
        jobs = [
            Job(
                1,
                STRATEGY,
                "memory:x",
                "default",
                "bob",
                "w1",
                {"strategy": "case", "cell": cell, "asked": True},
            )
            for _, cell in cells
        ]
        jobs.append(Job(2, SKILLS, "cells:x", "default", "bob", "w1", {"turns": turn_ids}))
        await asyncio.gather(*(making[job.kind](job) for job in jobs))
        called = [
            source.turn_id
            for case in await entries(home, "cases")
            for source in case.sources
            if source.turn_id in ("t-2", "t-4")
        ]
        assert sorted(called) == ["t-2", "t-4"]
