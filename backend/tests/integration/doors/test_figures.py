"""What the server tells of its backends, of their caches and of its index."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.http_client import Home, opened
from tests.processes import StandInModel
from tests.standins.standin_engines import StandInEngine


@pytest.fixture
async def home(tmp_path: Path, model: StandInModel) -> AsyncIterator[Home]:
    llm, down = {"base_url": model.base_url, "model": "stand-in"}, {"base_url": "http://127.0.0.1:9"}
    embedding = {"kind": "none"}
    async with opened(tmp_path / "home", llm=llm, backends={"down": down}, embedding=embedding) as home:
        yield home


async def test_a_backend_tells_what_it_is_and_one_that_is_down_hides_no_other(home: Home) -> None:
    backend, down = (await home.client.get("/api/v1/backends")).raise_for_status().json()["backends"]
    assert (backend["name"], backend["models"], backend["local"], backend["problem"]) == (
        "default", ["stand-in"], True, None,
    )  # fmt: skip
    assert (down["name"], "nobody answers" in down["problem"]) == ("down", True)


async def test_every_answer_tells_what_its_prompt_cost_each_user_for_themselves(home: Home) -> None:
    for text in ("Hello", "Again"):
        asked = {"user_id": "ann", "content": text}
        (await home.client.post("/api/v1/threads/t1/messages", json=asked)).raise_for_status()
    answers = (await home.client.get("/api/v1/cache", params={"user_id": "ann"})).json()["answers"]
    assert [(each["thread_id"], each["turn_id"]) for each in answers] == [("t1", "t-2"), ("t1", "t-4")]
    assert (await home.client.get("/api/v1/cache", params={"user_id": "bob"})).json() == {"answers": []}


async def test_tokens_cached_and_evaluated_are_counted_by_backend(tmp_path: Path) -> None:
    with StandInEngine("llama.cpp") as engine:
        llm = {"base_url": engine.base_url}
        async with opened(tmp_path / "home", llm=llm, embedding={"kind": "none"}) as home:
            receipts = []
            for text in ("Hello", "Again"):
                asked = {"user_id": "ann", "content": text}
                answer = await home.client.post("/api/v1/threads/t1/messages", json=asked)
                receipts.append(answer.raise_for_status().json()["receipt"])
            figures = (await home.client.get("/metrics")).text.splitlines()
    for kind in ("cached", "evaluated"):
        count = float(sum(receipt[f"{kind}_tokens"] for receipt in receipts))
        assert count > 0
        assert f'recollect_prompt_tokens_total{{backend="default",kind="{kind}"}} {count}' in figures


async def test_the_size_of_the_index_is_the_operators_to_know(home: Home) -> None:
    index = (await home.client.get("/api/v1/index")).raise_for_status().json()
    assert (index["waiting_words"], index["model"]) == (0, None)
    async with home.keyed("bob") as bob:
        assert (await bob.get("/api/v1/index")).status_code == 403
