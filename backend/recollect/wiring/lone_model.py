"""The model for background work by itself, without a home: for measuring it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from recollect.service.background_model import BackgroundModel, ThreadModel
from recollect.service.gate import Gate
from recollect.settings import Settings
from recollect.wiring.backends import Backends


@asynccontextmanager
async def background_model(settings: Settings) -> AsyncIterator[BackgroundModel | None]:
    """None where nobody configured one."""
    backends = Backends(settings)

    async def model_for(space: str, thread_id: str) -> ThreadModel:
        return ThreadModel(backends.tasks)

    try:
        is_there = backends.configured or settings.tasks.base_url is not None
        yield BackgroundModel(model_for, Gate(), answer_seconds=600) if is_there else None
    finally:
        await backends.aclose()
