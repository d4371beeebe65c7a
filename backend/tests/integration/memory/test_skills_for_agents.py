"""Skills where agents meet them: files that the reference validator accepts, an exported folder, the prompts of chats."""

from itertools import pairwise
from pathlib import Path

import pytest
from skills_ref import validate

from recollect.domain.context_lines import SKILLS_HEADING
from recollect.domain.strategy import skills_job
from recollect.service.chat.context_builder import MOST_SKILLS
from tests.http_client import Home, Json
from tests.processes import Server, recollect, recollect_json
from tests.remembering import DAY, MAY_8, MortalModel, entries, remember, remembering, said
from tests.skill_house import DISK, delete, edit, file_of, forget, learned, skill_files, skills
from tests.standins.tool_tasks import tool_task

TOOLS = [{"type": "function", "function": {"name": "disk_usage", "parameters": {"type": "object"}}}]
WRITTEN: Json = {
    "description": "Räumt auf --- wenn die Platte voll ist: <sofort>",
    "when": ["The disk is full."],
    "steps": ["Call `disk_usage`."],
    "pitfalls": [],
}


async def done(home: Home, host: str, day: int, **fields: str) -> None:
    """Bob's agent does a task of one kind."""
    messages = tool_task(host, MAY_8 + day * DAY, DISK.format(host))
    await remember(home, host, messages, user_id="bob", **fields)
    await home.drain()


# The validator


@pytest.mark.parametrize("name", ["清理磁盘", "Größe prüfen: [alle]"])
async def test_a_skill_made_edited_and_merged_passes_the_reference_validator(
    model: MortalModel, tmp_path: Path, name: str
) -> None:
    model.control(only="skills", answer={**WRITTEN, "name": name})
    async with remembering(tmp_path, model) as home:
        await done(home, "web", 0)
        await done(home, "database", 1)
        (skill,) = await skills(home)
        folder = file_of(home, skill).parent
        assert validate(folder) == []
        theirs = skill["text"].replace("metadata:", "license: MIT\nmetadata:\n  team: ops")
        (await edit(home, skill, text=theirs + "\n## Mine\nAsk first.\n")).raise_for_status()
        assert validate(folder) == []
        await done(home, "mail", 2)
        assert validate(folder) == []
        text = (folder / "SKILL.md").read_text()
        assert ("license: MIT" in text, "team: ops" in text, "Ask first." in text) == (True, True, True)
        assert len((await skills(home))[0]["properties"]["cases"].split()) == 3


async def test_an_edit_that_agents_could_not_read_is_refused(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        skill = await learned(home)
        refused = await edit(home, skill, text=skill["text"].replace("metadata:", "tags: [a]\nmetadata:"))
        assert (refused.status_code, "goes below metadata" in refused.text) == (422, True)


async def test_of_cases_that_a_model_made_no_skill_is_made_without_one_and_the_receipt_says_so(
    tmp_path: Path,
) -> None:
    async with remembering(tmp_path, strategies={"skill": {"enabled": False}}) as home:
        await done(home, "web", 0)
        await done(home, "database", 1)
    async with remembering(tmp_path, alone=True) as home:
        await home.app.entry_store.queue("default", None, [skills_job("default/agents/agent")])
        await home.drain()
        (*_, case) = await entries(home, "cases")
        thread = case.sources[0].thread_in("default")
        told = (await home.app.cells.receipts(thread, [case.cell]))[case.cell]["skill"]
        assert (told["state"], told["why"]) == ("off", "no model is configured")
        assert skill_files(home) == []


# The export


def a_skill(home: Path, agent: str, name: str, description: str = "How to do it.") -> Path:
    file = home / f"vault/default/agents/{agent}/skills/{name}/SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(f"---\nname: {name}\ndescription: {description}\ntags: [a, b]\n---\n\n# {name}\n")
    return file


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Of two agents, whose skills a person wrote."""
    folder = tmp_path / "home"
    clerk = a_skill(folder, "clerk", "free-disk")
    (clerk.parent / "scripts").mkdir()
    (clerk.parent / "scripts/free.sh").write_text("df\n")
    (clerk.parent / "scripts/link").symlink_to(folder)
    a_skill(folder, "baker", "free-disk")
    a_skill(folder, "baker", "Brot backen")
    return folder


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_skills_are_exported_with_their_files_under_names_that_agents_accept(
    home: Path, tmp_path: Path
) -> None:
    to = tmp_path / "agents/skills"
    done = recollect_json(home, "skills", "export", str(to))
    assert [(each["agent"], each["name"]) for each in done["skills"]] == [
        ("baker", "brot-backen"),
        ("baker", "free-disk"),
        ("clerk", "free-disk-2"),
    ]
    assert tree(to) == [
        ".recollect-export.json",
        "brot-backen/SKILL.md",
        "free-disk-2/SKILL.md",
        "free-disk-2/scripts/free.sh",
        "free-disk/SKILL.md",
    ]
    assert [validate(folder) for folder in to.iterdir() if folder.is_dir()] == [[], [], []]
    alone = recollect(home, "skills", "export", str(tmp_path / "clerk"), "--agent", "clerk")
    assert alone.stdout.splitlines()[-1] == f"1 skill in {tmp_path / 'clerk'}"
    assert f"wrote {tmp_path / 'clerk/free-disk/scripts/free.sh'}" in alone.stdout.splitlines()
    nobodys = recollect_json(home, "skills", "export", str(tmp_path / "ann"), "--user", "ann")
    assert (nobodys["skills"], (tmp_path / "ann").exists()) == ([], False)


def test_an_export_replaces_what_it_wrote_and_nothing_that_somebody_changed(
    home: Path, tmp_path: Path
) -> None:
    to = tmp_path / "skills"
    export = ("skills", "export", str(to), "--agent", "clerk")
    recollect_json(home, *export)
    file = home / "vault/default/agents/clerk/skills/free-disk/SKILL.md"
    file.write_text(file.read_text().replace("How to do it.", "How to do it better."))
    with Server(home):
        assert recollect_json(home, *export)["files"] == {
            "free-disk/SKILL.md": "replaced",
            "free-disk/scripts/free.sh": "unchanged",
        }
    mine = to / "free-disk/scripts/free.sh"
    mine.write_text("rm\n")
    file.write_text(file.read_text().replace("better", "best"))
    refused = recollect(home, *export)
    assert (refused.returncode, "free-disk/scripts/free.sh: changed" in refused.stderr) == (1, True)
    assert (mine.read_text(), "better" in (to / "free-disk/SKILL.md").read_text()) == ("rm\n", True)
    recollect_json(home, *export, "--force")
    assert (mine.read_text(), "best" in (to / "free-disk/SKILL.md").read_text()) == ("df\n", True)


@pytest.mark.parametrize("place", ["free-disk", "free-disk/SKILL.md", ".recollect-export.json"])
def test_an_export_follows_no_link(home: Path, tmp_path: Path, place: str) -> None:
    to, outside = tmp_path / "skills", tmp_path / "outside"
    (to / place).parent.mkdir(parents=True)
    outside.mkdir()
    (to / place).symlink_to(outside if place == "free-disk" else outside / "file")
    refused = recollect(home, "skills", "export", str(to), "--agent", "clerk", "--force")
    assert (refused.returncode, "is a link" in refused.stderr) == (1, True)
    assert tree(outside) == tree(to) == []


# The prompts


async def chat(home: Home, thread: str, words: str, user: str = "bob", **body: object) -> Json:
    """One turn at OpenAI's door; returns its prompt as it was sent, with its receipt."""
    headers = {"X-Recollect-User": user, "X-Recollect-Thread": thread}
    asked = {"model": "stand-in", "messages": [{"role": "user", "content": words}], **body}
    (await home.client.post("/v1/chat/completions", json=asked, headers=headers)).raise_for_status()
    return await last_prompt(home, thread, user)


async def last_prompt(home: Home, thread: str, user: str = "bob") -> Json:
    path, whose = f"/api/v1/threads/{thread}/turns", {"user_id": user}
    turns = (await home.client.get(path, params=whose)).raise_for_status().json()["turns"]
    found = await home.client.get(f"{path}/{turns[-1]['turn_id']}/prompt", params=whose)
    prompt: Json = found.raise_for_status().json()
    return prompt


def lists(prompt: Json) -> int:
    """How often a prompt lists skills."""
    return sum(str(message["content"]).count(SKILLS_HEADING) for message in prompt["messages"])


async def test_a_chat_with_tools_is_offered_its_agents_skills_once_an_epoch(tmp_path: Path) -> None:
    async with remembering(tmp_path, chat={"max_turns": 6}) as home:
        skill = await learned(home)
        sent = [await chat(home, "t", f"Is disk {number} full?", tools=TOOLS) for number in range(9)]
        assert [lists(prompt) for prompt in sent] == [1] * 9
        line = f'- {skill["title"]}: "{skill["properties"]["description"]}"'
        assert all(line in str(message["content"]) for message in sent[0]["messages"][1:2])
        offered = [prompt["epoch"] for prompt in sent if prompt["detail"].get("skills")]
        assert offered == sorted(set(offered))
        assert len(offered) > 1
        assert sent[0]["detail"]["skills"] == {"offered": [skill["title"]], "left_out": None}
        for before, now in pairwise(sent):
            grew = now["messages"][: len(before["messages"])] == before["messages"]
            assert grew or now["epoch"] > before["epoch"]


async def test_without_tools_without_an_agent_without_memory_and_for_another_user_nothing_is_offered(
    tmp_path: Path,
) -> None:
    async with remembering(tmp_path) as home:
        await learned(home)
        off = {"X-Recollect-Memory": "off"}
        assert lists(await chat(home, "plain", "Is the disk full?")) == 0
        assert lists(await chat(home, "hers", "Is the disk full?", user="ann", tools=TOOLS)) == 0
        home.client.headers.update(off)
        assert lists(await chat(home, "off", "Is the disk full?", tools=TOOLS)) == 0


async def test_the_index_note_links_to_the_users_own_skills_and_no_longer_once_they_are_deleted(
    tmp_path: Path,
) -> None:
    async with remembering(tmp_path) as home:
        skill = await learned(home)
        await remember(home, "hers", said([("user", "I live in Berlin.")]), user_id="ann")
        await home.drain()
        users = home.app.settings.vault_path / "default/users"
        link = f"[[{skill['path'].removeprefix('default/').removesuffix('.md')}|{skill['title']}]]"
        assert link in (users / "bob/index.md").read_text()
        assert skill["title"] not in (users / "ann/index.md").read_text()
        (await delete(home, skill)).raise_for_status()
        await home.drain()
        assert not (users / "bob/index.md").exists()  # Nothing is left to link to.


@pytest.mark.parametrize(("agent", "listed"), [("clerk", 1), ("baker", 0), (None, 0)])
async def test_a_native_thread_is_offered_the_skills_of_its_own_agent(
    tmp_path: Path, agent: str | None, listed: int
) -> None:
    async with remembering(tmp_path) as home:
        for number, host in enumerate(("web", "mail")):
            await done(home, host, number, agent_id="clerk")
        new = {"thread_id": "n", "user_id": "bob", "agent_id": agent}
        (await home.client.post("/api/v1/threads", json=new)).raise_for_status()
        body = {"user_id": "bob", "content": "Is the disk full?"}
        (await home.client.post("/api/v1/threads/n/messages", json=body)).raise_for_status()
        assert lists(await last_prompt(home, "n")) == listed


@pytest.mark.slow
@pytest.mark.parametrize("how", ["skill", "case"])
async def test_a_forgotten_skill_leaves_the_prompts_that_offered_it(tmp_path: Path, how: str) -> None:
    async with remembering(tmp_path) as home:
        skill = await learned(home)
        prompt = await chat(home, "t", "Is the disk full?", tools=TOOLS)
        assert lists(prompt) == 1
        if how == "skill":
            (await delete(home, skill)).raise_for_status()
        else:
            await forget(home, "bob-web-0")
        await home.drain()
        words = prompt["detail"]["skills"]["offered"][0].encode()
        blocks = await home.app.database.read("SELECT text FROM context_blocks")
        assert not any(words in row["text"].encode() for row in blocks)
        assert lists(await chat(home, "t", "And now?", tools=TOOLS)) == 0


async def test_skills_beyond_the_room_are_left_out_and_the_receipt_says_so(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        skill = await learned(home)
        for number in range(25):
            copy = file_of(home, skill).parent.with_name(f"skill-{number}")
            copy.mkdir()
            text = skill["text"].replace(f"name: {skill['title']}", f"name: skill-{number}")
            (copy / "SKILL.md").write_text(text)
        told = (await chat(home, "t", "Is the disk full?", tools=TOOLS))["detail"]["skills"]
        assert 0 < len(told["offered"]) <= MOST_SKILLS
        assert told["left_out"] == f"no room for {26 - len(told['offered'])} more"
