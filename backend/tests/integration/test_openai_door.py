"""OpenAI's own client at Recollect's door: its protocol, its errors, and the threads that it is known by."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import openai
import pytest
from openai import OpenAI

from tests.chatting import prompt, say, turns, with_backend
from tests.http_client import Json, thread_path
from tests.openai_clients import (
    ResendingClient,
    ask,
    assistant_says,
    engine,
    openai_client,
    running,
    server,
    system_says,
    user_says,
)
from tests.processes import Server, recollect_json, wait_until
from tests.standin_engines import StandInEngine

__all__ = ["engine", "running", "server"]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def user(request: pytest.FixtureRequest) -> str:
    """Each test has its own: what one says is never recognised in another."""
    return f"user of {request.node.name}"


@pytest.fixture
def client(server: Server, engine: StandInEngine, user: str) -> Iterator[OpenAI]:
    with openai_client(server.address, user=user) as client:
        yield client


@pytest.fixture
def resending(client: OpenAI) -> ResendingClient:
    return ResendingClient(client)


def texts(server: Server, thread: str) -> list[str]:
    return [turn["content"] for turn in turns(server.client, thread)]


def conversation(engine: StandInEngine) -> list[str]:
    """What the engine was sent last, without instructions and what memory added."""
    _, *messages = engine.chats()[-1]["messages"]
    return [message["content"] for message in messages if not message["content"].startswith("[Context]")]


def threads_of(server: Server, user: str) -> list[str]:
    found = server.client.get("/api/v1/threads", params={"user_id": user}).raise_for_status().json()
    return [thread["thread_id"] for thread in found["threads"]]


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
    with client.chat.completions.create(
        model="recollect",
        messages=[{"role": "user", "content": "one two three"}],
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
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


def test_a_stream_without_usage_has_none(client: OpenAI) -> None:
    with client.chat.completions.create(
        model="recollect", messages=[{"role": "user", "content": "hello"}], stream=True
    ) as stream:
        assert all(chunk.choices and chunk.usage is None for chunk in stream)


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
    with client.chat.completions.create(
        model="recollect", messages=[{"role": "user", "content": "the weather?"}], stream=True
    ) as stream:
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
    with client.chat.completions.create(
        model="recollect", messages=[{"role": "user", "content": "hello"}], stream=True, n=2
    ) as stream:
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
            for name in ("big/stand-in-70b", "stand-in-8b", "recollect"):
                ask(client, [user_says("hello")], model=name)
            said = [body["model"] for body in other.chats() if body["messages"][-1]["content"] == "hello"]
            assert said == ["stand-in-70b", "stand-in-8b"]
            with pytest.raises(openai.NotFoundError) as caught:
                ask(client, [user_says("hello")], model="big/nothing")
            assert caught.value.code == "model_not_found"
            assert "stand-in-70b" in caught.value.message


# --- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_rate_limit_is_told_with_its_time(client: OpenAI, engine: StandInEngine, stream: bool) -> None:
    engine.control("status", status=429, headers={"Retry-After": "7"})
    with pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(
            model="recollect", messages=[{"role": "user", "content": "hello"}], stream=stream
        )
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
    assert "not for you" in caught.value.message
    assert len(engine.chats()) == before + 1


def test_a_stream_that_breaks_off_ends_with_an_error(client: OpenAI, engine: StandInEngine) -> None:
    engine.control("early_end")
    said: list[str] = []
    with (
        client.chat.completions.create(
            model="recollect", messages=[{"role": "user", "content": "one two three four"}], stream=True
        ) as stream,
        pytest.raises(openai.APIError) as caught,
    ):
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


def test_a_key_says_whose_thread_it_is(engine: StandInEngine, tmp_path: Path) -> None:
    with Server(tmp_path / "home", with_backend(engine.base_url)) as server:
        key = recollect_json(server.home, "keys", "create", "--user", "ann")["secret"]
        with openai_client(server.address, key=key) as client:
            answered = ask(client, [user_says("hello")])
            found = server.client.get(
                thread_path(answered.thread), headers={"Authorization": f"Bearer {key}"}
            )
            assert found.json()["user_id"] == "ann"
            with pytest.raises(openai.NotFoundError):
                ask(client, [user_says("hello")], headers={"X-Recollect-User": "bob"})
            with pytest.raises(openai.NotFoundError):
                ask(client, [user_says("hello")], metadata={"user_id": "bob"})
        with (
            openai_client(server.address, key="rk_wrong") as client,
            pytest.raises(openai.AuthenticationError) as caught,
        ):
            ask(client, [user_says("hello")])
        assert caught.value.code == "invalid_api_key"


def test_without_key_and_name_it_is_the_default_user(server: Server, engine: StandInEngine) -> None:
    with openai_client(server.address) as client:
        answered = ask(client, [user_says("hello from nobody")], user="not-a-user-here")
    assert server.client.get(thread_path(answered.thread)).json()["user_id"] == "me"


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
        with pytest.raises(openai.NotFoundError):
            ask(two, [user_says("hello")], headers={"X-Recollect-Thread": mine.thread})


# --- threads that are recognised ----------------------------------------------------------------------------


def test_its_prompts_only_grow_and_its_cache_survives(
    resending: ResendingClient, server: Server, user: str
) -> None:
    resending.system = "Answer briefly. " * 20
    for number in range(6):
        answered = resending.say(f"Tell me more about the city of Porto, part {number}")
        receipt = prompt(server.client, answered.thread, answered.turn, user_id=user)
        usage = answered.completion.usage
        assert receipt["first_difference"] is None, receipt["cause"]
        assert usage is not None
        if number:
            assert usage.prompt_tokens_details is not None
            assert receipt["detail"]["recall"] is not None
            new = sum(
                len(["role", *str(message["content"]).split()])
                for message in receipt["messages"][receipt["new_from"] :]
            )
            assert usage.prompt_tokens - (usage.prompt_tokens_details.cached_tokens or 0) <= new


def test_identical_openings_are_two_threads_that_are_told_apart_by_their_answers(
    client: OpenAI, server: Server, engine: StandInEngine
) -> None:
    engine.control(answer="Hello, Ann.", times=1)
    one, two = ResendingClient(client), ResendingClient(client)
    first = one.say("hello")
    engine.control(answer="Hello, Bob.", times=1)
    second = two.say("hello")
    assert first.thread != second.thread
    assert one.say("how are you?").thread == first.thread
    assert two.say("how are you?").thread == second.thread
    assert one.say("good").thread == first.thread
    assert texts(server, second.thread)[1] == "Hello, Bob."


def test_openings_that_a_client_always_sends_do_not_tie_its_conversations_together(
    client: OpenAI, server: Server
) -> None:
    examples = [user_says("2 + 2"), assistant_says("4")]
    first = ask(client, [*examples, user_says("3 + 3")])
    second = ask(client, [*examples, user_says("5 + 5")])
    assert first.thread != second.thread
    assert texts(server, first.thread) == ["2 + 2", "4", "3 + 3", "You said: 3 + 3"]
    again = ask(client, [*examples, user_says("5 + 5"), assistant_says(second.text), user_says("6 + 6")])
    assert again.thread == second.thread


def test_a_client_that_drops_its_oldest_messages_is_still_known(
    resending: ResendingClient, server: Server
) -> None:
    threads = {resending.say(f"message {number}").thread for number in range(4)}
    resending.history = resending.history[4:]
    threads.add(resending.say("message 4").thread)
    resending.history = resending.history[-2:]
    threads.add(resending.say("message 5").thread)
    assert len(threads) == 1
    assert len(turns(server.client, threads.pop())) == 12


def test_one_message_of_the_past_is_too_little_to_be_known_by(
    resending: ResendingClient, server: Server
) -> None:
    known = [resending.say(f"message {number}").thread for number in range(3)]
    resending.history = resending.history[-1:]
    answered = resending.say("message 3")
    assert answered.thread not in known
    assert texts(server, answered.thread)[0] == "You said: message 2"


def test_an_edited_message_starts_a_branch_and_loses_nothing(
    resending: ResendingClient, server: Server, engine: StandInEngine
) -> None:
    thread = resending.say_messages(3)
    before = texts(server, thread)
    resending.history = resending.history[:2]
    branch = resending.say("message one, but better")
    assert branch.thread == thread
    assert texts(server, thread) == [*before, "message one, but better", "You said: message one, but better"]
    assert conversation(engine) == [*before[:2], "message one, but better"]
    assert resending.say("go on").thread == thread
    assert conversation(engine) == [message["content"] for message in resending.history[:-1]]


def test_a_message_edited_in_the_middle_keeps_what_follows_it(
    resending: ResendingClient, server: Server, engine: StandInEngine
) -> None:
    thread = resending.say_messages(3)
    resending.history[2] = user_says("message one, but better")
    answered = resending.say("message 3")
    assert answered.thread == thread
    assert conversation(engine) == [message["content"] for message in resending.history[:-1]]
    assert len(turns(server.client, thread)) == 6 + 4 + 2


def test_a_regenerated_answer_stands_beside_the_first(
    resending: ResendingClient, server: Server, engine: StandInEngine
) -> None:
    thread = resending.say_messages(2)
    engine.control(answer="another answer", times=1)
    again = ask(resending.client, resending.sent()[:-1])
    assert (again.thread, again.text) == (thread, "another answer")
    stored = turns(server.client, thread)
    assert [turn["content"] for turn in stored][3:] == ["You said: message 1", "another answer"]
    assert stored[4]["parent_id"] == "t-3"
    resending.history[-1] = assistant_says("another answer")
    assert resending.say("go on").thread == thread
    assert "You said: message 1" not in conversation(engine)
    assert "another answer" in conversation(engine)


def test_a_dated_system_message_keeps_the_thread_and_ends_the_epoch(
    resending: ResendingClient, server: Server, user: str
) -> None:
    resending.system = "Today is Monday."
    first = resending.say("hello")
    resending.system = "Today is Tuesday."
    second = resending.say("and today?")
    assert second.thread == first.thread
    receipt = prompt(server.client, second.thread, second.turn, user_id=user)
    assert receipt["cause"] == "the instructions changed"
    assert receipt["messages"][0]["content"].count("Today is Tuesday.") == 1
    assert "Monday" not in receipt["messages"][0]["content"]


def test_system_messages_are_used_as_sent_in_their_order(client: OpenAI, engine: StandInEngine) -> None:
    ask(client, [system_says("First."), user_says("hello"), {"role": "developer", "content": "Second."}])
    system, *rest = engine.chats()[-1]["messages"]
    assert "First.\n\nSecond." in system["content"]
    assert [message["role"] for message in rest] == ["user", "user"]


def test_a_history_that_nobody_knows_is_stored_first(
    client: OpenAI, server: Server, engine: StandInEngine
) -> None:
    brought = [user_says("I live in Porto."), assistant_says("Lovely."), user_says("Where do I live?")]
    answered = ask(client, brought)
    assert texts(server, answered.thread)[:3] == [message["content"] for message in brought]
    assert conversation(engine) == [message["content"] for message in brought]
    found = server.client.get("/api/v1/coverage", params={"session_id": answered.thread}).json()
    assert (found["messages"], found["missing"], found["skipped"]) == (4, 0, 0)


def test_threads_of_the_native_door_are_recognised(client: OpenAI, server: Server, user: str) -> None:
    thread = f"native {user}"
    say(server.client, thread, "hello there", user_id=user)
    answered = ask(
        client, [user_says("hello there"), assistant_says("You said: hello there"), user_says("go on")]
    )
    assert answered.thread == thread
    say(server.client, thread, "native again", user_id=user)
    known = [{"role": turn["role"], "content": turn["content"]} for turn in turns(server.client, thread)]
    assert ask(client, [*known, user_says("and here again")]).thread == thread


def test_white_space_and_the_form_of_the_content_do_not_count(resending: ResendingClient) -> None:
    thread = resending.say("hello there").thread
    resending.history[0] = {"role": "user", "content": [{"type": "text", "text": "  hello there\n"}]}
    resending.history[1] = assistant_says(f"{resending.history[1]['content']}\n")
    assert resending.say("go on").thread == thread


def test_a_message_edited_in_the_vault_keeps_its_client_in_the_thread(
    resending: ResendingClient, server: Server, engine: StandInEngine, user: str
) -> None:
    thread = resending.say("My cat is called Tom").thread
    (path,) = wait_until(lambda: parts_with(server, "called Tom"), "it is written")
    path.write_text(path.read_text().replace("called Tom", "called Tiger"))
    wait_until(lambda: texts(server, thread)[0] == "My cat is called Tiger", "the edit is taken in")
    assert resending.say("What is it called?").thread == thread
    assert "called Tiger" in str(engine.chats()[-1]["messages"])
    assert resending.say("Once more?").thread == thread
    assert len(turns(server.client, thread)) == 6


def parts_with(server: Server, words: str) -> list[Path]:
    found = (server.home / "vault").rglob("threads/*/0001.md")
    return [path for path in found if words in path.read_text(encoding="utf-8")]


# --- threads that are named ---------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["header", "metadata"])
def test_a_named_thread_takes_only_what_is_new(client: OpenAI, server: Server, user: str, by: str) -> None:
    thread = f"Übung {user}"
    named: Json = {"metadata": {"thread_id": thread}}
    if by == "header":
        named = {"headers": {"X-Recollect-Thread": quote(thread)}}
    first = ask(client, [user_says("hello")], **named)
    assert first.thread == thread
    ask(client, [user_says("just the new one")], **named)
    ask(client, [user_says("just the new one")], **named)
    assert texts(server, thread)[::2] == ["hello", "just the new one", "just the new one"]
    whole = [{"role": turn["role"], "content": turn["content"]} for turn in turns(server.client, thread)]
    ask(client, [*whole, user_says("with all of it")], **named)
    assert len(turns(server.client, thread)) == 8
    ask(client, [user_says("unheard of"), assistant_says("never said"), user_says("the newest")], **named)
    assert texts(server, thread)[-2] == "the newest"
    assert len(turns(server.client, thread)) == 10


# --- requests that are sent again ---------------------------------------------------------------------------


def test_a_key_of_a_request_joins_the_turn_it_opened(client: OpenAI, server: Server, user: str) -> None:
    key = {"Idempotency-Key": f"k {user}"}
    first = ask(client, [user_says("hello")], headers=key)
    again = ask(client, [user_says("hello")], headers=key)
    assert (again.thread, again.turn, again.text) == (first.thread, first.turn, first.text)
    history = [user_says("hello"), assistant_says(first.text), user_says("go on")]
    key = {"Idempotency-Key": f"k2 {user}"}
    second = ask(client, history, headers=key)
    assert ask(client, history, headers=key).turn == second.turn
    assert len(turns(server.client, first.thread)) == 4


@pytest.mark.parametrize("before", [[], ["hello"]], ids=["an opening", "a later message"])
def test_what_was_never_answered_is_taken_up_again_and_said_once(
    client: OpenAI, server: Server, engine: StandInEngine, user: str, before: list[str]
) -> None:
    history = [
        message for text in before for message in (user_says(text), assistant_says(f"You said: {text}"))
    ]
    for text in before:
        ask(client, [user_says(text)])
    engine.control("status", status=500, times=3)
    for _ in range(3):
        with pytest.raises(openai.InternalServerError):
            ask(client, [*history, user_says("go on")])
    answered = ask(client, [*history, user_says("go on")])
    assert threads_of(server, user) == [answered.thread]
    roles = [turn["role"] for turn in turns(server.client, answered.thread)]
    assert roles == [*(message["role"] for message in history), "user", *["assistant"] * 4]


def test_a_client_that_lost_its_connection_joins_its_answer(
    client: OpenAI, server: Server, engine: StandInEngine, user: str
) -> None:
    engine.control("stall", times=1)
    body = {"model": "recollect", "messages": [user_says("one two three four")], "stream": True}
    headers = {"X-Recollect-User": quote(user)}
    with server.client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as stream:
        assert stream.status_code == 200
        next(stream.iter_lines())
    with client.chat.completions.create(
        model="recollect", messages=[{"role": "user", "content": "one two three four"}], stream=True
    ) as again:
        assert next(iter(again)).choices[0].delta.role == "assistant"
        (thread,) = threads_of(server, user)
        assert len(turns(server.client, thread)) == 2
        server.client.post(thread_path(thread, "cancel"), json={"user_id": user}).raise_for_status()


def test_memory_is_switched_off_for_one_call(client: OpenAI, server: Server, user: str) -> None:
    answered = ask(client, [user_says("hello")], headers={"X-Recollect-Memory": "off"})
    receipt = prompt(server.client, answered.thread, answered.turn, user_id=user)
    assert "off" in receipt["detail"]["recall"]["left_out"]
    found = server.client.get("/api/v1/coverage", params={"session_id": answered.thread}).json()
    assert (found["messages"], found["skipped"]) == (2, 2)
    with pytest.raises(openai.BadRequestError):
        ask(client, [user_says("hello")], headers={"X-Recollect-Memory": "maybe"})
