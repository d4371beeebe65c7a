"""Searching what agents did: a user finds the cases of their own threads, and nobody else's."""

from pathlib import Path
from typing import Any

from tests.http_client import Home, Json
from tests.processes import StandInModel
from tests.remembering import DAY, MAY_8, entries, remember, remembering
from tests.standins.tool_tasks import tool_task

TASK = "Free some space on the full disk of the server"


async def work(home: Home, thread: str, user: str, agent: str | None, task: str = TASK, day: int = 0) -> None:
    fields = {} if agent is None else {"agent_id": agent}
    messages = tool_task(thread, MAY_8 + day * DAY, task, user=user)
    await remember(home, thread, messages, user_id=user, **fields)
    await settled(home)


async def settled(home: Home) -> None:
    await home.drain()
    await home.app.search.indexer.settled()


async def search(home: Home, user: str, **wanted: Any) -> list[Json]:
    body = {"query": "free space on a full disk", "user_id": user, "types": ["case"], **wanted}
    answer: Json = (await home.client.post("/api/v1/memory/search", json=body)).raise_for_status().json()
    return list(answer["hits"])


async def test_a_search_for_an_agent_finds_its_cases_with_their_messages(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        await work(home, "w1", "bob", "coder")
        (hit,) = await search(home, "bob", agent_id="coder")
        (case,) = await entries(home, "cases")
        assert (hit["id"], hit["thread_id"], hit["type"]) == (case.entry_id, "w1", "cases")
        assert "w10" in hit["message_ids"]
        assert hit["path"].startswith("default/agents/coder/cases/")


async def test_a_case_is_found_by_its_user_in_the_scope_of_its_agent_alone(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        await work(home, "a1", "ann", "coder")
        await work(home, "b1", "bob", "coder", f"{TASK} in Bonn", day=1)
        await work(home, "b2", "bob", "painter", f"{TASK} in Kiel", day=2)
        await work(home, "b3", "bob", None, f"{TASK} in Rome", day=3)
        threads = [
            [hit["thread_id"] for hit in await search(home, user, **scope)]
            for user, scope in (
                ("ann", {"agent_id": "coder"}),
                ("bob", {"agent_id": "coder"}),
                ("bob", {"agent_id": "painter"}),
                ("bob", {"agent_id": "agent"}),
                ("eve", {"agent_id": "coder"}),
            )
        ]
        assert threads == [["a1"], ["b1"], ["b2"], ["b3"], []]
        assert {hit["thread_id"] for hit in await search(home, "bob")} == {"b1", "b2", "b3"}


async def test_the_cases_of_others_change_no_score(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        await work(home, "b1", "bob", "coder")
        before = await search(home, "bob", agent_id="coder", types=[])
        for number in range(3):
            await work(home, f"a{number}", "ann", "coder", day=number)
        after = await search(home, "bob", agent_id="coder", types=[])
        assert [(hit["id"], hit["score"]) for hit in after] == [(hit["id"], hit["score"]) for hit in before]


async def test_cases_that_come_and_go_are_followed_while_they_are_in_memory(tmp_path: Path) -> None:
    async with remembering(tmp_path) as home:
        await work(home, "b1", "bob", "coder")
        assert len(await search(home, "bob", agent_id="coder")) == 1
        await work(home, "b2", "bob", "coder", "Free some space on the full disk of the mail server", day=1)
        found = await search(home, "bob", agent_id="coder")
        assert len(found) == 2
        gone = next(hit["id"] for hit in found if hit["thread_id"] == "b2")
        (
            await home.client.delete(f"/api/v1/memory/entries/{gone}", params={"user_id": "bob"})
        ).raise_for_status()
        assert [hit["thread_id"] for hit in await search(home, "bob", agent_id="coder")] == ["b1"]
        await settled(home)
        rows = await home.app.index.load(home.app.search.indexer.live.name, "default/agents/coder")
        assert gone not in [row.row_id for row in rows.rows]


async def test_cases_are_found_by_meaning_too_also_after_a_restart(
    model: StandInModel, tmp_path: Path
) -> None:
    embedder: Json = {"kind": "openai", "base_url": model.base_url, "model": "stand-in"}
    async with remembering(tmp_path, embedding=embedder) as home:
        assert await search(home, "bob", agent_id="coder") == []
        await work(home, "b1", "bob", "coder")
        live = await search(home, "bob", agent_id="coder", mode="vector")
        assert [hit["thread_id"] for hit in live] == ["b1"]
    async with remembering(tmp_path, embedding=embedder) as home:
        assert await search(home, "bob", agent_id="coder", mode="vector") == live


async def test_a_chat_is_not_reminded_of_cases(model: StandInModel, tmp_path: Path) -> None:
    async with remembering(tmp_path, model) as home:
        await work(home, "b1", "bob", None)
        asked: Json = {"user_id": "bob", "content": "How do I free space on a full disk?"}
        answer = await home.client.post("/api/v1/threads/chat/messages", json=asked)
        recalled = answer.raise_for_status().json()["receipt"]
        assert "ca-" not in str(recalled)
