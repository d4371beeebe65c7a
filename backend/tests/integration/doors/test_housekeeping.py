"""What chat apps ask by themselves, and examples that nobody said: answered, and kept out of memory."""

import json

import openai
import pytest
from openai import OpenAI

from tests.http_client import Json
from tests.openai_clients import (
    ask,
    assistant_says,
    client,
    conversation,
    engine,
    openai_client,
    running,
    server,
    streamed,
    system_says,
    threads_of,
    user,
    user_says,
)
from tests.processes import Server, recollect_json, wait_until
from tests.standins.standin_engines import StandInEngine

__all__ = ["client", "engine", "running", "server", "user"]

TITLE = """### Task:
Generate a concise title summarizing the chat history.
### Output:
JSON format: { "title": "your concise title here" }
### Chat History:
<chat_history>
USER: My sister Mira lives in Lisbon.
ASSISTANT: Noted.
</chat_history>"""
QUERIES = """
### Aufgabe:
Welche Suchanfragen helfen weiter?
### Verlauf:
<chat_history>
USER: Where does Mira live?
</chat_history>"""
TASK = {"X-OpenWebUI-Task": "title_generation"}


def found(server: Server, user: str, query: str) -> list[str]:
    answer = server.client.post("/api/v1/memory/search", json={"query": query, "user_id": user})
    return [hit["text"] for hit in answer.raise_for_status().json()["hits"]]


def kept(server: Server, thread: str) -> tuple[int, int]:
    """How many messages of a thread there are, and how many memory leaves alone."""
    counts = server.client.get("/api/v1/coverage", params={"session_id": thread}).raise_for_status().json()
    return counts["messages"], counts["skipped"]


@pytest.mark.parametrize(
    ("said", "headers"),
    [(TITLE, {}), (QUERIES, {}), (TITLE, {"X-Recollect-Thread": "theirs"}), ("A title for: hello", TASK)],
    ids=["a title", "queries, in another language", "in a named thread", "by Open WebUI's header"],
)
def test_housekeeping_is_answered_as_it_was_asked_and_kept_nowhere(
    client: OpenAI, server: Server, engine: StandInEngine, user: str, said: str, headers: dict[str, str]
) -> None:
    messages = [system_says("Be brief."), user_says(said)]
    fields: Json = {"model": "recollect", "messages": messages, "max_tokens": 50, "extra_headers": headers}
    raw = client.chat.completions.with_raw_response.create(**fields)
    answer = raw.parse()
    assert answer.choices[0].message.content == f"You said: {said}"
    assert answer.usage is not None
    assert "X-Recollect-Thread" not in raw.headers
    sent = engine.chats()[-1]
    assert [message["content"] for message in sent["messages"]] == ["Be brief.", said]
    assert sent["max_tokens"] == 50
    assert threads_of(server, user) == []
    assert found(server, user, "Mira Lisbon title hello") == []


LIBRECHAT = (
    "Provide a concise, 5-word-or-less title for the conversation. Only return the title.\n\nConversation:\n"
)
EMOJI = "Your task is to reflect the speaker's likely facial expression through a fitting emoji.\n\nMessage: "
MERGED = (
    'You have been provided with a set of responses from various models to the latest user query: "{}"\n\n{}'
)
TOOLS = """Available Tools: [{"name": "search", "description": "", "parameters": {"type": "object"}}]

Your task is to choose and return the correct tool(s) from the list of available tools based on the query."""


def asked_about(question: str, answer: str) -> dict[str, list[Json]]:
    """What chat apps ask about a chat that has just begun so."""
    return {
        "a tool before anything was said": [system_says(TOOLS), user_says("Query: And in spring?")],
        "a tool": [
            system_says("Choose one."),
            user_says(f'History:\nUSER: """{question}"""\nASSISTANT: """{answer}"""\nQuery: And in spring?'),
        ],
        "an emoji": [user_says(f"{EMOJI}```{answer[:30]}```")],
        "merged answers": [
            user_says(MERGED.format(question, f'Responses from models: """Porto."""\n\n"""{answer}"""'))
        ],
        "LibreChat's title": [user_says(f"{LIBRECHAT}User: {question}\nAI: {answer}")],
        "a title in Chinese": [
            system_says("为对话起一个标题。"),
            user_says(f"对话\n用户\uff1a{question}\n助手\uff1a{answer[:90]}"),
        ],
        "JSON": [user_says("Tags?\n" + json.dumps({"user": question, "assistant": answer}, indent=1))],
    }


def thread_of(client: OpenAI, messages: list[Json], headers: dict[str, str]) -> str | None:
    fields: Json = {"model": "recollect", "messages": messages, "extra_headers": headers}
    answer = client.chat.completions.with_raw_response.create(**fields)
    return answer.headers.get("X-Recollect-Thread")


def chats_of(server: Server, user: str) -> list[str]:
    """What the page lists: not what is under "API"."""
    params = {"user_id": user, "one_shot": "false"}
    found = server.client.get("/api/v1/threads", params=params).raise_for_status().json()
    return [thread["thread_id"] for thread in found["threads"]]


@pytest.mark.parametrize("chat_id", [None, "chat-7"], ids=["no id", "the chat's id"])
def test_what_quotes_a_chat_that_it_is_no_part_of_is_kept_apart_from_chats_memory_and_search(
    client: OpenAI, server: Server, user: str, chat_id: str | None
) -> None:
    headers = {} if chat_id is None else {"X-OpenWebUI-Chat-Id": chat_id}
    question = 'My sister Mira lives in "old" Lisbon.\nWhere should she travel to in autumn, do you think?'
    first = asked_about(question, "")["a tool before anything was said"]
    assert thread_of(client, first, headers) is None
    chat = ask(client, [user_says(question)], headers=headers)
    for name, messages in asked_about(question, chat.text).items():
        if (thread := thread_of(client, messages, headers)) is not None:
            assert thread != chat.thread, name
            assert kept(server, thread) == (2, 2), name
    assert not [text for text in found(server, user, "Mira Lisbon title") if "5-word" in text]
    history = [user_says(question), assistant_says(chat.text)]
    pasted = user_says(f"Look what we said:\nUSER: {question}\nASSISTANT: {chat.text}")
    assert ask(client, [*history, pasted], headers=headers).thread == chat.thread
    assert chats_of(server, user) == [chat.thread]
    flattened = ask(client, [user_says(f"{question}\nYou: {chat.text}\nMe: And in spring?")])
    assert kept(server, flattened.thread) == (2, 0)


def test_what_quotes_the_chat_of_another_user_is_kept(client: OpenAI, server: Server, user: str) -> None:
    question = "Where does Mira live, and why there?"
    with openai_client(server.address, user=f"{user}, not") as other:
        answer = ask(other, [user_says(question)]).text
    answered = ask(client, asked_about(question, answer)["LibreChat's title"])
    assert threads_of(server, user) == [answered.thread]


def test_housekeeping_streams_like_any_answer(client: OpenAI, server: Server, user: str) -> None:
    chunks = list(streamed(client, TITLE, stream_options={"include_usage": True}))
    assert "".join(each.choices[0].delta.content or "" for each in chunks if each.choices).startswith("You")
    assert chunks[-1].usage is not None
    assert len({each.id for each in chunks}) == 1
    assert threads_of(server, user) == []


def test_an_error_of_the_model_is_told_for_housekeeping_too(client: OpenAI, engine: StandInEngine) -> None:
    engine.control("status", status=500, times=1)
    with pytest.raises(openai.InternalServerError):
        ask(client, [user_says(TITLE)])


@pytest.mark.parametrize(
    "said",
    ["### Task:\nWrite a poem about <chat_history>.", "What does <chat_history>x</chat_history> mean?"],
    ids=["no history in it", "no heading before it"],
)
def test_what_a_person_says_about_such_prompts_is_kept(
    client: OpenAI, server: Server, user: str, said: str
) -> None:
    # An Open WebUI that does not know the placeholder sends it as it is, with every message.
    answered = ask(client, [user_says(said)], headers={"X-OpenWebUI-Task": "{{TASK}}"})
    assert threads_of(server, user) == [answered.thread]
    assert kept(server, answered.thread) == (2, 0)


def test_messages_that_are_called_examples_are_no_memories(
    client: OpenAI, server: Server, engine: StandInEngine, user: str
) -> None:
    examples = [
        {"role": "user", "name": "example_user", "content": "My dog is called Rex."},
        {"role": "assistant", "name": "example_assistant", "content": "Rex, a dog."},
    ]
    answered = ask(client, [*examples, user_says("My cat is called Tom.")])
    assert kept(server, answered.thread) == (4, 2)
    assert conversation(engine) == ["My dog is called Rex.", "Rex, a dog.", "My cat is called Tom."]
    wait_until(lambda: found(server, user, "called"), "the message is found")
    assert not [text for text in found(server, user, "dog called Rex") if "Rex" in text]


def test_an_exchange_that_a_client_puts_first_again_is_an_example_in_both_threads(
    client: OpenAI, server: Server, user: str
) -> None:
    shots = [user_says("My dog is called Rex."), assistant_says("Rex, a dog.")]
    first = ask(client, [*shots, user_says("My cat is called Tom.")])
    assert kept(server, first.thread) == (4, 0), "it may be a conversation that was brought along"
    wait_until(lambda: [text for text in found(server, user, "Rex") if "Rex" in text], "it is found")
    second = ask(client, [*shots, user_says("My bird is called Pip.")])
    for thread in (first.thread, second.thread):
        assert kept(server, thread) == (4, 2)
    wait_until(
        lambda: not [text for text in found(server, user, "Rex") if "Rex" in text], "it is found no more"
    )
    counts = server.client.get("/api/v1/coverage", params={"user_id": user}).json()
    assert (counts["messages"], counts["skipped"], counts["missing"], counts["doubled"]) == (8, 4, 0, 0)
    again = ask(
        client, [*shots, user_says("My cat is called Tom."), assistant_says(first.text), user_says("?")]
    )
    assert again.thread == first.thread
    assert recollect_json(server.home, "verify")["problems"] == []
