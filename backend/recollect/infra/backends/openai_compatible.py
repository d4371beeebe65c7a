"""OpenAI's chat protocol as most servers speak it, with what llama.cpp, vLLM and OpenAI itself get on top."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from recollect.domain.llm import BackendFacts, Delta, Finished, Usage, shown_name, signed_thoughts
from recollect.domain.model import JsonObject
from recollect.infra.backends.dialect import (
    AnswerReader,
    Dialect,
    Outgoing,
    StrangeAnswerError,
    ThoughtSplitter,
    ToolCalls,
    count_of,
    dict_of,
    dicts_in,
    drops_reasoning,
    positive_int,
    session_fields,
    text_or_none,
    wants_alternation,
)

OWN_FIELDS = frozenset(
    {"model", "messages", "stream", "stream_options", "n", "max_tokens", "max_completion_tokens"}
    | {"session_id", "cache_prompt", "id_slot", "cache_salt", "prompt_cache_key"}
)
"""Fields that Recollect sets itself; a caller's options can't override them."""
_ANTHROPICS = frozenset({"thinking"})
"""Options that Anthropic alone has."""


class OpenAiCompatible(Dialect):
    """Any server that speaks it."""

    route = "chat/completions"
    max_tokens_field = "max_tokens"
    unknown_options: frozenset[str] = frozenset()
    """What it refuses: left out."""
    renamed_options: ClassVar[Mapping[str, str]] = {}
    """What it knows under another name."""

    def payload(self, outgoing: Outgoing) -> JsonObject:
        call = outgoing.call
        body: JsonObject = {} if outgoing.model is None else {"model": outgoing.model}
        body |= {"messages": [_without_thoughts(message) for message in call.messages], "stream": True}
        if self._takes_stream_options(outgoing):
            body["stream_options"] = {"include_usage": True}
        if call.max_tokens is not None:
            body[self.max_tokens_field] = call.max_tokens
        if call.choices > 1 and self.takes_choices:
            body["n"] = call.choices
        left_out = OWN_FIELDS | _ANTHROPICS | self.unknown_options
        given = {name: value for name, value in call.options.items() if name not in left_out}
        body |= {self.renamed_options.get(name, name): value for name, value in given.items()}
        thoughts = self.without_thoughts(outgoing) if call.thinks_little else {}
        return thoughts | body | session_fields(outgoing) | self.on_top(outgoing)

    def on_top(self, outgoing: Outgoing) -> JsonObject:
        """What this engine gets beside what all get."""
        return {}

    def without_thoughts(self, outgoing: Outgoing) -> JsonObject:
        """How this engine is asked for little reasoning: templates that know the switch leave it out altogether."""
        return {"chat_template_kwargs": {"enable_thinking": False}} if outgoing.local_extras else {}

    def reader(self, outgoing: Outgoing) -> "CompletionReader":
        return CompletionReader(
            splits_thoughts=outgoing.facts.local, choices=outgoing.call.choices if self.takes_choices else 1
        )

    def _takes_stream_options(self, outgoing: Outgoing) -> bool:
        """An unknown cloud may refuse it, and most tell the counts unasked."""
        return outgoing.local_extras if outgoing.facts.kind == "other" else True


def _without_thoughts(message: JsonObject) -> JsonObject:
    """Anthropic's signed thoughts are its own."""
    calls = message.get("tool_calls")
    if not calls or not signed_thoughts(calls):
        return message
    first = {name: value for name, value in calls[0].items() if name != "extra_content"}
    return {**message, "tool_calls": [first, *calls[1:]]}


class BatchingServer(OpenAiCompatible):
    """SGLang and other servers that answer several choices to one request."""

    takes_choices = True


class CompletionReader(AnswerReader):
    """Reads chunks of a chat completion, or a whole one from a server that does not stream."""

    def __init__(self, *, splits_thoughts: bool, choices: int = 1) -> None:
        """`choices`: how many were asked for."""
        self._splits = splits_thoughts
        self._choices = choices
        self._splitters: dict[int, ThoughtSplitter] = {}
        self._tools: dict[int, ToolCalls] = {}
        self._open: set[int] = set()
        self._reasons: dict[int, str] = {}
        self._usage = Usage()
        self._model: str | None = None

    def read(self, event: JsonObject) -> Iterator[Delta]:
        if isinstance(model := event.get("model"), str) and model:
            self._model = shown_name(model)
        self._usage = _usage(event) or self._usage
        for choice in event.get("choices") or ():
            index = self._index(choice.get("index"))
            self._open.add(index)
            probabilities = tuple(dicts_in(dict_of(choice.get("logprobs")).get("content")))
            yield from self._delta(index, choice.get("delta") or choice.get("message") or {}, probabilities)
            if reason := choice.get("finish_reason"):
                self._reasons[index] = str(reason)
        self.begun = bool(self._open)
        self.complete = self.begun and self._open <= self._reasons.keys()

    def flush(self) -> Iterator[Delta]:
        for index, splitter in self._splitters.items():
            text, reasoning = splitter.flush()
            if text or reasoning:
                yield Delta(text, reasoning, choice=index)

    def finished(self) -> Finished:
        return Finished(self._reasons or {0: "stop"}, self._usage, self._model)

    def _index(self, told: Any) -> int:
        if told is None:
            return 0
        if isinstance(told, bool) or not isinstance(told, int) or not 0 <= told < self._choices:
            raise StrangeAnswerError("a part of a choice that nobody asked for")
        return told

    def _delta(self, index: int, delta: JsonObject, probabilities: tuple[JsonObject, ...]) -> Iterator[Delta]:
        text = _text(delta.get("content"))
        reasoning = _text(delta.get("reasoning_content") or delta.get("reasoning"))
        if text and self._splits:
            splitter = self._splitters.setdefault(index, ThoughtSplitter())
            text, thought = splitter.feed(text)
            reasoning += thought
        tools = self._tools.setdefault(index, ToolCalls())
        calls = tuple(tools.fragment(call) for call in delta.get("tool_calls") or ())
        if text or reasoning or calls or probabilities:
            yield Delta(text, reasoning, calls, index, probabilities)


def _text(value: Any) -> str:
    """Plain text; some servers send it in parts."""
    if isinstance(value, list):
        return "".join(str(part.get("text") or "") for part in value)
    return "" if value is None else str(value)


def _usage(event: JsonObject) -> Usage | None:
    """The counts of a chunk: OpenAI's, llama.cpp's `timings`, DeepSeek's and Groq's."""
    told = dict_of(event.get("usage")) or dict_of(dict_of(event.get("x_groq")).get("usage"))
    timings = dict_of(event.get("timings"))
    if not told and not timings:
        return None
    details = dict_of(told.get("prompt_tokens_details"))
    prompt = count_of(told.get("prompt_tokens"))
    cached = _first_count(
        timings.get("cache_n"), details.get("cached_tokens"), told.get("prompt_cache_hit_tokens")
    )
    evaluated = count_of(timings.get("prompt_n"))
    if evaluated is None and prompt is not None and cached is not None:
        evaluated = count_of(prompt - cached)
    if prompt is None and cached is not None and evaluated is not None:
        prompt = cached + evaluated
    written = _first_count(told.get("completion_tokens"), timings.get("predicted_n"))
    return Usage(prompt, written, cached, evaluated)


def _first_count(*told: Any) -> int | None:
    return next((count for value in told if (count := count_of(value)) is not None), None)


_LONGEST_KEY = 64


class OpenAi(BatchingServer):
    """Routes the requests of one thread to where its prefix is cached."""

    max_tokens_field = "max_completion_tokens"
    unknown_options = frozenset({"top_k", "min_p", "repetition_penalty", "chat_template_kwargs"})

    def on_top(self, outgoing: Outgoing) -> JsonObject:
        session = outgoing.call.session
        return {} if session is None else {"prompt_cache_key": session[:_LONGEST_KEY]}

    def without_thoughts(self, outgoing: Outgoing) -> JsonObject:
        return {"reasoning_effort": "low"}


class OpenRouter(OpenAiCompatible):
    """Takes `reasoning_effort` for every model, and drops it for models that don't reason."""

    unknown_options = frozenset({"chat_template_kwargs"})

    def without_thoughts(self, outgoing: Outgoing) -> JsonObject:
        return {"reasoning_effort": "low"}


class Vllm(BatchingServer):
    """Shares cached prefixes between all who ask, unless they are salted: one salt a space."""

    def on_top(self, outgoing: Outgoing) -> JsonObject:
        return {"cache_salt": salt_of(outgoing.call.space)} if outgoing.local_extras else {}


def salt_of(space: str) -> str:
    """The same for a space for ever, and without its name."""
    return hashlib.sha256(f"recollect cache of {space}".encode()).hexdigest()


class LmStudio(OpenAiCompatible):
    """Runs llama.cpp, and calls options as it does."""

    renamed_options: ClassVar[Mapping[str, str]] = {"repetition_penalty": "repeat_penalty"}


class LlamaCpp(LmStudio):
    """Keeps each thread's prefix in the slot it is pinned to."""

    def on_top(self, outgoing: Outgoing) -> JsonObject:
        if outgoing.local_extras and outgoing.call.slot is not None:
            return {"id_slot": outgoing.call.slot}
        return {}


def llama_cpp_facts(props: JsonObject, models: tuple[str, ...], *, local: bool) -> BackendFacts:
    """One process serves one model under any name, except in router mode."""
    template = text_or_none(props.get("chat_template"))
    model = text_or_none(props.get("model_alias")) or text_or_none(props.get("model_path"))
    settings = props.get("default_generation_settings") or {}
    named = models or ((model,) if model else ())
    is_router = props.get("role") == "router"
    return BackendFacts(
        "llama.cpp",
        local,
        context_tokens=positive_int(settings.get("n_ctx")),
        slots=positive_int(props.get("total_slots")),
        models=named if is_router else tuple(map(shown_name, named)),
        selects_by_name=is_router,
        alternating_roles=wants_alternation(template, model or next(iter(models), None)),
        drops_reasoning=drops_reasoning(template, model or next(iter(models), None)),
    )
