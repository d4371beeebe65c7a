"""Between instants and the days of a person's calendar."""

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

_DAY_MINUTES = 1440


def local_day(instant: int, time_zone: str) -> date:
    """The day that it is there at that instant, which is in UTC milliseconds. A zone that is not known is UTC."""
    moment = datetime.fromtimestamp(instant / 1000, UTC)
    try:
        return moment.astimezone(_zone(time_zone)).date()
    except OverflowError:
        return moment.date()  # The last hours of the year 9999, which are over where it is later.


def instant_of(day: date, minutes: int, time_zone: str) -> int:
    """So many minutes after midnight there, in UTC milliseconds; OverflowError beyond the calendar."""
    day += timedelta(minutes // _DAY_MINUTES)
    hours, minutes = divmod(minutes % _DAY_MINUTES, 60)
    moment = datetime.combine(day, time(hours, minutes), _zone(time_zone))
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # Unknown; no name at all; a folder of names, such as Europe.
        return UTC
