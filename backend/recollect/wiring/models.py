"""The models that the settings ask for."""

from recollect.infra.boundary_model import BoundaryModel
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


def boundary_model(settings: Settings) -> BoundaryModel | None:
    """The model for background work, if one is configured: its own backend, else the chat's."""
    tasks, chat = settings.tasks, settings.llm
    base_url = tasks.base_url or chat.base_url
    if base_url is None:
        return None
    own = tasks.base_url is not None
    key = tasks.api_key or (None if own else chat.api_key)
    return BoundaryModel(
        base_url=base_url,
        model=tasks.model or (None if own else chat.model),
        api_key=key.get_secret_value() if key else None,
        timeout=settings.memorize.model_timeout_seconds,
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
