"""The times that an English sentence names, in days of the speaker's calendar."""

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta

from recollect.domain.extraction.stretch import (
    Leaning,
    PartOfDay,
    Stretch,
    date_near,
    day_of,
    monday_of,
    month_near,
    month_of,
    months_on,
    units_on,
    week_of,
    weekday_near,
    weekend_after,
    year_of,
)
from recollect.domain.recall.dates import MONTHS, NUMBERS, WEEKDAYS

# ruff: noqa: RUF001 - dashes and quotation marks as people type them


_weekday = "|".join(WEEKDAYS)
_month = rf"(?:{'|'.join(MONTHS)}|(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\b\.?)"
_number = rf"(?:\d{{1,3}}|{'|'.join(sorted(map(re.escape, NUMBERS), key=len, reverse=True))}|eleven|twelve)"
_phrase = re.compile(
    rf"""
    (?<![\w'’-])(?:
      (?:on\ )?(?P<day>the\ day\ before\ yesterday|the\ day\ after\ tomorrow|today|yesterday|tomorrow)
          (?:\ (?P<part>morning|afternoon|evening|night))?
    | (?P<now>this\ (?:morning|afternoon|evening)|tonight|last\ night)
    | (?:on\ |over\ the\ |over\ |during\ the\ |during\ |in\ the\ )?(?:earlier\ |later\ )?(?P<which>this\ past|this\ coming|last|this|next|past|coming|the\ coming|the\ following)\ (?P<unit>week(?:end)?|month|year|{_weekday}|{_month})(?:\ (?P<wpart>morning|afternoon|evening|night))?
    | (?:about\ |around\ |roughly\ |almost\ |over\ )?(?P<ago>{_number})\ (?P<back>day|week|month|year)s?\ (?:ago|back)
    | in\ (?:about\ |around\ )?(?P<ahead>{_number})\ (?P<on>day|week|month|year)s?(?:'\ time)?
    | (?P<from>{_number})\ (?P<later>day|week|month|year)s?\ from\ (?:now|today)
    | (?:on\ |at\ |in\ )?(?:(?:{_weekday}),?\ )?(?:the\ )?(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\ (?:of\ )?(?P<m1>{_month})(?:,?\ (?P<y1>(?:19|20)\d\d))?
    | (?:on\ |at\ |in\ )?(?:(?:{_weekday}),?\ )?(?P<m2>{_month})\ (?:the\ )?(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?![\d:])(?:,?\ (?P<y2>(?:19|20)\d\d))?
    | (?:on\ )?(?P<iso>\d{{4}}-\d\d-\d\d)(?!\d)
    | (?:in\ )?(?:early\ |late\ |mid[ -])?(?P<m3>{_month}),?\ (?:of\ )?(?P<y3>(?:19|20)\d\d)
    | (?P<inm>in|since|until|by)\ (?:early\ |late\ |mid[ -])?(?P<m4>{_month})(?!\ \d)
    | (?P<iny>in|since|until)\ (?P<year>(?:19|20)\d\d)
    | (?:on\ |this\ )(?P<weekday>{_weekday})(?:\ (?P<dpart>morning|afternoon|evening|night))?
    | (?<=\b(?:by|il|or)\ )(?P<bare>{_weekday})
    )(?![\w-]|['’]s\b)
    (?P<clock>,?\ at\ (?:(?P<noon>noon|midday)|(?P<hour>\d{{1,2}})(?:[:.](?P<minute>\d\d))?\ ?(?P<half>[ap]\.?m\b\.?)?))?
    """,
    re.IGNORECASE | re.VERBOSE,
).finditer  # fmt: skip
_tokens = re.compile(r"[a-z]+|\d+").findall
_TELLING_WORDS = frozenset(
    ["day", "days", "week", "weeks", "month", "months", "year", "years", "weekend", "morning", "afternoon",
     "evening", "night", "today", "yesterday", "tomorrow", "tonight"]
) | frozenset([*WEEKDAYS, *MONTHS, *(month[:3] for month in MONTHS), "sept"])  # fmt: skip
_DAYS = {
    "today": 0,
    "yesterday": -1,
    "tomorrow": 1,
    "the day before yesterday": -2,
    "the day after tomorrow": 2,
}
_WHICH = {"last": -1, "past": -1, "this past": -1, "next": 1, "coming": 1, "this coming": 1, "the coming": 1,
          "the following": 1, "this": 0}  # fmt: skip
_LENGTHS = {"week": 7, "month": 30}
_SOON = 2
"""Days: what is as near as that is not called "next Tuesday" but by its name alone."""
_FIRST_CLEAR_HOUR = 7
"""Before that, an hour without "am" or "pm" may be either."""

Found = tuple[int, int, Stretch]


def english_stretches(text: str, today: date, leaning: Leaning) -> Iterator[Found]:
    """Start and end of each phrase, and the days that it means."""
    if not any(token in _TELLING_WORDS or token.isdigit() for token in _tokens(text.lower())):
        return
    for found in _phrase(text):
        try:
            stretch = _meaning(found, today, leaning)
        except (ValueError, OverflowError):
            continue  # The 31st of June, or a year that no calendar has.
        if stretch is None:
            continue
        start = found.start()
        if found["inm"] and found["inm"].lower() != "in":
            start = found.start("m4")
        if found["iny"] and found["iny"].lower() != "in":
            start = found.start("year")
        yield start, found.start("clock") if found["clock"] else found.end(), _with_clock(found, stretch)


def _meaning(found: re.Match[str], today: date, leaning: Leaning) -> Stretch | None:
    for name, means in _MEANINGS.items():
        if found[name]:
            return means(found, today, leaning)
    return None


def _day(found: re.Match[str], today: date, _: Leaning) -> Stretch:
    day = day_of(today + timedelta(_DAYS[found["day"].lower()]))
    return _in_part(day, found["part"])


def _now(found: re.Match[str], today: date, _: Leaning) -> Stretch:
    phrase = found["now"].lower()
    if phrase == "last night":
        return day_of(today - timedelta(1)).in_part("night")
    return _in_part(day_of(today), "evening" if phrase == "tonight" else phrase.removeprefix("this "))


def _which(found: re.Match[str], today: date, leaning: Leaning) -> Stretch:
    shift, unit = _WHICH[found["which"].lower()], found["unit"].lower()
    if found["which"].lower() == "past" and unit in _LENGTHS:
        days = _LENGTHS[unit]
        return Stretch(today - timedelta(days), days, "week" if unit == "week" else "month", is_rough=True)
    if unit == "week":
        return week_of(monday_of(today) + timedelta(7 * shift))
    if unit == "weekend":
        return weekend_after(monday_of(today) + timedelta(7 * shift))
    if unit == "month":
        return month_of(months_on(today, shift))
    if unit == "year":
        return year_of(today.year + shift)
    if unit in WEEKDAYS:
        return _in_part(
            day_of(_weekday_of(unit, shift, found["which"].lower(), today, leaning)), found["wpart"]
        )
    return _month_of_year(_month_number(unit), shift, today)


def _weekday_of(name: str, shift: int, which: str, today: date, leaning: Leaning) -> date:
    weekday = WEEKDAYS.index(name)
    if shift == 0:
        return weekday_near(today, weekday, "future" if leaning == "near" else leaning)
    if shift < 0:
        return weekday_near(today - timedelta(1), weekday, "past")
    day = weekday_near(today + timedelta(1), weekday, "future")
    return day + timedelta(7) if which == "next" and (day - today).days <= _SOON else day


def _month_of_year(month: int, shift: int, today: date) -> Stretch:
    if shift == 0:
        return month_of(date(today.year, month, 1))
    if shift < 0:
        return month_of(date(today.year - (month >= today.month), month, 1))
    return month_of(date(today.year + (month <= today.month), month, 1))


def _ago(found: re.Match[str], today: date, _: Leaning) -> Stretch:
    stretch = units_on(today, -_count(found["ago"]), found["back"].lower())
    uncounted = "few" in found["ago"].lower() or "couple" in found["ago"].lower()
    if stretch.precision == "day" and uncounted:
        return Stretch(stretch.first - timedelta(1), 3, "day", is_rough=True)
    return stretch


def _ahead(found: re.Match[str], today: date, _: Leaning) -> Stretch:
    return units_on(today, _count(found["ahead"]), found["on"].lower())


def _from_now(found: re.Match[str], today: date, _: Leaning) -> Stretch:
    return units_on(today, _count(found["from"]), found["later"].lower())


def _date(found: re.Match[str], today: date, leaning: Leaning) -> Stretch:
    month = _month_number(found["m1"] or found["m2"])
    day, year = int(found["d1"] or found["d2"]), found["y1"] or found["y2"]
    return day_of(date(int(year), month, day) if year else date_near(today, month, day, leaning))


def _bare_month(found: re.Match[str], today: date, leaning: Leaning) -> Stretch:
    return month_near(today, _month_number(found["m4"]), leaning)


def _bare_weekday(found: re.Match[str], today: date, leaning: Leaning) -> Stretch:
    weekday = WEEKDAYS.index((found["weekday"] or found["bare"]).lower())
    # Whoever speaks of this very day calls it "today".
    other_day = today + timedelta({"past": -1, "near": 0, "future": 1}[leaning])
    near = weekday_near(other_day, weekday, leaning)
    return _in_part(day_of(near), found["dpart"])


_MEANINGS: dict[str, Callable[[re.Match[str], date, Leaning], Stretch]] = {
    "day": _day,
    "now": _now,
    "which": _which,
    "ago": _ago,
    "ahead": _ahead,
    "from": _from_now,
    "d1": _date,
    "d2": _date,
    "iso": lambda found, _, __: day_of(date.fromisoformat(found["iso"])),
    "m3": lambda found, _, __: month_of(date(int(found["y3"]), _month_number(found["m3"]), 1)),
    "m4": _bare_month,
    "year": lambda found, _, __: year_of(int(found["year"])),
    "weekday": _bare_weekday,
    "bare": _bare_weekday,
}


def _with_clock(found: re.Match[str], stretch: Stretch) -> Stretch:
    if found["noon"]:
        return stretch.at(12, 0)
    if not found["hour"]:
        return stretch
    hour, half = int(found["hour"]), (found["half"] or "").lower()
    if not half and not found["minute"] and hour < _FIRST_CLEAR_HOUR:
        return stretch
    if half:
        hour = hour % 12 + (12 if half.startswith("p") else 0)
    return stretch.at(hour, int(found["minute"] or 0))


def _in_part(day: Stretch, part: str | None) -> Stretch:
    parts: dict[str, PartOfDay] = {
        "morning": "morning",
        "afternoon": "afternoon",
        "evening": "evening",
        "night": "night",
    }
    return day.in_part(parts[part.lower()]) if part else day


def _month_number(name: str) -> int:
    return next(n for n, month in enumerate(MONTHS, 1) if month.startswith(name.lower()[:3]))


def _count(number: str) -> int:
    more = {"eleven": 11, "twelve": 12}
    return int(number) if number.isdigit() else {**NUMBERS, **more}[number.lower()]
