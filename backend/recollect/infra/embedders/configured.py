"""The embedder that the settings name."""

from recollect.infra.backends.address import is_local
from recollect.infra.embedders.onnx import OnnxEmbedder
from recollect.infra.embedders.openai import OpenAiEmbedder
from recollect.settings import Settings


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
