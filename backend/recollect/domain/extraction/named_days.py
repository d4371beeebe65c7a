"""Statements that are understood later, too: a date where a model wrote "yesterday"."""

import re
from collections.abc import Sequence
from datetime import date, timedelta

from recollect.domain.extraction.prompts import day_of
from recollect.domain.model import Turn

_DAYS = {
    "today": 0,
    "yesterday": -1,
    "tomorrow": 1,
    "the day before yesterday": -2,
    "the day after tomorrow": 2,
}
_CHINESE_DAYS = {"今天": 0, "昨天": -1, "明天": 1, "前天": -2, "后天": 2}
_english = re.compile(
    r"(?P<before>\b(?:by|until|till|from|since|for|before|after|of|on)\s+)?"
    r"\b(?P<day>the day before yesterday|the day after tomorrow|today|yesterday|tomorrow)\b(?!['\u2019])"
    r"(?:\s+(?P<part>morning|afternoon|evening|night)\b)?",
    re.IGNORECASE,
)
_chinese = re.compile("|".join(_CHINESE_DAYS))


def with_dates(text: str, cited: Sequence[Turn], time_zone: str) -> str:
    """The text with the days that it tells by when they were said; as it is where that was on several days."""
    days = {day_of(turn.timestamp, time_zone) for turn in cited if turn.role == "user"}
    said = days.pop() if len(days) == 1 else None
    if said is None or said.year == date.max.year:
        return text
    text = _english.sub(lambda found: _in_english(found, said), text)
    return _chinese.sub(lambda found: _in_chinese(said + timedelta(_CHINESE_DAYS[found[0]])), text)


def _in_english(found: re.Match[str], said: date) -> str:
    day = said + timedelta(_DAYS[" ".join(found["day"].casefold().split())])
    before = found["before"] or ("On " if found["day"][0].isupper() else "on ")
    part = f"the {found['part']} of " if found["part"] else ""
    return f"{before}{part}{day.day} {day:%B} {day.year}"


def _in_chinese(day: date) -> str:
    return f"{day.year}年{day.month}月{day.day}日"
