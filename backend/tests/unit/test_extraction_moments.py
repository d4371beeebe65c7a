"""The times that sentences name, told from when they were said."""

from datetime import UTC, datetime

import pytest

from recollect.domain.extraction.moments import Moment, moments_in, written_out
from recollect.domain.extraction.stretch import Leaning

FRIDAY = int(datetime(2026, 5, 8, 12, 0, tzinfo=UTC).timestamp() * 1000)


def only(text: str, leaning: Leaning = "near", time_zone: str = "UTC") -> Moment:
    (moment,) = moments_in(text, FRIDAY, time_zone, leaning=leaning)
    return moment


def days(moment: Moment) -> tuple[str, str]:
    begin, end = (datetime.fromtimestamp(edge / 1000, UTC) for edge in (moment.begin, moment.end))
    return f"{begin:%Y-%m-%d}", f"{end:%Y-%m-%d}"


@pytest.mark.parametrize(
    ("text", "first", "past_last"),
    [
        ("I went there yesterday", "2026-05-07", "2026-05-08"),
        ("the day before yesterday", "2026-05-06", "2026-05-07"),
        ("I ran last Saturday", "2026-05-02", "2026-05-03"),
        ("last Friday", "2026-05-01", "2026-05-02"),
        ("two weeks ago", "2026-04-21", "2026-04-28"),
        ("three days ago", "2026-05-05", "2026-05-06"),
        ("last week", "2026-04-27", "2026-05-04"),
        ("last weekend", "2026-05-02", "2026-05-04"),
        ("last month", "2026-04-01", "2026-05-01"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("tomorrow", "2026-05-09", "2026-05-10"),
        ("next Tuesday", "2026-05-12", "2026-05-13"),
        ("next weekend", "2026-05-16", "2026-05-18"),
        ("next month", "2026-06-01", "2026-07-01"),
        ("in three days", "2026-05-11", "2026-05-12"),
        ("on 3 June 2027", "2027-06-03", "2027-06-04"),
        ("June 3rd, 2027", "2027-06-03", "2027-06-04"),
        ("next Saturday, 16 May", "2026-05-16", "2026-05-17"),
        ("昨天", "2026-05-07", "2026-05-08"),
        ("前天", "2026-05-06", "2026-05-07"),
        ("上周五", "2026-05-01", "2026-05-02"),
        ("下週三", "2026-05-13", "2026-05-14"),
        ("上个月", "2026-04-01", "2026-05-01"),
        ("下个月5号", "2026-06-05", "2026-06-06"),
        ("两周前", "2026-04-21", "2026-04-28"),
        ("三天后", "2026-05-11", "2026-05-12"),
        ("去年5月", "2025-05-01", "2025-06-01"),
        ("2023年5月7日", "2023-05-07", "2023-05-08"),
    ],
)
def test_a_phrase_means_these_days(text: str, first: str, past_last: str) -> None:
    assert days(only(text)) == (first, past_last)


@pytest.mark.parametrize(
    ("text", "leaning", "first"),
    [
        ("on Monday", "past", "2026-05-04"),
        ("on Monday", "future", "2026-05-11"),
        ("on Friday", "past", "2026-05-01"),
        ("on 3 June", "past", "2025-06-03"),
        ("on 3 June", "future", "2026-06-03"),
        ("in July", "past", "2025-07-01"),
        ("周六", "past", "2026-05-02"),
        ("10月2日", "future", "2026-10-02"),
    ],
)
def test_what_has_no_year_or_week_lies_as_the_sentence_leans(text: str, leaning: Leaning, first: str) -> None:
    assert days(only(text, leaning))[0] == first


def test_yesterday_is_the_speakers_yesterday() -> None:
    late = int(datetime(2026, 5, 8, 23, 30, tzinfo=UTC).timestamp() * 1000)
    (moment,) = moments_in("yesterday", late, "Asia/Shanghai")
    assert datetime.fromtimestamp(moment.begin / 1000, UTC) == datetime(2026, 5, 7, 16, tzinfo=UTC)


def test_an_hour_narrows_the_day_and_stays_in_the_text() -> None:
    text = "tomorrow at 3 pm"
    moment = only(text)
    assert (moment.precision, moment.end - moment.begin) == ("time", 3_600_000)
    assert datetime.fromtimestamp(moment.begin / 1000, UTC).hour == 15
    assert written_out(text, [moment]) == "on 9 May 2026 at 3 pm"


def test_chinese_hours_follow_their_part_of_the_day() -> None:
    moment = only("明天下午三点半")
    assert datetime.fromtimestamp(moment.begin / 1000, UTC) == datetime(2026, 5, 9, 15, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("I ran yesterday.", "I ran on 7 May 2026."),
        ("We met last weekend.", "We met on the weekend of 2 May 2026."),
        ("I moved two months ago.", "I moved around March 2026."),
        ("It is due by Friday.", "It is due by 15 May 2026."),
        ("I slept badly last night.", "I slept badly on the night of 7 May 2026."),
        ("我昨天去了杭州。", "我2026年5月7日去了杭州。"),
    ],
)
def test_dates_stand_where_words_for_them_stood(text: str, written: str) -> None:
    assert written_out(text, moments_in(text, FRIDAY, "UTC", leaning="future")) == written


@pytest.mark.parametrize(
    "text",
    ["I may march on", "31 June 2026", "last year's model", "the second of two", "9999-12-31", "0000年"],
)
def test_what_names_no_time_gives_none(text: str) -> None:
    assert moments_in(text, FRIDAY, "UTC") == []


@pytest.mark.parametrize(
    ("text", "is_future"), [("yesterday", False), ("tomorrow", True), ("this year", False)]
)
def test_a_moment_knows_whether_it_is_still_to_come(text: str, is_future: bool) -> None:
    assert only(text).is_future is is_future


def test_an_unknown_time_zone_is_utc() -> None:
    assert only("yesterday", time_zone="Atlantis/Capital") == only("yesterday", time_zone="UTC")


@pytest.mark.parametrize("instant", [0, 253_402_300_799_999])
def test_the_edges_of_the_calendar_are_no_errors(instant: int) -> None:
    for text in ("a year ago", "next year", "in 999 years", "999 years ago", "下下周", "去年"):
        moments_in(text, instant, "Asia/Shanghai")
