"""The OpenAI embedder against a stand-in server in a process of its own, on its good and bad days."""

import time
from collections.abc import AsyncIterator, Iterator

import httpx2
import numpy as np
import pytest

from recollect.errors import EmbedderUnavailable, TextRefused
from recollect.infra.embedders.openai import MAX_CHARS, OpenAiEmbedder
from tests.fakes import DIMENSIONS, word_vectors
from tests.processes import StandInModel

TEXTS = [f"number {n} of the texts" for n in range(5)]


class SecondHand:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture(scope="module")
def running() -> Iterator[StandInModel]:
    with StandInModel() as server:
        yield server


@pytest.fixture
def server(running: StandInModel) -> StandInModel:
    running.control("answer")
    return running


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        yield client


@pytest.fixture
def clock() -> SecondHand:
    return SecondHand()


@pytest.fixture
def embedder(server: StandInModel, client: httpx2.AsyncClient, clock: SecondHand) -> OpenAiEmbedder:
    return OpenAiEmbedder(
        base_url=server.base_url, model="words", api_key="key-1", timeout=20, clock=clock, client=client
    )


def asked(server: StandInModel) -> int:
    return len(server.calls()["embeddings"])


async def test_vectors_come_in_the_order_of_the_texts(server: StandInModel, embedder: OpenAiEmbedder) -> None:
    server.control("shuffled")
    assert np.allclose(await embedder.embed(TEXTS), word_vectors(TEXTS), atol=1e-6)


async def test_many_texts_are_sent_in_batches(server: StandInModel, client: httpx2.AsyncClient) -> None:
    before = asked(server)
    embedder = OpenAiEmbedder(base_url=server.base_url, model="m", api_key=None, batch=2, client=client)
    assert np.allclose(await embedder.embed(TEXTS), word_vectors(TEXTS), atol=1e-6)
    assert [len(body["input"]) for body in server.calls()["embeddings"][before:]] == [2, 2, 1]


async def test_a_request_holds_the_model_the_texts_and_the_key(
    server: StandInModel, embedder: OpenAiEmbedder
) -> None:
    await embedder.embed(["one", ""])
    calls = server.calls()
    assert calls["embeddings"][-1] == {"model": "words", "input": ["one", " "]}
    assert calls["authorizations"][-1] == "Bearer key-1"


async def test_dimensions_are_asked_for_where_they_are_set(
    server: StandInModel, client: httpx2.AsyncClient
) -> None:
    embedder = OpenAiEmbedder(
        base_url=server.base_url + "/v1/", model="m", api_key=None, dimensions=16, client=client
    )
    assert (await embedder.embed(["one"])).shape == (1, 16)
    assert server.calls()["embeddings"][-1]["dimensions"] == 16


async def test_a_long_text_is_cut(server: StandInModel, embedder: OpenAiEmbedder) -> None:
    await embedder.embed(["x" * 100_000])
    assert server.calls()["embeddings"][-1]["input"] == ["x" * MAX_CHARS]


@pytest.mark.parametrize(
    ("mode", "cause"),
    [
        ("error", "answered 500"),
        ("wrong_count", "4 vectors to 5 texts"),
        ("not_finite", "not finite"),
        ("uneven", "several lengths"),
        ("no_json", "no embeddings"),
    ],
)
async def test_a_useless_answer_is_named(
    server: StandInModel, embedder: OpenAiEmbedder, mode: str, cause: str
) -> None:
    server.control(mode)
    with pytest.raises(EmbedderUnavailable, match=cause):
        await embedder.embed(TEXTS)


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        ([{"index": 0, "embedding": [1.0, 0.0]}, {"index": 0, "embedding": [0.0, 1.0]}], "which vector is which"),
        ([{"index": 0, "embedding": [1.0, 0.0]}, {"index": True, "embedding": [0.0, 1.0]}], "which vector is which"),
        ([{"index": 1, "embedding": [1.0, 0.0]}, {"index": 2, "embedding": [0.0, 1.0]}], "which vector is which"),
        ([{"index": 0, "embedding": [1.0, 0.0]}, {"index": 1, "embedding": [0.0, 0.0]}], "vector of zeros"),
    ],
    ids=["one number twice", "no number", "from one on", "zeros"],
)  # fmt: skip
async def test_an_answer_that_cannot_be_believed_is_refused(data: list[object], cause: str) -> None:
    answers = httpx2.MockTransport(lambda request: httpx2.Response(200, json={"data": data}))
    async with httpx2.AsyncClient(transport=answers) as client:
        embedder = OpenAiEmbedder(base_url="http://localhost", model="m", api_key=None, client=client)
        with pytest.raises(EmbedderUnavailable, match=cause):
            await embedder.embed(["one", "two"])
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
async def test_a_text_that_is_refused_is_told_from_a_server_that_fails(status: int, is_refusal: bool) -> None:
    answers = httpx2.MockTransport(lambda request: httpx2.Response(status, json={}))
    async with httpx2.AsyncClient(transport=answers) as client:
        embedder = OpenAiEmbedder(base_url="http://localhost", model="m", api_key=None, client=client)
        for _ in range(4 if is_refusal else 0):  # A refusal opens no breaker: the server answers.
            with pytest.raises(TextRefused):
                await embedder.embed(["one"])
        with pytest.raises(EmbedderUnavailable, match=f"answered {status}$") as raised:
            await embedder.embed(["one"])
        assert isinstance(raised.value, TextRefused) == is_refusal
        assert (embedder.problem() is None) == is_refusal


async def test_it_tells_of_a_failure_until_a_call_succeeds(
    server: StandInModel, embedder: OpenAiEmbedder
) -> None:
    assert embedder.problem() is None
    server.control("error")
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed(TEXTS)
    assert embedder.problem() == "the embedding server answered 500"
    server.control()
    await embedder.embed(TEXTS)
    assert embedder.problem() is None


async def test_a_change_of_dimensions_is_a_lie_that_names_both(
    server: StandInModel, embedder: OpenAiEmbedder
) -> None:
    await embedder.embed(TEXTS)
    server.control("wrong_dimensions")
    with pytest.raises(EmbedderUnavailable, match=f"{DIMENSIONS + 1} dimensions, not of {DIMENSIONS}"):
        await embedder.embed(TEXTS)


async def test_a_slow_server_is_given_up_in_time(server: StandInModel, client: httpx2.AsyncClient) -> None:
    server.control("silent")
    embedder = OpenAiEmbedder(base_url=server.base_url, model="m", api_key=None, timeout=0.2, client=client)
    begun = time.monotonic()
    with pytest.raises(EmbedderUnavailable, match=r"more than 0\.2 s"):
        await embedder.embed(TEXTS)
    assert time.monotonic() - begun < 5


async def test_a_server_that_is_not_there_is_named_unreachable(client: httpx2.AsyncClient) -> None:
    embedder = OpenAiEmbedder(base_url="http://127.0.0.1:1", model="m", api_key=None, client=client)
    with pytest.raises(EmbedderUnavailable, match="cannot be reached"):
        await embedder.embed(TEXTS)


async def test_after_three_failures_it_fails_at_once_and_asks_again_after_five_seconds(
    server: StandInModel, embedder: OpenAiEmbedder, clock: SecondHand
) -> None:
    server.control("error")
    before = asked(server)
    for _ in range(10):
        with pytest.raises(EmbedderUnavailable, match="answered 500"):
            await embedder.embed(TEXTS)
    assert asked(server) - before == 3
    clock.seconds += 5
    with pytest.raises(EmbedderUnavailable, match="answered 500"):
        await embedder.embed(TEXTS)
    assert asked(server) - before == 4
    server.control("answer")
    clock.seconds += 5
    assert len(await embedder.embed(TEXTS)) == len(TEXTS)


async def test_failures_that_are_not_in_a_row_do_not_add_up(
    server: StandInModel, embedder: OpenAiEmbedder
) -> None:
    for _ in range(4):
        server.control("error", times=1)
        with pytest.raises(EmbedderUnavailable, match="answered 500"):
            await embedder.embed(TEXTS)
        await embedder.embed(TEXTS)


def test_an_address_without_a_scheme_is_refused() -> None:
    with pytest.raises(ValueError, match="http://"):
        OpenAiEmbedder(base_url="localhost:8080", model="m", api_key=None)
