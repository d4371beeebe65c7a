"""OpenAI's own package at Recollect's door: embeddings. Chat completions: `doors/test_openai_*.py`."""

import base64
import sys
from collections.abc import Iterator

import numpy as np
import openai
import pytest
from openai import OpenAI

from tests.chatting import with_backend
from tests.openai_clients import client, engine, running, user
from tests.processes import Server, StandInModel
from tests.standins.standin_engines import StandInEngine

__all__ = ["client", "engine", "running", "user"]


@pytest.fixture(scope="module")
def server(running: StandInEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Its background work and its embeddings go to a model of their own."""
    sys.stdout.write(f"openai {openai.__version__}\n")
    with StandInModel() as tasks:
        embedder = {"KIND": "openai", "BASE_URL": tasks.base_url, "MODEL": "stand-in"}
        settings = with_backend(
            running.base_url,
            TASKS__BASE_URL=tasks.base_url,
            CHAT__ORPHAN_SECONDS="5",
            **{f"EMBEDDING__{name}": value for name, value in embedder.items()},
        )
        with Server(tmp_path_factory.mktemp("openai") / "home", settings) as server:
            yield server


# --- embeddings ---------------------------------------------------------------------------------------------


def test_texts_are_embedded_in_both_encodings(client: OpenAI, server: Server) -> None:
    texts = [f"text {number}" for number in range(200)]
    as_sent_by_default = client.embeddings.create(model="text-embedding-3-small", input=texts)
    assert as_sent_by_default.model == "stand-in"
    assert as_sent_by_default.usage.total_tokens > 0
    assert [each.index for each in as_sent_by_default.data] == list(range(200))
    floats = client.embeddings.create(model="x", input=texts, encoding_format="float")
    vectors = np.array([each.embedding for each in floats.data])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    assert np.allclose(vectors, [each.embedding for each in as_sent_by_default.data], atol=1e-6)
    raw = server.client.post("/v1/embeddings", json={"input": texts[0], "encoding_format": "base64"}).json()
    decoded = np.frombuffer(base64.b64decode(raw["data"][0]["embedding"]), "<f4")
    assert np.allclose(decoded, vectors[0], atol=1e-6)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": [1, 2, 3]}, "input"),
        ({"input": [[1, 2], [3]]}, "input"),
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": ["x"] * 2049}, "input"),
        ({"input": "x", "dimensions": 7}, "dimensions"),
        ({"input": {"text": "x"}}, "input"),
    ],
)
def test_what_cannot_be_embedded_is_refused_in_words(
    client: OpenAI, body: dict[str, object], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.post("/embeddings", body={"model": "x", **body}, cast_to=object)
    assert str(refused.value.param).startswith(param)


def test_completions_say_what_to_use(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="use /v1/chat/completions or /v1/responses"):
        client.completions.create(model="recollect", prompt="Once upon a time")
