"""The OpenAI embedder on a server's good and bad days. `contract/test_embedder.py` asks a real one."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx2
import numpy as np
import pytest

from recollect.errors import EmbedderUnavailable, TextRefused
from recollect.infra.embedders.openai import MAX_CHARS, OpenAiEmbedder
from tests.fakes import DIMENSIONS, FakeClock, word_vectors

TEXTS = [f"number {n} of the texts" for n in range(5)]


class Server:
    """Answers with the vectors of the texts' words, unless a test says otherwise."""

    def __init__(self) -> None:
        self.status = 200
        self.change: Callable[[list[dict[str, Any]]], object] = lambda data: None
        """Changes the right answer into another."""
        self.bodies: list[dict[str, Any]] = []
        self.authorization: str | None = None

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        self.authorization = request.headers.get("authorization")
        vectors = word_vectors(body["input"], body.get("dimensions", DIMENSIONS)).tolist()
        data = [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        self.change(data)
        return httpx2.Response(self.status, content=json.dumps({"data": data}))


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(100)


@pytest.fixture
def embedder(server: Server, clock: FakeClock) -> OpenAiEmbedder:
    transport = httpx2.MockTransport(server)
    return OpenAiEmbedder(
        base_url="http://localhost", model="words", api_key="key-1", batch=5, clock=clock, transport=transport
    )


async def test_a_request_holds_the_model_a_batch_of_texts_and_the_key(
    server: Server, embedder: OpenAiEmbedder
) -> None:
    vectors = await embedder.embed([*TEXTS, "", "x" * 100_000])
    assert np.allclose(vectors[:5], word_vectors(TEXTS), atol=1e-6)
    assert server.bodies == [
        {"model": "words", "input": TEXTS},
        {"model": "words", "input": [" ", "x" * MAX_CHARS]},
    ]
    assert server.authorization == "Bearer key-1"


async def test_vectors_come_in_the_order_of_the_texts(server: Server, embedder: OpenAiEmbedder) -> None:
    server.change = list.reverse
    assert np.allclose(await embedder.embed(TEXTS), word_vectors(TEXTS), atol=1e-6)


async def test_dimensions_are_asked_for_where_they_are_set(server: Server) -> None:
    transport = httpx2.MockTransport(server)
    embedder = OpenAiEmbedder(
        base_url="http://localhost/v1/", model="m", api_key=None, dimensions=16, transport=transport
    )
    assert (await embedder.embed(["one"])).shape == (1, 16)
    assert server.bodies[-1]["dimensions"] == 16


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda data: data.pop(), "4 vectors to 5 texts"),
        (lambda data: data[0]["embedding"].__setitem__(0, float("nan")), "not finite"),
        (lambda data: data[0]["embedding"].append(0.0), "several lengths"),
        (lambda data: data[0].pop("embedding"), "no embeddings"),
        (lambda data: data[1].update(index=0), "which vector is which"),
        (lambda data: data[1].update(index=True), "which vector is which"),
        (lambda data: [each.update(index=each["index"] + 1) for each in data], "which vector is which"),
        (lambda data: data[1].update(embedding=[0.0] * DIMENSIONS), "vector of zeros"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_named(
    server: Server, embedder: OpenAiEmbedder, change: Callable[[list[dict[str, Any]]], object], cause: str
) -> None:
    server.change = change
    with pytest.raises(EmbedderUnavailable, match=cause):
        await embedder.embed(TEXTS)
    assert cause in str(embedder.problem())


@pytest.mark.parametrize(
    ("status", "is_refusal"),
    [
        (400, True),
        (413, True),
        (422, True),
        (401, False),
        (404, False),
        (429, False),
        (500, False),
        (503, False),
    ],
)
async def test_a_text_that_is_refused_is_told_from_a_server_that_fails(
    server: Server, embedder: OpenAiEmbedder, status: int, is_refusal: bool
) -> None:
    server.status = status
    for _ in range(4 if is_refusal else 0):  # A refusal opens no breaker: the server answers.
        with pytest.raises(TextRefused):
            await embedder.embed(["one"])
    with pytest.raises(EmbedderUnavailable, match=f"answered {status}$") as raised:
        await embedder.embed(["one"])
    assert isinstance(raised.value, TextRefused) == is_refusal
    assert (embedder.problem() is None) == is_refusal


async def test_a_change_of_dimensions_is_a_lie_that_names_both(
    server: Server, embedder: OpenAiEmbedder
) -> None:
    await embedder.embed(TEXTS)
    server.change = lambda data: [each["embedding"].append(0.0) for each in data]
    with pytest.raises(EmbedderUnavailable, match=f"{DIMENSIONS + 1} dimensions, not of {DIMENSIONS}"):
        await embedder.embed(TEXTS)


async def test_a_slow_server_is_given_up_in_time() -> None:
    async def silent(request: httpx2.Request) -> httpx2.Response:
        await asyncio.Event().wait()
        raise AssertionError("it waits for ever")

    transport = httpx2.MockTransport(silent)
    embedder = OpenAiEmbedder(
        base_url="http://localhost", model="m", api_key=None, timeout=0.2, transport=transport
    )
    async with asyncio.timeout(30):
        with pytest.raises(EmbedderUnavailable, match=r"more than 0\.2 s"):
            await embedder.embed(TEXTS)


async def test_a_server_that_is_not_there_is_named_unreachable() -> None:
    embedder = OpenAiEmbedder(base_url="http://127.0.0.1:1", model="m", api_key=None)
    with pytest.raises(EmbedderUnavailable, match="cannot be reached"):
        await embedder.embed(TEXTS)
    await embedder.aclose()


async def test_after_three_failures_it_fails_at_once_and_asks_again_after_five_seconds(
    server: Server, embedder: OpenAiEmbedder, clock: FakeClock
) -> None:
    server.status = 500
    for _ in range(10):
        with pytest.raises(EmbedderUnavailable, match="answered 500"):
            await embedder.embed(TEXTS)
    assert len(server.bodies) == 3
    clock.now += 5
    with pytest.raises(EmbedderUnavailable, match="answered 500"):
        await embedder.embed(TEXTS)
    assert len(server.bodies) == 4
    assert embedder.problem() == "the embedding server answered 500"
    server.status = 200
    clock.now += 5
    assert len(await embedder.embed(TEXTS)) == len(TEXTS)
    assert embedder.problem() is None
