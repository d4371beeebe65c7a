"""Items of OpenAI's Responses and Conversations: what of them is a turn, and a turn as items.

Ids are derived: a response is an answer's turn, a conversation is a thread, an item is a part of a turn.
"""

import hashlib
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from recollect.domain.history_matching import text_parts
from recollect.domain.identity import thread_key
from recollect.domain.identity import turn_id as turn_id_of
from recollect.domain.model import JsonObject, NewTurn, ThreadRef, Turn
from recollect.entrypoints.http.openai_schemas import Lenient
from recollect.entrypoints.http.requests import Id, Objects, Said, Text
from recollect.errors import InvalidInput, NotFound

Status = Literal["in_progress", "completed", "incomplete"]
INSTRUCTING = ("system", "developer")
CONVERSATION = "conv_"
"""How the ids of threads begin that are opened as conversations."""
_response = re.compile(r"resp_(\d{1,18})_([A-Za-z0-9_-]+)").fullmatch
_item = re.compile(r"(?:msg|fc|fco|rs)_(\d{1,18})(?:-\d+)?_([A-Za-z0-9_-]+)").fullmatch


def response_id(thread: ThreadRef, turn_id: str, *, stored: bool = True) -> str:
    """Names an answer of a thread. One that is not stored leads nowhere."""
    if not stored or not thread.thread_id:
        return f"resp_{hashlib.sha256(f'{thread_key(thread)} {turn_id}'.encode()).hexdigest()[:32]}"
    return f"resp_{turn_id.removeprefix('t-')}_{_encoded(thread)}"


def read_response_id(response: str, field: str | None = None) -> tuple[str, str]:
    """Thread and turn. Raises NotFound for what `response_id` did not make."""
    found = _response(response)
    thread_id = _decoded(found[2]) if found else None
    if found is None or thread_id is None:
        raise no_response(response, field)
    return thread_id, turn_id_of(int(found[1]))


def no_response(response: str, field: str | None = None) -> NotFound:
    return NotFound(f"there is no response {response[:200]!r}", field=field)


def item_id(kind: str, thread: ThreadRef, turn_id: str, number: int = 0) -> str:
    place = turn_id.removeprefix("t-")
    return f"{kind}_{place}" + (f"-{number}" if number else "") + f"_{_encoded(thread)}"


def read_item_id(item: str, field: str | None = None) -> tuple[str, str]:
    """Thread and turn. Raises NotFound for what `item_id` did not make."""
    found = _item(item)
    thread_id = _decoded(found[2]) if found else None
    if found is None or thread_id is None:
        raise no_item(item, field)
    return thread_id, turn_id_of(int(found[1]))


def no_item(item: str, field: str | None = None) -> NotFound:
    return NotFound(f"there is no item {item[:200]!r}", field=field)


def _encoded(thread: ThreadRef) -> str:
    return urlsafe_b64encode(thread.thread_id.encode()).decode().rstrip("=") or thread_key(thread)[:16]


def _decoded(encoded: str) -> str | None:
    try:
        thread_id = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except ValueError:
        return None
    return thread_id if thread_id and "\x00" not in thread_id else None


class InputItem(Said, Lenient):
    """One item as a client sends it; without a type it is a message."""

    type: Text | None = None
    id: Text | None = None
    role: Text | None = None
    content: Text | Objects | None = None
    call_id: Id | None = None
    name: Text | None = None
    arguments: Text | None = None
    output: Text | Objects | None = None
    summary: Objects | None = None

    @property
    def refers_to(self) -> str | None:
        """The item that it stands for; some clients leave the type out."""
        is_reference = self.type == "item_reference" or (self.type is None and self.role is None)
        return self.id if is_reference else None


class Turns:
    """Turns that items make. What an assistant says and calls in one go is one turn."""

    def __init__(self, now: int, field: str) -> None:
        self.turns: dict[int, NewTurn] = {}
        """By the place of their first item."""
        self._now, self._field = now, field
        self._open: int | None = None
        """The assistant's turn that calls are added to."""
        self._reasoning = ""

    @classmethod
    def of(cls, items: Sequence[InputItem], now: int, field: str) -> "Turns":
        """Raises InvalidInput, which names the item, for one that has no place in a thread."""
        made = cls(now, field)
        for place, item in enumerate(items):
            made._add(place, item)
        return made

    def _add(self, place: int, item: InputItem) -> None:
        where = f"{self._field}[{place}]"
        kind = item.type or "message"
        if kind == "reasoning":
            self._reasoning = "\n".join(_words([*_objects(item.summary), *_objects(item.content)]))
            self._open = None
        elif kind == "function_call":
            call_id, name = _given(item.call_id, where, "call_id"), _given(item.name, where, "name")
            function = {"name": name, "arguments": item.arguments or ""}
            self._call(place, {"id": call_id, "type": "function", "function": function})
        elif kind == "function_call_output":
            call_id = _given(item.call_id, where, "call_id")
            said = self._turn("tool", item.output or "", f"{where}.output")
            self.turns[place] = replace(said, tool_call_id=call_id)
            self._open = None
        elif kind == "message":
            self._say(place, item, where)
        else:
            raise InvalidInput(
                f"{where}: items of the type {kind[:100]!r} are not supported; messages, function calls, "
                "their outputs and reasoning are",
                field=f"{where}.type",
            )

    def _say(self, place: int, item: InputItem, where: str) -> None:
        role = item.role
        if role not in ("user", "assistant", *INSTRUCTING):
            raise InvalidInput(
                f"{where}.role: must be user, assistant, system or developer", field=f"{where}.role"
            )
        if item.content is None:
            raise InvalidInput(f"{where}.content: is missing", field=f"{where}.content")
        said = self._turn("system" if role in INSTRUCTING else role, item.content, f"{where}.content")
        if role == "assistant":
            said, self._reasoning = replace(said, reasoning=self._reasoning or None), ""
        self.turns[place] = said
        self._open = place if role == "assistant" else None

    def _call(self, place: int, call: JsonObject) -> None:
        if self._open is None:
            self.turns[place] = NewTurn(
                "assistant", "", self._now, "", tool_calls=[call], reasoning=self._reasoning or None
            )
            self._open, self._reasoning = place, ""
            return
        open_turn = self.turns[self._open]
        self.turns[self._open] = replace(open_turn, tool_calls=[*(open_turn.tool_calls or ()), call])

    def _turn(self, role: str, content: str | list[JsonObject], where: str) -> NewTurn:
        if isinstance(content, str):
            return NewTurn(role, content, self._now, "")  # type: ignore[arg-type]
        parts = [_part(part, f"{where}[{number}]") for number, part in enumerate(content)]
        text = "\n".join(text_parts(parts))
        is_text = all(part["type"] == "text" for part in parts)
        return NewTurn(role, text, self._now, "", parts=None if is_text else parts)  # type: ignore[arg-type]


def _given(value: str | None, where: str, name: str) -> str:
    if not value:
        raise InvalidInput(f"{where}.{name}: is missing", field=f"{where}.{name}")
    return value


def _objects(value: object) -> list[JsonObject]:
    return value if isinstance(value, list) else []


def _words(parts: Sequence[JsonObject]) -> list[str]:
    return [part["text"] for part in parts if isinstance(part.get("text"), str)]


def _part(part: JsonObject, where: str) -> JsonObject:
    """In the form of chat completions, which threads keep."""
    match part:
        case {"type": "input_text" | "output_text" | "text" | "summary_text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "refusal", "refusal": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "input_image", "image_url": str(url)}:
            detail = part.get("detail")
            image = {"url": url, **({"detail": detail} if isinstance(detail, str) else {})}
            return {"type": "image_url", "image_url": image}
        case {"type": "input_file", "file_data": str(data)}:
            return {
                "type": "file",
                "file": {"filename": str(part.get("filename") or "file"), "file_data": data},
            }
        case {"type": "input_audio", "input_audio": dict(audio)}:
            return {"type": "input_audio", "input_audio": audio}
    kind = str(part.get("type"))[:100]
    raise InvalidInput(
        f"{where}: a part of the type {kind!r} must hold its text, image_url or file_data; files are not kept here",
        field=where,
    )


def shown_part(part: JsonObject) -> JsonObject:
    """A stored part as Responses have it."""
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)} as image}:
            return {"type": "input_image", "image_url": url, "detail": image.get("detail") or "auto"}
        case {"type": "image_url", "image_url": str(url)}:
            return {"type": "input_image", "image_url": url, "detail": "auto"}
        case {"type": "file", "file": dict(file)}:
            return {"type": "input_file", **file}
        case {"type": "text"}:
            return {"type": "input_text", "text": str(part.get("text") or "")}
    return part


def message_item(
    identifier: str, text: str, status: Status, logprobs: Sequence[JsonObject] = ()
) -> JsonObject:
    content = [text_part(text, logprobs)] if status != "in_progress" else []
    return {"id": identifier, "type": "message", "role": "assistant", "status": status, "content": content}


def text_part(text: str, logprobs: Sequence[JsonObject] = ()) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": shown_logprobs(logprobs)}


def shown_logprobs(logprobs: Sequence[JsonObject]) -> list[JsonObject]:
    """Without the fields that Responses don't have; they want the bytes of every token."""
    return [
        {
            "token": each.get("token", ""),
            "logprob": each.get("logprob", 0.0),
            "bytes": each.get("bytes") or list(str(each.get("token", "")).encode()),
            **(
                {"top_logprobs": shown_logprobs(each["top_logprobs"] or ())} if "top_logprobs" in each else {}
            ),
        }
        for each in logprobs
    ]


def call_item(identifier: str, call: JsonObject, status: Status) -> JsonObject:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    return {
        "id": identifier,
        "type": "function_call",
        "call_id": str(call.get("id") or ""),
        "name": str(function.get("name") or ""),
        "arguments": str(function.get("arguments") or "") if status != "in_progress" else "",
        "status": status,
    }


def reasoning_item(identifier: str, text: str, status: Status) -> JsonObject:
    content = [{"type": "reasoning_text", "text": text}] if status != "in_progress" else []
    return {"id": identifier, "type": "reasoning", "summary": [], "content": content, "status": status}


def items_of(thread: ThreadRef, turn: Turn) -> Iterator[JsonObject]:
    """A turn as items: of an answer its reasoning, its words and its calls."""
    if turn.role == "assistant" and turn.status in ("queued", "streaming"):
        return
    status: Status = "completed" if turn.status == "complete" else "incomplete"
    if turn.role == "assistant":
        if turn.reasoning:
            yield reasoning_item(item_id("rs", thread, turn.turn_id), turn.reasoning, status)
        if turn.content:
            yield message_item(item_id("msg", thread, turn.turn_id), turn.content, status)
        for number, call in enumerate(turn.tool_calls or ()):
            yield call_item(item_id("fc", thread, turn.turn_id, number), call, status)
    elif turn.role == "tool":
        output = [shown_part(part) for part in turn.parts] if turn.parts else turn.content
        yield {
            "id": item_id("fco", thread, turn.turn_id),
            "type": "function_call_output",
            "call_id": turn.tool_call_id or "",
            "output": output,
            "status": "completed",
        }
    else:
        parts = [shown_part(part) for part in turn.parts or ({"type": "text", "text": turn.content},)]
        yield {
            "id": item_id("msg", thread, turn.turn_id),
            "type": "message",
            "role": turn.role,
            "status": "completed",
            "content": parts,
        }
