"""The times that a query names, with those that it names by their ends: "between 1 and 3 November", "since Friday"."""

import calendar
import re
from dataclasses import replace
from datetime import date

from recollect.memory.dates import (
    DAY_MS,
    MONTH,
    WEEKDAYS,
    Phrase,
    Span,
    day_of,
    day_span,
    month_span,
    phrases_in,
    plain_query,
    start_of,
)

_day = r"(\d{1,2})(?:st|nd|rd|th)?"
_year = r"((?:,\s*|\s+)(?:19|20)\d{2})?"
_one_month = re.compile(
    rf"\b(?:between|from)\s(?:the\s)?{_day}\s(?:and|to)\s(?:the\s)?{_day}\s(?:of\s)?({MONTH}){_year}",
    re.IGNORECASE,
).sub
_opening = re.compile(r"\b(?:between|from)\s(?:the\s)?$", re.IGNORECASE).search
_middle = re.compile(r",?\s(?:and|to|until|till)\s(?:the\s)?", re.IGNORECASE).fullmatch
_side = re.compile(
    r"(?:(?<!\S)(?P<unit>\w+)\s)?(?<!\S)(?P<side>since|before)\s(?:the\s)?$", re.IGNORECASE
).search
_LOOK_BACK = 30
_COUNTED = frozenset(
    {
        "day",
        "days",
        "week",
        "weeks",
        "weekend",
        "month",
        "months",
        "year",
        "years",
        "night",
        "morning",
        "evening",
    }
    | set(WEEKDAYS)
)
"""What is told from a date, and is not all that came before it: "the week before 3 August"."""
_LEAP_YEARS = 8
_FEW_DAYS_MS = 3 * 86_400_000
"""What happened in a longer stretch is told after its end, too."""


def spans_in(query: str, now: int) -> list[Span]:
    """The times that a query names."""
    return [span for phrase in _named(_written_out(query), now) for span in phrase.spans]


def without_times(query: str, now: int) -> str:
    """The query without the phrases that say when, and not what: those for a day or a week that is near, or meant."""
    plain = _written_out(query)
    phrases = [
        phrase for phrase in _named(plain, now) if any(span.is_near or span.is_meant for span in phrase.spans)
    ]
    if not phrases:
        return query
    edges = [0, *(edge for phrase in phrases for edge in (phrase.begin, phrase.end)), len(plain)]
    return " ".join(plain[begin:end] for begin, end in zip(edges[::2], edges[1::2], strict=True))


def _written_out(query: str) -> str:
    """With both ends of "between 1 and 3 November" as dates."""
    return _one_month(r"between \1 \3\4 and \2 \3\4", plain_query(query))


def _named(plain: str, now: int) -> list[Phrase]:
    today = day_of(now)
    phrases = [
        _from_one_side(phrase, plain, today) for phrase in _joined(phrases_in(plain, now), plain, today)
    ]
    if not any(phrase.is_absolute for phrase in phrases):
        return phrases
    # Beside a date, "last Friday" may be told from that date.
    return [
        phrase
        if phrase.is_absolute
        else replace(
            phrase, spans=tuple(replace(span, is_near=False, is_meant=False) for span in phrase.spans)
        )
        for phrase in phrases
    ]


def _joined(phrases: list[Phrase], plain: str, today: date) -> list[Phrase]:
    """Two dates with "between" and "and" around them as one stretch."""
    joined: list[Phrase] = []
    for phrase in phrases:
        first = joined[-1] if joined else None
        if first is not None and _are_ends(first, phrase, plain):
            stretch = _stretch(first.spans[0], phrase.spans[0], today)
            joined[-1] = Phrase(first.begin, phrase.end, (stretch,), is_absolute=True)
        else:
            joined.append(phrase)
    return joined


def _are_ends(first: Phrase, second: Phrase, plain: str) -> bool:
    return (
        first.is_absolute
        and second.is_absolute
        and _middle(plain, first.end, second.begin) is not None
        and _opening(plain, max(0, first.begin - _LOOK_BACK), first.begin) is not None
    )


def _stretch(first: Span, last: Span, today: date) -> Span:
    """From the beginning of one to the end of the other; a year that one has is also the other's."""
    last = _dated(last, today if first.begin is None else day_of(first.begin).replace(month=12, day=31))
    first = _dated(first, day_of((last.end or 0) - 1))
    begin, end = min(first.begin or 0, last.begin or 0), max(first.end or 0, last.end or 0)
    return Span(begin, end, is_meant=end - begin <= _FEW_DAYS_MS)


def _from_one_side(phrase: Phrase, plain: str, today: date) -> Phrase:
    """All since a time, or all before it, where that is what the words before it say."""
    found = _side(plain, max(0, phrase.begin - _LOOK_BACK), phrase.begin)
    if found is None or (found["unit"] or "").lower() in _COUNTED:
        return phrase
    span = _dated(phrase.spans[0], today)
    begin, end = span.begin or 0, span.end or 0
    if found["side"].lower() == "since":
        stretch = Span(begin, max(end, start_of(today) + DAY_MS), is_meant=True)
    elif begin > 0:
        stretch = Span(0, begin, is_meant=True)
    else:
        return phrase
    return replace(phrase, begin=found.start("side"), spans=(stretch,))


def _dated(span: Span, latest: date) -> Span:
    """A month or a day of any year as the last one that had begun on a day."""
    if span.begin is not None or span.month is None:
        return span
    for year in range(latest.year, max(0, latest.year - _LEAP_YEARS - 1), -1):
        if span.day == 29 and span.month == 2 and not calendar.isleap(year):
            continue
        first = date(year, span.month, span.day or 1)
        if first <= latest:
            return month_span(first) if span.day is None else day_span(first)
    return span
