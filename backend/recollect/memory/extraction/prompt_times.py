"""Days as the people of a conversation count them, within the times that can be kept."""

from datetime import date

from recollect.memory.extraction.local_days import instant_of, local_day
from recollect.memory.model import MAX_TIMESTAMP

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def day_of(milliseconds: int, time_zone: str) -> date:
    """The day on which something was said."""
    return local_day(_bounded(milliseconds), time_zone)


def day_begins(day: date, time_zone: str) -> int:
    """The first millisecond of a day, in UTC."""
    try:
        return _bounded(instant_of(day, 0, time_zone))
    except OverflowError:
        return MAX_TIMESTAMP


def day_in_words(day: date) -> str:
    """`Friday, 2026-05-08`: with the weekday, from which "last Monday" can be told."""
    return f"{_WEEKDAYS[day.weekday()]}, {day.isoformat()}"


def _bounded(milliseconds: int) -> int:
    return min(max(milliseconds, 0), MAX_TIMESTAMP)
