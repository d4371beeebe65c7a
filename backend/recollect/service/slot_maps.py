"""Which slot of which server holds which thread."""

import time
from collections.abc import Callable

from recollect.context.llm import BackendFacts, Usage
from recollect.service.ports import Backend
from recollect.service.slots import SlotMap


class SlotMaps:
    """One map for every server that has slots, however many backends of other names and settings are on it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._maps: dict[str, SlotMap] = {}
        self._running: dict[str, str] = {}
        """On which server each thread's chat runs: what a backend stands for may change before it ends."""

    def take(self, backend: Backend, facts: BackendFacts, thread_key: str, *, begins: bool) -> int | None:
        """The slot that a chat is pinned to; None: the server chooses. `begins`: its cache holds nothing of it yet."""
        if facts.kind != "llama.cpp" or not facts.slots:
            return None
        server = backend.server
        slots = self._maps.setdefault(server, SlotMap(facts.slots, clock=self._clock))
        slots.resize(facts.slots)
        self._running[thread_key] = server
        return slots.take(thread_key, begins=begins)

    def done(self, backend: Backend, thread_key: str, usage: Usage | None) -> None:
        """The chat has ended; what it evaluated tells whether its slot held its prefix."""
        server = self._running.pop(thread_key, backend.server)
        if server in self._maps:
            self._maps[server].done(thread_key, usage)

    def disturbed(self, backend: Backend) -> None:
        """A call with a prompt of its own ran there."""
        if backend.server in self._maps:
            self._maps[backend.server].disturbed()

    def pinned(self, backend: Backend) -> int:
        """How many of the slots of its server hold a thread that is known to be there."""
        slots = self._maps.get(backend.server)
        return 0 if slots is None else slots.pinned

    def release(self, thread_key: str) -> None:
        """The thread is gone."""
        for slots in self._maps.values():
            slots.release(thread_key)
