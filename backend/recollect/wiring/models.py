"""The models that the settings ask for."""

from recollect.infra.embedding.onnx import OnnxEmbedder
from recollect.infra.embedding.openai import OpenAiEmbedder
from recollect.memory.boundary import BoundaryRules
from recollect.settings import Settings


def boundary_rules(settings: Settings) -> BoundaryRules:
    return BoundaryRules(
        gap_ms=int(settings.memorize.gap_minutes * 60_000),
        max_turns=settings.memorize.max_turns,
        max_chars=settings.memorize.max_chars,
    )


def embedder_of(settings: Settings) -> OnnxEmbedder | OpenAiEmbedder | None:
    """The embedder that is configured; its model is loaded when it is first used."""
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
        )
    if chosen.kind == "onnx":
        return OnnxEmbedder(settings.model_folder, threads=chosen.threads, batch=chosen.batch or 16)
    return None
