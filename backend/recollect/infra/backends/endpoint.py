"""How a model's server is reached, and how long it may take."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recollect.context.llm import BackendKind
from recollect.infra.backends.address import host_and_port


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds."""

    connect: float = 3.0
    first_token: float = 120.0
    """Silence before the first piece of an answer: a slow machine reads a long prompt for that long."""
    stall: float = 60.0
    """Silence within an answer."""
    question: float = 3.0
    """For what is asked besides answers: the engine, its models, a count of tokens."""
    introduction: float = 10.0
    """For a server of which nothing is known yet: while it answers no question at all, it is asked again."""
    dead: float = 2.0
    """A server that nobody answered for is not asked again for so long."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One configured backend. What is None is asked of the server or told by the address."""

    name: str
    base_url: str
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    model: str | None = None
    """For calls that name none; None: the first one that the server lists."""
    models: tuple[str, ...] = ()
    """In place of the server's own list."""
    kind: BackendKind | None = None
    local: bool | None = None
    gate_group: str | None = None
    context_tokens: int | None = None
    keep_alive: str = "30m"
    """How long Ollama keeps the model loaded after a call."""
    patience: Patience = Patience()

    @property
    def address(self) -> str:
        """For people: host and port alone, since a URL may hold a password."""
        return host_and_port(self.base_url)

    @property
    def group(self) -> str:
        return self.gate_group or self.address
