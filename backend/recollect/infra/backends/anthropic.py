"""Anthropic's messages: the system text apart, breakpoints where the cache may begin, blocks in place of text."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from recollect.domain.llm import Delta, Finished, Usage, signed_thoughts, with_thoughts
from recollect.domain.model import JsonObject
from recollect.infra.backends.dialect import (
    AnswerReader,
    Dialect,
    Outgoing,
    arguments_of,
    count_of,
    dict_of,
    function_of,
    image_url,
    inline_image,
    parts_of,
    text_of,
    text_or_none,
)

UNTITLED = "document.pdf"
"""The name of a file that was given none."""
VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 4096
_inline_file = re.compile(r"data:(application/pdf);base64,(.*)", re.DOTALL).fullmatch
_BREAKPOINT = {"type": "ephemeral"}
_ANSWER = "answer"
"""The tool whose arguments are the answer where a schema is asked for: this API has schemas for tools alone."""
_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


class Anthropic(Dialect):
    """`/v1/messages`. Options it does not know are left out, since it refuses them."""

    route = "messages"

    def headers(self, api_key: str | None) -> dict[str, str]:
        return {"anthropic-version": VERSION} | ({"x-api-key": api_key} if api_key else {})

    def payload(self, outgoing: Outgoing) -> JsonObject:
        call = outgoing.call
        body: JsonObject = {"model": outgoing.model, "max_tokens": call.max_tokens or DEFAULT_MAX_TOKENS}
        if system := _system(call.messages):
            body["system"] = system
        if tools := [_tool(tool) for tool in call.options.get("tools") or ()]:
            body["tools"] = tools
        body |= {"messages": _conversation(call.messages), "stream": True}
        body |= _options(call.options)
        if schema := _schema(call.options):
            body["tools"] = [{"name": _ANSWER, "input_schema": schema}]
            body["tool_choice"] = {"type": "tool", "name": _ANSWER}
        if call.session is not None:
            _set_breakpoints(body)
        return body

    def reader(self, outgoing: Outgoing) -> "MessageReader":
        return MessageReader(answers_by_tool=_schema(outgoing.call.options) is not None)


class MessageReader(AnswerReader):
    """Reads the events of one message."""

    def __init__(self, *, answers_by_tool: bool = False) -> None:
        """`answers_by_tool`: the arguments of a tool call are the answer's text."""
        self._answers_by_tool = answers_by_tool
        self._tools: dict[int, int] = {}
        self._thoughts: dict[int, JsonObject] = {}
        """By the index of their blocks."""
        self._reason: str | None = None
        self._usage: dict[str, int] = {}
        self._model: str | None = None

    def read(self, event: JsonObject) -> Iterator[Delta]:
        kind = event.get("type")
        if kind == "message_start":
            message = event["message"]
            self.begun = True
            self._model = text_or_none(message.get("model"))
            self._count(message.get("usage"))
        elif kind == "content_block_start":
            yield from self._block(event["index"], event["content_block"])
        elif kind == "content_block_delta":
            yield from self._delta(event["index"], event["delta"])
        elif kind == "message_delta":
            self._reason = text_or_none(event["delta"].get("stop_reason")) or self._reason
            self._count(event.get("usage"))
        elif kind == "message_stop":
            self.begun = self.complete = True

    def finished(self) -> Finished:
        reason = _REASONS.get(self._reason or "end_turn", self._reason or "stop")
        if self._answers_by_tool and reason == "tool_calls":
            reason = "stop"
        return Finished({0: reason}, _usage(self._usage), self._model)

    def _count(self, told: Any) -> None:
        counts = {name: count_of(value) for name, value in dict_of(told).items()}
        self._usage |= {name: count for name, count in counts.items() if count is not None}

    def _block(self, index: int, block: JsonObject) -> Iterator[Delta]:
        if block.get("type") == "tool_use" and self._answers_by_tool:
            return
        if block.get("type") == "tool_use":
            self._tools[index] = len(self._tools)
            function = {"name": str(block["name"]), "arguments": ""}
            call_id = str(block["id"])
            call = {"index": self._tools[index], "id": call_id, "type": "function", "function": function}
            thoughts = [] if self._tools[index] else list(self._thoughts.values())
            yield Delta(tool_calls=(with_thoughts(call, thoughts),))
        elif block.get("type") in ("thinking", "redacted_thinking"):
            self._thoughts[index] = dict(block)
        elif text := block.get("text"):
            yield Delta(text=str(text))

    def _delta(self, index: int, delta: JsonObject) -> Iterator[Delta]:
        kind = delta.get("type")
        if kind == "text_delta":
            yield Delta(text=str(delta["text"]))
        elif kind == "thinking_delta":
            self._think(index, "thinking", str(delta["thinking"]))
            yield Delta(reasoning=str(delta["thinking"]))
        elif kind == "signature_delta":
            self._think(index, "signature", str(delta["signature"]))
        elif kind == "input_json_delta" and self._answers_by_tool:
            yield Delta(text=str(delta["partial_json"]))
        elif kind == "input_json_delta":
            call = {"index": self._tools[index], "function": {"arguments": str(delta["partial_json"])}}
            yield Delta(tool_calls=(call,))

    def _think(self, index: int, name: str, more: str) -> None:
        block = self._thoughts.setdefault(index, {"type": "thinking"})
        block[name] = str(block.get(name) or "") + more


def _usage(told: dict[str, int]) -> Usage:
    if "input_tokens" not in told:
        return Usage(completion_tokens=told.get("output_tokens"))
    cached = told.get("cache_read_input_tokens", 0)
    evaluated = told["input_tokens"] + told.get("cache_creation_input_tokens", 0)
    return Usage(cached + evaluated, told.get("output_tokens"), cached, evaluated)


def _system(messages: Sequence[JsonObject]) -> list[JsonObject]:
    texts = [text_of(message) for message in messages if message["role"] in ("system", "developer")]
    return [{"type": "text", "text": text} for text in texts if text]


def _conversation(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Messages of one role in a row are one: results of tools must come together."""
    shaped: list[JsonObject] = []
    for message in messages:
        if message["role"] in ("system", "developer"):
            continue
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = _blocks(message)
        if shaped and shaped[-1]["role"] == role:
            shaped[-1]["content"] += blocks
        elif blocks:
            shaped.append({"role": role, "content": blocks})
    return shaped


def _blocks(message: JsonObject) -> list[JsonObject]:
    if message["role"] == "tool":
        return [
            {"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": text_of(message)}
        ]
    calls = message.get("tool_calls") or ()
    blocks = signed_thoughts(calls)
    blocks += [block for part in parts_of(message) if (block := _block(part)) is not None]
    for call in calls:
        name = call["function"]["name"]
        blocks.append({"type": "tool_use", "id": call["id"], "name": name, "input": arguments_of(call)})
    return blocks


def _block(part: JsonObject) -> JsonObject | None:
    if part.get("type") == "image_url":
        url = image_url(part)
        if inline := inline_image(url):
            source = {"type": "base64", "media_type": inline[0], "data": inline[1]}
        else:
            source = {"type": "url", "url": url}
        return {"type": "image", "source": source}
    file = dict_of(part.get("file"))
    if part.get("type") == "file" and (found := _inline_file(str(file.get("file_data")))):
        source = {"type": "base64", "media_type": found[1], "data": found[2]}
        title = file.get("filename")
        titled = {} if title in (None, UNTITLED) else {"title": str(title)}
        return {"type": "document", "source": source, **titled}
    text = part.get("text")
    return {"type": "text", "text": str(text)} if text else None  # An empty block is refused.


def _tool(tool: JsonObject) -> JsonObject:
    function = function_of(tool)
    shaped = {"name": function["name"], "input_schema": function.get("parameters") or {"type": "object"}}
    return shaped | ({"description": function["description"]} if function.get("description") else {})


def _schema(options: JsonObject) -> JsonObject | None:
    """The schema of the answer. None beside tools of the caller's, and beside thoughts, which allow no forced tool."""
    if options.get("tools") or options.get("thinking"):
        return None
    wanted = dict_of(dict_of(options.get("response_format")).get("json_schema")).get("schema")
    return wanted if isinstance(wanted, dict) else None


def _options(options: JsonObject) -> JsonObject:
    shaped: JsonObject = {
        name: options[name]
        for name in ("temperature", "top_p", "top_k", "thinking")
        if options.get(name) is not None
    }
    if isinstance(shaped.get("temperature"), int | float):
        shaped["temperature"] = min(shaped["temperature"], 1)
    if stop := options.get("stop"):
        shaped["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    if choice := _tool_choice(options):
        shaped["tool_choice"] = choice
    return shaped


def _tool_choice(options: JsonObject) -> JsonObject | None:
    if not options.get("tools"):
        return None
    wanted: Any = options.get("tool_choice")
    if isinstance(wanted, dict):
        choice: JsonObject = {"type": "tool", "name": function_of(wanted)["name"]}
    else:
        choice = {"type": {"required": "any", "none": "none"}.get(wanted, "auto")}
    if options.get("parallel_tool_calls") is False and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    return choice


def _set_breakpoints(body: JsonObject) -> None:
    """Set at most four cache breakpoints: system text, tools, the end of this prompt and of the one before."""
    for name in ("system", "tools"):
        if body.get(name):
            body[name][-1] = body[name][-1] | {"cache_control": _BREAKPOINT}
    users = [message for message in body["messages"] if message["role"] == "user" and message["content"]]
    for message in users[-2:]:
        message["content"][-1] = message["content"][-1] | {"cache_control": _BREAKPOINT}
