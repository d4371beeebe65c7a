"""OpenAI's Agents SDK as it is installed: its default model speaks `/v1/responses`."""

import sys
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

import pytest
from agents import (
    Agent,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI

from tests.openai_clients import conversation, engine, running, server, texts, threads_of, user
from tests.processes import Server
from tests.standins.standin_engines import StandInEngine

__all__ = ["engine", "running", "server", "user"]
set_tracing_disabled(True)
sys.stdout.write(f"openai-agents {version('openai-agents')}\n")


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@pytest.fixture
async def client(server: Server, engine: StandInEngine, user: str) -> AsyncIterator[AsyncOpenAI]:
    headers = {"X-Recollect-User": quote(user)}
    base = f"{server.address}/v1"
    async with AsyncOpenAI(base_url=base, api_key="none", max_retries=0, default_headers=headers) as client:
        yield client


@pytest.fixture
def agent(client: AsyncOpenAI) -> Agent[Any]:
    model = OpenAIResponsesModel(model="recollect", openai_client=client)
    return Agent(name="Helper", instructions="Be kind.", model=model, tools=[weather])


async def test_a_run_with_a_tool_is_one_thread(
    agent: Agent[Any], server: Server, engine: StandInEngine, user: str
) -> None:
    engine.control(tool_call=True, times=1)
    result = await Runner.run(agent, "the weather in Porto?")
    assert result.final_output == "You said: sunny in Porto"
    more: list[Any] = [*result.to_input_list(), {"role": "user", "content": "thanks"}]
    assert (await Runner.run(agent, more)).final_output == "You said: thanks"
    (thread,) = threads_of(server, user)
    assert texts(server, thread) == [
        "the weather in Porto?", "", "sunny in Porto", "You said: sunny in Porto", "thanks", "You said: thanks",
    ]  # fmt: skip
    assert "Be kind." in engine.chats()[-1]["messages"][0]["content"]


async def test_a_run_streams_and_follows_the_response_before(
    agent: Agent[Any], server: Server, engine: StandInEngine, user: str
) -> None:
    first = Runner.run_streamed(agent, "one two three")
    told = [
        event.data.delta
        async for event in first.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    assert "".join(told) == first.final_output == "You said: one two three"
    second = await Runner.run(agent, "four", previous_response_id=first.last_response_id)
    assert second.final_output == "You said: four"
    assert conversation(engine) == ["one two three", "You said: one two three", "four"]
    assert len(threads_of(server, user)) == 1


async def test_a_session_is_one_conversation_and_nothing_is_in_it_twice(
    agent: Agent[Any], client: AsyncOpenAI, server: Server, engine: StandInEngine, user: str
) -> None:
    session = OpenAIConversationsSession(openai_client=client)
    assert (await Runner.run(agent, "hello", session=session)).final_output == "You said: hello"
    engine.control(tool_call=True, reasoning="hm", times=1)
    asked = await Runner.run(agent, "the weather in Porto?", session=session)
    assert asked.final_output == "You said: sunny in Porto"
    streamed = Runner.run_streamed(agent, "bye", session=session)
    assert [event async for event in streamed.stream_events()]
    assert streamed.final_output == "You said: bye"
    said = [
        "hello", "You said: hello", "the weather in Porto?", "", "sunny in Porto", "You said: sunny in Porto", "bye",
        "You said: bye",
    ]  # fmt: skip
    assert threads_of(server, user) == [session.session_id]
    assert texts(server, session.session_id) == said
    items = await session.get_items()
    assert len(items) == 9  # The call has its reasoning beside it.
    assert len(await session.get_items(limit=3)) == 3
    popped = await session.pop_item()
    assert popped is not None
    assert popped["id"] == items[-1]["id"]  # type: ignore[typeddict-item]
    assert texts(server, session.session_id) == said[:-1]
    await session.clear_session()
    assert threads_of(server, user) == []


async def test_a_run_goes_on_in_a_conversation(
    agent: Agent[Any], client: AsyncOpenAI, server: Server, engine: StandInEngine
) -> None:
    opened = await client.conversations.create()
    engine.control(tool_call=True, times=1)
    await Runner.run(agent, "the weather in Porto?", conversation_id=opened.id)
    await Runner.run(agent, "thanks", conversation_id=opened.id)
    assert texts(server, opened.id)[-3:] == ["You said: sunny in Porto", "thanks", "You said: thanks"]


async def test_what_the_sdk_for_javascript_puts_into_its_session_is_remembered_once(
    client: AsyncOpenAI, server: Server, engine: StandInEngine, user: str
) -> None:
    """As it was captured: it adds question and answer after a response that did not name the conversation."""
    opened = (await client.conversations.create(items=[])).id
    history: list[Any] = []
    for text in ("My sister is in Porto.", "I am in Vienna."):
        asked: Any = {"role": "user", "content": text}
        response = await client.responses.create(model="recollect", input=[*history, asked])
        (said,) = response.output
        answer: Any = said.model_dump(exclude={"id", "phase"}, exclude_none=True)
        await client.conversations.items.create(opened, items=[asked, answer])
        listed = await client.conversations.items.list(opened, order="asc")
        history = [item.model_dump(exclude_none=True) for item in listed.data]
    everything = [
        "My sister is in Porto.", "You said: My sister is in Porto.", "I am in Vienna.", "You said: I am in Vienna.",
    ]  # fmt: skip
    assert texts(server, opened) == everything
    covered = server.client.get("/api/v1/coverage", params={"user_id": user}).json()
    assert covered["messages"] - covered["skipped"] == len(everything)
    await client.conversations.delete(opened)
    assert threads_of(server, user) == []
