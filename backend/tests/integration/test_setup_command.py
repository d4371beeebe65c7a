"""`recollect setup`, on a model that is there and on a place where none can be."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from recollect.entrypoints.cli import setup as setting_up
from recollect.errors import StorageUnavailable
from tests.embedding_model import model_folder

__all__ = ["model_folder"]


@pytest.fixture
def command() -> typer.Typer:
    cli = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    cli.command(epilog=setting_up.EPILOG)(setting_up.setup)
    return cli


def test_help_shows_an_example(command: typer.Typer) -> None:
    done = CliRunner().invoke(command, ["--help"])
    assert done.exit_code == 0
    assert "recollect setup" in done.stdout


def test_a_model_that_is_there_is_left_and_named(command: typer.Typer, model_folder: Path) -> None:
    before = model_folder.stat().st_mtime_ns
    done = CliRunner().invoke(command, ["--folder", str(model_folder)])
    assert done.stdout == f"the embedding model is already in {model_folder}\n"
    assert model_folder.stat().st_mtime_ns == before


def test_the_home_is_where_it_goes_by_default(
    command: typer.Typer, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_HOME", str(tmp_path))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / model_folder.name).symlink_to(model_folder)
    done = CliRunner().invoke(command, ["--only", "embedding"])
    assert done.stdout == f"the embedding model is already in {tmp_path / 'models' / model_folder.name}\n"


def test_quiet_says_nothing(command: typer.Typer, model_folder: Path) -> None:
    done = CliRunner().invoke(command, ["--folder", str(model_folder), "--quiet"])
    assert (done.exit_code, done.output) == (0, "")


def test_a_place_that_cannot_be_used_is_an_error(command: typer.Typer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = CliRunner().invoke(command, ["--folder", str(tmp_path / "file" / "model")])
    assert isinstance(done.exception, StorageUnavailable)
