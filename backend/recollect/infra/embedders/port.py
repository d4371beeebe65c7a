"""What every embedder offers. One contract suite holds for all of them."""

from collections.abc import Sequence
from typing import Protocol

from recollect.domain.recall.rows import Vectors


class Embedder(Protocol):
    """Turns texts into vectors of meaning. Raises EmbedderUnavailable."""

    @property
    def name(self) -> str:
        """The model: vectors of different models cannot be compared."""
        ...

    def problem(self) -> str | None:
        """What is wrong with it, as far as its last call showed; None when that went well."""
        ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit vector a text, all of the same length."""
        ...
