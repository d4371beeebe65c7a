"""The message history of a pydantic-ai agent in a Recollect thread:

    history = RecollectHistory("a conversation's id")
    result = await agent.run(text, message_history=await history.load())
    await history.add(result.new_messages())

It is no `ConversationStore`: that one writes messages and a revision at once, and Recollect has no such route.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import httpx2
from pydantic_ai import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelResponse, TextPart
from pydantic_ai.messages import ToolCallPart, ToolReturnPart, UserPromptPart


class RecollectHistory:
    """One turn for each message. What search and memory read is its words; the message is kept beside them."""

    def __init__(self, conversation_id: str, *, user_id: str | None = None) -> None:
        self._turns = f"/threads/{quote(conversation_id, safe='')}/turns"
        self._client = connect(user_id)

    async def load(self, limit: int = 1_000_000) -> list[ModelMessage]:
        answer = await self._client.get(self._turns, params={"max_turns": limit})
        if answer.status_code == 404:  # Nothing was said yet.
            return []
        return [_as_message(turn) for turn in answer.raise_for_status().json()["turns"]]

    async def add(self, messages: Sequence[ModelMessage]) -> None:
        for body in [_as_turn(message) for message in messages]:
            (await self._client.post(self._turns, json=body)).raise_for_status()

    async def clear(self) -> None:
        """Forgets the thread, with all memories that were made of it."""
        answer = await self._client.delete(self._turns.removesuffix("/turns"))
        if answer.status_code != 404:
            answer.raise_for_status()


def _words(message: ModelMessage) -> str:
    """What the person or the model said; else what tools returned."""
    parts = message.parts
    said = [part.content for part in parts if isinstance(part, TextPart)]
    for part in parts:
        if isinstance(part, UserPromptPart):
            given = [part.content] if isinstance(part.content, str) else part.content
            said += [each for each in given if isinstance(each, str)]
    return "\n".join(
        said or [part.model_response_str() for part in parts if isinstance(part, ToolReturnPart)]
    )


def _as_turn(message: ModelMessage) -> dict[str, Any]:
    words = _words(message)
    kept = {"content": words, "reasoning": ModelMessagesTypeAdapter.dump_json([message]).decode()}
    if isinstance(message, ModelRequest):
        is_said = words and any(isinstance(part, UserPromptPart) for part in message.parts)
        return {**kept, "role": "user" if is_said else "tool"}
    calls = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {"name": part.tool_name, "arguments": part.args_as_json_str()},
        }
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]
    return {**kept, "role": "assistant" if words or calls else "tool", "tool_calls": calls or None}


def _as_message(turn: dict[str, Any]) -> ModelMessage:
    """The message as it was, unless its words were edited in the vault or it came from elsewhere."""
    kept = turn["reasoning"] or ""
    message = ModelMessagesTypeAdapter.validate_json(kept)[0] if kept.startswith("[") else None
    is_of_tool = turn["role"] == "tool" or turn["tool_calls"]
    if message is not None and (is_of_tool or _words(message) == turn["content"]):
        return message
    if is_of_tool:
        raise NotImplementedError("a tool's turn that did not come from pydantic-ai can't be a message")
    if turn["role"] == "assistant":
        return ModelResponse(parts=[TextPart(turn["content"])])
    return ModelRequest(parts=[UserPromptPart(turn["content"])])


def connect(user_id: str | None = None) -> httpx2.AsyncClient:
    """The server at RECOLLECT_URL. A key in RECOLLECT_API_KEY may name the user; without one it is `me`."""
    key = os.environ.get("RECOLLECT_API_KEY")
    user = user_id or (None if key else "me")
    return httpx2.AsyncClient(
        base_url=os.environ.get("RECOLLECT_URL", "http://127.0.0.1:8600") + "/api/v1",
        headers={"Authorization": f"Bearer {key}"} if key else {},
        params={"user_id": user} if user else {},
        timeout=60,
    )


async def main() -> None:
    history = RecollectHistory("pydantic-ai-demo")
    await history.clear()
    await history.add([ModelRequest(parts=[UserPromptPart("My sister Marta has moved to Porto.")])])
    await history.add([ModelResponse(parts=[TextPart("How nice!")])])
    for message in await history.load():
        print(message)


if __name__ == "__main__":
    asyncio.run(main())
