"""A LanceDB index in a temporary folder, for tests that look at its files."""

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from recollect.domain.recall.rows import Generation, IndexRow, Vectors
from recollect.infra.index.store import LanceIndex, table_name

G = "g1"
ANN = "default/users/ann"
DIMENSIONS = 384


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[LanceIndex]:
    """With an empty live generation that has a model."""
    index = LanceIndex(tmp_path / "index")
    await index.create(Generation(G, 1, "a-model", DIMENSIONS))
    await index.promote(G)
    yield index
    await index.close()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "index" / G / f"{table_name(ANN)}.lance"


def rows_of(texts: dict[str, str]) -> list[IndexRow]:
    return [
        IndexRow(row_id, "turn", text, 1, position=place)
        for place, (row_id, text) in enumerate(texts.items())
    ]


async def put(index: LanceIndex, texts: dict[str, str], *, owner: str = ANN) -> None:
    await index.put(G, owner, rows_of(texts), list(texts.values()))


def some_vectors(count: int) -> Vectors:
    return np.random.default_rng(count).random((count, DIMENSIONS), np.float32)
