"""What there is to know of the models' servers: what each is, what it offers, and what is wrong with it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.context.llm import BackendFacts
from recollect.errors import ModelUnavailable
from recollect.service.ports import Backend
from recollect.service.slot_maps import SlotMaps

_PATIENCE_SECONDS = 3.0
"""A server that takes longer is shown without its facts; it is asked on."""


@dataclass(frozen=True, slots=True)
class BackendView:
    """A backend; `facts` is None where it doesn't answer, `pinned` counts the slots that hold a thread."""

    backend: Backend
    facts: BackendFacts | None
    pinned: int
    problem: str | None


async def look_at_backends(backends: Sequence[Backend], slots: SlotMaps) -> list[BackendView]:
    """All of them, asked at the same time. One that doesn't answer keeps nobody waiting for long."""
    return await asyncio.gather(*(_look(backend, slots) for backend in backends))


async def _look(backend: Backend, slots: SlotMaps) -> BackendView:
    facts, slow = None, None
    asking = asyncio.ensure_future(_facts(backend))
    try:
        facts = await asyncio.wait_for(asyncio.shield(asking), _PATIENCE_SECONDS)
    except TimeoutError:
        slow = "it has not answered yet"
    return BackendView(backend, facts, slots.pinned(backend), backend.problem() or slow)


async def _facts(backend: Backend) -> BackendFacts | None:
    try:
        return await backend.facts()
    except ModelUnavailable:
        return None  # Its `problem` says why.
