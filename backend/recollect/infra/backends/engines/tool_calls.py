"""Fragments of tool calls in OpenAI's shape, out of what servers send in their place."""

import json
from typing import Any

from recollect.infra.backends.dialect import StrangeAnswerError
from recollect.memory.model import JsonObject


class ToolCalls:
    """The calls of one choice. Every fragment that it gives out has an `index`, and texts where texts belong.

    Where a server numbers nothing, a new id or name begins the next call, and whatever else comes goes on with
    the last one.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        """Of the ids that were told."""
        self._next = 0

    def fragment(self, told: Any) -> JsonObject:
        """Raises StrangeAnswerError for what is no part of a call."""
        if not isinstance(told, dict):
            raise StrangeAnswerError("a tool call that is none")
        call: JsonObject = {name: value for name, value in told.items() if value is not None}
        if "id" in call:
            call["id"] = str(call["id"])
        if "type" in call:
            call["type"] = str(call["type"])
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
