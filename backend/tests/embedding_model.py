"""The real embedding model, of which all tests share one copy."""

from pathlib import Path

import pytest

from recollect.infra.embedders.setup import MINILM

REPOSITORY = Path(__file__).resolve().parents[2]
MODEL_FOLDER = REPOSITORY / ".venv" / "models" / MINILM.name


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The folder of the real model; a test that uses it fails where it isn't there."""
    if not MINILM.is_set_up(MODEL_FOLDER):
        pytest.fail(
            f"the embedding model is not in {MODEL_FOLDER}: run 'scripts/bootstrap dev' with a network",
            pytrace=False,
        )
    return MODEL_FOLDER
