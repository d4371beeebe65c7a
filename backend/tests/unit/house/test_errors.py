"""The tree of errors is drawn in one place, and the drawing is true."""

import inspect
import re

import pytest

from recollect import errors
from recollect.errors import RecollectError

CLASSES = [
    found for _, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, RecollectError)
]


def drawn_parents() -> dict[str, str | None]:
    """Each class in the drawing, and the class it hangs on."""
    parents: dict[str, str | None] = {}
    above: dict[int, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"([│├└─ ]*)([A-Z]\w+)(?:  |$)", line):
            depth = len(found[1]) // 4
            parents[found[2]] = above.get(depth - 1)
            above[depth] = found[2]
    return parents


def test_the_drawing_shows_exactly_the_classes_there_are_each_under_its_parent() -> None:
    there = {
        found.__name__: None if found is RecollectError else found.__bases__[0].__name__ for found in CLASSES
    }
    assert drawn_parents() == there


@pytest.mark.parametrize("error", CLASSES)
def test_without_words_of_its_own_an_error_says_what_its_docstring_says(error: type[RecollectError]) -> None:
    assert error().message == error.__doc__
    assert error.__doc__


def test_an_error_says_what_it_was_given_and_names_the_field() -> None:
    error = errors.InvalidInput("no", field="user_id")
    assert (error.message, str(error), error.field) == ("no", "no", "user_id")


def test_no_two_errors_share_a_code() -> None:
    codes = [found.code for found in CLASSES]
    assert len(set(codes)) == len(codes)


def test_no_error_knows_of_http() -> None:
    assert not re.search(r"\b[45]\d\d\b", inspect.getsource(errors))
