"""The times that a query names."""
# ruff: noqa: RUF001 - letters that look like others are the point

import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain.model import MAX_TIMESTAMP
from recollect.domain.recall.dates import Span, spans_in, without_times
from tests.unit.awkward_text import texts

DAY_MS = 86_400_000
NOW = int(datetime(2023, 5, 18, 12, 30, tzinfo=UTC).timestamp() * 1000)
"""A Thursday."""


def between(first: str, last: str) -> Span:
    """Whole days, both named."""
    begin, end = (datetime.fromisoformat(each).replace(tzinfo=UTC) for each in (first, last))
    return Span(int(begin.timestamp() * 1000), int(end.timestamp() * 1000) + DAY_MS)


def named(query: str, now: int = NOW) -> list[Span]:
    return [replace(span, is_meant=False) for span in spans_in(query, now)]


@pytest.mark.parametrize(
    "query",
    [
        "8 May 2023", "What happened on May 8, 2023?", "on May 8th 2023", "the 8th of May 2023", "08 may 2023",
        "2023-05-08", "2023/5/8", "at 2023-05-08T10:00:00Z", "8.5.2023", "08. 05. 2023", "May 8,2023",
        "我在2023-05-08做了什么", "2023年5月8日", "2023 年 5 月 8 日", "２０２３年５月８日", "2023年5月8号你在哪里",
        "2023년 5월 8일에",
    ],
)  # fmt: skip
def test_a_day_is_read_in_each_of_its_forms(query: str) -> None:
    assert named(query) == [between("2023-05-08", "2023-05-08")]


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("in May 2023", "2023-05-01", "2023-05-31"),
        ("may 2023", "2023-05-01", "2023-05-31"),
        ("2023/05", "2023-05-01", "2023-05-31"),
        ("2023年5月", "2023-05-01", "2023-05-31"),
        ("in 2024", "2024-01-01", "2024-12-31"),
        ("2024?", "2024-01-01", "2024-12-31"),
        ("2024年", "2024-01-01", "2024-12-31"),
        ("在2024", "2024-01-01", "2024-12-31"),
        ("2024년에", "2024-01-01", "2024-12-31"),
    ],
)
def test_a_month_or_a_year_is_all_of_it(query: str, first: str, last: str) -> None:
    assert named(query) == [between(first, last)]


@pytest.mark.parametrize(
    ("query", "month", "day"),
    [
        ("in July", 7, None),
        ("in jul.", 7, None),
        ("last Sept", 9, None),
        ("Sep. 5", 9, 5),
        ("on the 3rd of December", 12, 3),
        ("on 29 February", 2, 29),
        ("what did I do in may", 5, None),
        ("on 8 may", 5, 8),
        ("May?", 5, None),
        ("5月8日", 5, 8),
        ("１２月", 12, None),
    ],
)
def test_a_month_without_a_year_is_that_of_any_year(query: str, month: int, day: int | None) -> None:
    assert named(query) == [Span(month=month, day=day)]


@pytest.mark.parametrize(
    "query",
    [
        "may I ask?", "May I ask?", "It may rain", "what may it be", "maybe", "dismay", "Ömar", "marching",
        "31 June", "30 February 2023", "29 February 2023", "2023-13-01", "2023-02-30", "0000-01-01", "50 May", "13月",
        "on Tuesdays", "on Tuesday and Thursday mornings", "the last days", "the name of my sister's dog",
        "12023", "20231", "id2023x", "3个月", "123456789012345", "99年",
    ],
)  # fmt: skip
def test_what_is_no_time_names_none(query: str) -> None:
    assert named(query) == []


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("today", "2023-05-18", "2023-05-18"),
        ("what did I say yesterday?", "2023-05-17", "2023-05-17"),
        ("last Tuesday", "2023-05-16", "2023-05-16"),
        ("last Thursday", "2023-05-11", "2023-05-11"),
        ("this thursday", "2023-05-18", "2023-05-18"),
        ("the meeting on Tuesday", "2023-05-16", "2023-05-16"),
        ("on Thursday", "2023-05-11", "2023-05-11"),
        ("this week", "2023-05-15", "2023-05-21"),
        ("LAST WEEK", "2023-05-08", "2023-05-14"),
        ("this month", "2023-05-01", "2023-05-31"),
        ("last month", "2023-04-01", "2023-04-30"),
        ("last year", "2022-01-01", "2022-12-31"),
        ("this year", "2023-01-01", "2023-12-31"),
        ("3 days ago", "2023-05-15", "2023-05-15"),
        ("a day ago", "2023-05-17", "2023-05-17"),
        ("two weeks ago", "2023-05-01", "2023-05-07"),
        ("a month ago", "2023-04-01", "2023-04-30"),
        ("five years ago", "2018-01-01", "2018-12-31"),
        ("last Friday, on 23 January 2022", "2022-01-23", "2022-01-23"),
    ],
)
def test_a_relative_time_is_told_from_the_moment_of_asking(query: str, first: str, last: str) -> None:
    assert named(query) == [between(first, last)]


@pytest.mark.parametrize(
    ("query", "rest"),
    [
        ("the meeting last Tuesday", "the meeting"),
        ("what did I say yesterday about Rex?", "what did I say about Rex?"),
        ("the meeting last week", "the meeting last week"),
        ("the meeting 3 weeks ago", "the meeting"),
        ("the meeting 2023-05-08", "the meeting"),
        ("2023年5月8日的会议", "的会议"),
        ("how many scenes by 8 May", "how many scenes by 8 May"),
        ("the meeting in May 2023", "the meeting in May 2023"),
    ],
)
def test_a_day_or_week_that_is_meant_says_when_and_not_what(query: str, rest: str) -> None:
    assert without_times(query, NOW).split() == rest.split()


def test_each_of_several_times_is_named() -> None:
    assert named("8 May 2023 and 2023-06-01, or in 2020") == [
        between("2023-05-08", "2023-05-08"),
        between("2023-06-01", "2023-06-01"),
        between("2020-01-01", "2020-12-31"),
    ]


def test_a_date_that_can_be_read_in_two_ways_is_read_in_both() -> None:
    assert named("on 11/01/2022") == [
        between("2022-01-11", "2022-01-11"),
        between("2022-11-01", "2022-11-01"),
    ]
    assert named("on 13/01/2022") == [between("2022-01-13", "2022-01-13")]
    assert named("on 1/1/2022") == [between("2022-01-01", "2022-01-01")]


@pytest.mark.parametrize("query", ["ſeptember", "fıve days ago", "yeſterday", "thİs year", "last tueſday"])
def test_letters_that_only_pass_for_others_do_no_harm(query: str) -> None:
    assert len(named(query)) == 1


@pytest.mark.parametrize("now", [0, MAX_TIMESTAMP])
@pytest.mark.parametrize("query", ["this month", "last month", "this year", "999 years ago", "999 weeks ago"])
def test_the_first_and_the_last_moment_have_times_around_them(query: str, now: int) -> None:
    (span,) = named(query, now)
    assert (span.begin or 0) < (span.end or 0)


_pieces = st.sampled_from(
    ["may", "May ", "last ", "week", "2023", "-05", "-31", "/", "年", "月", "日", "8", "th ", "of ", " ago", "on ", "."]
)  # fmt: skip


@given(texts | st.lists(_pieces, max_size=8).map("".join), st.integers(0, MAX_TIMESTAMP))
def test_any_query_can_be_read_at_any_time(query: str, now: int) -> None:
    for span in named(query, now):
        if span.begin is None or span.end is None:
            assert span.month in range(1, 13)
        else:
            assert span.begin < span.end


@given(st.dates(date(1900, 1, 1), date(2099, 12, 31)))
def test_every_day_is_read_as_it_is_written(day: date) -> None:
    expected = [between(day.isoformat(), day.isoformat())]
    assert named(day.isoformat()) == expected
    assert named(f"{day:%B} {day.day}, {day.year}") == expected
    assert named(f"{day.day} {day:%b} {day.year}") == expected
    assert named(f"{day.year}年{day.month}月{day.day}日") == expected


@given(st.integers(0, 999), st.dates(date(1970, 1, 1), date(2100, 1, 1)))
def test_days_ago_are_counted_in_days(count: int, today: date) -> None:
    now = int(datetime(today.year, today.month, today.day, 23, 59, tzinfo=UTC).timestamp() * 1000)
    then = (today - timedelta(count)).isoformat()
    assert named(f"{count} days ago", now) == [between(then, then)]


@pytest.mark.parametrize(
    "piece", ["1", "12 ", "2023-", "1 of ", " ", "may ", "9" * 50, "2023年", "\u0301\u0316"]
)
def test_long_queries_are_read_in_bounded_time(piece: str) -> None:
    begun = time.process_time()
    spans_in("1 " + piece * (100_000 // len(piece)), NOW)
    assert time.process_time() - begun < 2
