"""Anthropic's own package at Recollect's door: messages, streams, tools, tokens, models."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anthropic
import httpx2
import pytest
from anthropic import Anthropic
from anthropic.lib.tools import ToolError
from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from tests.chatting import with_backend
from tests.http_client import Json, bearer, turns
from tests.openai_clients import conversation, engine, running, texts, threads_of, user
from tests.processes import Server
from tests.standins.standin_engines import StandInEngine

__all__ = ["engine", "running", "user"]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WEATHER: Json = {
    "name": "weather",
    "description": "Tells the weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.fixture(scope="module")
def server(running: StandInEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Its background work goes to a model of its own, so that every chat the engine sees is a test's."""
    sys.stdout.write(f"anthropic {anthropic.__version__}\n")
    with StandInEngine("vllm") as tasks:
        settings = with_backend(running.base_url, TASKS__BASE_URL=tasks.base_url, CHAT__ORPHAN_SECONDS="5")
        with Server(tmp_path_factory.mktemp("anthropic") / "home", settings) as server:
            yield server


def anthropic_client(address: str, *, user: str | None = None, **credentials: str) -> Anthropic:
    """Close it after use, or use it in a `with` block."""
    return Anthropic(
        base_url=address,
        max_retries=0,
        default_headers={} if user is None else {"X-Recollect-User": quote(user)},
        http_client=httpx2.Client(trust_env=False, timeout=60),
        **(credentials or {"api_key": "none"}),  # type: ignore[arg-type]
    )


@pytest.fixture
def client(server: Server, engine: StandInEngine, user: str) -> Iterator[Anthropic]:
    with anthropic_client(server.address, user=user) as client:
        yield client


def ask(client: Anthropic, said: Any, **fields: Any) -> Message:
    """Checked strictly: the package itself takes almost everything."""
    messages = [{"role": "user", "content": said}] if isinstance(said, str) else said
    raw = client.messages.with_raw_response.create(
        **{"model": "recollect", "max_tokens": 100, "messages": messages, **fields}
    )
    Message.model_validate(json.loads(raw.http_response.content), strict=True)
    message: Message = raw.parse()
    return message


def text_of(message: Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def events_of(server: Server, user: str, said: Any, **fields: Any) -> list[Json]:
    """All events of a stream, each of a kind that the package knows, with all that this kind needs."""
    messages = [{"role": "user", "content": said}] if isinstance(said, str) else said
    body = {"messages": messages, "max_tokens": 100, "stream": True, **fields}
    known: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
    found: list[Json] = []
    headers = {"X-Recollect-User": quote(user)}
    with server.client.stream("POST", "/v1/messages", json=body, headers=headers) as stream:
        assert stream.status_code == 200, stream.read()
        for block in "".join(stream.iter_text()).strip().split("\n\n"):
            kind, data = block.removeprefix("event: ").split("\ndata: ")
            event = json.loads(data)
            assert event["type"] == kind
            if kind not in ("ping", "error"):
                known.validate_python(event)
            found.append(event)
    return found


def kinds(events: list[Json]) -> list[str]:
    """Their kinds, runs of the same one once."""
    told = [event["type"] for event in events]
    return [kind for n, kind in enumerate(told) if n == 0 or told[n - 1] != kind]


def blocks(count: int = 1) -> list[str]:
    return [
        "message_start", "ping", *["content_block_start", "content_block_delta", "content_block_stop"] * count,
        "message_delta", "message_stop",
    ]  # fmt: skip


def answered(message: Message) -> Json:
    return {
        "role": "assistant",
        "content": [block.model_dump(exclude_none=True) for block in message.content],
    }


def says(content: Any) -> Json:
    return {"role": "user", "content": content}


def test_a_message_is_a_turn_of_a_thread_that_is_known_by_what_is_resent(
    client: Anthropic, server: Server, engine: StandInEngine, user: str
) -> None:
    first = ask(client, "hello", system="Be brief.")
    assert (text_of(first), first.stop_reason, first.model) == (
        "You said: hello", "end_turn", "stand-in-8b.gguf",
    )  # fmt: skip
    assert first.usage.output_tokens == 3
    blocks_of_text = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    again = ask(
        client,
        [says("hello"), answered(first), says([{"type": "text", "text": "more"}])],
        system=blocks_of_text,
    )
    assert again.id != first.id
    assert conversation(engine) == ["hello", "You said: hello", "more"]
    assert "Be brief." in engine.chats()[-1]["messages"][0]["content"]
    assert again.usage.cache_read_input_tokens
    assert again.usage.input_tokens > 0
    (thread,) = threads_of(server, user)
    assert texts(server, thread) == ["hello", "You said: hello", "more", "You said: more"]


def test_a_stream_has_anthropics_events_in_their_order(client: Anthropic, server: Server, user: str) -> None:
    events = events_of(server, user, "one two three")
    assert kinds(events) == blocks()
    assert events[-2]["delta"]["stop_reason"] == "end_turn"
    assert events[-2]["usage"]["output_tokens"] == 5
    with client.messages.stream(model="recollect", max_tokens=50, messages=[says("and again")]) as stream:  # type: ignore[list-item]
        pieces = list(stream.text_stream)
        final = stream.get_final_message()
    assert len(pieces) > 1
    assert text_of(final) == "".join(pieces) == "You said: and again"
    assert final.usage.input_tokens > 0


def test_options_reach_the_backend_under_its_own_names(client: Anthropic, engine: StandInEngine) -> None:
    form = {"type": "json_schema", "schema": {"type": "object"}}
    options: Json = {"temperature": 0.5, "top_p": 0.9, "top_k": 40, "output_config": {"format": form}}
    thinking = {"type": "enabled", "budget_tokens": 50}
    ask(client, "x", stop_sequences=["END"], thinking=thinking, extra_body=options)
    sent = engine.chats()[-1]
    assert {name: sent[name] for name in ("max_tokens", "temperature", "top_p", "top_k", "stop")} == {
        "max_tokens": 100, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "stop": ["END"],
    }  # fmt: skip
    assert sent["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert "thinking" not in sent


def test_thoughts_come_before_the_words(
    client: Anthropic, server: Server, engine: StandInEngine, user: str
) -> None:
    engine.control(reasoning="thinking hard", answer="done")
    events = events_of(server, user, "think")
    assert kinds(events) == blocks(2)
    assert events[3]["delta"] == {"type": "thinking_delta", "thinking": "thinking hard"}
    message = ask(client, "think again")
    assert [block.type for block in message.content] == ["thinking", "text"]
    engine.control()
    ask(client, [says("think again"), answered(message), says("and on")])
    assert conversation(engine) == ["think again", "done", "and on"]


def test_tools_make_a_round_trip(client: Anthropic, server: Server, engine: StandInEngine, user: str) -> None:
    engine.control(tool_call=True)
    choice: Json = {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}
    called = ask(client, "the weather in Porto?", tools=[WEATHER], tool_choice=choice)
    (call,) = called.content
    assert call.type == "tool_use"
    assert (call.name, call.input, called.stop_reason) == ("weather", {"city": "Porto"}, "tool_use")
    sent = engine.chats()[-1]
    assert sent["tools"][0]["function"]["parameters"] == WEATHER["input_schema"]
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert sent["parallel_tool_calls"] is False

    engine.control(answer="It is sunny.")
    told = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "sunny"}]}
    whole = [says("the weather in Porto?"), answered(called), says([told, {"type": "text", "text": "so?"}])]
    ask(client, whole, tools=[WEATHER])
    assert [message["role"] for message in engine.chats()[-1]["messages"][-4:]] == [
        "assistant", "tool", "user", "user",
    ]  # fmt: skip
    (thread,) = threads_of(server, user)
    stored = turns(server.client, thread)
    assert [turn["role"] for turn in stored] == ["user", "assistant", "tool", "user", "assistant"]
    assert stored[2]["tool_call_id"] == call.id


def test_calls_stream_in_fragments(server: Server, engine: StandInEngine, user: str) -> None:
    engine.control(tool_call=True)
    events = events_of(server, user, "the weather?", tools=[WEATHER], tool_choice={"type": "any"})
    assert kinds(events) == blocks()
    fragments = [event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta"]
    assert json.loads("".join(fragments)) == {"city": "Porto"}
    assert events[2]["content_block"]["name"] == "weather"
    assert engine.chats()[-1]["tool_choice"] == "required"


def test_pictures_and_documents_reach_the_model(client: Anthropic, engine: StandInEngine) -> None:
    source: Json = {"type": "base64", "media_type": "image/png", "data": PNG}
    document: Json = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "a page"},
    }
    ask(client, [says([{"type": "image", "source": source}, document, {"type": "text", "text": "what?"}])])
    shown = engine.chats()[-1]["messages"][-1]["content"]
    assert shown[0] == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    assert [part["text"] for part in shown[1:]] == ["[file: document.txt]", "what?"]
    block = engine.chats()[-1]["messages"][-2]["content"]
    assert '- file "document.txt":\n  "a page"' in block
    found: Json = {"type": "search_result", "source": "https://127.0.0.1/x", "title": "Porto"}
    found["content"] = [{"type": "text", "text": "It rains."}]
    ask(client, [says([found, {"type": "text", "text": "and?"}])])
    assert engine.chats()[-1]["messages"][-1]["content"] == "[result: Porto]\nand?"
    inside = {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/x.png"}}
    with pytest.raises(anthropic.BadRequestError):
        ask(client, [says([inside])])


def test_a_pdf_reaches_anthropic_as_it_was_given(tmp_path: Path) -> None:
    pdf: Json = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}
    given: list[Json] = [
        {"type": "document", "source": pdf, "title": "The lease"},
        {"type": "document", "source": pdf},
        {"type": "text", "text": "When does it end?"},
    ]
    with StandInEngine("anthropic") as engine, StandInEngine("vllm") as tasks:
        settings = with_backend(engine.base_url, TASKS__BASE_URL=tasks.base_url, LLM__KIND="anthropic")
        with Server(tmp_path / "home", settings) as server, anthropic_client(server.address) as client:
            answer = text_of(ask(client, [says(given)]))
            ask(client, [says(given), {"role": "assistant", "content": answer}, says("Sure?")])
            sent = [chat["messages"][0]["content"] for chat in engine.chats()]
    shown = [[block for block in blocks if block["type"] == "document"] for blocks in sent]
    assert [each for each in shown if each] == [given[:2]] * 2


def test_a_session_is_a_thread_whatever_it_is_named_by(client: Anthropic, server: Server, user: str) -> None:
    ask(client, "one", tools=[WEATHER], extra_headers={"X-Claude-Code-Session-Id": "session-1"})
    ask(client, "two", metadata={"user_id": json.dumps({"device_id": "x", "session_id": "session-2"})})
    legacy = "user_abc_account__session_0f8b9d10-96ad-4ca5-8154-c6e0d744d20e"
    ask(client, "three", metadata={"user_id": legacy})
    ask(client, "four", metadata={"user_id": json.dumps({"session_id": "\x00"})})
    found = set(threads_of(server, user))
    assert {"session-1", "session-2", "0f8b9d10-96ad-4ca5-8154-c6e0d744d20e"} < found
    assert len(found) == 4
    assert texts(server, "session-2") == ["two", "You said: two"]


CLAUDE_CODE = {"X-Claude-Code-Session-Id": "a-session"}
BILLING = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.197.4d9; cc_entrypoint=cli;"}
REMINDER = {"type": "text", "text": "<system-reminder>\nToday is Monday.\n</system-reminder>"}


def test_claude_code_is_understood_by_the_shape_of_its_requests(
    client: Anthropic, server: Server, engine: StandInEngine, user: str
) -> None:
    """As captured from 2.1.197."""
    asking: Json = {
        "system": [BILLING, {"type": "text", "text": "You help."}],
        "tools": [WEATHER],
        "extra_headers": CLAUDE_CODE,
        "extra_query": {"beta": "true"},
        "extra_body": {"context_management": {"edits": []}, "output_config": {"effort": "high"}},
    }
    title = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    ask(
        client,
        "<session>\nI moved to Porto.\n</session>",
        extra_headers=CLAUDE_CODE,
        extra_body={"output_config": title},
    )
    ask(client, "quota", max_tokens=1)
    agent = {**asking, "extra_headers": {**CLAUDE_CODE, "X-Claude-Code-Agent-Id": "a1"}}
    ask(client, "look around", **agent)
    assert engine.chats()[-1]["tools"]
    assert threads_of(server, user) == []

    listed = {"role": "system", "content": "There are agents."}
    first = [
        says(
            [REMINDER, {"type": "text", "text": "I moved to Porto.", "cache_control": {"type": "ephemeral"}}]
        )
    ]
    answer = ask(client, [*first, listed], max_tokens=100_000, **asking)
    late = {"role": "system", "content": "A file has changed."}
    ask(client, [*first, listed, answered(answer), says("and now?"), late], **asking)
    sent = engine.chats()[-1]["messages"]
    assert "There are agents." in sent[0]["content"]
    assert "billing" not in sent[0]["content"]
    assert [part["text"] for part in sent[-1]["content"]] == ["and now?", "A file has changed."]
    assert threads_of(server, user) == ["a-session"]
    assert texts(server, "a-session")[::2] == ["I moved to Porto.", "and now?"]


def test_tokens_are_counted_and_models_listed(client: Anthropic) -> None:
    few = client.messages.count_tokens(model="recollect", messages=[says("hello")])  # type: ignore[list-item]
    more: Json = {"messages": [says("hello")], "system": "Be brief.", "tools": [WEATHER]}
    many = client.messages.count_tokens(model="recollect", **more)
    assert 0 < few.input_tokens < many.input_tokens
    assert "recollect" in [model.id for model in client.models.list(limit=5)]
    assert client.models.retrieve("recollect").id == "recollect"
    with pytest.raises(anthropic.NotFoundError) as missing:
        client.models.retrieve("nope")
    told: Any = missing.value.body
    assert (told["type"], told["error"]["type"]) == ("error", "not_found_error")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "x"}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages"),
        ({"messages": [says([{"type": "image", "source": {"type": "file", "file_id": "f"}}])]}, "content[0]"),
        ({"messages": [says([{"type": "text"}])]}, "messages[0].content[0]"),
        ({"messages": [says([{"type": "tool_result", "tool_use_id": "nobody"}])]}, "messages[0]"),
        ({"messages": [says([{"type": "tool_result", "content": "x"}])]}, "tool_use_id"),
        ({"messages": [says([{"type": "tool_result", "tool_use_id": "a", "content": 7}])]}, "content"),
        ({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": 7}]}]}, "content[0]"),
        (
            {"messages": [says("x")], "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            "tools[0]",
        ),
        ({"messages": [says("x")], "tools": [WEATHER], "tool_choice": {"type": "some"}}, "tool_choice"),
        ({"messages": [says("x")], "output_config": {"format": {"type": "xml"}}}, "output_config.format"),
        ({"messages": [says("x")], "mcp_servers": [{"url": "http://x"}]}, "mcp_servers"),
        ({"messages": [says("x")], "max_tokens": 0}, "max_tokens"),
        ({"messages": [says("x")], "system": [{"type": "image"}]}, "system[0]"),
    ],
)
def test_what_a_message_cannot_be_made_of_is_refused_in_words(
    client: Anthropic, body: Json, words: str
) -> None:
    with pytest.raises(anthropic.BadRequestError) as refused:
        client.post("/v1/messages", body=body, cast_to=object)
    assert words in refused.value.message


def test_errors_have_anthropics_shape_and_types(
    client: Anthropic, server: Server, engine: StandInEngine, user: str
) -> None:
    engine.control(mode="status", status=429, message="slow down")
    with pytest.raises(anthropic.RateLimitError) as limited:
        ask(client, "x")
    told: Any = limited.value.body
    assert (told["type"], told["error"]["type"]) == ("error", "rate_limit_error")
    engine.control(mode="early_end")
    events = events_of(server, user, "one two three four")
    assert kinds(events)[-2:] == ["content_block_delta", "error"]
    assert events[-1]["error"]["type"] == "api_error"
    for path, status, kind in (("/v1/messages/nowhere", 404, "not_found_error"), ("/v1/messages", 405, None)):
        refused = server.client.get(path)
        assert (refused.status_code, refused.json()["type"]) == (status, "error")
        assert kind in (None, refused.json()["error"]["type"])


def test_keys_keep_users_and_spaces_apart(running: StandInEngine, tmp_path: Path) -> None:
    wanted = [("ann", "default"), ("bob", "default"), ("ann", "other")]
    named: Json = {"extra_headers": {"X-Claude-Code-Session-Id": "the same"}, "tools": [WEATHER]}
    with Server(tmp_path / "home", with_backend(running.base_url)) as server, ExitStack() as stack:
        operator = bearer(json.loads((server.home / "recollect.lock").read_text())["token"])
        bodies = ({"user_id": user, "space": space} for user, space in wanted)
        secrets = [
            server.client.post("/api/v1/keys", json=body, headers=operator).json()["secret"]
            for body in bodies
        ]
        ann, bob, elsewhere, nobody = (
            stack.enter_context(anthropic_client(server.address, api_key=key))
            for key in (*secrets, "rk_wrong")
        )
        running.control()
        answer = ask(ann, "my secret", **named)
        history = [says("my secret"), answered(answer), says("more")]
        for other in (bob, elsewhere):
            ask(other, history, **named)
        with anthropic_client(server.address, auth_token=secrets[0]) as by_token:
            ask(by_token, history, **named)
        shown = [
            server.client.get("/api/v1/threads/the%20same", headers=bearer(secret)).json()["turn_count"]
            for secret in secrets
        ]
        assert shown == [4, 4, 4]
        assert (
            server.client.get("/api/v1/whoami", headers={"X-Api-Key": secrets[1]}).json()["user_id"] == "bob"
        )
        with pytest.raises(anthropic.PermissionDeniedError):
            ask(bob, "x", extra_body={"user_id": "ann"})
        wanted_key = {"user_id": "ann", "scopes": ["read"]}
        reading = server.client.post("/api/v1/keys", json=wanted_key, headers=operator).json()["secret"]
        create = {"command": "create", "path": "/memories/a.md", "file_text": "x"}
        calls = [
            (secrets[1], {**create, "user_id": "ann"}),
            (reading, create),
            (reading, {**create, "command": "delete"}),
        ]
        for secret, call in calls:
            refused_call = server.client.post("/api/v1/memory/tool", json=call, headers=bearer(secret))
            assert refused_call.status_code == 403
        viewed = {"command": "view", "path": "/memories"}
        seen = server.client.post("/api/v1/memory/tool", json=viewed, headers=bearer(reading))
        assert seen.json()["is_error"] is False
        with pytest.raises(anthropic.AuthenticationError) as refused:
            ask(nobody, "x")
        told: Any = refused.value.body
        assert told["error"]["type"] == "authentication_error"
        with pytest.raises(anthropic.AuthenticationError):
            nobody.messages.count_tokens(model="recollect", messages=[says("x")])  # type: ignore[list-item]
        assert server.client.post("/v1/messages", json={"messages": [says("x")]}).status_code == 401


# --- the memory tool ----------------------------------------------------------------------------------------

COMMANDS: list[Json] = [
    {"command": "view", "path": "/memories/none.md"},
    {"command": "create", "path": "/memories/people/marta.md", "file_text": "# Marta\n\nlives in Porto\nhas a cat\n"},
    {"command": "create", "path": "/memories/people/marta.md", "file_text": "again"},
    {"command": "create", "path": "/memories/todo.txt", "file_text": "one\ntwo\none more"},
    {"command": "view", "path": "/memories/people/marta.md"},
    {"command": "view", "path": "/memories/people/marta.md", "view_range": [2, 3]},
    {"command": "view", "path": "/memories/todo.txt", "view_range": [2, -1]},
    {"command": "str_replace", "path": "/memories/people/marta.md", "old_str": "Porto", "new_str": "Lisbon"},
    {"command": "str_replace", "path": "/memories/people/marta.md", "old_str": "Porto", "new_str": "Faro"},
    {"command": "str_replace", "path": "/memories/todo.txt", "old_str": "one", "new_str": "1"},
    {"command": "str_replace", "path": "/memories/people", "old_str": "one", "new_str": "1"},
    {"command": "insert", "path": "/memories/todo.txt", "insert_line": 0, "insert_text": "zero\n"},
    {"command": "insert", "path": "/memories/todo.txt", "insert_line": 9, "insert_text": "ten"},
    {"command": "insert", "path": "/memories/none.md", "insert_line": 0, "insert_text": "x"},
    {"command": "view", "path": "/memories/todo.txt"},
    {"command": "rename", "old_path": "/memories/todo.txt", "new_path": "/memories/done/list.txt"},
    {"command": "rename", "old_path": "/memories/done/list.txt", "new_path": "/memories/todo.txt"},
    {"command": "view", "path": "/memories/todo.txt"},
    {"command": "rename", "old_path": "/memories/todo.txt", "new_path": "/memories/done/list.txt"},
    {"command": "rename", "old_path": "/memories/todo.txt", "new_path": "/memories/x.txt"},
    {"command": "rename", "old_path": "/memories/people", "new_path": "/memories/friends"},
    {"command": "rename", "old_path": "/memories/friends", "new_path": "/memories/done"},
    {"command": "rename", "old_path": "/memories", "new_path": "/memories/x"},
    {"command": "view", "path": "/memories/friends/marta.md"},
    {"command": "view", "path": "/etc/passwd"},
    {"command": "view", "path": "/memories/../../secret.md"},
    {"command": "create", "path": "/memories/../x.md", "file_text": "x"},
    {"command": "delete", "path": "/memories/friends"},
    {"command": "delete", "path": "/memories/friends"},
    {"command": "delete", "path": "/memories"},
    {"command": "delete", "path": "/memories/done/list.txt"},
]  # fmt: skip


def memory_tool(server: Server, user: str) -> Any:
    found = Path(__file__).parents[4] / "examples/anthropic_memory.py"
    spec = importlib.util.spec_from_file_location("anthropic_memory", found)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.RecollectMemory(server.address, user_id=user)


def used(tool: Any, command: Json) -> str:
    try:
        return f"ok: {tool.call(command)}"
    except ToolError as error:
        return f"error: {error}"


def test_the_memory_tool_answers_as_anthropics_own_does(server: Server, user: str, tmp_path: Path) -> None:
    ours, theirs = memory_tool(server, user), BetaLocalFilesystemMemoryTool(str(tmp_path))
    with ours.client:
        for command in COMMANDS:
            assert used(ours, command) == used(theirs, command), command
        assert used(ours, {"command": "view", "path": "/memories"}).endswith("items:\n0B\t/memories")


def test_memory_files_are_notes_and_nobody_elses(
    client: Anthropic, server: Server, engine: StandInEngine, user: str
) -> None:
    ours, others = memory_tool(server, user), memory_tool(server, f"not {user}")
    with ours.client, others.client:
        ours.call({"command": "create", "path": "/memories/My Plans/Trip.md", "file_text": "I fly to Porto."})
        told = server.client.get("/api/v1/memory/notes", params={"user_id": user}).json()["notes"]
        (note,) = told
        file = server.home / "vault" / note["path"]
        assert file.read_text() == "I fly to Porto."
        listed = used(ours, {"command": "view", "path": "/memories"})
        assert "15B\t/memories/My Plans/Trip.md" in listed
        through = "/memories/My Plans/Trip.md/x.md"
        for command in (
            {"command": "create", "path": through, "file_text": "x"},
            {"command": "rename", "old_path": "/memories/My Plans/Trip.md", "new_path": through},
        ):
            assert "a file is where it needs a folder" in used(ours, command)
        degraded = server.client.get("/health").json()["degraded"]
        assert [each for each in degraded if "the vault cannot be written" in each] == []
        file.write_text("I fly to Porto on Friday.")
        edit = {
            "command": "str_replace",
            "path": "/memories/My Plans/Trip.md",
            "old_str": "fly",
            "new_str": "go",
        }
        assert "I go to Porto on Friday." in used(ours, edit)
        for command in ({"command": "view", "path": f"/memories/{note['name']}"}, edit):
            assert used(others, command).startswith("error: The path")
        ask(client, "hello", tools=[ours.to_dict()])
        assert engine.chats()[-1]["tools"][0]["function"]["name"] == "memory"
