"""The conventions in .claude/ name real places, and the code has no import circle."""

import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from ruamel.yaml import YAML

REPOSITORY = Path(__file__).resolve().parents[4]
RULES = sorted((REPOSITORY / ".claude" / "rules").glob("*.md"))
SKILLS = sorted((REPOSITORY / ".claude" / "skills").glob("*/SKILL.md"))

TOP_LEVEL = {"backend", "docs", "scripts", "frontend", ".claude", ".ci", ".github"}
FILE_NAME = re.compile(r"[\w.-]+\.(md|py|toml|json|txt|yml|yaml)")


def name_of(file: Path) -> str:
    return file.relative_to(REPOSITORY).as_posix()


def front_matter(file: Path) -> dict[str, object]:
    opening, matter, _ = file.read_text(encoding="utf-8").split("---\n", 2)
    assert opening == ""
    loaded = YAML(typ="safe").load(matter)
    assert isinstance(loaded, dict)
    return loaded


def paths_in_text(text: str) -> Iterator[str]:
    """What stands in backticks and looks like a path: no spaces, and a known folder or a file's name."""
    for quoted in re.findall(r"`([^`\n]+)`", text):
        if re.search(r"[\s<>(){}=]", quoted):
            continue
        folder, slash, _ = quoted.partition("/")
        if (slash and folder in TOP_LEVEL) or FILE_NAME.fullmatch(quoted):
            yield quoted


def exists(path: str) -> bool:
    """A plain path is there; a glob matches at least one file."""
    if "*" not in path:
        return (REPOSITORY / path).exists()
    if path.endswith("**"):
        path += "/*"  # before Python 3.13 a closing ** matches folders alone
    return any(match.is_file() for match in REPOSITORY.glob(path))


@pytest.mark.parametrize("file", RULES, ids=name_of)
def test_a_rule_says_which_paths_it_is_for_and_they_exist(file: Path) -> None:
    paths = front_matter(file)["paths"]
    assert isinstance(paths, list)
    assert paths
    assert [path for path in paths if not exists(path)] == []


@pytest.mark.parametrize("file", SKILLS, ids=name_of)
def test_a_skill_has_the_name_of_its_folder_and_says_when_to_use_it(file: Path) -> None:
    matter = front_matter(file)
    assert matter["name"] == file.parent.name
    assert isinstance(matter["description"], str)


@pytest.mark.parametrize("file", RULES + SKILLS, ids=name_of)
def test_the_paths_in_the_text_exist(file: Path) -> None:
    assert [path for path in paths_in_text(file.read_text(encoding="utf-8")) if not exists(path)] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions count: they only hide a circle."""
    graph = grimp.build_graph("recollect", cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    TopologicalSorter(imports).prepare()
