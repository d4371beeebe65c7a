"""What is asked of a model, and what comes back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from recollect.memory.model import JsonObject

BackendKind = Literal[
    "llama.cpp", "lmstudio", "vllm", "sglang", "ollama", "openai", "anthropic", "openrouter", "other"
]


@dataclass(frozen=True, slots=True)
class ChatCall:
    """One request to a model. Messages and options are in OpenAI's shape, whatever the backend speaks."""

    messages: Sequence[JsonObject]
    model: str | None = None
    """None: the backend's own choice."""
    max_tokens: int | None = None
    options: JsonObject = field(default_factory=dict)
    """Whatever else the caller asked for, under OpenAI's names: temperature, stop, tools, response_format, …"""
    choices: int = 1
    session: str | None = None
    """Names the thread for the backend's cache: the same for its whole life. None for a one-off call."""
    slot: int | None = None
    """The llama.cpp slot that holds the thread's prefix."""
    space: str = "default"


@dataclass(frozen=True, slots=True)
class Sent:
    """The request as it leaves: comes first, and once more where it had to be sent in another form."""

    payload: JsonObject


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer. Fragments of tool calls carry OpenAI's `index`."""

    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[JsonObject, ...] = ()
    choice: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the backend told; None for what it did not tell."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    evaluated_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The stream's regular end: comes last. A stream that breaks off raises instead."""

    reasons: dict[int, str] = field(default_factory=dict)
    """Why each choice ended: stop, length, tool_calls, …"""
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    """The model that answered, as the backend calls it."""


StreamEvent = Sent | Delta | Finished


@dataclass(frozen=True, slots=True)
class BackendFacts:
    """What a backend told of itself."""

    kind: BackendKind
    local: bool
    context_tokens: int | None = None
    """What one request may hold, prompt and answer together; for llama.cpp that of one slot."""
    slots: int | None = None
    models: tuple[str, ...] = ()
    selects_by_name: bool = True
    """Whether the model's name in a request matters."""
    alternating_roles: bool = False
    """Its template refuses two messages of one role in a row."""
    drops_reasoning: bool = False
    """Its template leaves earlier reasoning out of the next prompt."""

    @property
    def serves_few(self) -> bool:
        """One request at a time, or hardly more: background work waits for chats."""
        return self.local and self.kind not in ("vllm", "sglang")
