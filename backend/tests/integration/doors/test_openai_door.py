"""OpenAI's own client at Recollect's door: its protocol, its errors, and whose threads are whose."""

import json
from pathlib import Path

import openai
import pytest
from openai import OpenAI

from tests.chatting import with_backend
from tests.http_client import Json, turns
from tests.openai_clients import (
    ResendingClient,
    ask,
    assistant_says,
    client,
    engine,
    openai_client,
    resending,
    running,
    server,
    streamed,
    texts,
    threads_of,
    user,
    user_says,
)
from tests.processes import Server
from tests.standins.standin_engines import StandInEngine

__all__ = ["client", "engine", "resending", "running", "server", "user"]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


# --- the protocol -------------------------------------------------------------------------------------------


def test_an_answer_has_openais_shape_and_names_its_turn(client: OpenAI, server: Server) -> None:
    answered = ask(client, [user_says("hello")])
    completion = answered.completion
    assert (completion.object, completion.choices[0].finish_reason) == ("chat.completion", "stop")
    assert completion.choices[0].message.content == "You said: hello"
    assert completion.model == "stand-in-8b.gguf"
    assert completion.id.startswith("chatcmpl-")
    assert completion.id.endswith(answered.turn)
    assert completion.usage is not None
    assert (
        completion.usage.total_tokens
        == completion.usage.prompt_tokens + completion.usage.completion_tokens
        > 0
    )
    assert completion.usage.prompt_tokens_details is not None
    assert texts(server, answered.thread) == ["hello", "You said: hello"]


def test_a_stream_tells_the_same_in_chunks(client: OpenAI, server: Server, user: str) -> None:
    with streamed(client, "one two three", stream_options={"include_usage": True}) as stream:
        chunks = list(stream)
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    said = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert "".join(piece or "" for piece in said) == "You said: one two three"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5
    assert all(chunk.usage is None for chunk in chunks[:-1])
    (thread,) = threads_of(server, user)
    assert texts(server, thread) == ["one two three", "You said: one two three"]


def test_without_an_embedder_there_are_no_embeddings(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="there is no embedding model") as refused:
        client.embeddings.create(model="text-embedding-3-small", input="hello")
    assert refused.value.code == "model_not_found"


def test_tools_make_a_round_trip(client: OpenAI, server: Server, engine: StandInEngine) -> None:
    asked: list[Json] = [user_says("What is the weather in Porto?")]
    engine.control(tool_call=True)
    called = ask(client, asked, tools=[WEATHER], tool_choice="auto")
    message = called.completion.choices[0].message
    assert called.completion.choices[0].finish_reason == "tool_calls"
    assert message.tool_calls
    (call,) = message.tool_calls
    assert call.type == "function"
    assert json.loads(call.function.arguments) == {"city": "Porto"}
    assert engine.chats()[-1]["tools"] == [WEATHER]
    assert engine.chats()[-1]["tool_choice"] == "auto"

    engine.control(answer="It is sunny.")
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    answered = ask(client, [*asked, message.model_dump(exclude_none=True), result], tools=[WEATHER])
    assert (answered.thread, answered.text) == (called.thread, "It is sunny.")
    assert [turn["role"] for turn in turns(server.client, called.thread)] == [
        "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    sent = engine.chats()[-1]["messages"]
    assert [message["role"] for message in sent[-2:]] == ["assistant", "tool"]
    assert (sent[-2]["tool_calls"][0]["id"], sent[-1]["content"]) == (call.id, "sunny")


def test_tool_calls_stream_in_fragments(client: OpenAI, engine: StandInEngine) -> None:
    engine.control(tool_call=True)
    with streamed(client, "the weather?") as stream:
        chunks = list(stream)
    fragments = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    assert len(fragments) > 1
    arguments = "".join(call.function.arguments or "" for call in fragments if call.function)
    assert json.loads(arguments) == {"city": "Porto"}
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_content_parts_and_images_reach_the_model_as_they_were_sent(
    client: OpenAI, engine: StandInEngine
) -> None:
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": PIXEL}}]
    ask(client, [{"role": "user", "content": parts}])
    assert engine.chats()[-1]["messages"][-1] == {"role": "user", "content": parts}


def test_options_reach_the_backend_under_their_names(client: OpenAI, engine: StandInEngine) -> None:
    ask(
        client,
        [user_says("hello")],
        temperature=0.3,
        top_p=0.9,
        stop=["END"],
        seed=7,
        max_completion_tokens=50,
        response_format={"type": "json_object"},
        user="end-user-5",
        extra_body={"nobody_knows": True},
    )
    sent = engine.chats()[-1]
    expected = {
        "temperature": 0.3, "top_p": 0.9, "stop": ["END"], "seed": 7, "max_tokens": 50,
        "response_format": {"type": "json_object"}, "user": "end-user-5",
    }  # fmt: skip
    assert {name: sent.get(name) for name in expected} == expected
    assert "nobody_knows" not in sent
    assert "metadata" not in sent


def test_of_two_choices_the_first_goes_on_and_the_other_is_kept(
    client: OpenAI, server: Server, engine: StandInEngine
) -> None:
    answered = ask(client, [user_says("hello")], n=2)
    assert [choice.index for choice in answered.completion.choices] == [0, 1]
    assert all(choice.message.content == "You said: hello" for choice in answered.completion.choices)
    stored = turns(server.client, answered.thread)
    assert [turn["role"] for turn in stored] == ["user", "assistant", "assistant"]
    assert stored[2]["turn_id"] == answered.turn
    found = server.client.get("/api/v1/coverage", params={"session_id": answered.thread}).json()
    assert (found["missing"], found["skipped"]) == (0, 1)


def test_going_on_from_the_other_choice_is_a_branch(
    client: OpenAI, server: Server, engine: StandInEngine
) -> None:
    engine.control(answer="the first", times=1)
    answered = ask(client, [user_says("hello")], n=2)
    first, other = (choice.message.content for choice in answered.completion.choices)
    assert (first, other) == ("the first", "You said: hello")
    branch = ask(client, [user_says("hello"), assistant_says("You said: hello"), user_says("go on")])
    assert branch.thread == answered.thread
    sent = engine.chats()[-1]["messages"]
    assert [message["content"] for message in sent if message["role"] == "assistant"] == ["You said: hello"]


def test_two_choices_stream_side_by_side(client: OpenAI) -> None:
    with streamed(client, "hello", n=2) as stream:
        said = ["", ""]
        for chunk in stream:
            said[chunk.choices[0].index] += chunk.choices[0].delta.content or ""
    assert said == ["You said: hello", "You said: hello"]


def test_the_models_of_the_backend_are_listed(client: OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert names == ["recollect", "stand-in-8b.gguf"]
    assert client.models.retrieve("stand-in-8b.gguf").owned_by == "default"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("gpt-9")
    assert caught.value.code == "model_not_found"


def test_a_model_may_name_its_backend(engine: StandInEngine, tmp_path: Path) -> None:
    with StandInEngine("vllm") as other:
        settings = with_backend(engine.base_url) | {"RECOLLECT_BACKENDS__BIG__BASE_URL": other.base_url}
        with Server(tmp_path / "home", settings) as server, openai_client(server.address) as client:
            assert {model.id for model in client.models.list()} == {
                "recollect", "stand-in-8b.gguf", "stand-in-8b", "stand-in-70b",
            }  # fmt: skip
            assert client.models.retrieve("stand-in-8b.gguf").owned_by == "default"
            for name in ("big/stand-in-70b", "stand-in-8b", "recollect"):
                ask(client, [user_says("hello")], model=name)
            said = [body["model"] for body in other.chats() if body["messages"][-1]["content"] == "hello"]
            assert said == ["stand-in-70b", "stand-in-8b"]
            with pytest.raises(openai.NotFoundError) as caught:
                ask(client, [user_says("hello")], model="big/nothing")
            assert caught.value.code == "model_not_found"
            assert "stand-in-70b" in caught.value.message


def test_log_probabilities_come_back_streamed_and_not(client: OpenAI, engine: StandInEngine) -> None:
    wanted: Json = {"logprobs": True, "top_logprobs": 2, "extra_body": {"top_k": 7, "min_p": 0.05}}
    choice = ask(client, [user_says("hello")], **wanted).completion.choices[0]
    assert choice.logprobs is not None
    assert [each.token for each in choice.logprobs.content or ()] == ["You", " said:", " hello"]
    assert engine.chats()[-1].items() >= {"top_k": 7, "min_p": 0.05, "logprobs": True}.items()
    told = [chunk.choices[0].logprobs for chunk in streamed(client, "hello again", **wanted)]
    tokens = [each.token for logprobs in told if logprobs for each in logprobs.content or ()]
    assert "".join(tokens) == "You said: hello again"
    assert ask(client, [user_says("and without")]).completion.choices[0].logprobs is None


# --- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_rate_limit_is_told_with_its_time(client: OpenAI, engine: StandInEngine, stream: bool) -> None:
    engine.control("status", status=429, headers={"Retry-After": "7"})
    with pytest.raises(openai.RateLimitError) as caught:
        streamed(client, "hello", stream=stream)
    assert caught.value.response.headers["Retry-After"] == "7"
    assert caught.value.code == "rate_limit_exceeded"
    assert isinstance(caught.value.body, dict)
    assert set(caught.value.body) == {"message", "type", "param", "code"}


def test_a_backend_that_is_down_is_told_in_words(tmp_path: Path) -> None:
    with (
        Server(tmp_path / "home", with_backend("http://127.0.0.1:9")) as server,
        openai_client(server.address) as client,
        pytest.raises(openai.InternalServerError) as caught,
    ):
        ask(client, [user_says("hello")])
    assert (caught.value.status_code, caught.value.code) == (503, "backend_down")


def test_a_refusal_is_not_tried_again(server: Server, engine: StandInEngine, user: str) -> None:
    engine.control("status", status=403, message="not for you")
    before = len(engine.chats())
    with (
        openai_client(server.address, user=user, retries=2) as client,
        pytest.raises(openai.InternalServerError) as caught,
    ):
        ask(client, [user_says("hello")])
    assert caught.value.code == "model_refused"
    assert "refused the request (403)" in caught.value.message
    assert len(engine.chats()) == before + 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "error", "told", "code", "param"),
    [
        (400, {"code": "context_length_exceeded"}, 400, "context_length_exceeded", None),
        (400, {"code": 400, "type": "exceed_context_size_error"}, 400, "context_length_exceeded", None),
        (
            400,
            {"code": 400, "type": "BadRequestError", "param": "input_tokens"},
            400,
            "context_length_exceeded",
            None,
        ),
        (413, {"type": "request_too_large"}, 400, "context_length_exceeded", None),
        (400, {"code": 400, "n_prompt_tokens": 9000, "n_ctx": 8192}, 400, "context_length_exceeded", None),
        (400, {"message": "prompt is too long: 9 tokens > 8 maximum"}, 400, "invalid_request", None),
        (400, {"code": "content_filter", "param": "prompt"}, 400, "content_filter", None),
        (400, {"code": "unsupported_value", "param": "seed"}, 400, "unsupported_value", "seed"),
        (422, {"type": "invalid_request_error", "code": "secret words"}, 400, "invalid_request", None),
        (404, {"code": "model_not_found"}, 404, "model_not_found", None),
        (404, {}, 502, "model_refused", None),
        (401, {"code": "invalid_api_key"}, 502, "model_refused", None),
        (429, {"code": "insufficient_quota"}, 429, "insufficient_quota", None),
        (429, {}, 429, "rate_limit_exceeded", None),
    ],
)
def test_an_error_of_the_backend_keeps_its_meaning_and_not_its_words(
    client: OpenAI, engine: StandInEngine, stream: bool,
    status: int, error: Json, told: int, code: str, param: str | None,
) -> None:  # fmt: skip
    body = {"error": {"message": "you said: the secret words, far too many", **error}}
    engine.control("status", status=status, body=body)
    with pytest.raises(openai.APIStatusError) as caught:
        streamed(client, "the secret words", stream=stream, seed=7)
    assert (caught.value.status_code, caught.value.code, caught.value.param) == (told, code, param)
    assert "secret" not in caught.value.response.text


def test_an_error_in_place_of_an_answer_keeps_its_meaning(client: OpenAI, engine: StandInEngine) -> None:
    engine.control("status", status=200, body={"error": {"code": "context_length_exceeded", "message": "long"}},
                   headers={"content-type": "application/json"})  # fmt: skip
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, [user_says("hello")])
    assert caught.value.code == "context_length_exceeded"


def test_a_stream_that_breaks_off_ends_with_an_error(client: OpenAI, engine: StandInEngine) -> None:
    engine.control("early_end")
    said: list[str] = []
    with streamed(client, "one two three four") as stream, pytest.raises(openai.APIError) as caught:
        said.extend(chunk.choices[0].delta.content or "" for chunk in stream)
    assert "".join(said).startswith("You said:")
    assert caught.value.code == "stream_broken"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "nobody", "content": "a"}]}, "messages[0].role"),
        ({"temperature": 3}, "temperature"),
        ({"n": 0}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": [{"role": "user", "content": "a\x00b"}]}, "messages[0].content"),
    ],
)
def test_a_bad_request_names_what_is_wrong_and_stores_nothing(
    client: OpenAI, server: Server, user: str, fields: Json, param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**{"model": "recollect", "messages": [user_says("hello")], **fields})
    assert caught.value.param is not None
    assert caught.value.param.startswith(param)
    assert caught.value.type == "invalid_request_error"
    assert threads_of(server, user) == []


def test_a_prompt_too_long_has_openais_code(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, [user_says("word " * 5000)])
    assert caught.value.code == "context_length_exceeded"


# --- whose thread -------------------------------------------------------------------------------------------


def test_two_users_with_the_same_history_never_meet(server: Server, engine: StandInEngine, user: str) -> None:
    with (
        openai_client(server.address, user=f"{user} 1") as one,
        openai_client(server.address, user=f"{user} 2") as two,
    ):
        first, second = ResendingClient(one), ResendingClient(two)
        mine = first.say("hello")
        history = [*first.history, user_says("and now?")]
        theirs = ask(two, history)
        assert theirs.thread != mine.thread
        assert texts(server, mine.thread) == ["hello", "You said: hello"]
        assert first.say("and now?").thread == mine.thread
        assert second.say("hello").thread not in (mine.thread, theirs.thread)
        named = ask(two, [user_says("what did I say?")], headers={"X-Recollect-Thread": mine.thread})
        assert (named.thread, named.turn) == (mine.thread, "t-2"), "a thread of their own under the same id"
