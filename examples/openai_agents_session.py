"""A session of OpenAI's Agents SDK in a Recollect thread: `Runner.run(agent, text, session=RecollectSession("1"))`.

For any model. With Recollect as the model's server, the SDK's own `OpenAIConversationsSession` does the same.
"""

import asyncio
import json
import os
from typing import Any, cast
from urllib.parse import quote

import httpx2
from agents import TResponseInputItem
from agents.memory import SessionABC, SessionSettings

ALL = 1_000_000


class RecollectSession(SessionABC):
    """One turn for each item. What search and memory read is its words; the item itself is kept beside them."""

    def __init__(self, session_id: str, *, user_id: str | None = None, limit: int | None = None) -> None:
        self.session_id = session_id
        self.session_settings = SessionSettings(limit=limit)
        self._turns = f"/threads/{quote(session_id, safe='')}/turns"
        self._client = connect(user_id)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        wanted = limit if limit is not None else self.session_settings.limit
        return [_as_item(turn) for turn in await self._newest(ALL if wanted is None else wanted)]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        for body in [_as_turn(cast("dict[str, Any]", item)) for item in items]:
            (await self._client.post(self._turns, json=body)).raise_for_status()

    async def pop_item(self) -> TResponseInputItem | None:
        """Forgets it, with all that was made of it."""
        for turn in await self._newest(1):
            (await self._client.delete(f"{self._turns}/{turn['turn_id']}")).raise_for_status()
            return _as_item(turn)
        return None

    async def clear_session(self) -> None:
        """Forgets the thread, with all memories that were made of it."""
        answer = await self._client.delete(self._turns.removesuffix("/turns"))
        if answer.status_code != 404:
            answer.raise_for_status()

    async def _newest(self, number: int) -> list[dict[str, Any]]:
        if number < 1:
            return []
        answer = await self._client.get(self._turns, params={"max_turns": number})
        if answer.status_code == 404:  # Nothing was said yet.
            return []
        turns: list[dict[str, Any]] = answer.raise_for_status().json()["turns"]
        return turns


def _words(item: dict[str, Any]) -> str:
    content = item.get("output" if item.get("type") == "function_call_output" else "content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("text"))


def _as_turn(item: dict[str, Any]) -> dict[str, Any]:
    """Messages and function calls are turns of their own kind; other items are kept, and nobody said them."""
    kept = {"content": _words(item), "reasoning": json.dumps(item, ensure_ascii=False)}
    if kept["content"] and item == {"role": item.get("role"), "content": kept["content"]}:
        return item
    if item.get("role") in ("user", "assistant", "system") and kept["content"]:
        return {**kept, "role": item["role"]}
    if item.get("type") == "function_call":
        function = {"name": item["name"], "arguments": item["arguments"]}
        call = {"id": item["call_id"], "type": "function", "function": function}
        return {**kept, "role": "assistant", "tool_calls": [call]}
    if item.get("type") == "function_call_output":
        return {**kept, "role": "tool", "tool_call_id": item["call_id"]}
    return {**kept, "role": "tool", "content": ""}


def _as_item(turn: dict[str, Any]) -> TResponseInputItem:
    """The item as it was, unless its words were edited in the vault or it came from elsewhere."""
    kept = turn["reasoning"] or ""
    item = json.loads(kept) if kept.startswith("{") else {}
    if turn["role"] == "tool" or turn["tool_calls"]:
        if not item:
            raise NotImplementedError("a tool's turn that did not come from the Agents SDK can't be an item")
    elif turn["content"] != _words(item):
        item = {"role": turn["role"], "content": turn["content"]}
    return cast("TResponseInputItem", item)


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
    session = RecollectSession("agents-demo")
    await session.clear_session()
    await session.add_items([{"role": "user", "content": "My sister Marta has moved to Porto."}])
    await session.add_items([{"role": "assistant", "content": "How nise!"}])
    print("taken back:", await session.pop_item())
    await session.add_items([{"role": "assistant", "content": "How nice!"}])
    for item in await session.get_items():
        print(item)


if __name__ == "__main__":
    asyncio.run(main())
