"""The official MCP client, unmodified, over HTTP, in both eras of the protocol."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent, TextResourceContents

from tests.chatting import with_backend
from tests.http_client import QUICK, Json, bearer, drained
from tests.processes import Server, StandInModel, wait_until

ERAS = ["2026-07-28", "legacy"]
OWN = {"search_memory", "remember", "forget", "profile", "why", "recent"}
NINE = {
    "create_entities", "create_relations", "add_observations", "delete_entities", "delete_observations",
    "delete_relations", "read_graph", "search_nodes", "open_nodes",
}  # fmt: skip
sys.stdout.write(f"mcp {version('mcp')}\n")
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with StandInModel() as model:
        home = tmp_path_factory.mktemp("mcp") / "home"
        with Server(home, {**with_backend(model.base_url), **QUICK}) as server:
            yield server


@asynccontextmanager
async def connected(
    server: Server, user: str = "ann", mode: Any = "auto", headers: dict[str, str] | None = None
) -> AsyncIterator[Client]:
    """A client of a user, or with these headers."""
    given = {"X-Recollect-User": quote(user)} if headers is None else headers
    async with httpx2.AsyncClient(headers=given, trust_env=False, timeout=60) as http:
        transport = streamable_http_client(f"{server.address}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


def told(result: CallToolResult) -> Any:
    """What a tool answers: the same as text and as structure."""
    assert not result.is_error, result.content
    return result.structured_content


def problem(result: CallToolResult) -> str:
    assert result.is_error
    (content,) = result.content
    return str(content.text)  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", [*ERAS, "auto"])
async def test_what_one_app_remembers_every_app_finds(server: Server, mode: str) -> None:
    user = f"finder {mode}"
    async with connected(server, user, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools.keys() == OWN | NINE
        assert all(tool.input_schema and tool.output_schema and tool.description for tool in tools.values())
        reading = {
            name for name, tool in tools.items() if tool.annotations and tool.annotations.read_only_hint
        }
        assert reading & OWN == {"search_memory", "profile", "why", "recent"}
        before = told(await client.call_tool("search_memory", {"query": "Where does Marta live?"}))
        assert before["memories"] == []
        stored = told(await client.call_tool("remember", {"text": "Marta, my sister, lives in Porto."}))
        assert stored["stored"]
        found = told(await client.call_tool("search_memory", {"query": "Where does Marta live?"}))
        (hit,) = [each for each in found["memories"] if each["id"] == stored["id"]]
        assert hit["text"] == "Marta, my sister, lives in Porto."
        assert hit["said_by"] == user
        source = told(await client.call_tool("why", {"id": stored["id"]}))
        assert source["said"][0]["text"] == hit["text"]


async def test_what_is_remembered_becomes_memories_with_their_source_and_is_forgotten_by_id(
    server: Server,
) -> None:
    async with connected(server, "maker") as client:
        stored = told(await client.call_tool("remember", {"text": "My dentist is Dr. Souza in Lisbon."}))
        drained(server.client)
        memories = told(await client.call_tool("recent"))["memories"]
        assert memories
        source = told(await client.call_tool("why", {"id": memories[0]["id"]}))
        assert stored["id"] in [each["id"] for each in source["said"]]
        page = told(await client.call_tool("profile"))
        assert all({"id", "text", "when"} <= line.keys() for line in page["lines"])

        gone = told(await client.call_tool("forget", {"id": memories[0]["id"]}))
        assert gone["memories"] >= 1
        assert "there is no" in problem(await client.call_tool("why", {"id": memories[0]["id"]}))
        told(await client.call_tool("forget", {"id": stored["id"]}))
        found = told(await client.call_tool("search_memory", {"query": "dentist"}))
        assert found["memories"] == []


async def test_a_note_is_found_read_and_forgotten_by_its_id(server: Server) -> None:
    note = {"user_id": "noter", "name": "Boats", "text": "The dinghy is moored at pier 7."}
    server.client.post("/api/v1/memory/notes", json=note).raise_for_status()
    search = {"user_id": "noter", "query": "dinghy"}
    wait_until(
        lambda: server.client.post("/api/v1/memory/search", json=search).json()["hits"], "the note is indexed"
    )
    async with connected(server, "noter") as client:
        found = told(await client.call_tool("search_memory", {"query": "dinghy", "limit": 1}))
        (hit,) = found["memories"]
        assert hit["id"].startswith("notes/")
        listed = {each.uri: each for each in (await client.list_resources()).resources}
        (uri,) = [uri for uri in listed if uri.startswith("recollect://notes/")]
        assert {"recollect://profile", "memory://knowledge-graph"} < listed.keys()
        for each, text in (
            (uri, note["text"]),
            ("recollect://profile", ""),
            ("memory://knowledge-graph", "{"),
        ):
            (content,) = (await client.read_resource(each)).contents
            assert isinstance(content, TextResourceContents)
            assert content.text.startswith(text)
        (prompt,) = (await client.list_prompts()).prompts
        (message,) = (await client.get_prompt(prompt.name, {"topic": "the dinghy"})).messages
        assert isinstance(message.content, TextContent)
        assert note["text"] in message.content.text
        told(await client.call_tool("forget", {"id": hit["id"]}))
        assert "there is no" in problem(await client.call_tool("forget", {"id": hit["id"]}))
        for wrong in (uri, "recollect://notes/..%2F..%2Fprofile.md", "file:///etc/passwd"):
            with pytest.raises(MCPError, match="there is no"):
                await client.read_resource(wrong)


async def test_mistakes_are_told_to_the_model_in_words(server: Server) -> None:
    async with connected(server) as client:
        assert "query" in problem(await client.call_tool("search_memory", {}))
        assert "limit" in problem(await client.call_tool("search_memory", {"query": "x", "limit": 0}))
        assert "blank" in problem(await client.call_tool("remember", {"text": "  "}))
        assert "there is no" in problem(await client.call_tool("forget", {"id": "the one about Porto"}))
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("nothing_of_the_kind", {})


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, dict[str, str]]]:
    """A server with keys in force: of two users, of a second space, and one that may only read."""
    given: dict[str, Json] = {
        "ann": {"user_id": "ann"},
        "bob": {"user_id": "bob"},
        "other": {"user_id": "ann", "space": "other"},
        "all": {},
        "reader": {"user_id": "ann", "scopes": ["read"]},
    }
    quiet = {"RECOLLECT_EMBEDDING__KIND": "none", "RECOLLECT_LLM__DISCOVER": "false"}
    with Server(tmp_path_factory.mktemp("keys") / "home", {**QUICK, **quiet}) as server:
        token = bearer(json.loads((server.home / "recollect.lock").read_text())["token"])
        made = {
            name: server.client.post("/api/v1/keys", json=body, headers=token).raise_for_status().json()
            for name, body in given.items()
        }
        yield server, {name: key["secret"] for name, key in made.items()}


@pytest.mark.parametrize("mode", ERAS)
async def test_nobody_gets_at_another_users_memory(closed: tuple[Server, dict[str, str]], mode: str) -> None:
    server, keys = closed
    async with connected(server, mode=mode, headers=bearer(keys["ann"])) as ann:
        mine = told(await ann.call_tool("remember", {"text": f"The vault's number is {mode} 4711."}))
    for name in ("bob", "other", "all"):
        async with connected(server, mode=mode, headers=bearer(keys[name])) as client:
            found = told(await client.call_tool("search_memory", {"query": f"vault's number {mode} 4711"}))
            assert found["memories"] == []
            for tool in ("why", "forget"):
                assert "there is no" in problem(await client.call_tool(tool, {"id": mine["id"]}))
    operator = {**bearer(keys["all"]), "X-Recollect-User": "ann"}
    async with connected(server, mode=mode, headers=operator) as client:
        found = told(await client.call_tool("search_memory", {"query": f"vault's number {mode} 4711"}))
        assert mine["id"] in [hit["id"] for hit in found["memories"]]


async def test_a_key_needs_the_scopes_of_the_native_routes(closed: tuple[Server, dict[str, str]]) -> None:
    server, keys = closed
    async with connected(server, headers=bearer(keys["reader"])) as client:
        told(await client.call_tool("search_memory", {"query": "anything"}))
        assert "write" in problem(await client.call_tool("remember", {"text": "I like tea."}))
        assert "delete" in problem(await client.call_tool("forget", {"id": "fa-000000000000"}))


@pytest.mark.parametrize("mode", ERAS)
async def test_without_a_key_or_with_a_wrong_one_nobody_gets_in(
    closed: tuple[Server, dict[str, str]], mode: str
) -> None:
    server, keys = closed
    for headers in ({}, bearer("rk_wrong")):
        with pytest.RaisesGroup(pytest.RaisesExc(MCPError, match="key"), flatten_subgroups=True):
            async with connected(server, mode=mode, headers=headers) as client:
                await client.list_tools()
    refused = post(server, {"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    assert refused.json()["error"]["data"]["code"] == "key_required"
    another = {**bearer(keys["ann"]), "X-Recollect-User": "bob"}
    assert post(server, {"jsonrpc": "2.0", "id": 1, "method": "ping"}, another).status_code == 403
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"):
        assert server.client.get(path).status_code == 404, "clients look for a login, and there is none"


def test_an_operators_use_of_a_tool_is_in_the_audit_log(closed: tuple[Server, dict[str, str]]) -> None:
    server, keys = closed
    call = {"name": "recent", "arguments": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    post(server, message, {**bearer(keys["all"]), "X-Recollect-User": "zoe"}).raise_for_status()
    lines = (server.home / "audit.log").read_text().splitlines()
    (line,) = [each for each in lines if '"zoe"' in each]
    assert '"/mcp"' in line
    assert '"read"' in line


def post(server: Server, body: Any, headers: dict[str, str] | None = None) -> httpx2.Response:
    return server.client.post("/mcp", json=body, headers={**JSON, **(headers or {})})


def test_a_foreign_page_or_host_gets_nothing(server: Server) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        refused = post(server, message, headers)
        assert refused.status_code == 403
        assert "not allowed" in refused.json()["error"]["message"]
    assert server.client.get("/mcp", headers=JSON).status_code == 405


def test_a_body_is_bounded(server: Server) -> None:
    deep = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
    long = b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 1_100_000 + b'"}'
    for body in (deep, long):
        assert server.client.post("/mcp", content=body, headers=JSON).status_code == 413
    assert (
        server.client.post("/mcp", content=b"hello", headers={"Content-Type": "text/plain"}).status_code
        == 415
    )


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(
    [
        "tools/call",
        "tools/list",
        "initialize",
        "server/discover",
        "resources/read",
        "prompts/get",
        "ping",
        "x",
    ]
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(["query", "limit", "text", "id", "kind", "?"]), VALUES, max_size=3
)
CALLS = st.fixed_dictionaries({"name": st.sampled_from(sorted(OWN | NINE)), "arguments": ARGUMENTS | VALUES})
ODD = st.fixed_dictionaries(
    {}, optional={"name": VALUES, "uri": VALUES, "arguments": VALUES, "_meta": VALUES}
)
MESSAGES = st.one_of(
    VALUES,
    st.builds(lambda call: {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}, CALLS),
    st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0"), "id": VALUES, "method": METHODS, "params": ODD | VALUES}
    ),
)


@given(body=MESSAGES, era=st.sampled_from([None, "2025-06-18", "2026-07-28", "?"]))
@settings(deadline=None, suppress_health_check=list(HealthCheck))
def test_no_body_is_an_error_of_the_server(server: Server, body: Json, era: str | None) -> None:
    headers = {"X-Recollect-User": "fuzz"} | ({"MCP-Protocol-Version": era} if era else {})
    answer = post(server, body, headers)
    assert answer.status_code < 500
    assert "went wrong" not in answer.text


@pytest.mark.parametrize(
    ("calls", "clients"),
    [(16, 4), pytest.param(1000, 16, marks=[pytest.mark.slow, pytest.mark.timeout(300)])],
)
async def test_what_many_clients_do_at_once_goes_to_their_owners(
    server: Server, calls: int, clients: int
) -> None:
    async def work(number: int) -> int:
        user, done, said = f"worker {number} of {clients}", 0, ""
        async with connected(server, user, ERAS[number % 2]) as client:
            while done < -(-calls // clients):
                match done % 4:
                    case 0:
                        said = f"The {user} box {done} is painted in colour {number * 1000 + done}."
                        assert told(await client.call_tool("remember", {"text": said}))["stored"]
                    case 1:
                        found = told(await client.call_tool("search_memory", {"query": said, "limit": 50}))
                        texts = [each["text"] for each in found["memories"]]
                        assert said in texts
                        assert all(user in text for text in texts if "worker" in text)
                    case 2:
                        entity = {"name": f"box {done}", "entityType": "box", "observations": [user]}
                        made = told(await client.call_tool("create_entities", {"entities": [entity]}))
                        assert made["entities"] == [entity]
                    case 3:
                        graph = told(await client.call_tool("read_graph"))
                        assert {each for entity in graph["entities"] for each in entity["observations"]} == {
                            user
                        }
                done += 1
        return done

    began = time.monotonic()
    done = sum(await asyncio.gather(*map(work, range(clients))))
    seconds = time.monotonic() - began
    sys.stdout.write(f"{done} calls of {clients} clients in {seconds:.1f} s\n")
    assert done >= calls
