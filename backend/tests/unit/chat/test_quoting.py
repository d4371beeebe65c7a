"""Block quotes carry every text and give it back exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.markdown.sections import quote, unquote
from tests.unit.awkward_text import texts


@given(texts | st.text())
def test_every_text_comes_back_exactly(text: str) -> None:
    assert unquote(quote(text).split("\n")) == text


@given(texts)
def test_every_line_is_quoted(text: str) -> None:
    assert all(line == ">" or line.startswith("> ") for line in quote(text).split("\n"))


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", ">"),
        ("one\n\ntwo", "> one\n>\n> two"),
        ("C:\\users\\ann \\n \\u0041", "> C:\\users\\ann \\n \\u0041"),
        ("a\rb\x00", "> a\\u{d}b\\u{0}"),
        ("\\u{41}", "> \\u{5c}u{41}"),
        ("👩‍👩‍👧 שלום\tनमस्ते", "> 👩‍👩‍👧 שלום\tनमस्ते"),
        ("> quoted", "> > quoted"),
    ],
)
def test_text_stands_readable_in_its_quote(text: str, quoted: str) -> None:
    assert quote(text) == quoted


def test_the_space_behind_the_mark_may_be_missing() -> None:
    assert unquote([">one", ">", ">  two"]) == "one\n\n two"


def test_no_lines_are_the_empty_text() -> None:
    assert unquote([]) == ""


@pytest.mark.parametrize("written", ["\\u{d800}", "\\u{110000}", "\\u{zz}", "\\u{}", "\\u{41"])
def test_what_is_no_escape_of_a_character_stays_as_it_is(written: str) -> None:
    assert unquote([f"> {written}"]) == written
