"""Which slot of which llama.cpp server holds which thread's prefix."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from recollect.domain.llm import BackendFacts, Usage
from recollect.infra.backends.configured import Backend

IDLE_SECONDS = 30 * 60


def wants_thread_tag(facts: BackendFacts) -> bool:
    """Whether a thread's prompts must differ from those of other threads from their first words on."""
    return facts.kind == "llama.cpp"


@dataclass(slots=True)
class _Place:
    slot: int | None
    """None: not pinned; the server chooses."""
    used_at: float
    calls: int = 0
    prompt_tokens: int = 0
    """The length of the part of its last prompt that the next one begins with."""
    is_gone: bool = False
    """The thread is deleted; its slot is kept until the call ends."""


class ServerSlots:
    """The slots of one backend. No two threads are ever pinned to the same one."""

    def __init__(self, slots: int, *, clock: Callable[[], float]) -> None:
        self._slots = slots
        self._clock = clock
        self._places: dict[str, _Place] = {}
        """Least recently used first."""
        self._pins_hold = True

    @property
    def pinned(self) -> int:
        """How many slots have a thread pinned to them."""
        return sum(place.slot is not None for place in self._places.values())

    def take(self, thread: str, *, begins: bool) -> int | None:
        """At the start of a chat's call: the slot to pin it to, or None to let the server choose.

        `begins`: the server has seen nothing, or hardly anything, of this prompt: the thread's first, or an epoch's.
        """
        self._drop_idle()
        place = self._places.pop(thread, None) or self._new_place(begins=begins)
        self._places[thread] = place
        if begins:
            place.prompt_tokens = 0
        place.calls += 1
        place.is_gone = False
        place.used_at = self._clock()
        if len(self._places) > self._slots:
            self._unpin_all()
        return place.slot

    def done(self, thread: str, usage: Usage | None = None) -> None:
        """At the end of that call. `usage` tells whether its slot held what the call before had left there."""
        place = self._places.get(thread)
        if place is None:
            return
        place.calls -= 1
        place.used_at = self._clock()
        if place.is_gone:
            self.release(thread)
        if usage is None or usage.prompt_tokens is None:
            return
        if place.slot is not None and _was_missed(usage, place.prompt_tokens):
            self._pins_hold = False
            self._unpin_all()
        place.prompt_tokens = usage.prompt_tokens

    def disturbed(self) -> None:
        """A call with its own prompt ran on the backend, in an unknown slot."""
        self._unpin_all()

    def release(self, thread: str) -> None:
        """The thread is gone."""
        place = self._places.get(thread)
        if place is None:
            return
        if place.calls > 0:
            place.is_gone = True
        else:
            del self._places[thread]

    def resize(self, slots: int) -> None:
        """Another number of slots means that the server was restarted and its cache is empty."""
        if slots != self._slots:
            self._slots = slots
            self._places = {}
            self._pins_hold = True

    def _new_place(self, *, begins: bool) -> _Place:
        taken = {place.slot for place in self._places.values()}
        certain = begins and self._pins_hold and None not in taken
        free = (slot for slot in range(self._slots) if certain and slot not in taken)
        return _Place(next(free, None), self._clock())

    def _unpin_all(self) -> None:
        for place in self._places.values():
            place.slot = None

    def _drop_idle(self) -> None:
        """Forget threads idle for long."""
        now = self._clock()
        for thread, place in list(self._places.items()):
            if place.calls <= 0 and now - place.used_at > IDLE_SECONDS:
                self.release(thread)


def _was_missed(usage: Usage, before: int) -> bool:
    """Most changes of a prompt leave at least half of it cached."""
    return usage.cached_tokens is not None and usage.cached_tokens < before / 2


class LlamaSlots:
    """One map for every server that has slots, however many backends of other names and settings are on it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._maps: dict[str, ServerSlots] = {}
        self._running: dict[str, str] = {}
        """The server on which each thread's chat runs: a backend may move to another before the chat ends."""

    def take(self, backend: Backend, facts: BackendFacts, thread_key: str, *, begins: bool) -> int | None:
        """The slot that a chat is pinned to; None: the server chooses. `begins`: its cache holds nothing of it yet."""
        if facts.kind != "llama.cpp" or not facts.slots:
            return None
        server = backend.server
        slots = self._maps.setdefault(server, ServerSlots(facts.slots, clock=self._clock))
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
        """How many slots of its server have a thread pinned to them."""
        slots = self._maps.get(backend.server)
        return 0 if slots is None else slots.pinned

    def release(self, thread_key: str) -> None:
        """The thread is gone."""
        for slots in self._maps.values():
            slots.release(thread_key)
