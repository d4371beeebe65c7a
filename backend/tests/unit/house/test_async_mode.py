"""The test suite's own ground rule: a warning is an error."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PYPROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"


FAILING = {
    "DeprecationWarning: old": "import warnings\ndef test_old(): warnings.warn('old', DeprecationWarning)\n",
    "was never awaited": "async def work(): ...\nasync def test_forgetful(): work()\n",
}


def run_pytest(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    """Runs `source` as a test file of its own, under this project's settings."""
    file = folder / "test_sample.py"
    file.write_text(source, encoding="utf-8")
    options = ["-c", str(PYPROJECT), "--rootdir", str(folder), "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, str(file)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", FAILING)
def test_a_warning_and_a_coroutine_never_awaited_are_errors(tmp_path: Path, words: str) -> None:
    result = run_pytest(tmp_path, FAILING[words])
    assert (result.returncode, words in result.stdout) == (1, True)
