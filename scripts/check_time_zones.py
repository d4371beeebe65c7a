"""The two-zone rule, where ruff can't tell: aware UTC inside, the user's zone at the edges only.

ruff refuses naive datetimes (DTZ), and what reads the machine's own zone or knows another one (TID251 in
backend/pyproject.toml). This refuses, in every module under backend/recollect:

- a conversion to any zone but UTC, or to none, unless the module is one of EDGE_MODULES, which must name one;
- a text that is read as a datetime in a function that doesn't look whether it has a zone;
- `%(asctime)s`, which is the machine's local time;
- a look at the clock in the domain: there the time is passed in.

It reads the source, not types: what is called through a variable is not seen.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BACKEND = Path(__file__).resolve().parent.parent / "backend"

EDGE_MODULES = frozenset(
    {
        "recollect/domain/prompt.py",
        "recollect/entrypoints/cli/render.py",
        "recollect/domain/extraction/prompts.py",
    }
)
"""The modules that may turn UTC into a person's zone. They must still never make a naive datetime.

Those that import zoneinfo are excused in the settings of ruff, too.
"""

PURE_PACKAGE = "recollect/domain/"
UTC_NAMES = ("UTC", "timezone.utc")
ZONE_ARGUMENT = {"now": 0, "fromtimestamp": 1, "combine": 2, "astimezone": 0, "replace": None}
"""Methods that take a zone: its place, or None where it has a name alone."""


@dataclass(frozen=True, order=True)
class Problem:
    line: int
    what: str


def check_source(source: str, module: str) -> list[Problem]:
    """The problems of one module; `module` is its path below backend/, with forward slashes."""
    visitor = _Visitor(module)
    visitor.visit(ast.parse(source, filename=module))
    return sorted(visitor.problems)


def check_tree(backend: Path) -> Iterator[tuple[str, Problem]]:
    """The problems of every module under `backend`/recollect, by file and line."""
    for path in sorted((backend / "recollect").rglob("*.py")):
        module = path.relative_to(backend).as_posix()
        for problem in check_source(path.read_text(encoding="utf-8"), module):
            yield module, problem


class _Visitor(ast.NodeVisitor):
    def __init__(self, module: str) -> None:
        self.problems: list[Problem] = []
        self._is_edge = module in EDGE_MODULES
        self._is_pure = module.startswith(PURE_PACKAGE)
        self._looks_at_zone = [False]
        """For each enclosing function."""

    def _report(self, node: ast.expr, what: str) -> None:
        self.problems.append(Problem(node.lineno, what))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def _visit_function(self, node: ast.AST) -> None:
        children = (child for child in ast.walk(node) if isinstance(child, ast.Attribute))
        self._looks_at_zone.append(any(child.attr in {"tzinfo", "utcoffset"} for child in children))
        self.generic_visit(node)
        self._looks_at_zone.pop()

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and "%(asctime)" in node.value:
            self._report(node, "%(asctime)s is the machine's local time: format record.created with UTC")

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute):
            self._check_method(node, node.func.attr, ast.unparse(node.func.value))
        self.generic_visit(node)

    def _check_method(self, node: ast.Call, method: str, owner: str) -> None:
        is_datetime = owner.rpartition(".")[2] == "datetime"
        if method == "fromisoformat" and is_datetime and not self._looks_at_zone[-1]:
            self._report(node, "fromisoformat(...) may have no zone: check .tzinfo in this function")
        if method == "now" and is_datetime and self._is_pure:
            self._report(node, "datetime.now() in the domain: take the time as an argument")
        if method in ("astimezone", "replace") or (method in ZONE_ARGUMENT and is_datetime):
            self._check_zone(node, method)

    def _check_zone(self, node: ast.Call, method: str) -> None:
        place = ZONE_ARGUMENT[method]
        named = [keyword.value for keyword in node.keywords if keyword.arg in ("tz", "tzinfo")]
        zones = named or ([] if place is None else node.args[place : place + 1])
        if method == "replace" and not zones:
            return
        zone = ast.unparse(zones[0]) if zones else "None"
        if zone == "None":
            self._report(node, f"{method}(...) has no zone: name UTC")
        elif not zone.endswith(UTC_NAMES) and not self._is_edge:
            self._report(node, f"{method}(...) in another zone than UTC: convert in an edge module")


def main() -> int:
    problems = list(check_tree(BACKEND))
    for module, problem in problems:
        print(f"backend/{module}:{problem.line}: {problem.what}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
