"""Chatting with a server in tests."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from tests.http_client import QUICK, Json, turns

__all__ = ["turns"]

ASKING: Json = {"user_id": "ann", "memory": False}
"""Without memory, unless a test is about it: what was said in another test is not recalled."""


def with_backend(base_url: str, **settings: str) -> dict[str, str]:
    """Settings of a quick server that chats with this backend, and recalls however busy the machine is."""
    given = {f"RECOLLECT_{name}": value for name, value in settings.items()}
    return {**QUICK, "RECOLLECT_LLM__BASE_URL": base_url, "RECOLLECT_CHAT__RECALL_SECONDS": "30", **given}


def say(client: httpx2.Client, thread: str, content: str, **fields: Any) -> Json:
    """One chat turn, waited for."""
    answer: Json = post(client, thread, content, **fields).raise_for_status().json()
    return answer


def post(
    client: httpx2.Client, thread: str, content: str | None, key: str | None = None, **fields: Any
) -> httpx2.Response:
    body = {**ASKING, **({} if content is None else {"content": content}), **fields}
    headers = {} if key is None else {"Idempotency-Key": key}
    return client.post(f"/api/v1/threads/{thread}/messages", json=body, headers=headers)


def prompt(client: httpx2.Client, thread: str, turn_id: str, **query: str) -> Json:
    answer: Json = (
        client.get(f"/api/v1/threads/{thread}/turns/{turn_id}/prompt", params=query).raise_for_status().json()
    )
    return answer


@contextmanager
def streamed(client: httpx2.Client, thread: str, content: str, **fields: Any) -> Iterator[Iterator[Json]]:
    """The events of a chat turn, as they come."""
    body = {**ASKING, "content": content, "stream": True, **fields}
    with client.stream("POST", f"/api/v1/threads/{thread}/messages", json=body) as response:
        assert response.status_code == 200, response.read()
        yield events(response)


@contextmanager
def joined(client: httpx2.Client, thread: str, **query: str) -> Iterator[Iterator[Json]]:
    with client.stream("GET", f"/api/v1/threads/{thread}/stream", params=query) as response:
        assert response.status_code == 200, response.read()
        yield events(response)


def events(response: httpx2.Response) -> Iterator[Json]:
    """Each with `id`, `event` and `data`."""
    event: Json = {}
    for line in response.iter_lines():
        if not line and event:
            yield event
            event = {}
        elif line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            event[name] = json.loads(value) if name == "data" else value


def text_of(found: list[Json]) -> str:
    """The answer that the events tell."""
    return "".join(event["data"]["text"] for event in found if event["event"] == "delta")
