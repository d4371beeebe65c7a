"""Times in a query: "8 May 2023", "in July", "last Tuesday", "3 weeks ago", "去年三月"; `date_ranges` joins them."""

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from recollect.domain.recall.words import normal

DAY_MS = 86_400_000
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
NUMBERS = {
    "a couple of": 2, "a few": 3, "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
    "seven": 7, "eight": 8, "nine": 9, "ten": 10, "couple of": 2, "few": 3,
}  # fmt: skip
_DAYS_IN = {"day": 1, "week": 7, "month": 30, "year": 365}
# A number ends where no digit or Latin letter follows: other scripts put no spaces around dates.
_begins, _ends = r"(?<![0-9A-Za-z_])", r"(?![0-9A-Za-z_])"
MONTH = rf"(?:{'|'.join(MONTHS)}|(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b\.?)"
"""A pattern for its name."""
_number = rf"(?:\d{{1,3}}|{'|'.join(map(re.escape, NUMBERS))})"
_weekday = "|".join(WEEKDAYS)
_DIGITS = "一二三四五六七八九"
_digit = f"[{_DIGITS}]"
# 三月 is March. 三月三 is a feast, 一月两次 is how often, 近三月 and 三月内 are how long, and 五月天 is a band.
_month_in_words = (
    rf"(?<![{_DIGITS}十百第每近这這那去满滿整])(?:十[一二]?|{_digit})"
    rf"(?=月(?!份?(?:[内內余餘之前后後]|天(?![气氣])|初?[{_DIGITS}十两兩几幾]+(?![{_DIGITS}十]*[日号號]))))"
)
_day_in_words = rf"(?:[二三]?十{_digit}?|{_digit})"
_YEARS_BACK = {"今年": 0, "올해": 0, "去年": 1, "昨年": 1, "작년": 1, "前年": 2}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""Of the north, by the month they begin in."""
_WINTER_ENDS = 3
_season_names = "|".join(_SEASONS)
_year = r"(?:19|20)\d{2}"
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
    {_begins}(?P<iy>\d{{4}})[-/](?P<im>\d{{1,2}})(?:[-/](?P<id>\d{{1,2}})(?:T\d[\d:.]*Z?)?)?(?!\d|[-/]\d)
    | {_begins}(?P<first>\d{{1,2}})(?:\.\s?(?P<dm>\d{{1,2}})\.\s?|(?P<cut>[-/])(?P<second>\d{{1,2}})(?P=cut))
        (?P<dy>(?:19|20)\d{{2}})(?!\d|[-/.]\d)
    | (?<!\d)(?:(?P<cy>\d{{4}})\s?[年년]|(?P<back>{"|".join(_YEARS_BACK)})的?)?\s?
        (?P<cm>\d{{1,2}}|{_month_in_words})\s?[月월]份?(?:\s?(?P<cd>\d{{1,2}}|{_day_in_words})\s?[日号號일])?
    | (?<!\d)(?P<ky>\d{{4}})\s?[年년]
    | \b(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?(?P<month>{MONTH})
        (?:\s+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?!\d))?(?:(?:,\s*|\s+)(?P<y>{_year}|['\u2019]\d{{2}}))?\b
    | {_begins}(?:q(?P<quarter>[1-4])[\s/-]?(?P<qy>{_year})|(?P<yq>{_year})[\s/-]?q(?P<nth>[1-4])){_ends}
    | \b(?P<season>{_season_names})\s(?:of\s)?(?P<sy>{_year}){_ends}
    | {_begins}(?P<year>{_year}){_ends}
    """,
    re.IGNORECASE | re.VERBOSE,
)
_relative = re.compile(
    rf"""
    \b(?P<day>today|yesterday|the\ day\ before\ yesterday)\b
    | \b(?P<which>last|this|past)\ (?P<unit>week|weekend|month|year|{_season_names}|{_weekday})\b
    | \b(?:(?P<count>{_number})\ (?P<ago>day|week|month|year)s?|(?P<fortnight>a\ fortnight))\ ago\b
    | \b(?:last|past|previous)\ (?P<lately>{_number})\ (?P<each>day|week|month|year)s\b
    | \b(?:(?P<night>last\ night)|(?P<now>this\ (?:morning|afternoon|evening)|tonight))\b
    | (?:\bon\ |(?<=\bsince\ )|(?<=\bbefore\ ))(?P<on>{_weekday})\b(?!\ (?:and|or)\b)
    | (?P<unspaced>{"|".join(sorted(_UNSPACED, key=len, reverse=True))})
    """,
    re.IGNORECASE | re.VERBOSE,
)

_verb_follows = re.compile(r"\s+(?:i|we|you|he|she|it|they|there|be|not|have)\b", re.IGNORECASE).match
_on = re.compile(r"\bon\s(?:the\s)?$", re.IGNORECASE).search
_PLAIN_I = str.maketrans("ıİ", "iI")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in UTC milliseconds, the end not in it; or a month or day of any year."""

    begin: int | None = None
    end: int | None = None
    month: int | None = None
    day: int | None = None
    is_near: bool = False
    """A day, or a few, told from the day of asking: whoever says "yesterday" means that day alone."""
    is_meant: bool = False
    """A day or a week that is named, or all from one time to another: who names it wants what was said then."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """Where a query names a time, and which: two where it can be read in two ways."""

    begin: int
    end: int
    spans: tuple[Span, ...]
    is_absolute: bool = False


def plain_query(query: str) -> str:
    """As phrases are looked for in it. Without case, "i" is also the Turkish letters without and with a dot."""
    return normal(query).translate(_PLAIN_I)


def phrases_in(plain: str, now: int) -> list[Phrase]:
    """The times that a plain query names, in their order."""
    today = day_of(now)
    absolute = list(_absolute_phrases(plain, today))
    parts = {place for phrase in absolute for place in range(phrase.begin, phrase.end)}
    relative = [
        Phrase(found.start(), found.end(), (_relative_span(found, today),))
        for found in _relative.finditer(plain)
        if found.start() not in parts
    ]
    return sorted([*absolute, *relative], key=lambda phrase: phrase.begin)


def _absolute_phrases(query: str, today: date) -> Iterator[Phrase]:
    for found in _absolute.finditer(query):
        if not _is_verb(found, query) and (spans := _absolute_spans(found, today)):
            if _on(query, max(0, found.start() - 8), found.start()):
                spans = [replace(span, is_meant=span.is_meant or span.day is not None) for span in spans]
            yield Phrase(found.start(), found.end(), tuple(spans), is_absolute=True)


def _relative_span(found: re.Match[str], today: date) -> Span:
    if found["fortnight"]:
        return _some_time_ago("2", "week", today)
    if found["count"]:
        return _some_time_ago(found["count"].lower(), found["ago"].lower(), today)
    if found["lately"]:
        back = _count(found["lately"]) * _DAYS_IN[found["each"].lower()]
        return replace(_days(today - timedelta(back), back + 1), is_near=back < _DAYS_IN["week"])
    if found["night"]:
        return replace(_near(today - timedelta(1), 2), end=start_of(today) + DAY_MS // 4)
    if found["now"]:
        return _near(today)
    phrase = _UNSPACED.get(found["unspaced"] or "", found[0].lower())
    days = {"today": 0, "yesterday": 1, "the day before yesterday": 2}
    if phrase in days:
        return _near(today - timedelta(days[phrase]))
    which, _, unit = phrase.rpartition(" ")
    monday = today - timedelta(today.weekday())
    if unit in WEEKDAYS:
        back = (today.weekday() - WEEKDAYS.index(unit)) % 7 or (7 if which != "this" else 0)
        return _near(today - timedelta(back))
    if unit in _SEASONS:
        return _last_season(unit, today, is_over=which != "this")
    if unit == "weekend":
        return _days(monday + timedelta(5 if which == "this" else -2), 2)
    if unit == "week":
        return _days(monday - timedelta(0 if which == "this" else 7), 7)
    if unit == "month":
        first = today.replace(day=1)
        return month_span(first if which == "this" else first - timedelta(1))
    return _year_span(today.year - (which != "this"))


def _count(number: str) -> int:
    return int(number) if number.isdigit() else NUMBERS[number.lower()]


def _some_time_ago(count: str, unit: str, today: date) -> Span:
    number = _count(count)
    if unit == "day":
        uncounted = "couple" in count or "few" in count
        return _near(today - timedelta(number + 1), 3) if uncounted else _near(today - timedelta(number))
    if unit == "week":
        return _meant(today - timedelta(7 * number + 3), 7)
    if unit == "month":
        return month_span(today.replace(day=15) - timedelta(round(30.4 * number)))
    return _year_span(today.year - number)


def _is_verb(found: re.Match[str], query: str) -> bool:
    """Whether "may" is no month: a month is written like one, stands beside a number, or after "in"."""
    if found["month"] is None or found[0].lower() != "may":
        return False
    if found[0] == "may":
        return not query[: found.start()].lower().endswith("in ")
    return _verb_follows(query, found.end()) is not None


def _absolute_spans(found: re.Match[str], today: date) -> list[Span]:
    """None where there is no such day: the 31st of June is no time at all."""
    year, month, day = found["y"], found["month"], found["d1"] or found["d2"]
    readings: list[tuple[str | None, str | None, str | None]]
    if quarter := found["quarter"] or found["nth"]:
        return [_three_months(int(found["qy"] or found["yq"]), 3 * int(quarter) - 2)]
    if found["season"]:
        return _season(found["season"].lower(), int(found["sy"]))
    if month:
        year = _whole_year(year)
        month = str(next(n for n, name in enumerate(MONTHS, 1) if name.startswith(month.lower()[:3])))
        readings = [(year, month, day)]
    elif found["dy"]:
        first, second = found["first"], found["dm"] or found["second"]
        readings = [(found["dy"], second, first)]
        if found["cut"] and first != second:
            readings.append((found["dy"], first, second))
    else:
        year = found["iy"] or found["cy"] or found["ky"] or found["year"]
        if found["back"]:
            year = str(today.year - _YEARS_BACK[found["back"]])
        month, day = found["im"] or _digits(found["cm"]), found["id"] or _digits(found["cd"])
        readings = [(year, month, day)]
    return [span for reading in readings if (span := _span_of(*reading)) is not None]


def _whole_year(year: str | None) -> str | None:
    """'23 is 2023, and '98 is 1998."""
    if year is None or len(year) > 3:
        return year
    return f"{'19' if year[1:] >= '70' else '20'}{year[1:]}"


def _digits(number: str | None) -> str | None:
    """二十五 is 25."""
    if number is None or number.isdecimal():
        return number
    tens, ten, ones = number.rpartition("十")
    count = 10 * (_DIGITS.index(tens) + 1 if tens else 1) if ten else 0
    return str(count + (_DIGITS.index(ones) + 1 if ones else 0))


def _season(name: str, year: int) -> list[Span]:
    """The winter of a year is the one that ends in it, or the one that begins in it."""
    years = [year - 1, year] if name == "winter" else [year]
    return [_three_months(each, _SEASONS[name]) for each in years]


def _last_season(name: str, today: date, *, is_over: bool) -> Span:
    """The last one that is over, or the one of this year, a winter that goes on."""
    spans = [_three_months(today.year - back, _SEASONS[name]) for back in range(3)]
    now = start_of(today)
    if is_over:
        return next(span for span in spans if span.end is not None and span.end <= now)
    goes_on = name == "winter" and today.month < _WINTER_ENDS
    return spans[1 if goes_on else 0]


def _three_months(year: int, month: int) -> Span:
    months = [divmod(12 * year + month - 1 + each, 12) for each in range(3)]
    return _days(date(year, month, 1), sum(calendar.monthrange(each, place + 1)[1] for each, place in months))


def _span_of(year: str | None, month: str | None, day: str | None) -> Span | None:
    try:
        if year is None:
            number = int(day) if day else None
            date(2000, int(month or 0), number or 1)
            return Span(month=int(month or 0), day=number)
        if day is not None:
            return _meant(date(int(year), int(month or 0), int(day)), 1)
        if month is not None:
            return month_span(date(int(year), int(month), 1))
        return _year_span(int(year))
    except ValueError:
        return None


def month_span(of: date) -> Span:
    return _days(of.replace(day=1), calendar.monthrange(of.year, of.month)[1])


def day_span(day: date) -> Span:
    return _days(day, 1)


def _year_span(year: int) -> Span:
    return _days(date(year, 1, 1), 365 + calendar.isleap(year))


def _near(first: date, count: int = 1) -> Span:
    return replace(_days(first, count), is_near=True)


def _meant(first: date, count: int) -> Span:
    return replace(_days(first, count), is_meant=True)


def _days(first: date, count: int) -> Span:
    begin = start_of(first)
    return Span(begin, begin + count * DAY_MS)


def start_of(day: date) -> int:
    return (day - date(1970, 1, 1)).days * DAY_MS


def day_of(moment: int) -> date:
    return datetime.fromtimestamp(moment / 1000, UTC).date()
