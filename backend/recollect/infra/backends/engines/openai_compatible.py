"""OpenAI's chat protocol as most servers speak it: LM Studio, SGLang, OpenRouter and others, with nothing on top."""

from collections.abc import Iterator
from typing import Any

from recollect.context.llm import Delta, Finished, Usage
from recollect.infra.backends.dialect import Outgoing, bearer, session_fields
from recollect.infra.backends.lines import JsonLines, ServerSentEvents
from recollect.infra.backends.model_names import shown_name
from recollect.infra.backends.thinking import ThoughtSplitter
from recollect.memory.model import JsonObject

OWN_FIELDS = frozenset(
    {"model", "messages", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens"}
    | {"session_id", "cache_prompt", "id_slot", "cache_salt", "prompt_cache_key"}
)
"""What the gateway decides by itself, whatever a caller's options say."""


class OpenAiCompatible:
    """Any server that speaks it."""

    route = "chat/completions"
    takes_choices = False
    max_tokens_field = "max_tokens"

    def headers(self, api_key: str | None) -> dict[str, str]:
        return bearer(api_key)

    def framing(self) -> JsonLines:
        return ServerSentEvents()

    def payload(self, outgoing: Outgoing) -> JsonObject:
        call = outgoing.call
        body: JsonObject = {} if outgoing.model is None else {"model": outgoing.model}
        body |= {"messages": list(call.messages), "stream": True}
        if self._takes_stream_options(outgoing):
            body["stream_options"] = {"include_usage": True}
        if call.max_tokens is not None:
            body[self.max_tokens_field] = call.max_tokens
        if call.choices > 1 and self.takes_choices:
            body["n"] = call.choices
        body |= {name: value for name, value in call.options.items() if name not in OWN_FIELDS}
        return body | session_fields(outgoing) | self.on_top(outgoing)

    def on_top(self, outgoing: Outgoing) -> JsonObject:
        """What this engine gets beside what all get."""
        return {}

    def reader(self, outgoing: Outgoing) -> "CompletionReader":
        return CompletionReader(splits_thoughts=outgoing.facts.local)

    def _takes_stream_options(self, outgoing: Outgoing) -> bool:
        """An unknown cloud may refuse it, and most tell the counts unasked."""
        return outgoing.local_extras if outgoing.facts.kind == "other" else True


class BatchingServer(OpenAiCompatible):
    """SGLang, and whoever else answers several choices to one request."""

    takes_choices = True


class CompletionReader:
    """Reads chunks of a chat completion, or a whole one from a server that does not stream."""

    def __init__(self, *, splits_thoughts: bool) -> None:
        self._splits = splits_thoughts
        self._splitters: dict[int, ThoughtSplitter] = {}
        self._open: set[int] = set()
        self._reasons: dict[int, str] = {}
        self._usage = Usage()
        self._model: str | None = None

    @property
    def complete(self) -> bool:
        return bool(self._reasons) and self._open <= self._reasons.keys()

    def read(self, event: JsonObject) -> Iterator[Delta]:
        if isinstance(model := event.get("model"), str) and model:
            self._model = shown_name(model)
        self._usage = _usage(event) or self._usage
        for choice in event.get("choices") or ():
            index = int(choice.get("index") or 0)
            self._open.add(index)
            yield from self._delta(index, choice.get("delta") or choice.get("message") or {})
            if reason := choice.get("finish_reason"):
                self._reasons[index] = str(reason)

    def flush(self) -> Iterator[Delta]:
        for index, splitter in self._splitters.items():
            text, reasoning = splitter.flush()
            if text or reasoning:
                yield Delta(text, reasoning, choice=index)

    def finished(self) -> Finished:
        return Finished(self._reasons or {0: "stop"}, self._usage, self._model)

    def _delta(self, index: int, delta: JsonObject) -> Iterator[Delta]:
        text = _text(delta.get("content"))
        reasoning = _text(delta.get("reasoning_content") or delta.get("reasoning"))
        if text and self._splits:
            splitter = self._splitters.setdefault(index, ThoughtSplitter())
            text, thought = splitter.feed(text)
            reasoning += thought
        calls = tuple(_tool_call(call, place) for place, call in enumerate(delta.get("tool_calls") or ()))
        if text or reasoning or calls:
            yield Delta(text, reasoning, calls, index)


def _text(value: Any) -> str:
    """Plain text; some servers send it in parts."""
    if isinstance(value, list):
        return "".join(str(part.get("text") or "") for part in value)
    return "" if value is None else str(value)


def _tool_call(call: JsonObject, place: int) -> JsonObject:
    return call if "index" in call else {"index": place, **call}


def _usage(event: JsonObject) -> Usage | None:
    """The counts of a chunk: OpenAI's, llama.cpp's `timings`, DeepSeek's and Groq's."""
    told = event.get("usage") or (event.get("x_groq") or {}).get("usage") or {}
    timings = event.get("timings") or {}
    if not told and not timings:
        return None
    prompt = told.get("prompt_tokens")
    cached = timings.get("cache_n")
    if cached is None:
        cached = (told.get("prompt_tokens_details") or {}).get("cached_tokens")
    if cached is None:
        cached = told.get("prompt_cache_hit_tokens")
    evaluated = timings.get("prompt_n")
    if evaluated is None and prompt is not None and cached is not None:
        evaluated = prompt - cached
    return Usage(
        prompt_tokens=prompt
        if prompt is not None or cached is None or evaluated is None
        else cached + evaluated,
        completion_tokens=told.get("completion_tokens", timings.get("predicted_n")),
        cached_tokens=cached,
        evaluated_tokens=evaluated,
    )
