"""The two-zone rule of `make lint`: what it refuses, what it lets pass, and that the code base keeps it."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parents[4]


def load_rule() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "check_time_zones", REPOSITORY / "scripts" / "check_time_zones.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


rule = load_rule()

EDGE = "recollect/entrypoints/cli/render.py"


def problems(code: str, module: str = "recollect/service/memorize.py") -> list[str]:
    return [problem.what for problem in rule.check_source(code, module)]


@pytest.mark.parametrize(
    "code",
    [
        "datetime.now(None)",
        "datetime.combine(day, noon)",
        "datetime.fromisoformat(text)",
        "when.astimezone()",
        "when.replace(tzinfo=None)",
        "FORMAT = '%(asctime)s %(message)s'",
        "def careful(text):\n    text.tzinfo\ndef careless(text):\n    return datetime.fromisoformat(text)\n",
    ],
)
def test_a_naive_or_local_time_is_refused_everywhere(code: str) -> None:
    assert len(problems(code)) == len(problems(code, module=EDGE)) == 1


@pytest.mark.parametrize("code", ["when.astimezone(zone)", "datetime.now(zone)", "when.replace(tzinfo=zone)"])
def test_another_zone_than_utc_is_refused_outside_the_edge_modules(code: str) -> None:
    assert problems(code)
    assert problems(code, module=EDGE) == []


@pytest.mark.parametrize(
    "code",
    [
        "datetime.now(UTC)",
        "dt.datetime.now(tz=dt.UTC)",
        "def parse(text):\n    when = datetime.fromisoformat(text)\n    assert when.tzinfo\n    return when",
        "when.astimezone(UTC)",
        "text.replace('a', 'b')",
    ],
)
def test_aware_utc_passes(code: str) -> None:
    assert problems(code) == []


def test_the_domain_takes_the_time_as_an_argument() -> None:
    assert problems("datetime.now(UTC)", module="recollect/domain/recall/boundary.py")
    assert problems("datetime.fromtimestamp(0, UTC)", module="recollect/domain/boundary.py") == []


def test_every_file_of_a_tree_is_checked(tmp_path: Path) -> None:
    package = tmp_path / "recollect" / "service"
    package.mkdir(parents=True)
    (package / "chat.py").write_text("\nwhen.astimezone()\n", encoding="utf-8")
    (package / "recall.py").write_text("time.monotonic()\n", encoding="utf-8")
    assert [(module, problem.line) for module, problem in rule.check_tree(tmp_path)] == [
        ("recollect/service/chat.py", 2)
    ]


def test_the_code_base_keeps_the_rule() -> None:
    assert (rule.BACKEND / "recollect" / "__init__.py").exists()
    assert [
        f"{module}:{problem.line}: {problem.what}" for module, problem in rule.check_tree(rule.BACKEND)
    ] == []
