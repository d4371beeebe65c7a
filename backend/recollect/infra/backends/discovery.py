"""Looking for a model's server that runs on this machine."""

import asyncio
import time
from collections.abc import Callable, Sequence

from recollect.errors import ModelUnavailable
from recollect.infra.backends.backend import HttpBackend
from recollect.infra.backends.endpoint import Endpoint, Patience

USUAL_ADDRESSES = ("http://127.0.0.1:11434", "http://127.0.0.1:1234", "http://127.0.0.1:8080")
"""Where Ollama, LM Studio and llama.cpp listen unless told otherwise. Who listens there is asked, not assumed."""
_SECONDS = 0.3
_REMEMBERED_SECONDS = 30.0


class Discovery:
    """Finds a server that tells its engine and has a model. What it found, or that it found none, it remembers."""

    def __init__(
        self,
        addresses: Sequence[str] = USUAL_ADDRESSES,
        *,
        seconds: float = _SECONDS,
        remembered_seconds: float = _REMEMBERED_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._addresses = tuple(addresses)
        self._patience = Patience(connect=seconds, question=seconds, introduction=seconds)
        self._remembered_seconds = remembered_seconds
        self._monotonic = monotonic
        self._looking = asyncio.Lock()
        self._found: str | None = None
        self._looked_at: float | None = None

    async def address(self) -> str | None:
        """Of the first that fits; of the same one as before for as long as it does."""
        async with self._looking:
            now = self._monotonic()
            if self._looked_at is None or now - self._looked_at >= self._remembered_seconds:
                self._found = await self._look()
                self._looked_at = self._monotonic()
            return self._found

    def forget(self) -> None:
        """Look again at the next occasion: what was found has gone."""
        self._looked_at = None

    async def _look(self) -> str | None:
        fits = await asyncio.gather(*(_fits(address, self._patience) for address in self._addresses))
        found = [address for address, fit in zip(self._addresses, fits, strict=True) if fit]
        return self._found if self._found in found else next(iter(found), None)


async def _fits(address: str, patience: Patience) -> bool:
    backend = HttpBackend(Endpoint("looked for", address, local=True, patience=patience))
    try:
        facts = await backend.facts()
    except ModelUnavailable:
        return False  # Nobody there, or nobody who serves models: that is what was asked.
    finally:
        await backend.aclose()
    return facts.kind != "other" and bool(facts.models)
