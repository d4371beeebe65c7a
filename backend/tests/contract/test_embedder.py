"""What every embedder promises: the fake, a local model, and a server that speaks OpenAI's protocol."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx2
import numpy as np
import pytest

from recollect.errors import EmbedderUnavailable
from recollect.infra.embedders.onnx import OnnxEmbedder
from recollect.infra.embedders.openai import OpenAiEmbedder
from recollect.infra.embedders.port import Embedder
from tests.fakes import FakeEmbedder
from tests.processes import StandInModel

TEXTS = [
    "My sister is moving to Porto in June.",
    "The database runs out of memory at night, and nobody knows why it does so only on Tuesdays.",
    "Tea.",
    "She starts her new job as a nurse on the first of June; " * 12,
]
AWKWARD = {
    "empty": "",
    "blank": " \n\t ",
    "emoji": "👩‍👩‍👧 🎉",
    "scripts": "你好世界 こんにちは สวัสดี नमस्ते مرحبا",
    "huge": "lorem ipsum " * 9_000,
    "one huge word": "x" * 100_000,
    "lone surrogate": "before \ud83d after",
    "control characters": "a\x00b\x1bc\u2028d",
}


@dataclass(frozen=True)
class Workplace:
    """An embedder, and how to make it fail and work again."""

    embedder: Embedder
    break_it: Callable[[], object]
    mend_it: Callable[[], object]


@pytest.fixture(params=["fake", "onnx", "openai"])
async def workplace(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Workplace]:
    if request.param == "fake":
        fake = FakeEmbedder()
        yield Workplace(
            fake, lambda: setattr(fake, "fail", "told to fail"), lambda: setattr(fake, "fail", None)
        )
    elif request.param == "onnx":
        link = tmp_path / "model"
        link.symlink_to(request.getfixturevalue("model_folder"))
        onnx = OnnxEmbedder(link)
        yield Workplace(onnx, link.unlink, lambda: link.symlink_to(request.getfixturevalue("model_folder")))
        await onnx.aclose()
    else:
        server: StandInModel = request.getfixturevalue("model")
        direct = httpx2.AsyncHTTPTransport()
        openai = OpenAiEmbedder(
            base_url=server.base_url, model="words", api_key=None, timeout=20, batch=2, transport=direct
        )
        yield Workplace(openai, lambda: server.control("error"), lambda: server.control("answer"))
        await openai.aclose()


@pytest.fixture
def embedder(workplace: Workplace) -> Embedder:
    return workplace.embedder


async def test_every_text_gets_a_unit_vector(embedder: Embedder) -> None:
    vectors = await embedder.embed(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape[0] == len(TEXTS)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


async def test_no_texts_give_no_vectors(embedder: Embedder) -> None:
    assert len(await embedder.embed([])) == 0


async def test_a_text_has_the_same_vector_alone_and_among_others(embedder: Embedder) -> None:
    together = await embedder.embed(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        alone = await embedder.embed([text])
        assert alone.shape == (1, len(vector))
        assert float(alone[0] @ vector) == pytest.approx(1, abs=1e-4)


async def test_texts_of_like_words_are_nearer_than_others(embedder: Embedder) -> None:
    porto, moving, memory = await embedder.embed(
        ["My sister moves to Porto", "moves my sister to Porto in June", "a database needs more memory"]
    )
    assert porto @ moving > porto @ memory + 0.3


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD.keys())
async def test_any_text_gets_a_vector(embedder: Embedder, text: str) -> None:
    vectors = await embedder.embed([text, "plain"])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


async def test_calls_at_the_same_time_do_not_mix(embedder: Embedder) -> None:
    one_by_one = [(await embedder.embed([text]))[0] for text in TEXTS]
    answers = await asyncio.gather(*(embedder.embed([text, *TEXTS]) for text in TEXTS * 3))
    for text_vector, answer in zip(one_by_one * 3, answers, strict=True):
        assert float(answer[0] @ text_vector) == pytest.approx(1, abs=1e-4)


async def test_one_that_cannot_work_says_so_and_works_again_when_it_can(workplace: Workplace) -> None:
    workplace.break_it()
    with pytest.raises(EmbedderUnavailable) as raised:
        await workplace.embedder.embed(TEXTS)
    assert raised.value.message
    workplace.mend_it()
    assert len(await workplace.embedder.embed(TEXTS)) == len(TEXTS)
