"""The clock as a model sees it: in the user's time zone, in a message of its own."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from recollect.memory.model import JsonObject


def current_datetime_context_message(now: int, time_zone: str | None = None) -> JsonObject:
    """A user-role message with the date and time; `now` is in UTC milliseconds, the zone an IANA name or UTC."""
    return {"role": "user", "content": clock_line(now, time_zone)}


def clock_line(now: int, time_zone: str | None = None) -> str:
    """To the minute: what is finer would only cost tokens."""
    zone = ZoneInfo(time_zone) if time_zone is not None and is_time_zone(time_zone) else UTC
    moment = datetime.fromtimestamp(now / 1000, UTC).astimezone(zone)
    name = "UTC" if zone is UTC else f"{time_zone}, UTC{moment:%z}"
    return f"Current date and time: {_DAYS[moment.weekday()]}, {moment:%Y-%m-%d %H:%M} ({name})"


def is_time_zone(name: str) -> bool:
    """Whether this is an IANA name that this machine knows."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # Unknown; no name at all; a folder of names, such as Europe.
        return False
    return True


# Not by strftime: its names follow the machine's locale.
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
