"""The threads of clients that keep their history themselves: recognised, named, and asked again."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import openai
import pytest
from openai import OpenAI

from tests.chatting import prompt, say
from tests.http_client import Json, thread_path, turns
from tests.openai_clients import (
    ResendingClient,
    ask,
    assistant_says,
    client,
    conversation,
    engine,
    resending,
    running,
    server,
    streamed,
    system_says,
    texts,
    threads_of,
    user,
    user_says,
)
from tests.processes import Server, wait_until
from tests.standins.standin_engines import StandInEngine

__all__ = ["client", "engine", "resending", "running", "server", "user"]


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
    with streamed(client, "one two three four") as again:
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


def test_a_message_edited_in_the_vault_keeps_its_client_in_the_thread(
    resending: ResendingClient, server: Server, engine: StandInEngine, user: str
) -> None:
    thread = resending.say("My cat is called Tom").thread
    (path,) = wait_until(lambda: parts_with(server, "You said: My cat is called Tom"), "all of it is written")
    path.write_text(path.read_text().replace("called Tom", "called Tiger"))
    wait_until(lambda: texts(server, thread)[0] == "My cat is called Tiger", "the edit is taken in")
    assert resending.say("What is it called?").thread == thread
    assert "called Tiger" in str(engine.chats()[-1]["messages"])
    assert resending.say("Once more?").thread == thread
    assert len(turns(server.client, thread)) == 6


# --- single calls that name no thread ------------------------------------------------------------------------


def listed(server: Server, user: str, **query: Any) -> list[str]:
    answer = server.client.get("/api/v1/threads", params={"user_id": user, **query}).raise_for_status()
    return [thread["thread_id"] for thread in answer.json()["threads"]]


def lists(server: Server, user: str) -> tuple[list[str], list[str]]:
    """A user's conversations, and the threads of single calls: equal in both orders of the list."""
    conversations, calls = [
        sorted(listed(server, user, one_shot=one_shot, order="recent")) for one_shot in (False, True)
    ]
    assert sorted(listed(server, user, one_shot=False)) == conversations
    assert sorted(listed(server, user, one_shot=True)) == calls
    assert sorted(listed(server, user)) == sorted([*conversations, *calls])
    return conversations, calls


def test_calls_that_name_no_thread_are_listed_apart(client: OpenAI, server: Server, user: str) -> None:
    question = [system_says("Be brief."), user_says("What is the capital of Portugal?")]
    calls = [ask(client, question).thread for _ in range(2)]
    examples = [
        {"role": "user", "name": "example_user", "content": "Spain?"},
        {"role": "assistant", "name": "example_assistant", "content": "Madrid"},
    ]
    calls.append(ask(client, [*examples, user_says("Portugal?")]).thread)
    assert lists(server, user) == ([], sorted(calls))
    thread = server.client.get(thread_path(calls[0]), params={"user_id": user}).json()
    assert thread["one_shot"] is True
    counts = server.client.get("/api/v1/coverage", params={"session_id": calls[0]}).json()
    assert (counts["messages"], counts["skipped"]) == (2, 0), "they are remembered like all else"


@pytest.mark.parametrize(
    ("fields", "before"),
    [
        ({"headers": {"X-Recollect-Thread": "by header"}}, []),
        ({"headers": {"X-OpenWebUI-Chat-Id": "by chat"}}, []),
        ({"metadata": {"thread_id": "by metadata"}}, []),
        ({}, [user_says("Hello from elsewhere"), assistant_says("Hello!")]),
    ],
    ids=["header", "chat id", "metadata", "a conversation that was brought along"],
)
def test_what_is_named_or_is_a_conversation_is_no_single_call(
    client: OpenAI, server: Server, user: str, fields: Json, before: list[Json]
) -> None:
    answered = ask(client, [*before, user_says("What is the capital of Portugal?")], **fields)
    assert lists(server, user) == ([answered.thread], [])


def by_native_chat(server: Server, thread: str, user: str) -> None:
    say(server.client, thread, "And of Spain?", user_id=user)


def by_add(server: Server, thread: str, user: str) -> None:
    said = {"role": "user", "sender_id": user, "content": "And of Spain?", "timestamp": 1_778_227_200_000}
    body = {"session_id": thread, "user_id": user, "messages": [said]}
    server.client.post("/api/v1/memory/add", json=body).raise_for_status()


def by_title(server: Server, thread: str, user: str) -> None:
    server.client.patch(thread_path(thread), json={"user_id": user, "title": "Cities"}).raise_for_status()


def by_pin(server: Server, thread: str, user: str) -> None:
    server.client.patch(thread_path(thread), json={"user_id": user, "pinned": True}).raise_for_status()


@pytest.mark.parametrize("change", [by_native_chat, by_add, by_title, by_pin])
def test_a_single_call_that_somebody_goes_on_with_or_keeps_is_a_conversation(
    client: OpenAI, server: Server, user: str, change: Callable[[Server, str, str], None]
) -> None:
    thread = ask(client, [user_says("What is the capital of Portugal?")]).thread
    change(server, thread, user)
    assert lists(server, user) == ([thread], [])


def test_only_words_of_the_user_make_a_single_call_a_conversation(
    resending: ResendingClient, client: OpenAI, server: Server, user: str
) -> None:
    first = resending.say("What is the capital of Portugal?")
    path = thread_path(first.thread)
    changes = {"user_id": user, "pinned": False, "tags": ["trial"], "title": None}
    server.client.patch(path, json=changes).raise_for_status()
    answered = {"user_id": user, "role": "assistant", "content": "Lisbon, I should add."}
    server.client.post(f"{path}/turns", json=answered).raise_for_status()
    assert lists(server, user) == ([], [first.thread])
    (written,) = wait_until(lambda: parts_with(server, "Lisbon, I should add."), "it is written")
    assert "one_shot: true" in written.read_text(encoding="utf-8")
    named = {"X-Recollect-Thread": quote(first.thread)}
    ask(client, [user_says("And of Spain?")], headers=named)
    assert lists(server, user) == ([first.thread], [])
    wait_until(lambda: "one_shot" not in written.read_text(encoding="utf-8"), "the transcript follows")


def test_a_client_that_resends_its_history_leaves_the_list_of_single_calls(
    resending: ResendingClient, server: Server, user: str
) -> None:
    thread = resending.say("What is the capital of Portugal?").thread
    assert lists(server, user) == ([], [thread])
    assert resending.say("And of Spain?").thread == thread
    assert lists(server, user) == ([thread], [])


def test_a_single_call_whose_transcript_gets_a_title_is_a_conversation(
    client: OpenAI, server: Server, user: str
) -> None:
    words = "What is the capital of Slovenia?"
    thread = ask(client, [user_says(words)]).thread
    (path,) = wait_until(lambda: parts_with(server, f"You said: {words}"), "all of it is written")
    # The title that a model gives comes after it, and leaves the thread among the calls.
    text = wait_until(lambda: titled(path), "it has a title")
    assert lists(server, user) == ([], [thread])
    path.write_text(re.sub("\ntitle: .*", "\ntitle: Capitals", text), encoding="utf-8")
    wait_until(lambda: listed(server, user, one_shot=False) == [thread], "the edit is taken in")


def titled(path: Path) -> str:
    """The text of a transcript that has a title; empty until then."""
    text = path.read_text(encoding="utf-8")
    return text if "\ntitle: " in text else ""


def parts_with(server: Server, words: str) -> list[Path]:
    found = (server.home / "vault").rglob("threads/*/0001.md")
    return [path for path in found if words in path.read_text(encoding="utf-8")]
