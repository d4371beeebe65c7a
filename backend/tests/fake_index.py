"""The fake of the port `Embedder`. The contract suite holds it against the real ones."""

import asyncio
import hashlib
import re
from collections.abc import Sequence

import numpy as np

from recollect.domain.recall.rows import Vectors
from recollect.errors import EmbedderUnavailable
from recollect.service.ports import Embedder

DIMENSIONS = 64


def word_vectors(texts: Sequence[str], dimensions: int = DIMENSIONS) -> Vectors:
    """Unit vectors that are near each other where texts share words; the same in every process."""
    vectors = np.zeros((len(texts), dimensions), np.float32)
    for vector, text in zip(vectors, texts, strict=True):
        for word in re.findall(r"\w+", text.lower()):
            digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
            vector[int.from_bytes(digest[:4], "big") % dimensions] += 1.0 if digest[4] % 2 else -1.0
        if not vector.any():
            vector[:] = 1.0
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


class FakeEmbedder(Embedder):
    """Knows words, not meaning. Fails, dawdles and lies when told to."""

    def __init__(self, name: str = "fake-words", dimensions: int = DIMENSIONS) -> None:
        self._name = name
        self.dimensions = dimensions
        """Changing it is the lie: vectors of another length under the same name."""
        self.fail: str | None = None
        """The message it fails with."""
        self.go_on = asyncio.Event()
        """Cleared, every call waits for it to be set."""
        self.go_on.set()
        self.waiting = 0
        self._problem: str | None = None
        self.calls: list[list[str]] = []

    def problem(self) -> str | None:
        return self._problem

    @property
    def name(self) -> str:
        return self._name

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(list(texts))
        self.waiting += 1
        try:
            await self.go_on.wait()
        finally:
            self.waiting -= 1
        self._problem = self.fail
        if self.fail is not None:
            raise EmbedderUnavailable(self.fail)
        return word_vectors(texts, self.dimensions)
