"""What a line of the profile that a person wrote is about."""

import pytest

from recollect.domain.entries.profile import attribute_of_line

HOME = ("lives_in", "comes_from", "time_zone")


@pytest.mark.parametrize(
    "text",
    ["Ann lives in Rome.", "I live in Rome", "Ann Lee now lives in Rome.", "我住在上海。", "Ann 住在上海"],
)
def test_where_somebody_lives_is_told_by_the_words(text: str) -> None:
    assert attribute_of_line(text, HOME) == "lives_in"


@pytest.mark.parametrize(
    "text",
    [
        "My sister lives in Rome.",
        "Ann's sister lives in Rome.",
        "我妹妹住在上海。",
        "I like Rome.",
        "Rome",
        "",
    ],
)
def test_what_is_said_of_others_or_of_nothing_known_is_left_open(text: str) -> None:
    assert attribute_of_line(text, HOME) is None


def test_what_has_no_place_under_the_title_is_left_open() -> None:
    assert attribute_of_line("Ann works as a nurse.", HOME) is None
