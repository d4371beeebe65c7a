"""What an engine's module must know of its engine: how to ask it, and how to read its answer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from recollect.context.llm import BackendFacts, ChatCall, Delta, Finished
from recollect.infra.backends.lines import JsonLines
from recollect.memory.model import JsonObject

Answers = Mapping[str, Any]
"""What a server answered to each question, by path; None where it had no such answer."""


class StrangeAnswerError(Exception):
    """A server sent what is no part of an answer; the message says what, to follow 'it sent'."""


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


class AnswerReader(Protocol):
    """Reads one answer, event by event. One that is none raises StrangeAnswerError, or a built-in error."""

    @property
    def begun(self) -> bool:
        """Whether anything has come that belongs to an answer, be it only its end."""
        ...

    @property
    def complete(self) -> bool:
        """Every choice has ended; counts may still follow."""
        ...

    def read(self, event: JsonObject) -> Iterator[Delta]: ...
    def flush(self) -> Iterator[Delta]: ...
    def finished(self) -> Finished: ...


class Dialect(Protocol):
    """How one engine is spoken to."""

    @property
    def route(self) -> str:
        """Where chats are posted: below the API's root, or, with `/` in front, below the server's."""
        ...

    @property
    def takes_choices(self) -> bool:
        """Whether one request may ask for several answers."""
        ...

    def headers(self, api_key: str | None) -> dict[str, str]: ...
    def framing(self) -> JsonLines: ...
    def payload(self, outgoing: Outgoing) -> JsonObject: ...
    def reader(self, outgoing: Outgoing) -> AnswerReader: ...


def bearer(api_key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


def session_fields(outgoing: Outgoing) -> JsonObject:
    """What every local server gets for a thread, and nobody else ever does."""
    if outgoing.local_extras and outgoing.call.session is not None:
        return {"session_id": outgoing.call.session, "cache_prompt": True}
    return {}
