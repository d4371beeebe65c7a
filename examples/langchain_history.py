"""LangChain's chat history in a Recollect thread: `RecollectHistory("a session's id")`.

What is said is stored as it stands, and memories are made of it, for all of the user's chats to come.
"""

import os
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import httpx2
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    convert_to_messages,
    convert_to_openai_messages,
)


class RecollectHistory(BaseChatMessageHistory):
    """The messages of one thread: text, tool calls and their results."""

    def __init__(self, session_id: str, *, user_id: str | None = None) -> None:
        super().__init__()
        self.session_id = session_id
        self._thread = f"/threads/{quote(session_id, safe='')}"
        self._client = connect(user_id)

    @property
    def messages(self) -> list[BaseMessage]:
        answer = self._client.get(f"{self._thread}/turns", params={"max_turns": 1_000_000})
        if answer.status_code == 404:  # Nothing was said yet.
            return []
        return convert_to_messages([_as_shown(turn) for turn in answer.raise_for_status().json()["turns"]])

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """All of them or, where one can't be stored, none."""
        said = [_as_said(message) for message in messages]
        if said:
            body = {"session_id": self.session_id, "messages": said}
            self._client.post("/memory/add", json=body).raise_for_status()

    def clear(self) -> None:
        """Forgets the thread, with all memories that were made of it."""
        answer = self._client.delete(self._thread)
        if answer.status_code != 404:
            answer.raise_for_status()


def _as_shown(turn: dict[str, Any]) -> dict[str, Any]:
    given = {name: turn[name] for name in ("tool_calls", "tool_call_id") if turn[name]}
    name = {} if turn["sender_id"] == turn["role"] else {"name": turn["sender_id"]}
    return {"role": turn["role"], "content": turn["content"], **given, **name}


def _as_said(message: BaseMessage) -> dict[str, Any]:
    said = convert_to_openai_messages(message, text_format="string")
    if not isinstance(said["content"], str):
        raise NotImplementedError("Recollect's memory/add takes text alone, no images or other blocks")
    if said["role"] not in ("user", "assistant", "system", "tool"):
        raise NotImplementedError(f"Recollect has no messages of the role {said['role']!r}")
    names = ("role", "content", "tool_calls", "tool_call_id")
    return {
        **{name: said[name] for name in names if name in said},
        "sender_id": said.get("name", said["role"]),
        "timestamp": time.time_ns() // 1_000_000,
    }


def connect(user_id: str | None = None) -> httpx2.Client:
    """The server at RECOLLECT_URL. A key in RECOLLECT_API_KEY may name the user; without one it is `me`."""
    key = os.environ.get("RECOLLECT_API_KEY")
    user = user_id or (None if key else "me")
    return httpx2.Client(
        base_url=os.environ.get("RECOLLECT_URL", "http://127.0.0.1:8600") + "/api/v1",
        headers={"Authorization": f"Bearer {key}"} if key else {},
        params={"user_id": user} if user else {},
        timeout=60,
    )


if __name__ == "__main__":
    history = RecollectHistory("langchain-demo")
    history.clear()
    history.add_messages([HumanMessage("My sister Marta has moved to Porto."), AIMessage("How nice!")])
    for message in RecollectHistory("langchain-demo").messages:
        print(f"{message.type}: {message.content}")
