"""What all dialects share: framing of streams, thoughts, tool calls, and the base classes of an engine's dialect."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from recollect.domain.llm import BackendFacts, ChatCall, Delta, Finished, plain_name
from recollect.domain.model import JsonObject
from recollect.errors import InvalidInput

_ASCII_CHARS_PER_TOKEN = 3.6
_OTHER_BYTES_PER_TOKEN = 3.0


def guess_tokens(text: str) -> int:
    """Overestimates: a prompt estimated as too long is cut, but one that is too long is refused.

    English is about 4.2 characters a token, and code less; in other scripts a token is seldom less than
    3 bytes of UTF-8, one Chinese character.
    """
    encoded = len(text.encode("utf-8", "replace"))
    if encoded == len(text):
        return ceil(encoded / _ASCII_CHARS_PER_TOKEN)
    plain = len(text.encode("ascii", "ignore"))
    return ceil(plain / _ASCII_CHARS_PER_TOKEN + (encoded - plain) / _OTHER_BYTES_PER_TOKEN)


MAX_EVENT_BYTES = 4 * 1024 * 1024


class EndlessLineError(Exception):
    """A line or an event exceeds the size limit."""


class JsonLines:
    """One event a line, as Ollama streams."""

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The events that this piece completes."""
        for line in self._lines(chunk):
            if stripped := line.strip():
                yield stripped

    def flush(self) -> Iterator[bytes]:
        """What the stream's end completes."""
        yield from self.feed(b"\n")

    def _lines(self, chunk: bytes) -> list[bytes]:
        self._rest += chunk
        if b"\n" not in chunk:
            self._refuse_above_limit(self._rest)
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        return lines

    def _refuse_above_limit(self, unfinished: bytearray) -> None:
        if len(unfinished) > self._limit:
            raise EndlessLineError


class ServerSentEvents(JsonLines):
    """The data of server-sent events; names, ids and comments are ignored."""

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        super().__init__(limit)
        self._data = bytearray()
        """Of an event that is not complete; a line break before each line."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        for line in self._lines(chunk):
            stripped = line.rstrip(b"\r")
            if not stripped and self._data:
                yield bytes(self._data[1:])
                self._data.clear()
            elif stripped.startswith(b"data:"):
                self._data += b"\n" + stripped[5:].strip()
            elif stripped.startswith(b"error:"):  # llama.cpp names a fault in mid-stream so.
                self._data += b'\n{"error": ' + stripped[6:].strip() + b"}"
            self._refuse_above_limit(self._data)

    def flush(self) -> Iterator[bytes]:
        yield from self.feed(b"\n\n")


_MOST = 2**53
"""The largest integer that JSON numbers hold exactly."""


def positive_int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def count_of(value: Any) -> int | None:
    """A count of tokens; None for anything else (text, NaN, a negative number), as if it was not sent."""
    counts = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
    return value if counts else None


def dict_of(value: Any) -> dict[str, Any]:
    """Empty if the value is no object."""
    return value if isinstance(value, dict) else {}


def text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def dicts_in(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def listed_models(listing: JsonObject) -> list[dict[str, Any]]:
    """The entries of `/v1/models`."""
    return [entry for entry in dicts_in(listing.get("data")) if text_or_none(entry.get("id"))]


_REFUSES = re.compile(r"raise_exception\([^)]*\balternat", re.IGNORECASE)
_STRIPS = re.compile(r"split\(\s*(['\"])\s*</think>\s*\1")
_ALTERNATING_NAMES = re.compile(r"gemma|mistral|mixtral|ministral|codestral|devstral|magistral")
_THINKING_NAMES = re.compile(r"qwen3|qwq|deepseek-r1|gpt-oss|magistral|r1-distill")


def wants_alternation(template: str | None, model: str | None) -> bool:
    """Whether two messages of one role in a row are refused. Without a template the model's name decides."""
    if template:
        return bool(_REFUSES.search(template))
    return bool(_ALTERNATING_NAMES.search(plain_name(model or "")))


def drops_reasoning(template: str | None, model: str | None) -> bool:
    """Whether the thoughts of earlier turns are left out of the next prompt."""
    if template:
        return bool(_STRIPS.search(template))
    return bool(_THINKING_NAMES.search(plain_name(model or "")))


class StrangeAnswerError(Exception):
    """A server sent something that is not part of an answer; the message completes "it sent …"."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A call that is about to be sent."""

    call: ChatCall
    model: str | None
    facts: BackendFacts
    extras: bool = True
    """Whether the server takes fields that OpenAI's protocol doesn't have."""
    keep_alive: str = "30m"

    @property
    def local_extras(self) -> bool:
        return self.extras and self.facts.local


class AnswerReader(ABC):
    """Reads one answer, event by event. An invalid event raises StrangeAnswerError, or a built-in error."""

    begun = False
    """Whether anything has come that belongs to an answer, even if it is only its end."""
    complete = False
    """Every choice has ended; counts may still follow."""

    @abstractmethod
    def read(self, event: JsonObject) -> Iterator[Delta]: ...

    def flush(self) -> Iterator[Delta]:
        """Pieces that are only complete at the end of the answer."""
        return iter(())

    @abstractmethod
    def finished(self) -> Finished: ...


class Dialect(ABC):
    """How one engine is called."""

    route: str
    """Where chats are posted: below the API's root, or, with `/` in front, below the server's."""
    takes_choices = False
    """Whether one request may ask for several answers."""

    def headers(self, api_key: str | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def framing(self) -> JsonLines:
        return ServerSentEvents()

    @abstractmethod
    def payload(self, outgoing: Outgoing) -> JsonObject: ...
    @abstractmethod
    def reader(self, outgoing: Outgoing) -> AnswerReader: ...


def session_fields(outgoing: Outgoing) -> JsonObject:
    """Fields that every local server gets for a thread, and no other server."""
    if outgoing.local_extras and outgoing.call.session is not None:
        return {"session_id": outgoing.call.session, "cache_prompt": True}
    return {}


_OPEN = "<think>"
_CLOSE = "</think>"


class ThoughtSplitter:
    """Takes an answer piece by piece. `<think>…</think>` at its very start is reasoning; later ones are text.

    Line breaks next to the tags are neither's.
    """

    def __init__(self) -> None:
        self._state = "start"
        self._thought_of_something = False
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """(text, reasoning) that are certain now; what may be part of a tag is held back."""
        if self._state == "answer":
            return text, ""
        self._held += text
        if self._state == "start":
            return self._at_start()
        if self._state == "thinking":
            return self._thinking()
        return self._after()

    def flush(self) -> tuple[str, str]:
        """What was held back when the answer ended."""
        held, self._held = self._held, ""
        return ("", held) if self._state == "thinking" else ("" if self._state == "after" else held, "")

    def _at_start(self) -> tuple[str, str]:
        seen = self._held.lstrip()
        if seen.startswith(_OPEN):
            self._state, self._held = "thinking", seen[len(_OPEN) :]
            return self._thinking()
        if _OPEN.startswith(seen):
            return "", ""
        return self._answer(self._held), ""

    def _thinking(self) -> tuple[str, str]:
        if not self._thought_of_something:
            self._held = self._held.lstrip("\n")
        thought, closed, rest = self._held.partition(_CLOSE)
        if closed:
            self._state, self._held = "after", rest
            return self._after()[0], thought.rstrip("\n")
        tag = next(n for n in range(len(_CLOSE) - 1, -1, -1) if self._held.endswith(_CLOSE[:n]))
        certain = self._held[: len(self._held) - tag].rstrip("\n")
        self._held = self._held[len(certain) :]
        self._thought_of_something = self._thought_of_something or bool(certain)
        return "", certain

    def _after(self) -> tuple[str, str]:
        rest = self._held.lstrip("\n")
        return (self._answer(rest), "") if rest else ("", "")

    def _answer(self, text: str) -> str:
        self._state, self._held = "answer", ""
        return text


_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)


def parts_of(message: JsonObject) -> list[JsonObject]:
    """The content as parts. Empty text gives no part."""
    content = message.get("content")
    if isinstance(content, list):
        return [part for part in content if isinstance(part, dict)]
    return [{"type": "text", "text": content}] if content else []


def text_of(message: JsonObject) -> str:
    return "\n".join(str(part.get("text") or "") for part in parts_of(message) if part.get("type") == "text")


def image_url(part: JsonObject) -> str:
    image = part.get("image_url")
    return str(image.get("url") if isinstance(image, dict) else image)


def inline_image(url: str) -> tuple[str, str] | None:
    """(media type, base64) of a data URL; None for an address."""
    found = _DATA_URL.fullmatch(url)
    return (found[1], found[2]) if found else None


def arguments_of(call: JsonObject) -> JsonObject:
    """A tool call's arguments, which OpenAI sends as text."""
    arguments: Any = call.get("function", {}).get("arguments") or "{}"
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = {"arguments": arguments}
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def function_of(tool: JsonObject) -> JsonObject:
    """The function that a tool is; there are no other tools in this protocol."""
    function = tool.get("function")
    if not isinstance(function, dict) or not function.get("name"):
        raise InvalidInput("every tool must be a function with a name", field="tools")
    return function


class ToolCalls:
    """The calls of one choice. Every fragment that it gives out has an `index`, and texts where texts belong.

    If a server sends no index, a new id or name starts the next call, and anything else continues the
    last one.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        """Index by call id."""
        self._next = 0

    def fragment(self, told: Any) -> JsonObject:
        """Raises StrangeAnswerError for what is no part of a call."""
        if not isinstance(told, dict):
            raise StrangeAnswerError("a tool call that is none")
        call: JsonObject = {name: value for name, value in told.items() if value is not None}
        call |= {name: str(call[name]) for name in ("id", "type") if name in call}
        if "function" in call:
            call["function"] = _function(call["function"])
        place = self._place(call)
        self._next = max(self._next, place + 1)
        if call.get("id"):
            self._places.setdefault(call["id"], place)
        return {**call, "index": place}

    def _place(self, call: JsonObject) -> int:
        place = call.get("index")
        if place is None:
            return self._place_by_id(call)
        if isinstance(place, bool) or not isinstance(place, int) or place < 0:
            raise StrangeAnswerError("a tool call whose index is no number")
        return place

    def _place_by_id(self, call: JsonObject) -> int:
        if call.get("id"):
            return self._places.get(call["id"], self._next)
        begins = bool(call.get("function", {}).get("name"))
        return self._next if begins else max(0, self._next - 1)


def arguments_text(arguments: Any) -> str:
    """As OpenAI sends them; servers that mix the protocols up send the object itself."""
    if isinstance(arguments, dict | list):
        return json.dumps(arguments, ensure_ascii=False)
    if isinstance(arguments, str):
        return arguments
    raise StrangeAnswerError("a tool call whose arguments are neither text nor an object")


def _function(told: Any) -> JsonObject:
    if not isinstance(told, dict):
        raise StrangeAnswerError("a tool call without a function")
    function = {name: value for name, value in told.items() if value is not None}
    if "arguments" in function:
        function["arguments"] = arguments_text(function["arguments"])
    if not isinstance(function.get("name", ""), str):
        raise StrangeAnswerError("a tool call whose name is no text")
    return function
