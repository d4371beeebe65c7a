"""A model's answer as it is kept until its memcell is forgotten."""

from dataclasses import dataclass, field

from recollect.memory.model import JsonObject


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The raw text, so that a retry costs no second call."""

    text: str
    model: str
    usage: JsonObject = field(default_factory=dict)
    """Tokens in, out and cached, as the backend told them."""
