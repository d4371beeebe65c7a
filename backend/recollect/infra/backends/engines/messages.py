"""OpenAI's messages taken apart, for engines that have a shape of their own."""

import json
import re
from typing import Any

from recollect.errors import InvalidInput
from recollect.memory.model import JsonObject

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)


def parts_of(message: JsonObject) -> list[JsonObject]:
    """The content as parts; empty text is none."""
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
