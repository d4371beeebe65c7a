"""server-memory's nine tools: what the npm package answers, ours answer too; and the graph is a folder of notes."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.http_client import Home

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/server_memory.json").read_text(encoding="utf-8"))
"""Recorded from the package by its own client."""
NOTES = "default/users/me/notes/entities"


class Graph:
    """The tools of a home in this process, for one user."""

    def __init__(self, home: Home, headers: dict[str, str] | None = None) -> None:
        self.home = home
        self._headers = headers or {}

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }
        answer = await self.home.client.post("/mcp", json=message, headers=self._headers)
        result: dict[str, Any] = answer.raise_for_status().json()["result"]
        return result

    async def read(self) -> dict[str, Any]:
        graph: dict[str, Any] = (await self.call("read_graph"))["structuredContent"]
        return graph


def unordered(answer: Any) -> Any:
    """Relations are listed by the entity at which they begin; the package lists them as they came."""
    if isinstance(answer, dict) and "relations" in answer and "entities" in answer:
        return {**answer, "relations": sorted(map(json.dumps, answer["relations"]))}
    return answer


async def test_the_tools_are_described_and_answer_as_the_package_does(home: Home) -> None:
    graph = Graph(home)
    listed = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    tools = (await home.client.post("/mcp", json=listed)).json()["result"]["tools"]
    assert [tool for tool in tools if tool["name"] in {each["name"] for each in GOLDEN["tools"]}] == GOLDEN[
        "tools"
    ]
    for call in GOLDEN["calls"]:
        result = await graph.call(call["tool"], **call["arguments"])
        assert result.get("isError", False) == call["is_error"], call
        assert unordered(result.get("structuredContent")) == unordered(call["structured"]), call
        (content,) = result["content"]
        if "entities" in (call["structured"] or {}) and "relations" in call["structured"]:
            assert json.loads(content["text"]) == result["structuredContent"]
        else:
            assert content["text"] == call["text"]


async def test_an_entity_is_a_note_that_a_person_can_read_change_and_find(home: Home) -> None:
    graph = Graph(home)
    ann = {"name": "Ann Smith", "entityType": "person", "observations": ["plays the oboe"]}
    await graph.call("create_entities", entities=[ann])
    await graph.call(
        "create_relations", relations=[{"from": "Ann Smith", "to": "acme", "relationType": "works at"}]
    )
    folder = home.app.settings.vault_path / NOTES
    (file,) = [path for path in folder.iterdir() if path.stem.startswith("ann")]
    text = file.read_text(encoding="utf-8")
    assert "type: person" in text
    assert "# Ann Smith\n\n- plays the oboe\n\n## Relations\n\n- works at [[acme|acme]]\n" in text

    file.write_text(text.replace("- plays the oboe", "My own line.\n\n- plays the cello"), encoding="utf-8")
    (folder / "bob.md").write_text("- sings\n\n## Relations\n\n- knows [[ann-smith]]\n", encoding="utf-8")
    await home.app.vault_sweep.look_at([f"{NOTES}/{file.name}", f"{NOTES}/bob.md"])
    entities = (await graph.read())["entities"]
    assert {each["name"]: each["observations"] for each in entities} == {
        "bob": ["sings"],
        "Ann Smith": ["plays the cello"],
    }
    observations = [{"entityName": "Ann Smith", "contents": ["likes tea"]}]
    await graph.call("add_observations", observations=observations)
    assert "My own line.\n\n- plays the cello\n- likes tea\n" in file.read_text(encoding="utf-8")
    await home.drain()
    await home.app.search.indexer.settled()
    found = (await graph.call("search_memory", query="cello"))["structuredContent"]["memories"]
    assert found[0]["id"] == f"notes/entities/{file.name}"


async def test_deleted_entities_leave_nothing_and_can_come_back(home: Home) -> None:
    graph = Graph(home)
    zoe = {"name": "Zoë/../..\\", "entityType": "cat", "observations": ["purrs"]}
    for _ in range(3):
        assert (await graph.call("create_entities", entities=[zoe]))["structuredContent"]["entities"] == [zoe]
        assert (await graph.read())["entities"] == [zoe]
        await graph.call("delete_entities", entityNames=[zoe["name"]])
        assert await graph.read() == {"entities": [], "relations": []}
    await home.drain()
    assert list((home.app.settings.vault_path / NOTES).glob("*.md")) == []


async def test_every_user_and_space_has_a_graph_of_its_own(home: Home) -> None:
    keys = {
        "ann": await home.make_key("ann"),
        "bob": await home.make_key("bob"),
        "other": await home.make_key("ann", "other"),
    }
    graphs = {name: Graph(home, key) for name, key in keys.items()}
    mine = {"name": "secret", "entityType": "plan", "observations": ["ann's own"]}
    await graphs["ann"].call("create_entities", entities=[mine])
    for name in ("bob", "other"):
        assert await graphs[name].read() == {"entities": [], "relations": []}
        assert (await graphs[name].call("open_nodes", names=["secret"]))["structuredContent"][
            "entities"
        ] == []
        await graphs[name].call("delete_entities", entityNames=["secret"])
        added = await graphs[name].call(
            "add_observations", observations=[{"entityName": "secret", "contents": ["x"]}]
        )
        assert added["isError"]
    assert (await graphs["ann"].read())["entities"] == [mine]
    reader = await home.new_key(user_id="ann", scopes=["read"])
    reading = Graph(home, {"Authorization": f"Bearer {reader['secret']}"})
    assert (await reading.read())["entities"] == [mine]
    for tool, arguments in (
        ("create_entities", {"entities": [mine]}),
        ("delete_entities", {"entityNames": ["secret"]}),
    ):
        assert (await reading.call(tool, **arguments))["isError"]


async def test_changes_at_once_lose_nothing(home: Home) -> None:
    graph = Graph(home)
    await graph.call("create_entities", entities=[{"name": "x", "entityType": "t", "observations": []}])
    await asyncio.gather(
        *(
            graph.call("add_observations", observations=[{"entityName": "x", "contents": [f"o{n}"]}])
            for n in range(20)
        )
    )
    (entity,) = (await graph.read())["entities"]
    assert sorted(entity["observations"]) == sorted(f"o{n}" for n in range(20))
