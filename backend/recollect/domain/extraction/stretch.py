"""A stretch of days in somebody's calendar, and the arithmetic of calendars."""

import calendar
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Literal

Precision = Literal["day", "week", "month", "year", "time"]
PartOfDay = Literal["morning", "afternoon", "evening", "night"]
Leaning = Literal["past", "future", "near"]
"""Whether what has no year or week lies behind, ahead, or wherever is nearest."""

_PARTS: dict[PartOfDay, tuple[int, int]] = {
    "morning": (5 * 60, 12 * 60),
    "afternoon": (12 * 60, 18 * 60),
    "evening": (18 * 60, 24 * 60),
    "night": (18 * 60, 30 * 60),
}
_SATURDAY = 5


@dataclass(frozen=True, slots=True)
class Stretch:
    """So many days from the first; of a single day perhaps some minutes, counted from its midnight."""

    first: date
    days: int
    precision: Precision
    is_rough: bool = False
    """Whether it was told as roughly then: "two weeks ago"."""
    part: PartOfDay | None = None
    minutes: tuple[int, int] | None = None

    @property
    def is_weekend(self) -> bool:
        return self.days == 2 and self.first.weekday() == _SATURDAY

    def at(self, hour: int, minute: int) -> "Stretch":
        """That hour of the day, where it is a single day."""
        if self.days != 1 or not (0 <= hour < 24 and 0 <= minute < 60):
            return self
        begin = hour * 60 + minute
        return replace(self, minutes=(begin, begin + 60), precision="time")

    def in_part(self, part: PartOfDay) -> "Stretch":
        return replace(self, part=part, minutes=_PARTS[part], precision="time")


def day_of(first: date) -> Stretch:
    return Stretch(first, 1, "day")


def week_of(monday: date) -> Stretch:
    return Stretch(monday, 7, "week")


def weekend_after(monday: date) -> Stretch:
    return Stretch(monday + timedelta(_SATURDAY), 2, "week")


def month_of(day: date) -> Stretch:
    return Stretch(day.replace(day=1), calendar.monthrange(day.year, day.month)[1], "month")


def year_of(year: int) -> Stretch:
    return Stretch(date(year, 1, 1), 365 + calendar.isleap(year), "year")


def monday_of(day: date) -> date:
    return day - timedelta(day.weekday())


def months_on(day: date, count: int) -> date:
    """The first of the month that is so many months on."""
    months = day.year * 12 + day.month - 1 + count
    return date(months // 12, months % 12 + 1, 1)


def units_on(today: date, count: int, unit: str) -> Stretch:
    """What is so many days, weeks, months or years on; back, where the count is negative. Rough, but for days."""
    if unit == "day":
        return day_of(today + timedelta(count))
    if unit == "week":
        return Stretch(today + timedelta(7 * count - 3), 7, "week", is_rough=True)
    if unit == "month":
        return replace(month_of(months_on(today, count)), is_rough=True)
    return replace(year_of(today.year + count), is_rough=True)


def weekday_near(today: date, weekday: int, leaning: Leaning) -> date:
    """The next such day, or the last one, today included; the nearer of both where nothing leans."""
    ahead = (weekday - today.weekday()) % 7
    back = (today.weekday() - weekday) % 7
    is_ahead = leaning == "future" or (leaning == "near" and ahead < back)
    return today + timedelta(ahead if is_ahead else -back)


def date_near(today: date, month: int, day: int, leaning: Leaning) -> date:
    """That day of the year, in the year that fits; ValueError where it is in none."""
    years = [today.year + shift for shift in (-1, 0, 1) if _exists(today.year + shift, month, day)]
    dates = [date(year, month, day) for year in years]
    if leaning == "future":
        dates = [each for each in dates if each >= today]
    elif leaning == "past":
        dates = [each for each in dates if each <= today]
    if not dates:
        raise ValueError("no such day near")
    return min(dates, key=lambda each: abs((each - today).days))


def month_near(today: date, month: int, leaning: Leaning) -> Stretch:
    if month == today.month:
        return month_of(today)
    return month_of(date_near(today, month, 1, leaning))


def _exists(year: int, month: int, day: int) -> bool:
    return 1 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]
