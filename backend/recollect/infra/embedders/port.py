"""What every embedder offers, and the one that the settings name. One contract suite holds for all of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from recollect.domain.recall.rows import DIGEST_MARK, Vectors
from recollect.infra.backends.address import is_local
from recollect.infra.embedders.onnx import OnnxEmbedder
from recollect.infra.embedders.openai import OpenAiEmbedder
from recollect.settings import Settings


class Embedder(Protocol):
    """Turns texts into vectors of meaning. Raises EmbedderUnavailable."""

    @property
    def name(self) -> str:
        """The model: vectors of different models cannot be compared."""
        ...

    def problem(self) -> str | None:
        """What is wrong with it, as far as its last call showed; None when that went well."""
        ...

    def unknown_share(self, text: str) -> float:
        """How much of a text that it has embedded it knows no piece of, from 0 to 1: a script it was not made for."""
        ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit vector a text, all of the same length."""
        ...


def embedder_of(settings: Settings) -> OnnxEmbedder | OpenAiEmbedder | None:
    """Its model is loaded when it is first used; None where search goes by words alone."""
    chosen = settings.embedding
    if chosen.kind == "openai":
        assert chosen.base_url is not None
        assert chosen.model is not None
        return OpenAiEmbedder(
            base_url=chosen.base_url,
            model=chosen.model,
            api_key=chosen.api_key.get_secret_value() if chosen.api_key else None,
            timeout=chosen.timeout_seconds,
            dimensions=chosen.dimensions,
            batch=chosen.batch or 64,
            masks_secrets=settings.mask_secrets and not is_local(chosen.base_url),
        )
    if chosen.kind == "onnx":
        return OnnxEmbedder(settings.model_folder, threads=chosen.threads, batch=chosen.batch or 16)
    return None


def former_embedder(settings: Settings, name: str) -> OnnxEmbedder | None:
    """The local model with exactly this name and digest, where it still lies among the models: an index was made with it
    before another was configured.
    """
    folder = settings.local_model(Path(name.partition(DIGEST_MARK)[0]).name)
    embedder = OnnxEmbedder(folder, threads=settings.embedding.threads)
    return embedder if embedder.name == name and DIGEST_MARK in name else None
