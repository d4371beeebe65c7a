"""Moments: the times that a sentence names, told from when it was said; and how to write them out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from recollect.domain.extraction.moments_en import english_stretches
from recollect.domain.extraction.moments_zh import chinese_stretches
from recollect.domain.extraction.prompts import instant_of, local_day
from recollect.domain.extraction.stretch import Leaning, Precision, Stretch
from recollect.domain.recall.dates import MONTHS

_MOST_CHARS = 4_000
"""Of a text, as far as it is looked at. A sentence is shorter."""
_after_word = re.compile(
    r"\b(?:by|until|till|before|after|since|from|for|of|to|around|the|a|an|my|our|your|his|her|their|'s)\s*$",
    re.IGNORECASE,
).search
_IN_ENGLISH = {"morning": "on the morning of", "afternoon": "on the afternoon of", "evening": "on the evening of",
               "night": "on the night of"}  # fmt: skip
_IN_CHINESE = {"morning": "上午", "afternoon": "下午", "evening": "晚上", "night": "夜里"}


@dataclass(frozen=True, slots=True)
class Moment:
    """A time that a text names: `text[start:stop]` says it, and it lasts from `begin` to `end`, the end not in it."""

    start: int
    stop: int
    begin: int
    end: int
    """UTC milliseconds."""
    precision: Precision
    is_future: bool
    """Whether it begins after the words were said."""
    stretch: Stretch
    """The same in days of the speaker's calendar."""

    def holds(self, instant: int) -> bool:
        return self.begin <= instant < self.end

    @property
    def when(self) -> int:
        """One instant of it, on the same day of the calendar in nearly every time zone."""
        return self.begin if self.precision == "time" else self.begin + 43_200_000


def moments_in(text: str, said_at_ms: int, time_zone: str, *, leaning: Leaning = "near") -> list[Moment]:
    """The times that a text names, in order, not overlapping.

    What is named without a year or a week ("on Friday", "3 June") lies before or after the words as `leaning` says.
    A time that no calendar holds is no moment.
    """
    text = text[:_MOST_CHARS]
    today = local_day(said_at_ms, time_zone)
    found = [*english_stretches(text, today, leaning), *chinese_stretches(text, today, leaning)]
    moments: list[Moment] = []
    for start, stop, stretch in sorted(found, key=lambda each: each[:2]):
        if moments and start < moments[-1].stop:
            continue
        if moments and _explains(text[moments[-1].stop : start], text[start:stop]):
            start = moments.pop().start  # noqa: PLW2901 - both phrases are one
        if (edges := _edges(stretch, time_zone)) is not None:
            moments.append(Moment(start, stop, *edges, stretch.precision, edges[0] > said_at_ms, stretch))
    return moments


def _explains(between: str, phrase: str) -> bool:
    """Whether it is the date of the day just named: "next Saturday, 11 April"."""
    return between.strip() in (",", "(", "，", "（") and any(sign.isdigit() for sign in phrase)  # noqa: RUF001


def written_out(text: str, moments: Sequence[Moment]) -> str:
    """The text with dates in place of what only those present understand."""
    pieces: list[str] = []
    at = 0
    for moment in moments:
        pieces.append(text[at : moment.start])
        phrase = text[moment.start : moment.stop]
        pieces.append(moment_text(moment, phrase, after="".join(pieces)[-12:]))
        at = moment.stop
    return "".join(pieces) + text[at:]


def moment_text(moment: Moment, phrase: str, after: str = "") -> str:
    """The date in the language of the phrase that it stands for, fit to follow `after`."""
    if not phrase.isascii():
        return chinese_date(moment.stretch)
    dated = english_date(moment.stretch)
    return dated.partition(" ")[2] if _after_word(after) and moment.stretch.part is None else dated


def english_date(stretch: Stretch) -> str:
    """With its preposition: "on 7 May 2023", "in April 2023"."""
    first = stretch.first
    day = f"{first.day} {MONTHS[first.month - 1].title()} {first.year}"
    if stretch.part is not None:
        return f"{_IN_ENGLISH[stretch.part]} {day}"
    if stretch.precision == "year":
        return f"{'around' if stretch.is_rough else 'in'} {first.year}"
    if stretch.precision == "month":
        return f"{'around' if stretch.is_rough else 'in'} {MONTHS[first.month - 1].title()} {first.year}"
    if stretch.is_rough:
        middle = first + timedelta(stretch.days // 2)
        return f"around {middle.day} {MONTHS[middle.month - 1].title()} {middle.year}"
    if stretch.is_weekend:
        return f"on the weekend of {day}"
    return f"in the week of {day}" if stretch.precision == "week" else f"on {day}"


def chinese_date(stretch: Stretch) -> str:
    first = stretch.first
    roughly = "前后" if stretch.is_rough else ""
    if stretch.precision == "year":
        return f"{first.year}年{roughly}"
    if stretch.precision == "month":
        return f"{first.year}年{first.month}月{roughly}"
    if stretch.is_rough:
        first += timedelta(stretch.days // 2)
    day = f"{first.year}年{first.month}月{first.day}日{roughly}"
    if stretch.part is not None:
        return day + _IN_CHINESE[stretch.part]
    if stretch.is_weekend:
        return f"{day}的周末"
    return f"{day}那一周" if stretch.precision == "week" and not stretch.is_rough else day


def _edges(stretch: Stretch, time_zone: str) -> tuple[int, int] | None:
    first, last = stretch.minutes or (0, 0)
    try:
        end = stretch.first if stretch.minutes else stretch.first + timedelta(stretch.days)
        return instant_of(stretch.first, first, time_zone), instant_of(end, last, time_zone)
    except (OverflowError, ValueError):
        return None  # Before the year 1 or after 9999.


def day_in(instant: int, time_zone: str) -> str:
    """The day of that instant there: "7 May 2023"."""
    return english_date(Stretch(local_day(instant, time_zone), 1, "day")).removeprefix("on ")
