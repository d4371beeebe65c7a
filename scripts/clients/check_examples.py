"""Checks of the adapters in `examples/`, each in the environment of its framework: `check_examples.py langchain_history`."""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
SECONDS = 30


def refuses(call: Callable[[], Any]) -> None:
    """What Recollect can't do is said in words."""
    try:
        call()
    except NotImplementedError as error:
        if " " in str(error):
            return
    raise AssertionError("it was not refused in words")


def wait_until(happened: Callable[[], bool]) -> None:
    """Search finds what was stored after a moment."""
    until = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.1)


def langchain_history() -> None:
    from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_history import RecollectHistory

    call = {"name": "add", "args": {"a": 1, "b": 1}, "id": "c1", "type": "tool_call"}
    said = [
        SystemMessage("Be short."),
        HumanMessage("What is 1 + 1?", name="ann"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("2", tool_call_id="c1"),
        AIMessage(
            "It is 2.",
            id="run-1",
            response_metadata={"model_name": "m"},
            usage_metadata={"input_tokens": 9, "output_tokens": 3, "total_tokens": 12},
        ),
    ]
    history = RecollectHistory("a/b ü")
    for _ in range(2):  # Cleared, it begins again.
        history.clear()
        assert history.messages == []
        history.add_messages(said)
        assert history.messages == said, history.messages
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    for unknown in (HumanMessage([image]), ChatMessage("No.", role="critic")):
        refuses(lambda unknown=unknown: history.add_messages([*said, unknown]))
    history.add_messages([])
    assert asyncio.run(history.aget_messages()) == said
    assert RecollectHistory("another").messages == []


def openai_agents_session() -> None:
    from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText
    from openai_agents_session import RecollectSession

    class Echo(Model):
        """Says how many items it was shown."""

        async def get_response(self, **asked: Any) -> ModelResponse:
            words = f"I see {len(asked['input'])}."
            text = ResponseOutputText(type="output_text", text=words, annotations=[])
            said = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
            output = [ResponseOutputMessage.model_validate({**said, "content": [text]})]
            return ModelResponse(output=output, usage=Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    async def check() -> None:
        call = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}", "id": "fc_1"}
        answer = {"type": "output_text", "text": "It is 2.", "annotations": []}
        items: list[Any] = [
            {"role": "user", "content": "What is 1 + 1?"},
            {"role": "user", "content": [{"type": "input_text", "text": "Quick!"}]},
            {"role": "user", "content": [{"type": "input_image", "image_url": "https://x.org/a.png"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"},
            call,
            {"type": "function_call_output", "call_id": "c1", "output": "2"},
            {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [answer]},
        ]
        session = RecollectSession("a/b ü")
        for _ in range(2):
            await session.clear_session()
            assert await session.get_items() == []
            assert await session.pop_item() is None
            await session.add_items(items)
            assert await session.get_items() == items, await session.get_items()
        assert await session.get_items(2) == items[-2:]
        assert await session.get_items(0) == []
        assert await session.pop_item() == items[-1]
        assert await session.get_items() == items[:-1]
        run = RecollectSession("run")
        await run.clear_session()
        set_tracing_disabled(True)
        for expected in ("I see 1.", "I see 3."):
            result = await Runner.run(Agent(name="Helper", model=Echo()), "Hello!", session=run)
            assert result.final_output == expected, result.final_output

    asyncio.run(check())


def langgraph_store() -> None:
    from langgraph.store.base import GetOp, PutOp
    from langgraph_store import RecollectStore

    store = RecollectStore()
    people = ("check", "ü/people")
    store.put(people, "a", {"name": "Ann", "age": 30, "home": {"city": "Vienna", "floor": 2}})
    store.put(people, "b", {"name": "Ben", "age": 41})
    store.put(("check", "places"), "a", {"text": "---\nA city"})
    first = store.get(people, "a")
    assert first is not None
    assert (first.namespace, first.key, first.value["home"]["city"]) == (people, "a", "Vienna")
    store.put(people, "a", {**first.value, "age": 31})
    second = store.get(people, "a")
    assert second is not None
    assert (second.created_at, second.value["age"]) == (first.created_at, 31)
    assert second.updated_at > first.updated_at
    assert store.get(people, "c") is None
    assert store.get(("check",), "a") is None

    def keys(**options: Any) -> list[str]:
        return [item.key for item in store.search(("check", "ü/people"), **options)]

    assert keys() == ["a", "b"]
    assert keys(limit=1, offset=1) == ["b"]
    assert keys(filter={"age": {"$gt": 35}}) == keys(filter={"name": "Ben"}) == ["b"]
    assert keys(filter={"home": {"city": "Vienna"}}) == ["a"]
    wait_until(lambda: keys(query="the age of Ben")[:1] == ["b"])
    assert len(store.search(("check",))) == 3
    assert store.list_namespaces(prefix=("check",)) == [("check", "places"), people]
    assert store.list_namespaces(suffix=("places",)) == [("check", "places")]
    assert store.list_namespaces(prefix=("check", "*"), max_depth=1) == [("check",)]
    refuses(lambda: store.put(people, "c", {}, index=["name"]))
    refuses(lambda: store.put(people, "c", {}, ttl=5))
    operations = [GetOp(people, "b"), PutOp(people, "b", {"name": "B"}), PutOp(people, "b", None)]
    before, *_ = asyncio.run(store.abatch(operations))
    assert before is not None
    assert store.get(people, "b") is None
    store.delete(people, "b")  # Nothing is there.
    for item in store.search(("check",)):
        store.delete(item.namespace, item.key)
    assert store.list_namespaces(prefix=("check",)) == []


def llamaindex_memory() -> None:
    from llama_index.core.base.llms.types import ChatMessage, ImageBlock, ToolCallBlock
    from llama_index.core.memory import Memory
    from llamaindex_memory import RecollectMemoryBlock, connect

    block = RecollectMemoryBlock()

    async def check() -> None:
        assert await block.aget() == ""
        memory = Memory.from_defaults(
            session_id="check",
            token_limit=30,
            chat_history_token_ratio=0.5,
            token_flush_size=5,
            memory_blocks=[block],
            tokenizer_fn=str.split,
        )
        await memory.aput(ChatMessage("My brother Ben works in Oslo as a baker.", role="user"))
        for number in range(8):
            await memory.aput(ChatMessage(f"And the answer to question {number} is good.", role="assistant"))
        asked = ChatMessage("Where does my brother work?", role="user")
        await memory.aput(asked)
        await asyncio.to_thread(wait_until, lambda: "Oslo" in asyncio.run(block.aget([asked])))
        told = " ".join(str(message.content) for message in await memory.aget())
        assert "Oslo" in told, told
        call = ToolCallBlock(tool_call_id="c1", tool_name="add", tool_kwargs={"a": 1})
        result = ChatMessage("2", role="tool", additional_kwargs={"tool_call_id": "c1"})
        await block.aput([ChatMessage(role="assistant", blocks=[call]), result], session_id="tools")
        async with connect() as client:
            turns = (await client.get("/threads/tools/turns")).raise_for_status().json()["turns"]
        assert turns[0]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a": 1}'}
        assert (turns[1]["role"], turns[1]["tool_call_id"]) == ("tool", "c1")

    asyncio.run(check())
    image = ChatMessage(role="user", blocks=[ImageBlock(url="https://x.org/a.png")])
    for unknown in (image, ChatMessage("No.", role="developer")):
        refuses(lambda unknown=unknown: asyncio.run(block.aput([unknown])))


def pydantic_ai_history() -> None:
    from pydantic_ai import Agent, ModelRequest, ModelResponse, TextPart
    from pydantic_ai.messages import BinaryImage, ThinkingPart, UserPromptPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai_history import RecollectHistory

    agent = Agent(TestModel(), system_prompt="Be short.")

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        return a + b

    async def check() -> None:
        history = RecollectHistory("a/b ü")
        for _ in range(2):
            await history.clear()
            assert await history.load() == []
            first = await agent.run("What is 1 + 1?", message_history=await history.load())
            await history.add(first.new_messages())
            assert await history.load() == first.all_messages()
        second = await agent.run("And again?", message_history=await history.load())
        await history.add(second.new_messages())
        assert await history.load() == second.all_messages()
        assert await history.load(limit=1) == second.all_messages()[-1:]
        image = BinaryImage(b"\x89PNG", media_type="image/png")
        others = [
            ModelRequest(parts=[UserPromptPart(["Look:", image])]),
            ModelRequest(parts=[UserPromptPart([image])]),
            ModelResponse(parts=[ThinkingPart("Hm.", signature="s")]),
            ModelResponse(parts=[ThinkingPart("Hm.", signature="s"), TextPart("A cat.")]),
        ]
        await history.add(others)
        assert await history.load(limit=4) == others

    asyncio.run(check())


def crewai_storage() -> None:
    from crewai.memory.storage.backend import StorageBackend
    from crewai.memory.types import MemoryRecord
    from crewai.memory.unified_memory import Memory
    from crewai_storage import RecollectStorage

    storage = RecollectStorage()
    assert isinstance(storage, StorageBackend)
    storage.reset("/check")
    first = MemoryRecord(
        id="a/1",
        content="Ben bakes bread\n---\nin Oslo.",
        scope="/check/people",
        categories=["work"],
        metadata={"by": "ann"},
    )
    second = MemoryRecord(content="Ann paints.", scope="/check/people/artists", categories=["art", "work"])
    storage.save([first, second])
    assert storage.get_record("a/1") == first
    assert storage.get_record("none") is None
    assert storage.list_records("/check") == [second, first]
    assert storage.list_records("/check", limit=1, offset=1) == [first]
    assert storage.list_scopes("/check") == ["/check/people"]
    assert storage.list_categories("/check") == {"work": 2, "art": 1}
    info = storage.get_scope_info("/check/people")
    assert (info.record_count, info.child_scopes) == (2, ["/check/people/artists"])
    assert (info.oldest_record, info.newest_record) == (first.created_at, second.created_at)
    storage.update(second.model_copy(update={"content": "Ann paints houses."}))
    query = storage.embed(["Who bakes bread in Oslo?"])[0]
    wait_until(lambda: len(storage.search(query, "/check")) == 2)
    [(best, score), _] = storage.search(query, "/check")
    assert best == first
    assert 0.3 < score <= 1
    assert storage.search(query, "/check", ["art"])[0][0].content == "Ann paints houses."
    assert storage.search(query, "/check", metadata_filter={"by": "ann"}, limit=1) == [(first, score)]
    assert storage.search(query, "/check", min_score=1.1) == []
    refuses(lambda: storage.search([0.5] * len(query)))
    memory = Memory(storage=storage, embedder=storage.embed, root_scope="/check")
    wait_until(lambda: "Oslo" in memory.recall("Who bakes bread?", depth="shallow")[0].record.content)
    assert storage.delete(record_ids=["a/1"], scope_prefix="/check") == 1
    assert asyncio.run(storage.adelete(scope_prefix="/check", older_than=second.created_at)) == 0
    storage.reset("/check")
    assert storage.count("/check") == 0


CHECKS = (
    crewai_storage,
    langchain_history,
    langgraph_store,
    llamaindex_memory,
    openai_agents_session,
    pydantic_ai_history,
)

if __name__ == "__main__":
    {check.__name__: check for check in CHECKS}[sys.argv[1]]()
