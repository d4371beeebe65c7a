"""What tests put in the place of a clock, of a model's server and of an embedding model."""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from recollect.domain.llm import BackendFacts, ChatCall, Delta, Finished, Sent, StreamEvent, Usage
from recollect.domain.recall.rows import Vectors
from recollect.errors import BackendDown, EmbedderUnavailable, ModelUnavailable, UnknownModel
from recollect.infra.embedders.port import Embedder
from tests.standins.standin_memory import content_of

START = 1_778_248_980_000
"""2026-05-08T14:03:00Z"""


class FakeClock:
    """Stands still until it is told to move."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, milliseconds: int) -> None:
        self.now += milliseconds


def echo(call: ChatCall) -> str:
    return f"You said: {content_of(call.messages[-1])}"


@dataclass
class FakeBackend:
    """Answers word by word, and counts words as tokens; remembers every call and how it went.

    `answer` makes the text. `fail` is raised in place of an answer. With `pace`, every piece waits for one `release()`.
    """

    name: str = "default"
    gate_group: str = "fake:1"
    server: str = "fake:1"
    label: str | None = None
    told: BackendFacts = field(
        default_factory=lambda: BackendFacts(
            "llama.cpp", local=True, context_tokens=4096, slots=2, models=("fake",), selects_by_name=True
        )
    )
    answer: Callable[[ChatCall], str] = echo
    fail: ModelUnavailable | None = None
    pace: asyncio.Semaphore | None = None
    calls: list[ChatCall] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    dropped: int = 0
    """Streams that were closed before their end."""
    _problem: str | None = None

    def release(self, pieces: int = 1) -> None:
        assert self.pace is not None
        for _ in range(pieces):
            self.pace.release()

    def problem(self) -> str | None:
        return self._problem

    async def facts(self) -> BackendFacts:
        if isinstance(self.fail, BackendDown):
            raise self._failure(self.fail)
        return self.told

    async def count_tokens(self, text: str) -> int:
        return len(text.split())

    async def stream(self, call: ChatCall) -> AsyncGenerator[StreamEvent]:
        facts = await self.facts()
        if call.model is not None and call.model not in facts.models:
            names = ", ".join(facts.models)
            raise UnknownModel(
                f"the backend {self.name!r} has no model {call.model!r}. It has: {names}", field="model"
            )
        self.calls.append(call)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        ended = False
        try:
            async for event in self._answer(call):
                yield event
            ended, self._problem = True, None
        except ModelUnavailable:
            ended = True
            raise
        finally:
            self.in_flight -= 1
            self.dropped += not ended

    async def _answer(self, call: ChatCall) -> AsyncGenerator[StreamEvent]:
        yield Sent({"model": call.model or self.told.models[0], "messages": list(call.messages)})
        if self.fail is not None:
            raise self._failure(self.fail)
        written = 0
        for choice in range(call.choices):
            for word in re.findall(r"\s*\S+", self.answer(call)):
                if self.pace is not None:
                    await self.pace.acquire()
                yield Delta(text=word, choice=choice)
                written += 1
        prompt = sum(1 + len(content_of(message).split()) for message in call.messages)
        usage = Usage(prompt, written, cached_tokens=0, evaluated_tokens=prompt)
        yield Finished(dict.fromkeys(range(call.choices), "stop"), usage, self.told.models[0])

    def _failure(self, error: ModelUnavailable) -> ModelUnavailable:
        self._problem = error.message
        return error


DIMENSIONS = 64


def word_vectors(texts: Sequence[str], dimensions: int = DIMENSIONS) -> Vectors:
    """Unit vectors that are near each other where texts share words; the same in every process."""
    vectors = np.zeros((len(texts), dimensions), np.float32)
    for vector, text in zip(vectors, texts, strict=True):
        for word in re.findall(r"\w+", text.lower()):
            digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
            vector[int.from_bytes(digest[:4], "big") % dimensions] += 1.0 if digest[4] % 2 else -1.0
        if not vector.any():
            vector[:] = 1.0
    unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


class FakeEmbedder(Embedder):
    """Knows words, not meaning. Fails, dawdles and lies when told to."""

    def __init__(self, name: str = "fake-words", dimensions: int = DIMENSIONS) -> None:
        self._name = name
        self.dimensions = dimensions
        """Changing it is the lie: vectors of another length under the same name."""
        self.fail: str | None = None
        """The message it fails with."""
        self.go_on = asyncio.Event()
        """Cleared, every call waits for it to be set."""
        self.go_on.set()
        self.waiting = 0
        self._problem: str | None = None
        self.calls: list[list[str]] = []
        self.unknown = 0.0
        """How much of every text it does not know."""

    def unknown_share(self, text: str) -> float:
        return self.unknown

    def problem(self) -> str | None:
        return self._problem

    @property
    def name(self) -> str:
        return self._name

    async def aclose(self) -> None:
        """It holds nothing open."""

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(list(texts))
        self.waiting += 1
        try:
            await self.go_on.wait()
        finally:
            self.waiting -= 1
        self._problem = self.fail
        if self.fail is not None:
            raise EmbedderUnavailable(self.fail)
        return word_vectors(texts, self.dimensions)
