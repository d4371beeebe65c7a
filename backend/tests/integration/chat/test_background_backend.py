"""What a thread's background work asks: the model that the thread chats with, however that was chosen."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.domain.model import ThreadRef
from tests.eventually import eventually
from tests.processes import StandInModel
from tests.talking import Talk, talking


@pytest.fixture
def near() -> Iterator[StandInModel]:
    with StandInModel() as model:
        yield model


async def is_titled(talk: Talk) -> bool:
    thread = await talk.app.THREADS.get_thread("t")
    return thread is not None and thread.title is not None


@pytest.mark.parametrize("fields", [{"preset": "private"}, {"backend": "near", "model": "Stand-In"}], ids=str)
async def test_background_work_asks_the_backend_that_the_thread_chats_with(
    fields: dict[str, Any], tmp_path: Path, model: StandInModel, near: StandInModel
) -> None:
    backends = {"near": {"base_url": near.base_url}}
    async with talking(tmp_path, model, backends=backends) as talk:
        preset = {"instructions": "Be discreet.", "backend": "near"}
        (await talk.client.put("/api/v1/presets/private", json=preset)).raise_for_status()
        await talk.say("My sister Marta is moving to Porto!", **fields)
        await eventually(lambda: is_titled(talk))
    assert {entry["asks"] for entry in near.log()} == {"chat", "titles"}
    assert model.log() == []
    assert {body["model"] for body in near.calls()["bodies"]} == {"stand-in"}


async def test_a_model_that_was_never_there_is_not_asked_in_the_background(
    tmp_path: Path, model: StandInModel
) -> None:
    async with talking(tmp_path, model) as talk:
        await talk.say("My sister Marta is moving to Porto!")
        asked = {"user_id": "ann", "content": "And now?", "model": "nobody"}
        assert (await talk.client.post("/api/v1/threads/t/messages", json=asked)).status_code == 422
        found = await talk.app.talking.models.of(ThreadRef("default", "ann", "t"))
    assert found.model is None
