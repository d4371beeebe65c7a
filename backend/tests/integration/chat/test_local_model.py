"""The small model in a child process: a real llama.cpp that comes when it is needed and never stays behind."""

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from recollect.errors import ModelUnavailable
from recollect.infra.backends.local_model import SMOLLM2, LocalModel
from tests.eventually import eventually
from tests.forking import BACKEND
from tests.processes import wait_until
from tests.standins.llama_cpp import CUT_MODEL, FULL_MODEL, cut_model

pytestmark = pytest.mark.slow

CUT = dataclasses.replace(SMOLLM2, name=CUT_MODEL.parent.name, file=CUT_MODEL.name)


@pytest.fixture
async def model() -> AsyncIterator[LocalModel]:
    """With four of the layers: ready sooner, and otherwise the same."""
    cut_model()
    model = LocalModel(CUT_MODEL.parent, source=CUT)
    yield model
    await model.aclose()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def healthy(address: str) -> bool:
    async with httpx2.AsyncClient(trust_env=False) as client:
        return (await client.get(f"{address}/health")).status_code == 200


async def test_the_whole_model_answers() -> None:
    assert SMOLLM2.is_set_up(FULL_MODEL.parent)
    model = LocalModel(FULL_MODEL.parent)
    question = {"role": "user", "content": "What is the capital of France? Answer in one word."}
    try:
        address = await model.address()
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
            answer = await client.post(
                f"{address}/v1/chat/completions",
                json={"messages": [question], "max_tokens": 16, "temperature": 0},
            )
    finally:
        await model.aclose()
    assert "Paris" in answer.json()["choices"][0]["message"]["content"]


async def test_nothing_runs_before_it_is_needed_nor_after_it_is_closed_until_it_is_used_again(
    model: LocalModel,
) -> None:
    before = model.pid
    assert await healthy(await model.address())
    pid = model.pid
    await model.aclose()
    assert before is None
    assert pid is not None
    assert not is_running(pid)
    assert await healthy(await model.address())


async def test_all_who_ask_at_once_get_the_same_child(model: LocalModel) -> None:
    addresses = await asyncio.gather(*(model.address() for _ in range(8)))
    assert len(set(addresses)) == 1
    assert await model.address() == addresses[0]


async def test_one_that_died_is_started_again_on_the_next_use(model: LocalModel) -> None:
    await model.address()
    first = model.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: model.pid is None)
    assert await healthy(await model.address())
    assert model.pid not in (first, None)


async def test_who_gives_up_waiting_does_not_stop_it(model: LocalModel) -> None:
    impatient = asyncio.create_task(model.address())
    patient = asyncio.create_task(model.address())
    await asyncio.sleep(0)
    impatient.cancel()
    assert await healthy(await patient)


async def test_closing_while_it_starts_leaves_nothing_behind(model: LocalModel) -> None:
    waiting = asyncio.create_task(model.address())
    await asyncio.sleep(0)
    await model.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert model.pid is None


async def test_a_missing_model_says_what_to_do_and_is_used_as_soon_as_it_is_there(tmp_path: Path) -> None:
    model = LocalModel(tmp_path / CUT.name, source=CUT)
    with pytest.raises(ModelUnavailable, match="recollect setup"):
        await model.address()
    (tmp_path / CUT.name).symlink_to(cut_model().parent)
    assert await healthy(await model.address())
    await model.aclose()


async def test_a_file_that_is_no_model_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / CUT.name).mkdir()
    (tmp_path / CUT.name / CUT_MODEL.name).write_bytes(b"no model")
    with pytest.raises(ModelUnavailable, match="the small model did not start"):
        await LocalModel(tmp_path / CUT.name, source=CUT).address()


async def test_one_that_takes_too_long_is_ended(model: LocalModel) -> None:
    hasty = LocalModel(CUT_MODEL.parent, source=CUT, start_seconds=0.01)
    with pytest.raises(ModelUnavailable, match=r"not ready within 0\.01 s"):
        await hasty.address()
    assert hasty.pid is None


def test_it_ends_when_its_parent_is_killed() -> None:
    cut_model()
    script = (
        "import asyncio, dataclasses\n"
        "from tests.integration.chat.test_local_model import CUT, CUT_MODEL, LocalModel\n"
        "async def main():\n"
        "    model = LocalModel(CUT_MODEL.parent, source=CUT)\n"
        "    await model.address()\n"
        "    print(model.pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=BACKEND,
        stdout=subprocess.PIPE,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert parent.stdout is not None
    with parent.stdout:
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.kill()
        parent.wait()
    wait_until(lambda: not is_running(child), "the child ends with its parent")
