"""The two-zone rule: aware UTC inside, the user's zone at the edges only.

Refuses, in every module under backend/recollect:

- a datetime without a zone, and whatever reads the machine's own zone;
- a conversion to any zone but UTC, unless the module is one of EDGE_MODULES;
- a look at the clock in a pure package: there the time is passed in.

It reads the source and resolves imports, not types: what is called through a variable is not seen.
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
"""The modules that may turn UTC into a person's zone. They must still never make a naive datetime."""

PURE_PACKAGES = ("recollect/domain/",)

DATETIME = "datetime.datetime"
UTC_NAMES = frozenset({"datetime.UTC", "datetime.timezone.utc"})
ZONE_LIBRARIES = ("zoneinfo", "dateutil.tz", "dateutil.zoneinfo", "tzlocal", "pytz", "pendulum", "arrow")

NEVER = {
    f"{DATETIME}.utcnow": "use datetime.now(UTC)",
    f"{DATETIME}.utcfromtimestamp": "use datetime.fromtimestamp(seconds, UTC)",
    f"{DATETIME}.today": "use datetime.now(UTC)",
    "datetime.date.today": "use datetime.now(UTC).date()",
    "datetime.date.fromtimestamp": "use datetime.fromtimestamp(seconds, UTC).date()",
    "time.localtime": "use time.gmtime(seconds)",
    "time.ctime": "use datetime.fromtimestamp(seconds, UTC).isoformat()",
    "time.mktime": "use calendar.timegm(...)",
    "time.tzset": "leave the machine's zone alone",
    "time.timezone": "leave the machine's zone alone",
    "time.altzone": "leave the machine's zone alone",
    "time.daylight": "leave the machine's zone alone",
    "time.tzname": "leave the machine's zone alone",
    "email.utils.localtime": "use datetime.now(UTC)",
}
"""Reads the machine's zone or drops the zone, whatever its arguments."""

ZONE_ARGUMENT = {
    DATETIME: (7, "tzinfo"),
    f"{DATETIME}.now": (0, "tz"),
    f"{DATETIME}.fromtimestamp": (1, "tz"),
    f"{DATETIME}.combine": (2, "tzinfo"),
}
"""Calls that must name a zone: the argument's position and name."""

NAIVE_UNTIL_REPLACED = frozenset(
    f"{DATETIME}.{name}" for name in ("fromisocalendar", "fromordinal", "max", "min")
)
"""Never has a zone, so `.replace(tzinfo=UTC)` must follow at once."""

MAYBE_NAIVE = frozenset({f"{DATETIME}.fromisoformat", f"{DATETIME}.strptime"})
"""Has a zone if the text has: give it one at once, or look at `.tzinfo` in the same function."""

CLOCKS = frozenset({f"{DATETIME}.now", "time.time", "time.time_ns", "time.gmtime"})


@dataclass(frozen=True, order=True)
class Problem:
    line: int
    what: str
    instead: str


def check_source(source: str, module: str) -> list[Problem]:
    """The problems of one module; `module` is its path below backend/, with forward slashes."""
    visitor = _Visitor(module)
    visitor.visit(ast.parse(source, filename=module))
    return sorted(set(visitor.problems))


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
        self._is_pure = module.startswith(PURE_PACKAGES)
        self._names: dict[str, str] = {}
        """What a name in this module stands for: {"dt": "datetime.datetime"}."""
        self._settled: set[ast.AST] = set()
        """Nodes that their parent has already judged."""
        self._checks_zone = [False]
        """For each enclosing function, whether it looks at a zone itself."""

    def _report(self, node: ast.AST, what: str, instead: str) -> None:
        self.problems.append(Problem(getattr(node, "lineno", 1), what, instead))

    # Names

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._check_library(node, alias.name)
            if alias.asname:
                self._names[alias.asname] = alias.name
            else:
                top = alias.name.partition(".")[0]
                self._names[top] = top

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            full_name = f"{node.module}.{alias.name}"
            self._check_library(node, full_name)
            self._names[alias.asname or alias.name] = full_name

    def _check_library(self, node: ast.AST, name: str) -> None:
        if not self._is_edge and any(f"{name}.".startswith(f"{library}.") for library in ZONE_LIBRARIES):
            self._report(
                node, f"{name} is for zones other than UTC", "convert in an edge module (EDGE_MODULES)"
            )

    def _full_name(self, node: ast.AST) -> str | None:
        """What `node` names, through this module's imports: `dt.now` is "datetime.datetime.now"."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._full_name(node.value)
            return f"{owner}.{node.attr}" if owner else None
        return None

    # Functions: does this one look at a zone?

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        looks = any(
            isinstance(child, ast.Attribute) and child.attr in {"tzinfo", "utcoffset"}
            for child in ast.walk(node)
        )
        self._checks_zone.append(looks)
        self.generic_visit(node)
        self._checks_zone.pop()

    # Calls and references

    def visit_Call(self, node: ast.Call) -> None:
        name = self._full_name(node.func)
        if name:
            self._settled.add(node.func)
            self._check_call(node, name)
        if isinstance(node.func, ast.Attribute):
            self._check_method(node, node.func)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._full_name(node)
        if name and node not in self._settled:
            self._check_reference(node, name)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        name = self._names.get(node.id)
        if name and node not in self._settled:
            self._check_reference(node, name)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and "%(asctime)" in node.value:
            self._report(
                node,
                "%(asctime)s is the machine's local time",
                "format record.created with fromtimestamp(…, UTC)",
            )

    def _check_reference(self, node: ast.AST, name: str) -> None:
        """A function passed on without being called (`default_factory=datetime.utcnow`), or a constant."""
        if name in NEVER:
            self._report(node, f"{name} ignores UTC", NEVER[name])
        elif name in NAIVE_UNTIL_REPLACED:
            self._report(node, f"{name} has no zone", "add .replace(tzinfo=UTC)")
        elif name in ZONE_ARGUMENT and name != DATETIME:
            self._report(
                node, f"{name} is passed on without a zone", "pass a function that returns datetime.now(UTC)"
            )

    def _check_call(self, node: ast.Call, name: str) -> None:
        if self._is_pure and name in CLOCKS:
            self._report(node, f"{name}() reads the clock in a pure package", "take the time as an argument")
        if name in NEVER:
            self._report(node, f"{name}() ignores UTC", NEVER[name])
        elif name in ZONE_ARGUMENT:
            position, keyword = ZONE_ARGUMENT[name]
            self._check_zone(node, name, _argument(node, position, keyword))
        elif name in NAIVE_UNTIL_REPLACED and node not in self._settled:
            self._report(node, f"{name}() has no zone", "add .replace(tzinfo=UTC)")
        elif name in MAYBE_NAIVE and node not in self._settled:
            self._check_parsed(node, name)
        elif name == "datetime.timezone" and not self._is_edge:
            self._report(
                node, "a zone other than UTC", "use UTC, or convert in an edge module (EDGE_MODULES)"
            )
        elif name in {"time.strftime", "time.asctime"}:
            self._check_formatted(node, name)

    def _check_method(self, node: ast.Call, function: ast.Attribute) -> None:
        """Methods of a value whose type isn't known: only those with a telling name."""
        if function.attr == "astimezone":
            self._check_conversion(node)
        elif function.attr == "replace":
            zone = _argument(node, None, "tzinfo")
            if zone is None:
                return
            if _is_none(zone):
                self._report(node, ".replace(tzinfo=None) drops the zone", "keep it, or use .astimezone(UTC)")
                return
            self._settled.add(function.value)
            self._check_zone(node, ".replace", zone)

    def _check_conversion(self, node: ast.Call) -> None:
        zone = _argument(node, 0, "tz")
        if zone is None or _is_none(zone):
            self._report(node, ".astimezone() converts to the machine's zone", "use .astimezone(UTC)")
        else:
            self._check_zone(node, ".astimezone", zone)

    def _check_zone(self, node: ast.Call, name: str, zone: ast.expr | None) -> None:
        if zone is None or _is_none(zone):
            self._report(node, f"{name}(...) has no zone", "name it: UTC")
        elif not self._is_edge and self._full_name(zone) not in UTC_NAMES:
            self._report(
                node,
                f"{name}(...) in a zone other than UTC",
                "use UTC, or convert in an edge module (EDGE_MODULES)",
            )

    def _check_parsed(self, node: ast.Call, name: str) -> None:
        form = _argument(node, 1, None)
        has_offset = isinstance(form, ast.Constant) and "%z" in str(form.value)
        if not has_offset and not self._checks_zone[-1]:
            self._report(
                node,
                f"{name}(...) may have no zone",
                "add .replace(tzinfo=UTC), or check .tzinfo in this function",
            )

    def _check_formatted(self, node: ast.Call, name: str) -> None:
        moment = _argument(node, 0 if name == "time.asctime" else 1, None)
        if not isinstance(moment, ast.Call) or self._full_name(moment.func) != "time.gmtime":
            self._report(node, f"{name}(...) shows the machine's local time", "pass time.gmtime(seconds)")


def _argument(node: ast.Call, position: int | None, keyword: str | None) -> ast.expr | None:
    if position is not None and len(node.args) > position:
        return node.args[position]
    return next((found.value for found in node.keywords if found.arg and found.arg == keyword), None)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def main() -> int:
    problems = list(check_tree(BACKEND))
    for module, problem in problems:
        print(f"backend/{module}:{problem.line}: {problem.what}; {problem.instead}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
