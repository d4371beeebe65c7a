"""Dates in a query: "8 May 2023", "in July", "last Tuesday", "2023年5月"."""

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from recollect.memory.words import normal

_DAY_MS = 86_400_000
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
# A number ends where no digit or Latin letter follows: other scripts put no spaces around dates.
_begins, _ends = r"(?<![0-9A-Za-z_])", r"(?![0-9A-Za-z_])"
_month = rf"(?:{'|'.join(_MONTHS)}|(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b\.?)"
_UNSPACED = {
    phrase: meaning
    for meaning, phrases in {
        "today": "今天 今日 오늘",
        "yesterday": "昨天 昨日 어제",
        "the day before yesterday": "前天 一昨日 그저께",
        "last week": "上周 上週 上星期 上个星期 先週 지난주",
        "this week": "这周 這週 本周 本週 今週",
        "last month": "上个月 上個月 先月 지난달",
        "this month": "这个月 這個月 本月 今月",
        "last year": "去年 昨年 작년",
        "this year": "今年 올해",
    }.items()
    for phrase in phrases.split()
}
_absolute = re.compile(
    rf"""
    {_begins}(?P<iy>\d{{4}})[-/](?P<im>\d{{1,2}})(?:[-/](?P<id>\d{{1,2}}))?(?!\d|[-/]\d)
    | (?<!\d)(?:(?P<cy>\d{{4}})\s?[年년])?\s?(?P<cm>\d{{1,2}})\s?[月월](?:\s?(?P<cd>\d{{1,2}})\s?[日号號일])?
    | (?<!\d)(?P<ky>\d{{4}})\s?[年년]
    | \b(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?(?P<month>{_month})
        (?:\s+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?!\d))?(?:,?\s+(?P<y>(?:19|20)\d{{2}}))?\b
    | {_begins}(?P<year>(?:19|20)\d{{2}}){_ends}
    """,
    re.IGNORECASE | re.VERBOSE,
)
_relative = re.compile(
    rf"""
    \b(?P<day>today|yesterday|the\ day\ before\ yesterday)\b
    | \b(?P<which>last|this|past)\ (?P<unit>week|weekend|month|year|{"|".join(_WEEKDAYS)})\b
    | \b(?P<count>\d{{1,3}}|{"|".join(_NUMBERS)})\ (?P<ago>day|week|month|year)s?\ ago\b
    | (?P<unspaced>{"|".join(sorted(_UNSPACED, key=len, reverse=True))})
    """,
    re.IGNORECASE | re.VERBOSE,
)

_verb_follows = re.compile(r"\s+(?:i|we|you|he|she|it|they|there|be|not|have)\b", re.IGNORECASE).match
_PLAIN_I = str.maketrans("ıİ", "iI")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in UTC milliseconds, the end not in it; or a month or day of any year."""

    begin: int | None = None
    end: int | None = None
    month: int | None = None
    day: int | None = None


def spans_in(query: str, now: int) -> Iterator[Span]:
    """The times that a query names."""
    # Without case, "i" is also the Turkish letters without and with a dot.
    query = normal(query).translate(_PLAIN_I)
    today = datetime.fromtimestamp(now / 1000, UTC).date()
    for found in _relative.finditer(query):
        yield _relative_span(found, today)
    for found in _absolute.finditer(query):
        if not _is_verb(found, query) and (span := _absolute_span(found)) is not None:
            yield span


def _relative_span(found: re.Match[str], today: date) -> Span:
    phrase = _UNSPACED.get(found["unspaced"] or "", found[0].lower())
    if phrase.endswith(" ago"):
        number = int(found["count"]) if found["count"].isdigit() else _NUMBERS[found["count"].lower()]
        return _some_time_ago(number, found["ago"].lower(), today)
    days = {"today": 0, "yesterday": 1, "the day before yesterday": 2}
    if phrase in days:
        return _days(today - timedelta(days[phrase]), 1)
    which, _, unit = phrase.partition(" ")
    monday = today - timedelta(today.weekday())
    if unit in _WEEKDAYS:
        back = (today.weekday() - _WEEKDAYS.index(unit)) % 7 or (7 if which != "this" else 0)
        return _days(today - timedelta(back), 1)
    if unit == "weekend":
        return _days(monday + timedelta(5 if which == "this" else -2), 2)
    if unit == "week":
        return _days(monday - timedelta(0 if which == "this" else 7), 7)
    if unit == "month":
        first = today.replace(day=1)
        return _month_span(first if which == "this" else first - timedelta(1))
    return _year_span(today.year - (which != "this"))


def _some_time_ago(number: int, unit: str, today: date) -> Span:
    if unit == "day":
        return _days(today - timedelta(number), 1)
    if unit == "week":
        return _days(today - timedelta(7 * number + 3), 7)
    if unit == "month":
        return _month_span(today.replace(day=15) - timedelta(round(30.4 * number)))
    return _year_span(today.year - number)


def _is_verb(found: re.Match[str], query: str) -> bool:
    """Whether "may" is no month: a month is written like one, stands beside a number, or after "in"."""
    if found["month"] is None or found[0].lower() != "may":
        return False
    if found[0] == "may":
        return not query[: found.start()].lower().endswith("in ")
    return _verb_follows(query, found.end()) is not None


def _absolute_span(found: re.Match[str]) -> Span | None:
    if found["month"]:
        month = next(n for n, name in enumerate(_MONTHS, 1) if name.startswith(found["month"].lower()[:3]))
        return _span_of(found["y"], str(month), found["d1"] or found["d2"])
    return _span_of(
        found["iy"] or found["cy"] or found["ky"] or found["year"],
        found["im"] or found["cm"],
        found["id"] or found["cd"],
    )


def _span_of(year: str | None, month: str | None, day: str | None) -> Span | None:
    try:
        if year is None:
            number = int(day) if day else None
            date(2000, int(month or 0), number or 1)
            return Span(month=int(month or 0), day=number)
        if day is not None:
            return _days(date(int(year), int(month or 0), int(day)), 1)
        if month is not None:
            return _month_span(date(int(year), int(month), 1))
        return _year_span(int(year))
    except ValueError:
        return None  # The 31st of June: no time at all.


def _month_span(of: date) -> Span:
    return _days(of.replace(day=1), calendar.monthrange(of.year, of.month)[1])


def _year_span(year: int) -> Span:
    return _days(date(year, 1, 1), 365 + calendar.isleap(year))


def _days(first: date, count: int) -> Span:
    begin = (first - date(1970, 1, 1)).days * _DAY_MS
    return Span(begin, begin + count * _DAY_MS)
