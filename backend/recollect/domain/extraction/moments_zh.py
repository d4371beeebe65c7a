"""The times that a Chinese sentence names, in days of the speaker's calendar. Simplified and traditional."""

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
    month_of,
    months_on,
    units_on,
    week_of,
    weekday_near,
    weekend_after,
    year_of,
)

_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"两": 2, "兩": 2}
_WEEKDAYS = {"一": 0, "二": 1, "三": 2, "四": 3, "五": 4, "六": 5, "日": 6, "天": 6}
_DAYS = {"大前天": -3, "前天": -2, "昨天": -1, "昨日": -1, "今天": 0, "今日": 0, "明天": 1, "明日": 1, "后天": 2,
         "後天": 2, "大后天": 3, "大後天": 3}  # fmt: skip
_SHORT: dict[str, tuple[int, PartOfDay]] = {
    "今早": (0, "morning"), "今晚": (0, "evening"), "昨晚": (-1, "night"), "昨夜": (-1, "night"),
    "明早": (1, "morning"), "明晚": (1, "evening"),
}  # fmt: skip
_YEARS = {"前年": -2, "去年": -1, "今年": 0, "明年": 1, "后年": 2, "後年": 2}
_PARTS: dict[str, PartOfDay] = {
    "早上": "morning", "上午": "morning", "早晨": "morning", "中午": "afternoon", "下午": "afternoon",
    "傍晚": "evening", "晚上": "evening",
}  # fmt: skip
_number = "[0-9零一二两兩三四五六七八九十]{1,3}"
_part = "|".join(_PARTS)
_phrase = re.compile(
    rf"""
    (?:
      (?P<day>大?前天|大?[后後]天|[昨今明][天日])
    | (?P<short>[今昨明][早晚夜])
    | (?P<week>上上|下下|[上下这這本])(?:[个個])?(?:周|週|星期|礼拜|禮拜)(?P<weekday>[一二三四五六日天末])?
    | (?P<month>上上|下下|[上下这這本])(?:[个個])?月(?:(?P<dayof>{_number})[号號日])?
    | (?P<year>前年|去年|今年|明年|[后後]年)(?:的)?(?:(?P<ym>{_number})月(?:份|(?P<yd>{_number})[号號日])?)?
    | (?P<ay>(?:19|20)\d\d)年(?:(?P<am>\d{{1,2}})月(?:份|(?P<ad>\d{{1,2}})[号號日])?)?
    | (?P<count>{_number}|半)(?P<unit>天|周|週|个?星期|個?星期|个?礼拜|[个個]月|年)(?:多)?(?P<way>前|以前|之前|后|後|以后|以後|之后|之後)
    | (?<![0-9年])(?P<cm>{_number})月(?P<cd>{_number})[号號日]
    | (?<![0-9])(?P<iso>\d{{4}}-\d\d-\d\d)(?![0-9])
    | (?<![上下这這本每])(?:周|週|星期|礼拜|禮拜)(?P<bare>[一二三四五六日天末])(?!到|至)
    )
    (?P<part>{_part})?
    (?P<clock>(?P<hour>{_number})[点點](?:(?P<half>半)|(?P<minute>{_number})分?)?)?
    """,
    re.VERBOSE,
).finditer  # fmt: skip
_MOST_HALF = 12

Found = tuple[int, int, Stretch]


def chinese_stretches(text: str, today: date, leaning: Leaning) -> Iterator[Found]:
    """Start and end of each phrase, and the days that it means."""
    if text.isascii():
        return
    for found in _phrase(text):
        try:
            stretch = _meaning(found, today, leaning)
        except (ValueError, OverflowError):
            continue  # The 31st of June, or a year that no calendar has.
        end = found.start("clock") if found["clock"] else found.end()
        yield found.start(), end, _within_day(found, stretch)


def _meaning(found: re.Match[str], today: date, leaning: Leaning) -> Stretch:
    for name, means in _MEANINGS.items():
        if found[name]:
            return means(found, today, leaning)
    raise ValueError("no time")


def _week(found: re.Match[str], today: date, _: Leaning) -> Stretch:
    monday = monday_of(today) + timedelta(7 * _shift(found["week"]))
    weekday = found["weekday"]
    if weekday is None:
        return week_of(monday)
    return weekend_after(monday) if weekday == "末" else day_of(monday + timedelta(_WEEKDAYS[weekday]))


def _month(found: re.Match[str], today: date, _: Leaning) -> Stretch:
    first = months_on(today, _shift(found["month"]))
    return day_of(first.replace(day=_value(found["dayof"]))) if found["dayof"] else month_of(first)


def _year(found: re.Match[str], today: date, _: Leaning) -> Stretch:
    return _dated(today.year + _YEARS[found["year"]], found["ym"], found["yd"])


def _counted(found: re.Match[str], today: date, _: Leaning) -> Stretch:
    sign = -1 if "前" in found["way"] else 1
    unit = found["unit"]
    if found["count"] == "半":
        if unit != "年":
            raise ValueError("half of a day or week")
        return units_on(today, 6 * sign, "month")
    name = {"天": "day", "年": "year"}.get(unit, "month" if unit.endswith("月") else "week")
    return units_on(today, sign * _value(found["count"]), name)


def _bare_weekday(found: re.Match[str], today: date, leaning: Leaning) -> Stretch:
    if found["bare"] == "末":
        monday = monday_of(today)
        return weekend_after(monday - timedelta(7) if leaning == "past" else monday)
    return day_of(weekday_near(today, _WEEKDAYS[found["bare"]], leaning))


def _bare_date(found: re.Match[str], today: date, leaning: Leaning) -> Stretch:
    return day_of(date_near(today, _value(found["cm"]), _value(found["cd"]), leaning))


_MEANINGS: dict[str, Callable[[re.Match[str], date, Leaning], Stretch]] = {
    "day": lambda found, today, _: day_of(today + timedelta(_DAYS[found["day"]])),
    "short": lambda found, today, _: _short(found["short"], today),
    "week": _week,
    "month": _month,
    "year": _year,
    "ay": lambda found, _, __: _dated(int(found["ay"]), found["am"], found["ad"]),
    "count": _counted,
    "cm": _bare_date,
    "iso": lambda found, _, __: day_of(date.fromisoformat(found["iso"])),
    "bare": _bare_weekday,
}


def _short(phrase: str, today: date) -> Stretch:
    if phrase not in _SHORT:
        raise ValueError("no time")
    shift, part = _SHORT[phrase]
    return day_of(today + timedelta(shift)).in_part(part)


def _dated(year: int, month: str | None, day: str | None) -> Stretch:
    if month is None:
        return year_of(year)
    first = date(year, _value(month), 1)
    return day_of(first.replace(day=_value(day))) if day else month_of(first)


def _within_day(found: re.Match[str], stretch: Stretch) -> Stretch:
    part = found["part"]
    if part and stretch.precision == "day":
        stretch = stretch.in_part(_PARTS[part])
    if not found["hour"]:
        return stretch
    hour = _value(found["hour"])
    if stretch.part in ("afternoon", "evening", "night") and hour < _MOST_HALF:
        hour += _MOST_HALF
    return stretch.at(hour, 30 if found["half"] else _value(found["minute"] or "0"))


def _shift(which: str) -> int:
    return {"上上": -2, "上": -1, "下": 1, "下下": 2}.get(which, 0)


def _value(number: str) -> int:
    """What a number is, up to 99; ValueError for what is none."""
    if number.isdigit() and number.isascii():
        return int(number)
    tens, ten, ones = number.partition("十")
    if not ten:
        if len(number) != 1 or number not in _DIGITS:
            raise ValueError("no number")
        return _DIGITS[number]
    if (tens and tens not in _DIGITS) or (ones and ones not in _DIGITS):
        raise ValueError("no number")
    return 10 * (_DIGITS[tens] if tens else 1) + (_DIGITS[ones] if ones else 0)
