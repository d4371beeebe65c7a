"""What every model server offers, in whatever dialect. One contract suite holds for all of them."""

from collections.abc import AsyncGenerator
from typing import Protocol

from recollect.domain.llm import BackendFacts, ChatCall, StreamEvent


class Backend(Protocol):
    """A model's server. Raises the kinds of ModelUnavailable, in words a user understands."""

    @property
    def name(self) -> str:
        """The name it has in the settings."""
        ...

    @property
    def server(self) -> str:
        """The host and port that it is reached at: backends of different names may be one server."""
        ...

    @property
    def label(self) -> str | None:
        """A note shown with its answers; None for a model that people chose."""
        ...

    @property
    def gate_group(self) -> str:
        """Backends on the same hardware share one."""
        ...

    async def facts(self) -> BackendFacts:
        """Asked once, then remembered until the backend goes away."""
        ...

    def stream(self, call: ChatCall) -> AsyncGenerator[StreamEvent]:
        """Stream the answer. Closing the iterator cancels the request at once."""
        ...

    async def count_tokens(self, text: str) -> int:
        """By its own tokenizer where it has one, else a careful guess."""
        ...

    def problem(self) -> str | None:
        """What is wrong with it, as far as its last call showed; None when that went well."""
        ...
