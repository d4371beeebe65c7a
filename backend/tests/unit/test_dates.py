"""The times that a query names."""
# ruff: noqa: RUF001 - letters that look like others are the point

import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recollect.domain.model import MAX_TIMESTAMP
from recollect.domain.recall.dates import Span
from recollect.domain.recall.query import spans_in, without_times
from tests.unit.awkward_text import texts

DAY_MS = 86_400_000
NOW = int(datetime(2023, 5, 18, 12, 30, tzinfo=UTC).timestamp() * 1000)
"""A Thursday."""


def between(first: str, last: str) -> Span:
    """Whole days, both named."""
    begin, end = (datetime.fromisoformat(each).replace(tzinfo=UTC) for each in (first, last))
    return Span(int(begin.timestamp() * 1000), int(end.timestamp() * 1000) + DAY_MS)


def named(query: str, now: int = NOW) -> list[Span]:
    return [replace(span, is_near=False, is_meant=False) for span in spans_in(query, now)]


@pytest.mark.parametrize(
    "query",
    [
        "8 May 2023",
        "What happened on May 8, 2023?",
        "on May 8th 2023",
        "the 8th of May 2023",
        "08 may 2023",
        "2023-05-08",
        "2023/5/8",
        "at 2023-05-08T10:00:00Z",
        "8.5.2023",
        "08. 05. 2023",
        "May 8,2023",
        "我在2023-05-08做了什么",
        "2023年5月8日",
        "2023 年 5 月 8 日",
        "２０２３年５月８日",
        "2023年5月8号你在哪里",
        "2023年5月8號",
        "2023年5月8日に何をしましたか",
        "2023년 5월 8일에",
    ],
)
def test_a_day_is_read_in_each_of_its_forms(query: str) -> None:
    assert named(query) == [between("2023-05-08", "2023-05-08")]


@pytest.mark.parametrize("query", ["in May 2023", "may 2023", "2023-05", "2023/05", "2023年5月", "MAY 2023"])
def test_a_month_of_a_year_is_all_of_it(query: str) -> None:
    assert named(query) == [between("2023-05-01", "2023-05-31")]


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("去年三月", "2022-03-01", "2022-03-31"),
        ("去年12月我在哪里", "2022-12-01", "2022-12-31"),
        ("前年的十一月份", "2021-11-01", "2021-11-30"),
        ("今年二月", "2023-02-01", "2023-02-28"),
        ("去年三月八日", "2022-03-08", "2022-03-08"),
        ("2021年三月", "2021-03-01", "2021-03-31"),
        ("May '22", "2022-05-01", "2022-05-31"),
        ("8 May ’98", "1998-05-08", "1998-05-08"),
        ("in Q2 2024", "2024-04-01", "2024-06-30"),
        ("q4/2024", "2024-10-01", "2024-12-31"),
        ("in 2024 Q2", "2024-04-01", "2024-06-30"),
        ("2024q3", "2024-07-01", "2024-09-30"),
        ("in spring 2023", "2023-03-01", "2023-05-31"),
        ("the fall of 2022", "2022-09-01", "2022-11-30"),
    ],
)
def test_a_part_of_a_year_is_all_of_it(query: str, first: str, last: str) -> None:
    assert named(query) == [between(first, last)]


@pytest.mark.parametrize(
    ("asked", "query", "first", "last"),
    [
        ("2023-05-18", "last summer", "2022-06-01", "2022-08-31"),
        ("2023-07-18", "last summer", "2022-06-01", "2022-08-31"),
        ("2023-07-18", "this summer", "2023-06-01", "2023-08-31"),
        ("2023-11-18", "last summer", "2023-06-01", "2023-08-31"),
        ("2023-11-18", "last winter", "2022-12-01", "2023-02-28"),
        ("2024-01-18", "last winter", "2022-12-01", "2023-02-28"),
        ("2024-01-18", "this winter", "2023-12-01", "2024-02-29"),
        ("2023-11-18", "this winter", "2023-12-01", "2024-02-29"),
        ("2024-03-01", "last winter", "2023-12-01", "2024-02-29"),
    ],
)
def test_the_last_season_is_over_and_this_one_is_of_this_year(
    asked: str, query: str, first: str, last: str
) -> None:
    now = int(datetime.fromisoformat(asked).replace(tzinfo=UTC).timestamp() * 1000)
    assert named(query, now) == [between(first, last)]


def test_the_winter_of_a_year_begins_or_ends_in_it() -> None:
    assert named("winter 2023") == [
        between("2022-12-01", "2023-02-28"),
        between("2023-12-01", "2024-02-29"),
    ]


@pytest.mark.parametrize(
    "query",
    [
        "三个月",
        "三個月前",
        "三月三",
        "三月初三",
        "正月",
        "一月两次",
        "近三月",
        "过去三月",
        "每三月",
        "三月内",
        "第三月",
        "五月天",
        "二十三月",
        "Q5 2",
        "spring",
    ],
)
def test_how_long_how_often_and_feasts_are_no_months(query: str) -> None:
    assert named(query) == []


@pytest.mark.parametrize("query", ["in 2024", "2024?", "2024年", "在2024", "2024년에"])
def test_a_year_is_all_of_it(query: str) -> None:
    assert named(query) == [between("2024-01-01", "2024-12-31")]


@pytest.mark.parametrize(
    ("query", "month", "day"),
    [
        ("in July", 7, None),
        ("in jul.", 7, None),
        ("last Sept", 9, None),
        ("Sep. 5", 9, 5),
        ("on the 3rd of December", 12, 3),
        ("on 29 February", 2, 29),
        ("in May", 5, None),
        ("what did I do in may", 5, None),
        ("on 8 may", 5, 8),
        ("May?", 5, None),
        ("5月8日", 5, 8),
        ("１２月", 12, None),
        ("12月", 12, None),
        ("我三月住在哪里", 3, None),
        ("3月份", 3, None),
        ("三月份我去了哪里", 3, None),
        ("三月初的会议", 3, None),
        ("三月天气怎么样", 3, None),
        ("十月", 10, None),
        ("十一月", 11, None),
        ("十二月的时候", 12, None),
        ("三月八日", 3, 8),
        ("十二月三十一号", 12, 31),
        ("二月二十號", 2, 20),
    ],
)
def test_a_month_without_a_year_is_that_of_any_year(query: str, month: int, day: int | None) -> None:
    assert named(query) == [Span(month=month, day=day)]


@pytest.mark.parametrize(
    "query",
    [
        "may I ask?",
        "May I ask?",
        "It may rain",
        "May we go?",
        "what may it be",
        "maybe",
        "dismay",
        "Ömar",
        "marching",
    ],
)
def test_a_verb_or_a_part_of_a_word_is_no_month(query: str) -> None:
    assert named(query) == []


@pytest.mark.parametrize(
    "query",
    [
        "31 June",
        "30 February 2023",
        "29 February 2023",
        "2023-13-01",
        "2023-02-30",
        "0000-01-01",
        "50 May",
        "13月",
    ],
)
def test_an_impossible_date_is_no_time(query: str) -> None:
    assert named(query) == []


@pytest.mark.parametrize(
    "query", ["12023", "20231", "id2023x", "2023-05-0812", "3个月", "123456789012345", "v2023_1", "99年"]
)
def test_other_numbers_are_no_dates(query: str) -> None:
    assert not any(span.day or span.month for span in named(query))
    assert all(span == between("2023-01-01", "2023-12-31") for span in named(query))


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("today", "2023-05-18", "2023-05-18"),
        ("what did I say yesterday?", "2023-05-17", "2023-05-17"),
        ("the day before yesterday", "2023-05-16", "2023-05-16"),
        ("last Tuesday", "2023-05-16", "2023-05-16"),
        ("last Thursday", "2023-05-11", "2023-05-11"),
        ("this thursday", "2023-05-18", "2023-05-18"),
        ("last Sunday", "2023-05-14", "2023-05-14"),
        ("this week", "2023-05-15", "2023-05-21"),
        ("LAST WEEK", "2023-05-08", "2023-05-14"),
        ("last weekend", "2023-05-13", "2023-05-14"),
        ("this weekend", "2023-05-20", "2023-05-21"),
        ("this month", "2023-05-01", "2023-05-31"),
        ("last month", "2023-04-01", "2023-04-30"),
        ("last year", "2022-01-01", "2022-12-31"),
        ("this year", "2023-01-01", "2023-12-31"),
        ("3 days ago", "2023-05-15", "2023-05-15"),
        ("a day ago", "2023-05-17", "2023-05-17"),
        ("two weeks ago", "2023-05-01", "2023-05-07"),
        ("a month ago", "2023-04-01", "2023-04-30"),
        ("five years ago", "2018-01-01", "2018-12-31"),
        ("a couple of days ago", "2023-05-15", "2023-05-17"),
        ("a few days ago", "2023-05-14", "2023-05-16"),
        ("a couple of weeks ago", "2023-05-01", "2023-05-07"),
        ("a fortnight ago", "2023-05-01", "2023-05-07"),
        ("in the last three days", "2023-05-15", "2023-05-18"),
        ("over the past 2 weeks", "2023-05-04", "2023-05-18"),
        ("the meeting on Tuesday", "2023-05-16", "2023-05-16"),
        ("on Thursday", "2023-05-11", "2023-05-11"),
        ("this morning", "2023-05-18", "2023-05-18"),
        ("昨天我们说了什么", "2023-05-17", "2023-05-17"),
        ("上个星期", "2023-05-08", "2023-05-14"),
        ("去年", "2022-01-01", "2022-12-31"),
        ("先週の会議", "2023-05-08", "2023-05-14"),
        ("一昨日", "2023-05-16", "2023-05-16"),
        ("昨日", "2023-05-17", "2023-05-17"),
        ("지난달", "2023-04-01", "2023-04-30"),
    ],
)
def test_a_relative_time_is_told_from_the_moment_of_asking(query: str, first: str, last: str) -> None:
    assert named(query) == [between(first, last)]


def test_last_night_ends_in_the_morning() -> None:
    (night,) = named("what did we say last night?")
    assert (night.begin, night.end) == (
        between("2023-05-17", "2023-05-17").begin,
        NOW - NOW % DAY_MS + DAY_MS // 4,
    )


@pytest.mark.parametrize("query", ["on Tuesdays", "on Tuesday and Thursday mornings", "the last days"])
def test_what_happens_again_and_again_is_no_day(query: str) -> None:
    assert named(query) == []


@pytest.mark.parametrize(
    ("query", "rest"),
    [
        ("the meeting last Tuesday", "the meeting"),
        ("what did I say yesterday about Rex?", "what did I say about Rex?"),
        ("昨天的会议", "的会议"),
        ("the meeting last week", "the meeting last week"),
        ("the meeting 3 weeks ago", "the meeting"),
        ("the meeting 2023-05-08", "the meeting"),
        ("2023年5月8日的会议", "的会议"),
        ("the meeting on 8 May", "the meeting on"),
        ("how many scenes by 8 May", "how many scenes by 8 May"),
        ("the meeting since Friday", "the meeting"),
        ("the meeting in May 2023", "the meeting in May 2023"),
        ("last Friday, on 23 January 2022", "last Friday, on"),
    ],
)
def test_a_day_that_is_near_or_meant_says_when_and_not_what(query: str, rest: str) -> None:
    assert without_times(query, NOW).split() == rest.split()


def test_each_of_several_times_is_named() -> None:
    assert named("8 May 2023 and 2023-06-01, or in 2020") == [
        between("2023-05-08", "2023-05-08"),
        between("2023-06-01", "2023-06-01"),
        between("2020-01-01", "2020-12-31"),
    ]


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("between 8 May 2023 and 2023-06-01", "2023-05-08", "2023-06-01"),
        ("between 1 and 3 May", "2023-05-01", "2023-05-03"),
        ("from the 1st to the 3rd of November", "2022-11-01", "2022-11-03"),
        ("between 1 and 3 November 2021", "2021-11-01", "2021-11-03"),
        ("between August 11 and August 15 2021", "2021-08-11", "2021-08-15"),
        ("between 30 December and 2 January", "2022-12-30", "2023-01-02"),
        ("between 29 February and 2 March", "2020-02-29", "2023-03-02"),
        ("between March and April", "2023-03-01", "2023-04-30"),
        ("since Friday", "2023-05-12", "2023-05-18"),
        ("since yesterday", "2023-05-17", "2023-05-18"),
        ("since October", "2022-10-01", "2023-05-18"),
        ("since 2022-12-24", "2022-12-24", "2023-05-18"),
        ("before October", "1970-01-01", "2022-09-30"),
        ("before 8 May 2023", "1970-01-01", "2023-05-07"),
    ],
)
def test_a_stretch_is_told_by_its_ends(query: str, first: str, last: str) -> None:
    assert named(f"the meeting {query}") == [between(first, last)]


@pytest.mark.parametrize("told", ["the week", "two weeks", "the Sunday", "3 days"])
def test_what_is_told_from_a_date_is_not_all_that_came_before_it(told: str) -> None:
    assert named(f"{told} before 8 May 2023") == [between("2023-05-08", "2023-05-08")]


def test_a_date_that_can_be_read_in_two_ways_is_read_in_both() -> None:
    assert named("on 11/01/2022") == [
        between("2022-01-11", "2022-01-11"),
        between("2022-11-01", "2022-11-01"),
    ]
    assert named("on 13/01/2022") == [between("2022-01-13", "2022-01-13")]
    assert named("on 1/1/2022") == [between("2022-01-01", "2022-01-01")]


@pytest.mark.parametrize(
    ("query", "is_meant"),
    [
        ("2023-05-08", True),
        ("on 8 May", True),
        ("on the 8th of May", True),
        ("3 weeks ago", True),
        ("before October", True),
        ("between 1 and 3 May", True),
        ("between 1 and 9 May", False),
        ("by 8 May", False),
        ("in May 2023", False),
        ("last week", False),
        ("last weekend before 8 May", False),
    ],
)
def test_who_names_a_day_or_a_week_means_it(query: str, is_meant: bool) -> None:
    assert spans_in(query, NOW)[0].is_meant == is_meant


def test_a_query_without_a_time_names_none() -> None:
    assert named("What is the name of my sister's dog?") == []


@pytest.mark.parametrize("query", ["ſeptember", "fıve days ago", "yeſterday", "thİs year", "tueſday"])
def test_letters_that_only_pass_for_others_do_no_harm(query: str) -> None:
    assert all(span.month or span.begin is not None for span in named(query))


@pytest.mark.parametrize("now", [0, MAX_TIMESTAMP])
@pytest.mark.parametrize(
    "query",
    ["this month", "last month", "this year", "this winter", "last winter", "999 years ago", "999 weeks ago"],
)
def test_the_first_and_the_last_moment_have_times_around_them(query: str, now: int) -> None:
    (span,) = named(query, now)
    assert span.begin is not None
    assert span.end is not None
    assert span.begin < span.end


_pieces = st.sampled_from(
    [
        "may",
        "May ",
        "last ",
        "week",
        "2023",
        "-05",
        "-31",
        "/",
        "年",
        "月",
        "日",
        "去年",
        "三",
        "十",
        "Q2 ",
        "winter ",
        "last winter",
        " '23",
        "8",
        "th ",
        "of ",
        " ago",
        "days",
        "between ",
        " and ",
        "since ",
        "before ",
        ".",
        "29 feb ",
    ]
)


@example("since may", MAX_TIMESTAMP)
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
    "piece",
    [
        "1",
        "12 ",
        "2023-",
        "1 of ",
        " ",
        "may ",
        "9" * 50,
        "2023年",
        "\u0301\u0316",
        "between 1 and ",
        "since ",
    ],
)
def test_long_queries_are_read_in_bounded_time(piece: str) -> None:
    begun = time.process_time()
    for _ in spans_in("1 " + piece * (100_000 // len(piece)), NOW):
        pass
    assert time.process_time() - begun < 2
