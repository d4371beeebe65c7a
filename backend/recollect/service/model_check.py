"""Whether the embedding model is the one whose vectors the index holds."""

from recollect.errors import EmbedderUnavailable
from recollect.memory.index_row import DIGEST_MARK, Generation
from recollect.service.index_meaning import PROBE
from recollect.service.ports import Embedder

_UNTIL = "search goes by words until 'recollect reindex' has run"


class ModelCheck:
    """Models are told apart by their names, and those of one name by how many dimensions they give."""

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder
        self._dimensions: int | None = None
        """What the model was last seen to give."""

    def mismatch(self, live: Generation) -> str | None:
        """The index holds another model's vectors: said with what to do about it."""
        if self._embedder is None:
            return None
        name = self._embedder.name
        if not live.holds_vectors_of(name):
            return f"the index was made with the embedding model {live.model}, and {name} is configured: {_UNTIL}"
        if live.dimensions and self._dimensions not in (None, live.dimensions):
            gives = f"the embedding model {name} gives {self._dimensions} dimensions"
            return f"{gives}, and the index has {live.dimensions}: {_UNTIL}"
        return None

    def seen(self, dimensions: int) -> None:
        """The model's vectors fit into the index."""
        self._dimensions = dimensions or self._dimensions

    async def probe(self, live: Generation) -> None:
        """Raises EmbedderUnavailable where the model does not answer, or gives other dimensions than the index has."""
        if self._embedder is None or not live.dimensions or self._dimensions == live.dimensions:
            return
        # A name with a digest of the model's files in it vouches for the dimensions.
        if DIGEST_MARK in self._embedder.name or not live.holds_vectors_of(self._embedder.name):
            return
        (vector,) = await self._embedder.embed([PROBE])
        self._dimensions = len(vector)
        if (mismatch := self.mismatch(live)) is not None:
            raise EmbedderUnavailable(mismatch)
