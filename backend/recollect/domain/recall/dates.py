"""Times in a query: "8 May 2023", "2023-05-08", "in July", "yesterday", "last Tuesday", "3 weeks ago"."""

import calendar
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
import numpy.typing as npt

from recollect.domain.recall.words import normal

DAY_MS = 86_400_000
_MOST_SPANS = 32
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_month = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b\.?)"
)
_weekday = "|".join(_WEEKDAYS)
_year = r"(?:19|20)\d{2}"
# Other scripts put no spaces around dates: a number ends where no digit or Latin letter follows.
_begins, _ends = r"(?<![0-9A-Za-z_])", r"(?![0-9A-Za-z_])"
_absolute = re.compile(
    rf"""
    {_begins}(?P<iso_year>\d{{4}})[-/](?P<iso_month>\d{{1,2}})
        (?:[-/](?P<iso_day>\d{{1,2}})(?:T\d[\d:.]*Z?)?)?(?!\d|[-/]\d)
    | {_begins}(?P<first>\d{{1,2}})(?:\.\s?(?P<second>\d{{1,2}})\.\s?|(?P<slash>[-/])(?P<third>\d{{1,2}})(?P=slash))
        (?P<last_year>{_year})(?!\d|[-/.]\d)
    | (?<!\d)(?:(?P<cjk_year>\d{{4}})\s?[年년])?\s?(?P<cjk_month>\d{{1,2}})\s?[月월]
        (?:\s?(?P<cjk_day>\d{{1,2}})\s?[日号號일])?
    | \b(?:(?P<day_before>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?(?P<month>{_month})
        (?:\s+(?P<day_after>\d{{1,2}})(?:st|nd|rd|th)?(?!\d))?(?:(?:,\s*|\s+)(?P<year>{_year}))?\b
    | {_begins}(?P<year_alone>{_year})(?:\s?[年년]|{_ends})
    """,
    re.IGNORECASE | re.VERBOSE,
)
_relative = re.compile(
    rf"""
    \b(?:(?P<today>today)|(?P<yesterday>yesterday))\b
    | \b(?P<which>last|this)\ (?P<unit>week|month|year|{_weekday})\b
    | \bon\ (?P<weekday>{_weekday})\b(?!\ (?:and|or)\b)
    | \b(?P<count>\d{{1,3}}|an?|{"|".join(_NUMBERS)})\ (?P<ago>day|week|month|year)s?\ ago\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_verb_follows = re.compile(r"\s+(?:i|we|you|he|she|it|they|there|be|not|have)\b", re.IGNORECASE).match


@dataclass(frozen=True, slots=True)
class Span:
    """From one time until before another, in UTC milliseconds; or a month or a day of any year."""

    begin: int | None = None
    end: int | None = None
    month: int | None = None
    day: int | None = None
    is_meant: bool = False
    """A day, or a week that is counted back: the query wants what was said then."""


@dataclass(frozen=True, slots=True)
class _Phrase:
    """Where a query names a time, and which: two where it can be read in two ways."""

    begin: int
    end: int
    spans: tuple[Span, ...]


def spans_in(query: str, now: int) -> tuple[Span, ...]:
    """The times that a query names, in their order; each once, and no more than a person would name."""
    named = dict.fromkeys(span for phrase in _phrases(_plain(query), now) for span in phrase.spans)
    return tuple(itertools.islice(named, _MOST_SPANS))


def without_times(query: str, now: int) -> str:
    """The query without the phrases for a time that is meant: these say when, and not what."""
    plain = _plain(query)
    phrases = [phrase for phrase in _phrases(plain, now) if any(span.is_meant for span in phrase.spans)]
    if not phrases:
        return query
    edges = [0, *(edge for phrase in phrases for edge in (phrase.begin, phrase.end)), len(plain)]
    return " ".join(plain[begin:end] for begin, end in zip(edges[::2], edges[1::2], strict=True))


def _plain(query: str) -> str:
    """The text that phrases are looked for in. Without case, "i" also matches the Turkish letters."""
    return normal(query).translate(str.maketrans("ıİ", "iI"))


def _phrases(plain: str, now: int) -> list[_Phrase]:
    """Beside a date, relative times are left out: they may be relative to it ("last Friday, on 23 January 2022")."""
    absolute = list(_absolute_phrases(plain))
    if absolute:
        return absolute
    today = day_of(now)
    return [
        _Phrase(found.start(), found.end(), (_relative_span(found, today),))
        for found in _relative.finditer(plain)
    ]


def _absolute_phrases(query: str) -> Iterator[_Phrase]:
    for found in _absolute.finditer(query):
        spans = [] if _is_verb(found, query) else _absolute_spans(found)
        if spans:
            yield _Phrase(found.start(), found.end(), tuple(spans))


def _is_verb(found: re.Match[str], query: str) -> bool:
    """Whether "may" is no month: a month is capitalised, stands beside a number, or after "in"."""
    if found[0].lower() != "may":
        return False
    if found[0] == "may":
        return not query[: found.start()].lower().endswith("in ")
    return _verb_follows(query, found.end()) is not None


def _absolute_spans(found: re.Match[str]) -> list[Span]:
    """Empty where there is no such day, as the 31st of June. `11/01/2026` is read both ways."""
    if found["month"]:
        month = str(_MONTHS.index(found["month"].lower()[:3]) + 1)
        readings = [(found["year"], month, found["day_before"] or found["day_after"])]
    elif found["last_year"]:
        first, second = found["first"], found["second"] or found["third"]
        readings = [(found["last_year"], second, first)]
        if found["slash"] and first != second:
            readings.append((found["last_year"], first, second))
    else:
        year = found["iso_year"] or found["cjk_year"] or found["year_alone"]
        month, day = found["iso_month"] or found["cjk_month"], found["iso_day"] or found["cjk_day"]
        readings = [(year, month, day)]
    return [span for reading in readings if (span := _span_of(*reading)) is not None]


def _span_of(year: str | None, month: str | None, day: str | None) -> Span | None:
    try:
        if year is None:
            number = int(day) if day else None
            date(2000, int(month or 0), number or 1)
            return Span(month=int(month or 0), day=number)
        if day is not None:
            return replace(_days(date(int(year), int(month or 0), int(day)), 1), is_meant=True)
        return month_span(date(int(year), int(month), 1)) if month is not None else _year_span(int(year))
    except ValueError:
        return None


def _relative_span(found: re.Match[str], today: date) -> Span:
    if found["today"] or found["yesterday"]:
        return _day_ago(today, 1 if found["yesterday"] else 0)
    if found["count"]:
        return _time_ago(_number(found["count"].lower()), found["ago"].lower(), today)
    is_this = (found["which"] or "last").lower() == "this"
    unit = (found["weekday"] or found["unit"]).lower()
    if unit in _WEEKDAYS:
        return _day_ago(today, (today.weekday() - _WEEKDAYS.index(unit)) % 7 or (0 if is_this else 7))
    if unit == "week":
        return _days(today - timedelta(today.weekday() + (0 if is_this else 7)), 7)
    if unit == "month":
        return month_span(today if is_this else today.replace(day=1) - timedelta(1))
    return _year_span(today.year - (not is_this))


def _time_ago(count: int, unit: str, today: date) -> Span:
    if unit == "day":
        return _day_ago(today, count)
    if unit == "week":
        return replace(_days(today - timedelta(7 * count + 3), 7), is_meant=True)
    if unit == "month":
        return month_span(today.replace(day=15) - timedelta(round(30.4 * count)))
    return _year_span(today.year - count)


def _number(written: str) -> int:
    if written.isdigit():
        return int(written)
    return _NUMBERS.index(written) + 1 if written in _NUMBERS else 1


def _day_ago(today: date, count: int) -> Span:
    return replace(_days(today - timedelta(count), 1), is_meant=True)


def month_span(of: date) -> Span:
    return _days(of.replace(day=1), calendar.monthrange(of.year, of.month)[1])


def _year_span(year: int) -> Span:
    return _days(date(year, 1, 1), 365 + calendar.isleap(year))


def _days(first: date, count: int) -> Span:
    begin = (first - date(1970, 1, 1)).days * DAY_MS
    return Span(begin, begin + count * DAY_MS)


def day_of(moment: int) -> date:
    return datetime.fromtimestamp(moment / 1000, UTC).date()


def within(times: npt.NDArray[np.int64], spans: Sequence[Span]) -> npt.NDArray[np.bool_]:
    """Which times lie in any of the spans."""
    inside = np.zeros(len(times), np.bool_)
    for span in spans:
        if span.begin is not None and span.end is not None:
            inside |= (times >= span.begin) & (times < span.end)
        else:
            days = times.astype("datetime64[ms]")
            months = days.astype("datetime64[M]")
            matches = months.astype(np.int64) % 12 + 1 == span.month
            if span.day is not None:
                matches &= (days.astype("datetime64[D]") - months.astype("datetime64[D]")).astype(
                    np.int64
                ) + 1 == span.day
            inside |= matches
    return inside
