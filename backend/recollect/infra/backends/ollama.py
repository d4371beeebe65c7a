"""Ollama by its own protocol, the only one that says how much context a request gets."""

import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from recollect.domain.llm import BackendFacts, Delta, Finished, Usage
from recollect.domain.model import JsonObject
from recollect.errors import InvalidInput
from recollect.infra.backends.dialect import (
    AnswerReader,
    Dialect,
    JsonLines,
    Outgoing,
    ThoughtSplitter,
    ToolCalls,
    arguments_of,
    count_of,
    dict_of,
    dicts_in,
    drops_reasoning,
    image_url,
    inline_image,
    parts_of,
    positive_int,
    session_fields,
    text_of,
    text_or_none,
    wants_alternation,
)
from recollect.infra.backends.openai_compatible import OWN_FIELDS

DEFAULT_CONTEXT = 8192
"""Default context. A model's full context may not fit into memory, so a larger one must be configured."""

_OPTIONS = ("temperature", "top_p", "top_k", "min_p", "seed", "stop", "frequency_penalty", "presence_penalty")
_FIELDS = ("tools", "think", "logprobs", "top_logprobs")


class Ollama(Dialect):
    """`/api/chat`."""

    route = "/api/chat"

    def framing(self) -> JsonLines:
        return JsonLines()

    def payload(self, outgoing: Outgoing) -> JsonObject:
        call = outgoing.call
        given = {name: value for name, value in call.options.items() if name not in OWN_FIELDS}
        options = {name: given[name] for name in _OPTIONS if given.get(name) is not None}
        if (penalty := given.get("repetition_penalty")) is not None:
            options["repeat_penalty"] = penalty
        if isinstance(options.get("stop"), str):
            options["stop"] = [options["stop"]]
        if call.max_tokens is not None:
            options["num_predict"] = call.max_tokens
        body: JsonObject = {
            "model": outgoing.model,
            "messages": _messages(call.messages),
            "stream": True,
            **({"think": False} if call.thinks_little else {}),
            **{name: given[name] for name in _FIELDS if name in given},
        }
        if (wanted := _format(given.get("response_format"))) is not None:
            body["format"] = wanted
        if outgoing.local_extras:
            if outgoing.facts.context_tokens is not None:
                options["num_ctx"] = outgoing.facts.context_tokens
            body["keep_alive"] = outgoing.keep_alive
        return body | ({"options": options} if options else {}) | session_fields(outgoing)

    def reader(self, outgoing: Outgoing) -> "OllamaReader":
        return OllamaReader()


class OllamaReader(AnswerReader):
    """Reads one JSON object after another; the last one says `done`."""

    def __init__(self) -> None:
        self._splitter = ThoughtSplitter()
        self._tools = ToolCalls()
        self._called = False
        self._last: JsonObject = {}

    def read(self, event: JsonObject) -> Iterator[Delta]:
        message = event.get("message") or {}
        self.begun = self.begun or "message" in event
        text, reasoning = self._splitter.feed(str(message.get("content") or ""))
        calls = tuple(self._tool_call(call) for call in message.get("tool_calls") or ())
        reasoning = str(message.get("thinking") or "") + reasoning
        probabilities = tuple(dicts_in(event.get("logprobs")))
        if text or reasoning or calls or probabilities:
            yield Delta(text, reasoning, calls, logprobs=probabilities)
        if event.get("done"):
            self._last = event
            self.begun = self.complete = True

    def flush(self) -> Iterator[Delta]:
        text, reasoning = self._splitter.flush()
        if text or reasoning:
            yield Delta(text, reasoning)

    def finished(self) -> Finished:
        reason = "tool_calls" if self._called else str(self._last.get("done_reason") or "stop")
        usage = Usage(
            prompt_tokens=count_of(self._last.get("prompt_eval_count")),
            completion_tokens=count_of(self._last.get("eval_count")),
        )
        return Finished({0: reason}, usage, text_or_none(self._last.get("model")))

    def _tool_call(self, call: JsonObject) -> JsonObject:
        """Always a whole one: Ollama sends none in pieces, and all with arguments as an object."""
        self._called = True
        function = {"name": call["function"]["name"], "arguments": call["function"].get("arguments") or {}}
        told = {
            "id": call.get("id") or f"call_{secrets.token_hex(8)}",
            "type": "function",
            "function": function,
        }
        return self._tools.fragment(told)


def ollama_facts(
    models: tuple[str, ...], model: str | None, shown: JsonObject, *, local: bool
) -> BackendFacts:
    """`shown` is what `/api/show` told of the model."""
    capabilities = shown.get("capabilities")
    thinks = isinstance(capabilities, list) and "thinking" in capabilities
    return BackendFacts(
        "ollama",
        local,
        context_tokens=_context(shown),
        models=models,
        alternating_roles=wants_alternation(None, model),
        drops_reasoning=thinks or drops_reasoning(None, model),
    )


def _context(shown: JsonObject) -> int:
    """What the model was set up with, else the default, as far as the model reaches."""
    chosen = re.search(r"(?m)^num_ctx\s+(\d+)", str(shown.get("parameters") or ""))
    if chosen:
        return int(chosen[1])
    sizes = [
        size
        for name, value in dict_of(shown.get("model_info")).items()
        if name.endswith(".context_length") and (size := positive_int(value))
    ]
    return min([DEFAULT_CONTEXT, *sizes])


def _messages(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """A result belongs to the nearest earlier call with its id: ids may repeat in a conversation."""
    names: dict[Any, Any] = {}
    shaped = []
    for message in messages:
        names |= {
            call.get("id"): call.get("function", {}).get("name") for call in message.get("tool_calls") or ()
        }
        shaped.append(_message(message, names))
    return shaped


def _message(message: JsonObject, names: dict[Any, Any]) -> JsonObject:
    shaped: JsonObject = {"role": message["role"], "content": text_of(message)}
    if images := [_image(part) for part in parts_of(message) if part.get("type") == "image_url"]:
        shaped["images"] = images
    if calls := message.get("tool_calls"):
        shaped["tool_calls"] = [
            {"function": {"name": call["function"]["name"], "arguments": arguments_of(call)}}
            for call in calls
        ]
    if name := names.get(message.get("tool_call_id")) if message["role"] == "tool" else None:
        shaped["tool_name"] = name
    return shaped


def _image(part: JsonObject) -> str:
    inline = inline_image(image_url(part))
    if inline is None:
        raise InvalidInput("Ollama takes images as base64 data URLs only, not by address", field="parts")
    return inline[1]


def _format(response_format: Any) -> Any:
    kind = response_format.get("type") if isinstance(response_format, dict) else None
    if kind == "json_schema":
        return response_format["json_schema"]["schema"]
    return "json" if kind == "json_object" else None
