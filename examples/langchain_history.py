"""LangChain's chat history in a Recollect thread: `RecollectHistory("a session's id")`.

What is said is stored as it stands, and memories are made of it, for all of the user's chats to come.
"""

import json
import os
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
    message_to_dict,
    messages_from_dict,
)


class RecollectHistory(BaseChatMessageHistory):
    """The messages of one thread: text, tool calls, their results, and all metadata. They come back as they were."""

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
        return [_as_shown(turn) for turn in answer.raise_for_status().json()["turns"]]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """None of them, where one is of a kind that can't be stored."""
        for said in [_as_said(message) for message in messages]:
            self._client.post(f"{self._thread}/turns", json=said).raise_for_status()

    def clear(self) -> None:
        """Forgets the thread, with all memories that were made of it."""
        answer = self._client.delete(self._thread)
        if answer.status_code != 404:
            answer.raise_for_status()


def _as_shown(turn: dict[str, Any]) -> BaseMessage:
    """The message as it was, unless its words were edited in the vault or it came from elsewhere."""
    kept = turn["reasoning"] or ""
    if kept.startswith("{"):
        (message,) = messages_from_dict([json.loads(kept)])
        if message.text == turn["content"]:
            return message
    given = {name: turn[name] for name in ("tool_calls", "tool_call_id") if turn[name]}
    (message,) = convert_to_messages([{"role": turn["role"], "content": turn["content"], **given}])
    return message


def _as_said(message: BaseMessage) -> dict[str, Any]:
    said = convert_to_openai_messages(message, text_format="string")
    if not isinstance(said["content"], str):
        raise NotImplementedError("Recollect searches text: this adapter takes no images or other blocks")
    if said["role"] not in ("user", "assistant", "system", "tool"):
        raise NotImplementedError(f"Recollect has no messages of the role {said['role']!r}")
    names = ("role", "content", "tool_calls", "tool_call_id")
    name = {"sender_id": message.name} if message.name else {}
    kept = json.dumps(message_to_dict(message), ensure_ascii=False)
    return {**{name: said[name] for name in names if name in said}, **name, "reasoning": kept}


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
