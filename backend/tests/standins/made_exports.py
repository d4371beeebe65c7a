"""Exports as chat services deliver them, of any size: `say` tells what each message says."""

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]
START = 1_700_000_000
DAY = 86_400


def words(conversation: int, message: int) -> str:
    """Different for each message, and known without looking it up."""
    return f"Message {message} of conversation {conversation}: about the {conversation * 7 % 97}th matter."


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def chatgpt(number: int, messages: int, say: Callable[[int, int], str] = words) -> Json:
    """A tree with its hidden root and system message, and a second answer to the first question."""
    began = START + number * DAY
    mapping: Json = {
        "root": {"id": "root", "parent": None, "children": ["system"], "message": None},
        "system": _node("system", "root", "system", "", None, {"is_visually_hidden_from_conversation": True}),
    }
    before = "system"
    for each in range(messages):
        name = f"c{number}-m{each}"
        role = "user" if each % 2 == 0 else "assistant"
        mapping[name] = _node(name, before, role, say(number, each), began + 60 * each)
        before = name
    return {
        "title": f"Conversation {number}", "create_time": float(began), "update_time": began + 60.0 * messages,
        "conversation_id": f"conversation-{number}", "current_node": before, "mapping": mapping,
    }  # fmt: skip


def _node(
    name: str, parent: str, role: str, text: str, time: float | None, metadata: Json | None = None
) -> Json:
    content = {"content_type": "text", "parts": [text]}
    message = {
        "id": name, "author": {"role": role}, "create_time": time, "content": content, "recipient": "all",
        "metadata": metadata or {},
    }  # fmt: skip
    return {"id": name, "parent": parent, "children": [], "message": message}


def branch(export: Json, parent: str, name: str, role: str, text: str) -> None:
    """Another continuation, which the person has left again."""
    export["mapping"][name] = _node(name, parent, role, text, export["create_time"] + 30)


def claude(number: int, messages: int, say: Callable[[int, int], str] = words) -> Json:
    began = START + number * DAY
    return {
        "uuid": f"conversation-{number}", "name": f"Conversation {number}", "created_at": iso(began),
        "updated_at": iso(began + 60 * messages),
        "chat_messages": [
            {
                "uuid": f"c{number}-m{each}", "sender": "human" if each % 2 == 0 else "assistant",
                "created_at": iso(began + 60 * each), "text": say(number, each),
                "content": [{"type": "text", "text": say(number, each)}], "attachments": [], "files": [],
            }
            for each in range(messages)
        ],
    }  # fmt: skip


def open_webui(number: int, messages: int, say: Callable[[int, int], str] = words) -> Json:
    began = START + number * DAY
    names = [f"c{number}-m{each}" for each in range(messages)]
    told = {
        name: {
            "id": name, "parentId": names[each - 1] if each else None, "childrenIds": names[each + 1 : each + 2],
            "role": "user" if each % 2 == 0 else "assistant", "content": say(number, each),
            "timestamp": began + 60 * each, "model": "llama3",
        }
        for each, name in enumerate(names)
    }  # fmt: skip
    history = {"currentId": names[-1], "messages": told}
    chat = {"title": f"Conversation {number}", "models": ["llama3"], "history": history, "messages": []}
    return {
        "id": f"conversation-{number}",
        "title": f"Conversation {number}",
        "created_at": began,
        "chat": chat,
    }


def claude_code(number: int, messages: int, say: Callable[[int, int], str] = words) -> list[Json]:
    """A session: each answer is followed by a tool call and its result, as a coding agent has them."""
    began, session = START + number * DAY, f"session-{number}"
    lines: list[Json] = [{"type": "queue-operation", "operation": "enqueue", "sessionId": session}]
    before: str | None = None

    def add(name: str, role: str, content: Any, seconds: int, **more: Any) -> None:
        nonlocal before
        lines.append({
            "type": role, "uuid": name, "parentUuid": before, "sessionId": session, "isSidechain": False,
            "cwd": "/work", "version": "2.0.1", "timestamp": iso(began + seconds),
            "message": {"role": role, "content": content}, **more,
        })  # fmt: skip
        before = name

    for each in range(messages):
        name, text = f"c{number}-m{each}", say(number, each)
        if each % 2 == 0:
            add(name, "user", text, 60 * each)
            continue
        add(name, "assistant", [{"type": "text", "text": text}], 60 * each)
        call = {"type": "tool_use", "id": f"call-{each}", "name": "Read", "input": {"path": "a.py"}}
        add(f"{name}-call", "assistant", [call], 60 * each + 1)
        result = {"type": "tool_result", "tool_use_id": f"call-{each}", "content": "x = 1"}
        add(f"{name}-result", "user", [result], 60 * each + 2, toolUseResult={"stdout": "x = 1"})
    return [*lines, {"type": "summary", "summary": f"Conversation {number}", "leafUuid": before}]


MAKERS = {"ChatGPT": chatgpt, "Claude": claude, "Open WebUI": open_webui}


def written(conversations: Iterable[Json]) -> Iterator[bytes]:
    """The bytes of an export, a conversation at a time."""
    yield b"["
    for number, each in enumerate(conversations):
        yield (b",\n" if number else b"") + json.dumps(each).encode()
    yield b"]"


def export(form: str, conversations: int, messages: int) -> bytes:
    return b"".join(written(MAKERS[form](number, messages) for number in range(conversations)))


def lines(told: Iterable[Json]) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in told)


def zipped(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()
