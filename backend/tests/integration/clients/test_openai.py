"""OpenAI's own package at Recollect's door: responses, conversations, embeddings. Chat completions: `doors/test_openai_*.py`."""

import base64
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import numpy as np
import openai
import pytest
from openai import OpenAI
from openai.types.conversations import ConversationItemList as ItemList
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.chatting import with_backend
from tests.http_client import Json, bearer
from tests.openai_clients import (
    client,
    conversation,
    engine,
    openai_client,
    running,
    texts,
    threads_of,
    user,
)
from tests.processes import Server, StandInModel
from tests.standins.standin_engines import StandInEngine

__all__ = ["client", "engine", "running", "user"]
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WEATHER: Json = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}


@pytest.fixture(scope="module")
def server(running: StandInEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Its background work and its embeddings go to a model of their own."""
    sys.stdout.write(f"openai {openai.__version__}\n")
    with StandInModel() as tasks:
        embedder = {"KIND": "openai", "BASE_URL": tasks.base_url, "MODEL": "stand-in"}
        settings = with_backend(
            running.base_url,
            TASKS__BASE_URL=tasks.base_url,
            CHAT__ORPHAN_SECONDS="5",
            **{f"EMBEDDING__{name}": value for name, value in embedder.items()},
        )
        with Server(tmp_path_factory.mktemp("openai") / "home", settings) as server:
            yield server


# --- responses ----------------------------------------------------------------------------------------------


def respond(client: OpenAI, said: Any, **fields: Any) -> Response:
    """Checked strictly: the package itself takes almost everything."""
    raw = client.responses.with_raw_response.create(**{"model": "recollect", "input": said, **fields})
    Response.model_validate(json.loads(raw.content), strict=True)
    response: Response = raw.parse()
    return response


def named(client: OpenAI) -> dict[str, str]:
    return {"X-Recollect-User": str(client.default_headers["X-Recollect-User"])}


def events_of(client: OpenAI, server: Server, said: Any, **fields: Any) -> list[Json]:
    """All events of a stream, each of a kind that the package knows, with all that this kind needs."""
    body = {"input": said, "stream": True, **fields}
    headers = named(client)
    known: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    found: list[Json] = []
    with server.client.stream("POST", "/v1/responses", json=body, headers=headers) as stream:
        assert stream.status_code == 200, stream.read()
        for block in "".join(stream.iter_text()).split("\n\n"):
            if not block.startswith("event: "):
                continue
            kind, data = block.removeprefix("event: ").split("\ndata: ")
            event = json.loads(data)
            assert (event["type"], event["sequence_number"]) == (kind, len(found))
            assert known.validate_python(event).type == kind
            found.append(event)
    return found


def kinds(events: list[Json]) -> list[str]:
    """Their kinds, runs of the same one once."""
    told = [event["type"].removeprefix("response.") for event in events]
    return [kind for n, kind in enumerate(told) if n == 0 or told[n - 1] != kind]


def test_a_response_is_a_turn_of_a_thread(client: OpenAI, server: Server, user: str) -> None:
    response = respond(client, "hello", metadata={"topic": "greeting"}, instructions="Be brief.")
    assert (response.status, response.output_text, response.model) == (
        "completed",
        "You said: hello",
        "stand-in-8b.gguf",
    )
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens > 0
    (thread,) = threads_of(server, user)
    assert texts(server, thread) == ["hello", "You said: hello"]
    again = client.responses.retrieve(response.id)
    assert (again.id, again.output, again.usage, again.metadata) == (
        response.id, response.output, response.usage, {"topic": "greeting"},
    )  # fmt: skip
    (asked,) = client.responses.input_items.list(response.id)
    assert asked.type == "message"
    assert asked.content[0].type == "input_text"
    assert asked.content[0].text == "hello"


def test_input_tokens_are_counted_and_nothing_is_stored(client: OpenAI, server: Server, user: str) -> None:
    few = client.responses.input_tokens.count(model="recollect", input="hello")
    more: Json = {"input": "hello", "instructions": "Be brief.", "tools": [WEATHER]}
    many = client.responses.input_tokens.count(model="recollect", **more)
    assert few.object == "response.input_tokens"
    assert 0 < few.input_tokens < many.input_tokens
    assert threads_of(server, user) == []
    with pytest.raises(openai.NotFoundError, match="not served"):
        client.responses.compact(model="recollect", input="hello")


def test_a_stream_has_openais_events_in_their_order(client: OpenAI, server: Server) -> None:
    events = events_of(client, server, "one two three", instructions="Be brief.")
    assert kinds(events) == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    pieces = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert len(pieces) > 1
    assert "".join(pieces) == "You said: one two three"
    last = events[-1]["response"]
    assert last["usage"]["output_tokens"] == 5
    assert client.responses.retrieve(last["id"]).output_text == "You said: one two three"
    with client.responses.stream(model="recollect", input="and again") as stream:
        told = [event.type for event in stream]
        assert stream.get_final_response().output_text == "You said: and again"
    assert told[-1] == "response.completed"


def test_reasoning_comes_before_the_words(client: OpenAI, server: Server, engine: StandInEngine) -> None:
    engine.control(reasoning="thinking hard", answer="done thinking")
    events = events_of(client, server, "think")
    assert kinds(events)[2:6] == [
        "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.done",
    ]  # fmt: skip
    kept = client.responses.retrieve(events[-1]["response"]["id"])
    assert [item.type for item in kept.output] == ["reasoning", "message"]
    assert kept.output_text == "done thinking"
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["reasoning", "message"]


def test_functions_make_a_round_trip(
    client: OpenAI, server: Server, engine: StandInEngine, user: str
) -> None:
    engine.control(tool_call=True)
    called = respond(
        client, "the weather in Porto?", tools=[WEATHER], tool_choice={"type": "function", "name": "weather"}
    )
    (call,) = called.output
    assert call.type == "function_call"
    assert json.loads(call.arguments) == {"city": "Porto"}
    sent = engine.chats()[-1]
    assert sent["tools"][0]["function"]["name"] == "weather"
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "weather"}}

    engine.control(answer="It is sunny.")
    result: Json = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    chained = respond(client, [result], previous_response_id=called.id, tools=[WEATHER])
    assert chained.output_text == "It is sunny."
    assert [message["role"] for message in engine.chats()[-1]["messages"][-2:]] == ["assistant", "tool"]

    engine.control(answer="You are welcome.")
    whole = [{"role": "user", "content": "the weather in Porto?"}, call.model_dump(exclude_none=True), result]
    whole += [item.model_dump(exclude_none=True) for item in chained.output]
    respond(client, [*whole, {"role": "user", "content": "thanks"}], tools=[WEATHER])
    (thread,) = threads_of(server, user)
    assert texts(server, thread) == [
        "the weather in Porto?", "", "sunny", "It is sunny.", "thanks", "You are welcome.",
    ]  # fmt: skip


def test_items_are_named_instead_of_resent(
    client: OpenAI, server: Server, engine: StandInEngine, user: str
) -> None:
    first = respond(client, "one")
    referred = {"type": "item_reference", "id": first.output[0].id}
    respond(client, [says("one"), referred, says("two")])
    assert conversation(engine) == ["one", "You said: one", "two"]
    assert len(threads_of(server, user)) == 1
    for unknown in ("msg_1", "msg_99_" + str(first.output[0].id).rpartition("_")[2], "msg_2_AAAA"):
        with pytest.raises(openai.NotFoundError) as refused:
            respond(client, [{"id": unknown}, says("two")])
        assert refused.value.param == "input[0].id"


def test_calls_stream_in_fragments(client: OpenAI, server: Server, engine: StandInEngine) -> None:
    engine.control(tool_call=True)
    events = events_of(client, server, "the weather?", tools=[WEATHER])
    assert kinds(events)[2:] == [
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done",
        "output_item.done", "completed",
    ]  # fmt: skip
    fragments = [event["delta"] for event in events if event["type"].endswith("arguments.delta")]
    assert json.loads("".join(fragments)) == {"city": "Porto"}
    assert events[-1]["response"]["output"][0]["name"] == "weather"


def test_a_response_goes_on_or_branches_where_it_is_named(
    client: OpenAI, server: Server, engine: StandInEngine, user: str
) -> None:
    developer = {"role": "developer", "content": "Speak like a pirate."}
    first = respond(client, [developer, {"role": "user", "content": "one"}])
    second = respond(client, "two", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert conversation(engine) == ["one", "You said: one", "two"]
    assert "Speak like a pirate." in engine.chats()[-1]["messages"][0]["content"]
    branch = respond(client, "other", previous_response_id=first.id, instructions="Be brief.")
    assert conversation(engine) == ["one", "You said: one", "other"]
    respond(client, "more", previous_response_id=branch.id)
    assert conversation(engine) == ["one", "You said: one", "other", "You said: other", "more"]
    assert "Be brief." not in engine.chats()[-1]["messages"][0]["content"]
    assert len(threads_of(server, user)) == 1
    (asked,) = client.responses.input_items.list(branch.id)
    assert asked.type == "message"


def test_what_is_not_stored_is_remembered_and_not_read_back(
    client: OpenAI, server: Server, user: str
) -> None:
    response = respond(client, "a secret", store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)
    with pytest.raises(openai.NotFoundError):
        respond(client, "more", previous_response_id=response.id)
    (thread,) = threads_of(server, user)
    assert texts(server, thread) == ["a secret", "You said: a secret"]


def test_a_chat_apps_own_requests_are_kept_nowhere(client: OpenAI, server: Server, user: str) -> None:
    title = "### Task:\nA title.\n<chat_history>\nUSER: my secret\n</chat_history>"
    for said, headers in ((title, {}), ("a title?", {"X-OpenWebUI-Task": "title_generation"})):
        asked = respond(client, said, extra_headers=headers)
        assert asked.output_text.startswith("You said:")
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(asked.id)
    assert threads_of(server, user) == []


def test_a_deleted_response_is_forgotten_with_what_it_answers(
    client: OpenAI, server: Server, user: str
) -> None:
    first = respond(client, "keep this")
    second = respond(client, "delete this", previous_response_id=first.id)
    client.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(second.id)
    (thread,) = threads_of(server, user)
    assert texts(server, thread) == ["keep this", "You said: keep this"]


def test_a_response_is_cancelled_while_it_is_written(
    client: OpenAI, server: Server, engine: StandInEngine
) -> None:
    engine.control(mode="stall")
    with client.responses.create(model="recollect", input="a long story", stream=True) as stream:
        created = next(iter(stream))
        assert created.type == "response.created"
        assert client.responses.retrieve(created.response.id).status == "in_progress"
        assert client.responses.cancel(created.response.id).status == "cancelled"
        assert [event.type for event in stream][-1] == "response.failed"


def test_an_answer_that_breaks_off_fails_and_keeps_what_came(
    client: OpenAI, server: Server, engine: StandInEngine
) -> None:
    engine.control(mode="early_end")
    events = events_of(client, server, "one two three four")
    assert kinds(events)[-2:] == ["output_item.done", "failed"]
    failed = events[-1]["response"]
    assert (failed["status"], failed["error"]["code"]) == ("failed", "server_error")
    assert failed["output"][0]["status"] == "incomplete"
    kept = client.responses.retrieve(failed["id"])
    assert kept.status == "failed"
    assert kept.output_text
    engine.control(mode="status", status=429, message="slow down")
    with pytest.raises(openai.RateLimitError):
        client.responses.create(model="recollect", input="x", stream=True)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, None),
        ({"input": []}, None),
        ({"input": [{"type": "web_search_call", "id": "x"}]}, "input[0].type"),
        ({"input": [{"id": None}]}, "input[0].role"),
        ({"input": "x", "metadata": {"thread_id": "."}}, None),
        ({"input": "x", "reasoning": {"effort": {}}}, "reasoning.effort"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            "input[0].content[0]",
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "nobody", "output": "x"}]},
            "input[0].call_id",
        ),
        ({"input": "x", "tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"input": "x", "tool_choice": {"type": "mcp"}}, "tool_choice"),
        ({"input": "x", "text": {"format": {"type": "xml"}}}, "text.format"),
        ({"input": "x", "background": True}, "background"),
        ({"input": "x", "prompt": {"id": "p"}}, "prompt"),
        ({"input": "x", "metadata": {"a": 1}}, "metadata.a"),
        ({"input": "x", "conversation": "c", "previous_response_id": "r"}, None),
    ],
)
def test_what_a_response_cannot_be_made_of_is_refused_in_words(
    client: OpenAI, body: Json, param: str | None
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.post("/responses", body=body, cast_to=object)
    assert param is None or refused.value.param == param


# --- conversations ------------------------------------------------------------------------------------------


def says(text: str) -> Json:
    return {"role": "user", "content": text}


def test_a_conversation_is_a_thread(client: OpenAI, server: Server, engine: StandInEngine, user: str) -> None:
    opened = client.conversations.create(
        items=[{"role": "developer", "content": "Speak like a pirate."}], metadata={"topic": "demo"}
    )
    assert (opened.object, opened.metadata) == ("conversation", {"topic": "demo"})
    assert threads_of(server, user) == [opened.id]
    first = respond(client, "one", conversation=opened.id)
    assert first.conversation is not None
    assert first.conversation.id == opened.id
    second = respond(client, "two", conversation={"id": opened.id})
    assert conversation(engine) == ["one", "You said: one", "two"]
    assert "Speak like a pirate." in engine.chats()[-1]["messages"][0]["content"]
    assert client.responses.retrieve(second.id).conversation == first.conversation

    client.conversations.items.create(opened.id, items=cast(Any, [says("three")]))
    waiting = respond(client, [], conversation=opened.id)
    assert waiting.output_text == "You said: three"
    assert texts(server, opened.id) == [
        "Speak like a pirate.", "one", "You said: one", "two", "You said: two", "three", "You said: three",
    ]  # fmt: skip
    changed = client.conversations.update(opened.id, metadata={"topic": "other"})
    assert client.conversations.retrieve(opened.id) == changed
    assert changed.metadata == {"topic": "other"}
    assert client.conversations.delete(opened.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(opened.id)
    assert threads_of(server, user) == []


def test_items_are_read_page_by_page_in_both_orders(client: OpenAI, server: Server) -> None:
    call: Json = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}
    result: Json = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
    image: Json = {"type": "input_image", "image_url": PIXEL, "detail": "auto"}
    answer: Json = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "It is.", "annotations": []}],
    }
    picture = {"role": "user", "content": [{"type": "input_text", "text": "this?"}, image]}
    given: Any = [says("the weather?"), answer, call, result, picture]
    opened = client.conversations.create()
    created = client.conversations.items.create(opened.id, items=given)
    assert len(created.data) == 5
    picture_id = str(created.data[4].id)
    kinds = ["message", "message", "function_call", "function_call_output", "message"]
    assert [item.type for item in created.data] == kinds
    assert len(texts(server, opened.id)) == 4  # Words and call of one answer are one turn.
    for limit in (1, 2, 3, 20):
        listed = list(client.conversations.items.list(opened.id, order="asc", limit=limit))
        assert [item.id for item in listed] == [item.id for item in created.data]
        newest = list(client.conversations.items.list(opened.id, limit=limit))
        assert [item.id for item in newest] == [item.id for item in created.data][::-1]
    ItemList.model_validate(
        server.client.get(
            f"/v1/conversations/{opened.id}/items", headers=named(client), params={"order": "asc"}
        ).json()
    )
    shown = client.conversations.items.retrieve(picture_id, conversation_id=opened.id)
    assert shown.type == "message"
    assert shown.content[1].type == "input_image"
    again = {"role": "user", "content": [part.model_dump() for part in shown.content]}
    client.conversations.items.create(opened.id, items=cast(Any, [again]))
    client.conversations.items.delete(picture_id, conversation_id=opened.id)
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.retrieve(picture_id, conversation_id=opened.id)
    assert len(list(client.conversations.items.list(opened.id))) == 5


def test_items_follow_the_branch_that_goes_on(client: OpenAI) -> None:
    opened = client.conversations.create()
    first = respond(client, "one", conversation=opened.id)
    respond(client, "left", conversation=opened.id)
    branch = respond(client, "right", previous_response_id=first.id)
    respond(client, "more", previous_response_id=branch.id)
    for order in ("asc", "desc"):
        items = list(client.conversations.items.list(opened.id, order=cast(Any, order), limit=3))
        said = [item.content[0].text for item in items if item.type == "message"]  # type: ignore[union-attr]
        said = said if order == "asc" else said[::-1]
        assert said == ["one", "You said: one", "right", "You said: right", "more", "You said: more"]


def test_two_conversations_that_wait_for_the_same_answer_are_not_mixed_up(
    client: OpenAI, server: Server, user: str
) -> None:
    waiting = [client.conversations.create(items=cast(Any, [says("hello")])).id for _ in range(2)]
    respond(client, "hello")
    assert [texts(server, each) for each in waiting] == [["hello"], ["hello"]]
    assert len(threads_of(server, user)) == 3


# --- whose --------------------------------------------------------------------------------------------------


def test_ids_of_others_are_as_absent_as_those_that_never_were(client: OpenAI, server: Server) -> None:
    mine = respond(client, "my secret")
    opened = client.conversations.create(items=cast(Any, [says("my other secret")]))
    (item,) = client.conversations.items.list(opened.id)
    paths = [
        ("GET", f"/responses/{mine.id}"),
        ("GET", f"/responses/{mine.id}/input_items"),
        ("POST", f"/responses/{mine.id}/cancel"),
        ("DELETE", f"/responses/{mine.id}"),
        ("GET", f"/conversations/{opened.id}"),
        ("POST", f"/conversations/{opened.id}"),
        ("GET", f"/conversations/{opened.id}/items"),
        ("POST", f"/conversations/{opened.id}/items"),
        ("GET", f"/conversations/{opened.id}/items/{item.id}"),
        ("DELETE", f"/conversations/{opened.id}/items/{item.id}"),
        ("DELETE", f"/conversations/{opened.id}"),
    ]
    following: list[Json] = [
        {"input": [{"type": "item_reference", "id": item.id}, says("x")]},
        {"input": "x", "previous_response_id": mine.id},
        {"input": "x", "conversation": opened.id},
    ]
    body: Json = {"items": [says("x")], "metadata": {}}
    for who in ({"X-Recollect-User": "somebody else"}, {}):
        for method, path in paths:
            sent = {"json": body} if method == "POST" else {}
            answer = server.client.request(method, f"/v1{path}", headers=who, **sent)  # type: ignore[arg-type]
            assert answer.status_code == 404, path
            assert "secret" not in answer.text
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
        for each in following:
            assert server.client.post("/v1/responses", headers=who, json=each).status_code == 404
    assert client.responses.retrieve(mine.id).output_text == "You said: my secret"
    assert len(list(client.conversations.items.list(opened.id))) == 1


def test_keys_keep_users_and_spaces_apart(running: StandInEngine, tmp_path: Path) -> None:
    wanted = [("ann", "default"), ("bob", "default"), ("ann", "other")]
    with Server(tmp_path / "home", with_backend(running.base_url)) as server, ExitStack() as stack:
        operator = bearer(json.loads((server.home / "recollect.lock").read_text())["token"])
        bodies = ({"user_id": user, "space": space} for user, space in wanted)
        made = [server.client.post("/api/v1/keys", json=body, headers=operator).json() for body in bodies]
        ann, *others, nobody = (
            stack.enter_context(openai_client(server.address, key=key))
            for key in (*(each["secret"] for each in made), "rk_wrong")
        )
        mine = respond(ann, "my secret")
        opened = ann.conversations.create()
        for other in others:
            with pytest.raises(openai.NotFoundError):
                other.responses.retrieve(mine.id)
            with pytest.raises(openai.NotFoundError):
                respond(other, "x", previous_response_id=mine.id)
            with pytest.raises(openai.NotFoundError):
                other.conversations.items.list(opened.id)
        with pytest.raises(openai.PermissionDeniedError):
            respond(others[0], "x", user="ann", extra_body={"user_id": "ann"})
        shown = server.client.get(
            f"/v1/conversations/{opened.id}/items", headers={**operator, "X-Recollect-User": "ann"}
        )
        assert shown.status_code == 200
        line = json.loads((server.home / "audit.log").read_text().splitlines()[-1])
        assert (line["what"], line["user"], line["who"]) == ("read", "ann", "local operator")
        for call in (nobody.responses.retrieve, nobody.responses.delete, nobody.conversations.retrieve):
            with pytest.raises(openai.AuthenticationError):
                call(mine.id)


# --- embeddings ---------------------------------------------------------------------------------------------


def test_texts_are_embedded_in_both_encodings(client: OpenAI, server: Server) -> None:
    texts = [f"text {number}" for number in range(200)]
    as_sent_by_default = client.embeddings.create(model="text-embedding-3-small", input=texts)
    assert as_sent_by_default.model == "stand-in"
    assert as_sent_by_default.usage.total_tokens > 0
    assert [each.index for each in as_sent_by_default.data] == list(range(200))
    floats = client.embeddings.create(model="x", input=texts, encoding_format="float")
    vectors = np.array([each.embedding for each in floats.data])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    assert np.allclose(vectors, [each.embedding for each in as_sent_by_default.data], atol=1e-6)
    raw = server.client.post("/v1/embeddings", json={"input": texts[0], "encoding_format": "base64"}).json()
    decoded = np.frombuffer(base64.b64decode(raw["data"][0]["embedding"]), "<f4")
    assert np.allclose(decoded, vectors[0], atol=1e-6)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": [1, 2, 3]}, "input"),
        ({"input": [[1, 2], [3]]}, "input"),
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": ["x"] * 2049}, "input"),
        ({"input": "x", "dimensions": 7}, "dimensions"),
        ({"input": {"text": "x"}}, "input"),
    ],
)
def test_what_cannot_be_embedded_is_refused_in_words(
    client: OpenAI, body: dict[str, object], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.post("/embeddings", body={"model": "x", **body}, cast_to=object)
    assert str(refused.value.param).startswith(param)


def test_completions_say_what_to_use(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="use /v1/chat/completions or /v1/responses"):
        client.completions.create(model="recollect", prompt="Once upon a time")
