"""A model that runs on this machine is memory's model, too; without one, health says what it would add."""

import json
from pathlib import Path

import pytest

from recollect.infra.backends.configured import Backends
from tests.eventually import eventually
from tests.http_client import Home
from tests.remembering import MortalModel, flush, remembering, said, tell
from tests.standins.standin_engines import StandInEngine

HELLO = [("user", "Hi! My name is Ann and I live in Berlin.")]


async def hints(home: Home) -> list[str]:
    told: list[str] = (await home.client.get("/health")).raise_for_status().json()["hints"]
    return told


async def test_a_model_found_on_this_machine_is_asked_for_memories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StandInEngine("llama.cpp") as engine:
        usual = Backends.__init__.__kwdefaults__ or {}
        monkeypatch.setitem(usual, "addresses", (engine.base_url,))
        monkeypatch.setitem(usual, "probe_seconds", 10.0)
        async with remembering(tmp_path, llm={"discover": True}) as home:
            assert await hints(home) == []
            await tell(home, "t1", said(HELLO), user_id="ann")
            await flush(home, "t1", timeout=0)
            await eventually(lambda: "I live in Berlin" in json.dumps(engine.requests()))


async def test_without_a_model_health_says_what_one_would_add_and_how_to_connect_it(tmp_path: Path) -> None:
    async with remembering(tmp_path, alone=True) as home:
        (hint,) = await hints(home)
        assert "facts, plans and a profile" in hint
        assert "RECOLLECT_LLM__BASE_URL" in hint


async def test_a_configured_server_that_is_not_there_is_named_before_anybody_asked_it(tmp_path: Path) -> None:
    async with remembering(tmp_path, alone=True, llm={"base_url": "http://127.0.0.1:9"}) as home:
        health = (await home.client.get("/health")).json()
        assert health["status"] == "degraded"
        assert "nobody answers for the backend 'default'" in str(health["degraded"])


async def test_without_the_embedding_model_health_says_how_to_get_it(tmp_path: Path) -> None:
    async with remembering(tmp_path, embedding={"kind": "onnx", "folder": tmp_path / "none"}) as home:
        (hint,) = await hints(home)
        assert "by words alone" in hint
        assert "RECOLLECT_EMBEDDING__FOLDER" in hint


@pytest.mark.parametrize(("boundary", "asked"), [("rules", 0), ("model", 1)])
async def test_a_model_is_asked_for_boundaries_only_where_the_setting_says_so(
    tmp_path: Path, boundary: str, asked: int
) -> None:
    with MortalModel() as model:
        async with remembering(tmp_path, model, memorize={"boundary": boundary}) as home:
            await tell(home, "t1", said(HELLO), user_id="ann")
            await flush(home, "t1")
        assert model.asked("boundaries") == asked
