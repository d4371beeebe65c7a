"""What says the same is one entry, as long as it holds."""

import pytest

from recollect.domain.entries.entry import (
    MANY_SOURCES,
    KnownEntry,
    is_repeated_by,
    is_same_statement,
    merged,
)
from recollect.domain.markdown.front_matter import write_time
from tests.unit.made_entries import DAY, known


def fact(text: str, day: int = 1, **extra: str) -> KnownEntry:
    about = {"subject": "user", **extra}
    return known(f"fa-{day}", text, when=day * DAY, extra=about, turns=(f"t-{day}",), cell=f"c-{day}")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("Ann has two cats.", "ann has two cats", True),
        ("安喜欢爬山。", "安喜欢爬山", True),
        ("Ann has 2 cats at her home in town.", "Ann has 3 cats at her home in town.", False),
        ("Ann is allergic to nuts.", "Ann is not allergic to nuts.", False),
    ],
)
def test_only_the_same_text_says_the_same(one: str, other: str, is_same: bool) -> None:
    assert is_same_statement(fact(one), fact(other, day=2)) is is_same


@pytest.mark.parametrize(("day", "is_one"), [(2, True), (5, False), (9, False)])
def test_what_is_said_again_after_its_end_is_new(day: int, is_one: bool) -> None:
    ended = fact("Ann runs.", until=write_time(5 * DAY), superseded_by="fa-5")
    lapsed = fact("Ann runs.", lapses=write_time(5 * DAY))
    again = fact("Ann runs.", day)
    assert is_repeated_by(ended, again) is is_repeated_by(lapsed, again) is is_one
    assert is_repeated_by(fact("Ann runs."), again)


def test_what_has_many_sources_gets_no_more() -> None:
    turns = tuple(f"t-{number}" for number in range(MANY_SOURCES))
    many = known("fa-1", "Ann lives in Berlin.", turns=turns)
    assert merged(many, known("fa-2", "Ann lives in Berlin.", turns=("t-99",))) == many


class TestWhenItHolds:
    def test_a_plan_until_its_time_is_over(self) -> None:
        about = {"about": write_time(10 * DAY), "lapses": write_time(17 * DAY)}
        plan = known("fo-1", "Ann is in Lisbon for a week.", kind="foresight", extra=about)
        assert [plan.holds_at(day * DAY) for day in (9, 11, 16, 17)] == [True, True, True, False]

    def test_always_where_a_time_by_hand_can_not_be_read(self) -> None:
        assert fact("Ann runs.", until="some day", lapses="soon").holds_at(5 * DAY)
