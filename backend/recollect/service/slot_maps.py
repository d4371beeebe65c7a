"""Which slot of which backend holds which thread."""

import time
from collections.abc import Callable

from recollect.context.llm import BackendFacts, Usage
from recollect.service.ports import Backend
from recollect.service.slots import SlotMap


class SlotMaps:
    """One map for every backend that has slots."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._maps: dict[str, SlotMap] = {}

    def take(self, backend: Backend, facts: BackendFacts, thread_key: str, *, begins: bool) -> int | None:
        """The slot that a chat is pinned to; None: the server chooses. `begins`: its cache holds nothing of it yet."""
        if facts.kind != "llama.cpp" or not facts.slots:
            return None
        slots = self._maps.setdefault(backend.name, SlotMap(facts.slots, clock=self._clock))
        slots.resize(facts.slots)
        return slots.take(thread_key, begins=begins)

    def done(self, backend: Backend, thread_key: str, usage: Usage | None) -> None:
        """The chat has ended; what it evaluated tells whether its slot held its prefix."""
        if backend.name in self._maps:
            self._maps[backend.name].done(thread_key, usage)

    def disturbed(self, backend: Backend) -> None:
        """A call with a prompt of its own ran there."""
        if backend.name in self._maps:
            self._maps[backend.name].disturbed()

    def release(self, thread_key: str) -> None:
        """The thread is gone."""
        for slots in self._maps.values():
            slots.release(thread_key)
