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

IMPORTS = "import datetime as dt, time\nfrom datetime import UTC, date, datetime, timedelta, timezone\n"


def problems(code: str, module: str = "recollect/service/memorize.py") -> list[str]:
    return [problem.what for problem in rule.check_source(IMPORTS + code, module)]


@pytest.mark.parametrize(
    "code",
    [
        "datetime.now()",
        "datetime.now(None)",
        "dt.datetime.now()",
        "datetime.utcnow()",
        "datetime(2026, 5, 8)",
        "datetime.fromordinal(1)",
        "datetime.max",
        "datetime.fromisoformat(text)",
        "when.replace(tzinfo=None)",
        "field(default_factory=datetime.utcnow)",
        "make(clock=datetime.now)",
        "time.strftime('%H:%M')",
        "from time import localtime\nlocaltime()",
        "FORMAT = '%(asctime)s %(message)s'",
    ],
)
def test_a_naive_or_local_time_is_refused_everywhere(code: str) -> None:
    assert problems(code)
    assert problems(code, module=sorted(rule.EDGE_MODULES)[0])


@pytest.mark.parametrize(
    "code",
    [
        "when.astimezone(zone)",
        "datetime.now(zone)",
        "when.replace(tzinfo=zone)",
        "timezone(timedelta(hours=2))",
        "from zoneinfo import ZoneInfo",
        "import dateutil.tz",
    ],
)
def test_another_zone_than_utc_is_refused_outside_the_edge_modules(code: str) -> None:
    assert problems(code)
    assert problems(code, module="recollect/entrypoints/cli/render.py") == []


def test_a_conversion_to_the_machines_zone_is_refused_at_the_edges_too() -> None:
    assert problems("when.astimezone()", module="recollect/entrypoints/cli/render.py")
    assert problems("from journal import when\nwhen.astimezone()")


@pytest.mark.parametrize(
    "code",
    [
        "datetime.now(UTC)",
        "datetime.now(tz=timezone.utc)",
        "dt.datetime.now(dt.UTC)",
        "datetime(2026, 5, 8, 0, 0, 0, 0, UTC)",
        "datetime.max.replace(tzinfo=UTC)",
        "datetime.strptime(text, '%Y-%m-%d %z')",
        "def parse(text):\n    when = datetime.fromisoformat(text)\n    assert when.tzinfo\n    return when",
        "when.astimezone(UTC)",
        "def happened(when: datetime) -> date: ...",
        "text.replace('a', 'b')",
        "time.strftime('%H:%M', time.gmtime(0))",
    ],
)
def test_aware_utc_passes(code: str) -> None:
    assert problems(code) == []


@pytest.mark.parametrize("package", ["domain", "domain/recall"])
def test_a_pure_package_takes_the_time_as_an_argument(package: str) -> None:
    assert problems("datetime.now(UTC)", module=f"recollect/{package}/boundary.py")
    assert problems("datetime.fromtimestamp(0, UTC)", module=f"recollect/{package}/boundary.py") == []


def test_a_check_of_the_zone_in_one_function_does_not_excuse_another() -> None:
    assert problems(
        "def careful(text):\n    return datetime.fromisoformat(text).tzinfo\n"
        "def careless(text):\n    return datetime.fromisoformat(text)\n"
    ) == ["datetime.datetime.fromisoformat(...) may have no zone"]


def test_a_problem_names_its_line_and_the_way_out() -> None:
    (problem,) = rule.check_source("from datetime import datetime\n\ndatetime.utcnow()\n", "recollect/app.py")
    assert (problem.line, problem.instead) == (3, "use datetime.now(UTC)")


def test_every_file_of_a_tree_is_checked(tmp_path: Path) -> None:
    package = tmp_path / "recollect" / "service"
    package.mkdir(parents=True)
    (package / "chat.py").write_text("import time\ntime.localtime()\n", encoding="utf-8")
    (package / "recall.py").write_text("import time\ntime.monotonic()\n", encoding="utf-8")
    assert [(module, problem.line) for module, problem in rule.check_tree(tmp_path)] == [
        ("recollect/service/chat.py", 2)
    ]


def test_the_code_base_keeps_the_rule() -> None:
    assert (rule.BACKEND / "recollect" / "__init__.py").exists()
    assert [
        f"{module}:{problem.line}: {problem.what}" for module, problem in rule.check_tree(rule.BACKEND)
    ] == []
