"""Documentation is a contract: what there is is documented, and what is documented is there."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from typer.main import get_command

from recollect import errors
from recollect.entrypoints.cli.main import cli
from recollect.entrypoints.http.errors import STATUS, status_of
from recollect.entrypoints.http.server import create_api
from recollect.failpoints import FAIL_POINTS
from recollect.infra.metrics import Metrics
from recollect.settings import API_KEY, PREFIX, Settings, setting_names

REPOSITORY = Path(__file__).resolve().parents[4]
DOCS = REPOSITORY / "docs"
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    REPOSITORY / "CHANGELOG.md",
    *sorted(DOCS.glob("*.md")),
]

CODES_OF_THE_DOOR = {"internal", "method_not_allowed", "http_error", "too_slow"}
SERVED_UNLISTED = {"GET /openapi.json"}
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def read(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def prose(text: str) -> str:
    """A page without its code blocks."""
    return BLOCK.sub("", text)


def rows(text: str) -> Iterator[list[str]]:
    """The cells of each row of each table, headers and rules left out."""
    lines = prose(text).split("\n")
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("| ") and not line.startswith("| ---") and not following.startswith("| ---"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def first_cells(text: str) -> list[str]:
    """What stands in backticks, alone, in the first column of a table."""
    return [cells[0].strip("`") for cells in rows(text) if re.fullmatch(r"`[^`]+`", cells[0])]


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one of its rank or above."""
    rank = heading.partition(" ")[0]
    body = text.split(f"\n{heading}\n", 1)[1]
    return re.split(rf"^#{{2,{len(rank)}}} ", body, maxsplit=1, flags=re.MULTILINE)[0]


# --- settings -----------------------------------------------------------------------------------------------


def defaults(model: type[BaseModel] = Settings, prefix: str = PREFIX) -> dict[str, str]:
    """Every setting's default, as the page writes it."""
    found: dict[str, str] = {}
    for name, field in model.model_fields.items():
        variable = prefix + name.upper()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= defaults(field.annotation, variable + "__")
        else:
            found[variable] = shown(field.get_default(call_default_factory=True, validated_data={}))
    return found


def shown(value: object) -> str:
    assert value is not PydanticUndefined, "every setting has a default"
    if value is None or value == []:
        return "unset" if value is None else "empty"
    if isinstance(value, Path):
        return f"`~/{value.relative_to(Path.home()).as_posix()}`"
    if isinstance(value, list):
        return f"`{','.join(value)}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def test_every_setting_stands_in_its_page_once_with_its_default() -> None:
    documented = [
        (cells[0].strip("`"), cells[1])
        for cells in rows(read("docs/settings.md"))
        if cells[0].startswith(f"`{PREFIX}")
    ]
    assert sorted(documented) == sorted(defaults().items())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_names_no_setting_that_does_not_exist(page: Path) -> None:
    named = set(re.findall(rf"\b{PREFIX}[A-Z0-9_]*[A-Z0-9]\b", page.read_text(encoding="utf-8")))
    assert named - setting_names().keys() - {API_KEY} == set()


def test_the_example_of_recollect_toml_is_valid(tmp_path: Path) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", read("docs/settings.md"), re.DOTALL)
    (tmp_path / "recollect.toml").write_text(block, encoding="utf-8")
    assert Settings(home=tmp_path).memorize.gap_minutes == 45


# --- routes -------------------------------------------------------------------------------------------------


@cache
def routes() -> frozenset[str]:
    return frozenset(
        f"{method.upper()} {path}"
        for path, item in create_api().openapi()["paths"].items()
        for method in item
    )


def test_every_route_has_a_heading_in_its_page_and_every_such_heading_a_route() -> None:
    headings = re.findall(r"^### `([A-Z]+ /[^`]*)`$", read("docs/api.md"), re.MULTILINE)
    assert sorted(headings) == sorted(routes())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_names_no_route_that_does_not_exist(page: Path) -> None:
    named = re.findall(r"`((?:GET|POST|PUT|PATCH|DELETE) /[^`\s?]*)", page.read_text(encoding="utf-8"))
    assert set(named) - routes() - SERVED_UNLISTED == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_examples_call_routes_that_exist(page: Path) -> None:
    unknown = [
        f"{method} {path}"
        for method, path in calls(page.read_text(encoding="utf-8"))
        if not any(
            re.fullmatch(pattern_of(route), f"{method} {path}") for route in routes() | SERVED_UNLISTED
        )
    ]
    assert unknown == []


def calls(text: str) -> Iterator[tuple[str, str]]:
    """Method and path of every curl in the code blocks of a page."""
    for block in BLOCK.findall(text):
        for line in block.split("\n"):
            if line.startswith("curl ") and (path := re.search(r"https?://[^/\s]+(/[^\s'\"?]*)", line)):
                method = re.search(r"-X (\w+)", line)
                yield method[1] if method else "POST" if " -d " in line else "GET", path[1]


def pattern_of(route: str) -> str:
    return re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(route))


def test_every_field_of_a_body_or_query_stands_under_its_route() -> None:
    page = read("docs/api.md")
    missing = [
        f"{route}: {name}"
        for route, names in fields().items()
        for name in sorted(names)
        if not re.search(rf"`\s*{re.escape(name)}`", section(page, f"### `{route}`"))
    ]
    assert missing == []


def fields() -> Mapping[str, set[str]]:
    """What each route takes: query parameters and the fields of its body, those of lists in it included."""
    document = create_api().openapi()
    taken: dict[str, set[str]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            names = {given["name"] for given in operation.get("parameters", ()) if given["in"] == "query"}
            for content in operation.get("requestBody", {}).get("content", {}).values():
                names |= set(properties_of(document, content["schema"]))
            taken[f"{method.upper()} {path}"] = names
    return taken


def properties_of(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for name, described in schema.get("properties", {}).items():
        yield name
        if "items" in described:
            yield from properties_of(document, described["items"])


def test_every_error_code_stands_in_its_page_with_its_status() -> None:
    table = {
        cells[0].strip("`"): cells[1]
        for cells in rows(section(read("docs/api.md"), "### Errors"))
        if cells[1:]
    }
    kinds = {kind.code: kind for kind in error_kinds()}
    assert table.keys() == kinds.keys() | CODES_OF_THE_DOOR
    assert {code: table[code] for code, kind in kinds.items() if kind in STATUS} == {
        code: str(status_of(kind())) for code, kind in kinds.items() if kind in STATUS
    }


def error_kinds(
    kind: type[errors.RecollectError] = errors.RecollectError,
) -> Iterator[type[errors.RecollectError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from error_kinds(narrower)


# --- commands -----------------------------------------------------------------------------------------------


@cache
def epilogs() -> dict[str, tuple[str, set[str]]]:
    """Every command that does something by itself, with the end of its help and its long options."""
    found: dict[str, tuple[str, set[str]]] = {}

    def walk(command: Any, name: str) -> None:
        children = getattr(command, "commands", {})
        if not children or command.invoke_without_command:
            options = {option for parameter in command.params for option in parameter.opts}
            found[name] = command.epilog or "", {option for option in options if option.startswith("--")}
        for child_name, child in children.items():
            walk(child, f"{name} {child_name}")

    for name, command in get_command(cli).commands.items():  # type: ignore[attr-defined]
        walk(command, f"recollect {name}")
    return found


def commands() -> dict[str, set[str]]:
    return {name: options for name, (_, options) in epilogs().items()}


@pytest.mark.parametrize("command", sorted(commands()))
def test_the_help_of_a_command_has_an_example(command: str) -> None:
    assert re.match(rf"Examples?: (.*\|  )?(\S.* \| )?{command}\b", epilogs()[command][0])


def test_every_command_has_a_heading_in_its_page_and_every_such_heading_a_command() -> None:
    headings = re.findall(r"^## `(recollect [^`]*)`$", read("docs/cli.md"), re.MULTILINE)
    assert sorted(headings) == sorted(commands())


@pytest.mark.parametrize("command", sorted(commands()))
def test_a_command_has_its_options_and_an_example_under_its_heading(command: str) -> None:
    text = section(read("docs/cli.md"), f"## `{command}`")
    named = {option for cells in rows(text) for option in re.findall(r"--[a-z-]+", cells[0])}
    assert named == commands()[command] - {"--help"}
    assert f"\n{command}" in text


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_names_no_command_or_option_that_does_not_exist(page: Path) -> None:
    unknown = [line for line in command_lines(page.read_text(encoding="utf-8")) if not is_command(line)]
    assert unknown == []


def command_lines(text: str) -> Iterator[str]:
    """What stands in backticks, or begins a line of a code block, and calls `recollect`."""
    lines = [line for block in BLOCK.findall(text) for line in block.split("\n")]
    for code in [*lines, *re.findall(r"`([^`\n]+)`", prose(text))]:
        if found := re.match(r"(?:RECOLLECT_\S+ )*(?:\.venv/bin/)?(recollect [a-z-].*)", code):
            yield found[1]


def is_command(line: str) -> bool:
    words = line.split()
    names = [" ".join(words[:length]) for length in (3, 2)]
    name = next((name for name in names if name in commands()), None)
    if name is None:
        options = {"--help", "--version", "--install-completion", "--show-completion"}
        return words[1] in options or " ".join(words[:2]) == "recollect keys"
    return set(re.findall(r"\s(--[a-z-]+)", line)) <= commands()[name] | {"--help"}


# --- operations ---------------------------------------------------------------------------------------------


def test_every_metric_stands_in_its_page_and_no_other() -> None:
    assert sorted(first_cells(section(read("docs/operations.md"), "## Metrics"))) == sorted(metric_types())


def metric_types() -> dict[str, str]:
    families = Metrics().registry.collect()
    return {f"{each.name}_total" if each.type == "counter" else each.name: each.type for each in families}


def exposed_series() -> set[str]:
    """What can be asked for: a histogram's parts, and any other metric by its name."""
    return {
        f"{name}{suffix}"
        for name, kind in metric_types().items()
        for suffix in (("_bucket", "_count", "_sum") if kind == "histogram" else ("",))
    }


def test_the_dashboard_asks_for_no_metric_that_is_not_exposed() -> None:
    queries = [
        target["expr"]
        for panel in json.loads(read("docs/grafana.json"))["panels"]
        for target in panel["targets"]
    ]
    named = [metrics_in(query) for query in queries]
    assert all(named), "every query asks for something"
    assert set().union(*named) - exposed_series() == set()


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name_of)
def test_a_page_names_no_metric_that_is_not_exposed(page: Path) -> None:
    """The changelog also names what was renamed."""
    named = metrics_in(page.read_text(encoding="utf-8"))
    assert named - exposed_series() - metric_types().keys() == set()


def metrics_in(text: str) -> set[str]:
    return set(re.findall(r"\brecollect_\w+", text))


def test_every_fail_point_stands_in_its_page_in_order_and_no_other() -> None:
    assert first_cells(section(read("docs/operations.md"), "## Fail points")) == list(FAIL_POINTS)


# --- links and the README's promise ---------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    assert [link for link in links(page) if not leads_somewhere(page, link)] == []


def links(page: Path) -> list[str]:
    found = LINK.findall(prose(page.read_text(encoding="utf-8")))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(REPOSITORY):
        return False
    return not anchor or anchor in anchors(target.read_text(encoding="utf-8"))


def anchors(text: str) -> set[str]:
    """What the headings of a page are called in links, as GitHub does it."""
    headings = re.findall(r"^#{1,6} (.+)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_of_the_documentation_is_linked_from_the_readme() -> None:
    linked = {link.partition("#")[0] for link in links(REPOSITORY / "README.md")}
    assert {name_of(page) for page in DOCS.glob("*.md")} <= linked


def test_the_readme_opens_with_one_command_that_runs_it_and_one_that_tests_it() -> None:
    first_block = BLOCK.findall(read("README.md"))[0]
    assert re.findall(r"^make (\S+)", first_block, re.MULTILINE) == ["serve", "test"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_make_targets_that_a_page_names_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z-]+)", text)) | set(
        re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)
    )
    assert named - targets == set()


def test_ci_calls_the_test_command_of_the_readme() -> None:
    assert "make test" in read(".ci/run").split("\n")


def test_every_example_is_named_on_its_page_and_tried() -> None:
    examples = {file.name for file in (REPOSITORY / "examples").glob("*.py")}
    assert set(re.findall(r"\]\((\w+\.py)\)", read("examples/README.md"))) == examples
    tried = read("scripts/try_clients.py") + read("backend/tests/integration/clients/test_anthropic.py")
    assert [name for name in examples if name not in tried] == []
