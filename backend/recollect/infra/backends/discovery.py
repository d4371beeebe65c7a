"""The backend for a home that configures none: one found on this machine, else the small model."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any

from recollect.domain.llm import BackendFacts, ChatCall, StreamEvent
from recollect.errors import BackendDown, ModelUnavailable
from recollect.infra.backends.client import HttpBackend
from recollect.infra.backends.dialect import guess_tokens
from recollect.infra.backends.local_model import SMOLLM2
from recollect.infra.backends.server import Endpoint, Patience

USUAL_ADDRESSES = ("http://127.0.0.1:11434", "http://127.0.0.1:1234", "http://127.0.0.1:8080")
"""Where Ollama, LM Studio and llama.cpp listen unless told otherwise. Who listens there is asked, not assumed."""
PROBE_SECONDS = 0.3
_REMEMBERED_SECONDS = 30.0


async def _fits(address: str, patience: Patience) -> bool:
    backend = HttpBackend(Endpoint(name="looked for", base_url=address, local=True, patience=patience))
    try:
        facts = await backend.facts()
    except ModelUnavailable:
        return False  # No server there, or one that serves no models.
    finally:
        await backend.aclose()
    return facts.kind != "other" and bool(facts.models)


THIS_MACHINE = "this machine"
SmallModel = Callable[[], Awaitable[str]]
"""Starts the small model if it doesn't run, and tells its address. Raises ModelUnavailable with what to do."""


class FoundBackend:
    """Looks for a server when it is used, and again when that one has gone."""

    reads_pdf = False

    def __init__(
        self,
        configured: Endpoint,
        *,
        small_model: SmallModel | None = None,
        addresses: Sequence[str] = USUAL_ADDRESSES,
        seconds: float = PROBE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`configured` has everything but the address. Each of `addresses` is probed for at most `seconds`."""
        self.name = configured.name
        self.gate_group = configured.gate_group or THIS_MACHINE
        self._configured = configured
        self._small_model = small_model
        self._addresses = tuple(addresses)
        self._patience = Patience(connect=seconds, question=seconds, introduction=seconds)
        self._monotonic = monotonic
        self._choosing = asyncio.Lock()
        self._found: str | None = None
        """The address found by the last search, which is repeated after `_REMEMBERED_SECONDS`."""
        self._looked_at: float | None = None
        self._backends: dict[tuple[str, str | None], HttpBackend] = {}
        self._current: HttpBackend | None = None
        self._problem: str | None = None
        self.label: str | None = None
        """Shown with the small model's answers, if the last call went to that."""

    @property
    def server(self) -> str:
        """Host and port of the one that is used now."""
        return self._current.server if self._current is not None else THIS_MACHINE

    @property
    def last_activity(self) -> datetime | None:
        return self._current.last_activity if self._current is not None else None

    def problem(self) -> str | None:
        return self._problem or (self._current.problem() if self._current is not None else None)

    async def aclose(self) -> None:
        backends, self._backends, self._current = self._backends, {}, None
        for backend in backends.values():
            await backend.aclose()

    async def is_found(self) -> bool:
        """Whether a server runs on this machine; the small model is none."""
        async with self._choosing:
            return await self._look() is not None

    async def facts(self) -> BackendFacts:
        backend = await self._backend()
        try:
            return await backend.facts()
        except BackendDown:
            self._looked_at = None
            raise

    async def stream(self, call: ChatCall) -> AsyncGenerator[StreamEvent]:
        backend = await self._backend()
        try:
            async with aclosing(backend.stream(call)) as events:
                async for event in events:
                    yield event
        except BackendDown:
            self._looked_at = None
            raise

    async def count_tokens(self, text: str) -> int:
        """A careful guess while there is no server to ask."""
        try:
            backend = await self._backend()
        except ModelUnavailable:
            return guess_tokens(text)
        return await backend.count_tokens(text)

    async def _backend(self) -> HttpBackend:
        async with self._choosing:
            try:
                self._current = await self._choose()
            except ModelUnavailable as error:
                self._problem = error.message
                raise
            self._problem = None
            return self._current

    async def _choose(self) -> HttpBackend:
        found = await self._look()
        if found is not None:
            self.label = None
            return self._at(base_url=found)
        if self._small_model is not None:
            address = await self._small_model()
            self.label = SMOLLM2.label
            return self._at(base_url=address, model=None, models=[])
        looked = (
            ", and none was found running on this machine (Ollama, LM Studio, llama.cpp)"
            if self._addresses
            else ""
        )
        raise BackendDown(
            f"no model is configured{looked}. Set RECOLLECT_LLM__BASE_URL to the address of one."
        )

    async def _look(self) -> str | None:
        """The first address that fits, or the one found before for as long as it fits."""
        if self._looked_at is None or self._monotonic() - self._looked_at >= _REMEMBERED_SECONDS:
            fits = await asyncio.gather(*(_fits(address, self._patience) for address in self._addresses))
            found = [address for address, fit in zip(self._addresses, fits, strict=True) if fit]
            self._found = self._found if self._found in found else next(iter(found), None)
            self._looked_at = self._monotonic()
        return self._found

    def _at(self, **given: Any) -> HttpBackend:
        """One per address: streams from other addresses go on."""
        key = (given["base_url"], self.label)
        if key not in self._backends:
            self._backends[key] = HttpBackend(self._configured.model_copy(update=given))
        return self._backends[key]
