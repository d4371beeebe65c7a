"""An import that is killed in the middle, and run again: every message is there once, in its order."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests import forking
from tests.cache_figures import REMARK
from tests.processes import Server, environment, recollect, recollect_json
from tests.stress.utils import SIGKILLED

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "try_imports.py"
CONVERSATIONS, MESSAGES = 20, 6


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """`scripts/try_imports.py`, which makes and checks exports of any size."""
    spec = importlib.util.spec_from_file_location("try_imports", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["try_imports"] = module
    spec.loader.exec_module(module)
    return module


def test_an_import_that_is_killed_goes_on_where_it_was(script: ModuleType, tmp_path: Path) -> None:
    home, file, total = tmp_path / "home", tmp_path / "export.zip", CONVERSATIONS * MESSAGES
    expected = script.make_export(file, CONVERSATIONS, MESSAGES)
    command = ("import", str(file), "--user", "ann")
    killed = recollect(home, *command, settings={"RECOLLECT_FAIL_POINT": "import.added:5"})
    assert killed.returncode == SIGKILLED, killed.stderr
    first = script.stored(home)
    with Server(home, {"RECOLLECT_FAIL_POINT": "import.added:6"}) as server:
        refused = forking.run("recollect", *command, env=environment(home), timeout=60)
        assert (refused.returncode, "the server does not answer" in refused.stderr) == (1, True)
        server.wait_for_end()
    second = script.stored(home)
    assert (first, second) == (5 * MESSAGES, 11 * MESSAGES)
    report = recollect_json(home, *command)
    assert (report["messages"], report["already"]) == (total - second, {"messages": second})
    script.check(home, expected)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_50_000_messages_survive_three_kills_and_take_no_more_than_they_may(
    script: ModuleType, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    figures = script.run(tmp_path, 2000, 25, {})
    record_property(REMARK, f"imports: {figures}")
    assert max(figures["server, MB"], figures["command, MB"]) < 600
    assert figures["share"] >= 0.5
