"""A memory block for LlamaIndex: `Memory.from_defaults(memory_blocks=[RecollectMemoryBlock()])`.

Messages that leave the short-term memory are stored; what is known about the newest one is told to the model.
"""

import asyncio
import json
import os
import time
from typing import Any

import httpx2
from llama_index.core.base.llms.types import (
    ChatMessage,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.memory import BaseMemoryBlock
from pydantic import Field

ROLES = (MessageRole.USER, MessageRole.ASSISTANT, MessageRole.SYSTEM, MessageRole.TOOL)


class RecollectMemoryBlock(BaseMemoryBlock[str]):
    """Stores words, tool calls and results in the session's thread; thoughts are not said, and left out."""

    name: str = "recollect"
    description: str | None = "What is known from all of the user's chats."
    user_id: str | None = None
    session_id: str = Field(default="llamaindex", description="The thread of messages without a session.")
    max_tokens: int = Field(default=1000, description="How much is told to the model.")

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        asked = [each.content for each in messages or () if each.role == MessageRole.USER and each.content]
        if not asked:
            return ""
        body = {"query": asked[-1][:10_000], "max_tokens": self.max_tokens, "top_k": 10}
        async with connect(self.user_id) as client:
            answer = (await client.post("/memory/search", json=body)).raise_for_status().json()
        return "\n".join(hit["text"] for hit in answer["hits"])

    async def _aput(self, messages: list[ChatMessage]) -> None:
        sessions: dict[str, list[dict[str, Any]]] = {}
        for message in messages:
            session = message.additional_kwargs.get("session_id", self.session_id)
            sessions.setdefault(session, []).append(_as_said(message))
        async with connect(self.user_id) as client:
            for session, said in sessions.items():
                body = {"session_id": session, "messages": said}
                (await client.post("/memory/add", json=body)).raise_for_status()


def _as_said(message: ChatMessage) -> dict[str, Any]:
    if message.role not in ROLES:
        raise NotImplementedError(f"Recollect has no messages of the role {message.role.value!r}")
    if not all(isinstance(block, TextBlock | ThinkingBlock | ToolCallBlock) for block in message.blocks):
        raise NotImplementedError("Recollect's memory/add takes text alone, no images or other blocks")
    calls = [
        {
            "id": block.tool_call_id or "",
            "type": "function",
            "function": {"name": block.tool_name, "arguments": _as_json(block.tool_kwargs)},
        }
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    ]
    return {
        "role": message.role.value,
        "sender_id": message.role.value,
        "timestamp": time.time_ns() // 1_000_000,
        "content": message.content or "",
        **({"tool_calls": calls} if calls else {}),
        **{name: each for name, each in message.additional_kwargs.items() if name == "tool_call_id"},
    }


def _as_json(arguments: dict[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


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
    block = RecollectMemoryBlock()
    await block.aput([ChatMessage("My sister Marta has moved to Porto.", role="user")], session_id="demo")
    await asyncio.sleep(2)  # Search finds it after a moment.
    print(await block.aget([ChatMessage("Where does my sister live?", role="user")]))


if __name__ == "__main__":
    asyncio.run(main())
