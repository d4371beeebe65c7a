"""Front matter is YAML that people edit, and gives back exactly what was put in."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from recollect.domain.markdown.front_matter import (
    Scalar,
    render_front_matter,
    split_front_matter,
)
from tests.unit.awkward_text import texts, unhurried

_keys = st.from_regex(r"[a-z_]{1,10}", fullmatch=True)
_whole_numbers = st.integers(-(10**15), 10**15)
_values = st.one_of(texts, _whole_numbers, st.booleans(), st.none(), st.lists(texts, max_size=4))
_mappings = st.dictionaries(_keys, _values, min_size=1, max_size=5)


def _read(yaml: str) -> dict[str, Any] | None:
    return split_front_matter(f"---\n{yaml}\n---\n")[0]


@unhurried
@given(_mappings)
def test_every_mapping_comes_back_exactly_with_crlf_too(mapping: dict[str, Scalar | list[str]]) -> None:
    text = render_front_matter(mapping)
    assert split_front_matter(text) == (mapping, len(mapping) + 3, ())
    assert split_front_matter(text.replace("\n", "\r\n")) == (mapping, len(mapping) + 3, ())


@unhurried
@given(st.dictionaries(_keys, texts, min_size=1, max_size=3))
def test_any_other_yaml_reader_sees_the_same_texts(mapping: dict[str, str]) -> None:
    yaml = render_front_matter(mapping).removeprefix("---\n").removesuffix("---\n")
    assert YAML(typ="safe", pure=True).load(yaml) == mapping


@unhurried
@given(texts)
def test_no_value_ends_the_front_matter(value: str) -> None:
    assert render_front_matter({"title": value}).count("\n") == 3


@pytest.mark.parametrize(
    "text",
    [
        "2026-05-08", "true", "no", "Yes", "0x10", "010", "null", "~", "1e3", "12", "1_000", "-0", ".inf",
        "1:30", "", "=",
    ],
)  # fmt: skip
def test_text_that_looks_like_something_else_stays_text(text: str) -> None:
    assert split_front_matter(render_front_matter({"thread": text}))[0] == {"thread": text}


@pytest.mark.parametrize(
    "text", ["2026-05-08", "yes", "On", "0x10", "007", "1e3", "1.50", "2026-05-08T14:03:00Z"]
)
def test_text_stays_text_where_an_editor_took_its_quotes(text: str) -> None:
    assert _read(f"thread: {text}") == {"thread": text}


def test_plain_values_are_written_plain() -> None:
    text = render_front_matter(
        {"recollect": 1, "owner": "users/ann", "title": "Año nuevo", "tags": ["a", "b c"]}
    )
    assert text == "---\nrecollect: 1\nowner: users/ann\ntitle: Año nuevo\ntags: [a, b c]\n---\n"


def test_what_people_do_to_properties_is_understood() -> None:
    yaml = "# mine\nthread: 't1' # one\ntags:\n  - family\n  - 'the trip'\nrating: 5\ntitle:\naliases: []"
    assert _read(yaml) == {
        "thread": "t1", "tags": ["family", "the trip"], "rating": 5, "title": None, "aliases": [],
    }  # fmt: skip


def test_a_byte_order_mark_is_passed_over() -> None:
    assert split_front_matter("\ufeff---\na: b\n---\n")[0] == {"a": "b"}


def test_the_body_begins_below_the_closing_line() -> None:
    assert split_front_matter("---\na: b\n---\n\n## heading\n")[1] == 4


@pytest.mark.parametrize(
    ("text", "body_line", "problem_line"),
    [
        ("## heading\n", 1, 1),
        ("", 1, 1),
        ("---\na: b\n\n## heading\n---\n", 4, 1),
        ("---\na: b\n", 4, 1),
        ("---\na: b\nc: [\n---\n", 5, 3),
        ("---\na: b\na: c\n---\n", 5, 3),
        ("---\n- a\n---\n", 4, 1),
        ("---\na: !!int x\n---\n", 4, 1),
        ("---\na: " + "[" * 1000 + "\n---\n", 4, 1),
        ("---\na: \x01\n---\n", 4, 1),
    ],
    ids=[
        "none",
        "empty",
        "not closed",
        "nothing else",
        "open list",
        "key twice",
        "list",
        "tag",
        "deep",
        "control",
    ],
)
def test_damage_is_reported_with_its_line(text: str, body_line: int, problem_line: int) -> None:
    mapping, line, problems = split_front_matter(text)
    assert (mapping, line, [problem.line for problem in problems]) == (None, body_line, [problem_line])
