"""Dates in statements, and whether they follow from what was said and when.

Whoever says "yesterday" on 8 May speaks of 7 May, though no turn holds that date.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from recollect.domain.extraction.moments import moments_in
from recollect.domain.extraction.prompts import day_of
from recollect.domain.extraction.stretch import Leaning
from recollect.domain.model import Turn

_MONTHS = (
    "january jan januar janvier enero janeiro gennaio января январь",
    "february feb februar février fevrier febrero fevereiro febbraio февраля февраль",
    "march mar märz maerz mars marzo março марта март",
    "april apr avril abril aprile апреля апрель",
    "may mai mayo maio maggio мая май",
    "june jun juni juin junio junho giugno июня июнь",
    "july jul juli juillet julio julho luglio июля июль",
    "august aug août aout agosto августа август",
    "september sep sept septembre septiembre setembro settembre сентября сентябрь",
    "october oct oktober octobre octubre outubro ottobre октября октябрь",
    "november nov novembre noviembre novembro ноября ноябрь",
    "december dec dezember décembre diciembre dezembro dicembre декабря декабрь",
)
_MONTH_OF = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CHINESE_WEEKDAYS = "一二三四五六日"
_month = "(?:" + "|".join(sorted(_MONTH_OF, key=len, reverse=True)) + r")\b\.?"
_dates = re.compile(
    rf"""
    (?<![\d-])(?P<iy>\d{{4}})[-/.](?P<im>\d{{1,2}})(?:[-/.](?P<id>\d{{1,2}}))?(?!\d|[-/.]\d)
    | (?<!\d)(?:(?P<cy>\d{{4}})\s?[年년]\s?)?(?P<cm>\d{{1,2}}|十[一二]|[一二三四五六七八九十])\s?[月월]
        (?:\s?(?P<cd>\d{{1,2}}|[二三]?十[一二三四五六七八九]?|[一二三四五六七八九])\s?[日号號일])?
    | (?<!\d)(?P<ky>\d{{4}})\s?[年년]
    | (?<![\w.])(?P<d1>\d{{1,2}})(?:st|nd|rd|th|º|er|\.)?\s+(?:of\s+|de\s+)?(?P<m1>{_month})
        (?:,?\s+(?:de\s+|of\s+)?(?P<y1>\d{{4}})(?!\d))?
    | \b(?P<m2>{_month})\s+(?:the\s+)?(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?![\d:])(?:,?\s+(?P<y2>\d{{4}})(?!\d))?
    | \b(?P<m3>{_month})(?:\s+(?:of\s+|de\s+)?(?P<y3>\d{{4}})(?!\d))?
    | (?<![\w.,-])(?P<year>(?:19|20)\d{{2}})(?![\w-]|[.,]\d)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_lines = re.compile(r"[^\n]+").finditer
_digit = re.compile(r"\d|[月월]").search
_words = re.compile(r"[^\W\d_]+").findall
_weekdays = re.compile(
    rf"\b({'|'.join(_WEEKDAYS)})s?\b|(?:周|週|星期|礼拜|禮拜)([一二三四五六日天])", re.IGNORECASE
)
# What is told from the day of saying it, in days that it can be away from that day.
_within_days = re.compile(
    r"\b(?:today|tonight|yesterday|tomorrow|day (?:before|after)|last night|this (?:morning|afternoon|evening|noon)"
    r"|just now|heute|gestern|vorgestern|morgen|übermorgen|aujourd.hui|hier|demain|hoy|ayer|mañana|oggi|ieri|domani"
    r"|hoje|ontem|amanhã|сегодня|вчера|завтра)\b|[昨今明前后後]天|[昨今明]日|今[早晚]|昨晚|明[早晚]|一昨日|明後日"
    r"|어제|오늘|내일|(?:周|週|星期|礼拜|禮拜)[一二三四五六日天末]|先週|来週|今週"
    rf"|\b(?:{'|'.join(_WEEKDAYS)}|weekend|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|lundi|mardi"
    r"|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|miércoles|jueves|viernes|sábado|domingo)s?\b",
    re.IGNORECASE,
).search
_within_weeks = re.compile(
    r"\b(?:last|past|next|this|coming|in a|a|the other|following) week(?:end)?\b|\bfortnight\b|\bwoche\b|\bsemaine\b"
    r"|\bsemana\b|\bsettimana\b|\bнедел|[上下这這本]个?(?:周|週|星期|礼拜|禮拜)|지난주|다음 ?주",  # noqa: RUF001
    re.IGNORECASE,
).search
_within_a_year = re.compile(
    r"\b(?:last|past|next|this|coming|in|since|every|of)\W+(?:\w+\W+){0,2}(?:weeks?|months?|years?|summer|winter|spring"
    r"|autumn|fall|christmas|easter|ramadan|semester|quarter|season|days)\b|\bago\b|\b(?:recently|lately|soon)\b"
    r"|\b(?:vor|letzte[nrs]?|nächste[nrs]?|in)\W+(?:\w+\W+){0,1}(?:wochen|monate?n?|jahre?n?)\b"
    r"|\b(?:mois|semaines|mes(?:es)? (?:que|pasado|próximo)|hace|dentro de|prochaine?|dernière?|месяц\w*|год\w*)\b"
    r"|[上下这這本]个?月|[去明今后前]年|[天周月年]之?[前后後]|[春夏秋冬]|\d{1,2}/\d{1,2}"
    r"|\bthe \d{1,2}(?:st|nd|rd|th)\b|\d{1,2}[号號日]",
    re.IGNORECASE,
).search
_RELATIVE = ((8, _within_days), (16, _within_weeks), (400, _within_a_year))
_LEANINGS: tuple[Leaning, ...] = ("past", "future")
_TOLERANCE = timedelta(1)
"""Whoever talks past midnight may mean the day before."""
_PIECE = 4_000
"""As much of a text as `moments_in` looks at."""
_CHINESE_DIGITS = {digit: value for value, digit in enumerate("一二三四五六七八九", 1)}


@dataclass(frozen=True, slots=True)
class NamedDate:
    """A date as it is written in a text; what it leaves open is None."""

    begin: int
    end: int
    year: int | None
    month: int | None
    day: int | None

    def is_told_by(self, said: "NamedDate", said_on: date) -> bool:
        """Whether somebody who says the one, on that day, has told the other."""
        year = said.year if said.year is not None else self.year
        near = year is None or said.year is not None or abs(year - said_on.year) <= 1
        return (
            near
            and self.year in (None, year)
            and self.month in (None, said.month)
            and self.day in (None, said.day)
        )

    def days(self, around: date) -> Iterator[tuple[date, date]]:
        """The first and last days that it may mean, the years next to the given one where it names none."""
        for year in [self.year] if self.year is not None else range(around.year - 1, around.year + 2):
            if not 1 < year < 9998:
                continue
            first = date(year, self.month or 1, self.day or 1)
            if self.day is not None:
                yield first, first
            elif self.month is not None:
                yield first, (first.replace(day=28) + timedelta(4)).replace(day=1) - timedelta(1)
            else:
                yield first, date(year, 12, 31)


def dates_named(text: str) -> list[NamedDate]:
    """The dates in a text, in order. What is no date (the 31st of June) is not among them."""
    return [
        named
        for line in _lines(text)
        if _may_hold_date(line[0])
        for found in _dates.finditer(text, line.start(), line.end())
        if (named := _named_date(found)) is not None
    ]


def _may_hold_date(line: str) -> bool:
    """The pattern of all dates takes its time; most lines hold none."""
    return _digit(line) is not None or not _MONTH_OF.keys().isdisjoint(_words(line.lower()))


def without_dates(text: str) -> str:
    return _without(text, [(named.begin, named.end) for named in dates_named(text)])


def days_named(text: str) -> list[date]:
    """The days that are named with their year."""
    named = dates_named(text)
    return [date(each.year, each.month, each.day) for each in named if each.year and each.month and each.day]


class SaidTimes:
    """When turns were said, and of which times they speak."""

    def __init__(self, turns: Sequence[tuple[Turn, str]], time_zone: str) -> None:
        """Of each turn, the words of it that count."""
        self._said = [
            (day_of(turn.timestamp, time_zone), dates_named(text), _stretches(turn, text, time_zone))
            for turn, text in turns
        ]

    def tell(self, named: NamedDate) -> bool:
        """Whether a date was said, or follows from what was said on which day."""
        return any(
            any(named.is_told_by(each, said_on) for each in dates)
            or any(_touches(named, said_on, stretch) for stretch in stretches)
            for said_on, dates, stretches in self._said
        )

    def reach(self, first: date, last: date) -> bool:
        """Whether a stretch of days begins or ends where a date that was said, or follows, may be."""
        return any(
            self.tell(NamedDate(0, 0, day.year, month, number))
            for day in (first, last)
            for month, number in ((day.month, day.day), (day.month, None))
        )

    def tell_weekday(self, weekday: int, named: Sequence[NamedDate]) -> bool:
        """Whether a weekday is that of a date beside it, or of a day near to one of the turns."""
        beside = [first for each in named for first, last in each.days(date(2000, 1, 1)) if first == last]
        near = [stretch for _, _, stretches in self._said for stretch in stretches]
        return any(day.weekday() == weekday for day in beside) or any(
            (first + timedelta((weekday - first.weekday()) % 7)) <= last for first, last in near
        )


def without_told_dates(text: str, times: Callable[[], SaidTimes]) -> tuple[str, bool]:
    """The text without the dates and weekdays that follow from what was said; and whether it names other dates.

    `times` is only asked where the text names any.
    """
    named = dates_named(text)
    told = [each for each in named if times().tell(each)]
    blanks = [(each.begin, each.end) for each in told]
    blanks += [
        found.span() for found in _weekdays.finditer(text) if times().tell_weekday(_weekday(found), told)
    ]
    for begin, end in blanks:
        text = text[:begin] + " " * (end - begin) + text[end:]
    return text, len(told) < len(named)


def _weekday(found: re.Match[str]) -> int:
    if found[1]:
        return _WEEKDAYS.index(found[1].lower())
    return _CHINESE_WEEKDAYS.index(found[2].replace("天", "日"))


def _stretches(turn: Turn, text: str, time_zone: str) -> list[tuple[date, date]]:
    """The first and last days of what a turn speaks of: its own day, and what is told from that."""
    said_on = day_of(turn.timestamp, time_zone)
    stretches = [(_moved(said_on, -_TOLERANCE), _moved(said_on, _TOLERANCE))]
    spoken_of: list[tuple[int, int]] = []
    for begin in range(0, len(text), _PIECE):
        for leaning in _LEANINGS:
            for moment in moments_in(
                text[begin : begin + _PIECE], turn.timestamp, time_zone, leaning=leaning
            ):
                first, days = moment.stretch.first, moment.stretch.days
                about = timedelta(days // 2 if moment.stretch.is_rough else 0)
                stretches.append((_moved(first, -about), _moved(first, timedelta(days - 1) + about)))
                spoken_of.append((begin + moment.start, begin + moment.stop))
    rest = _without(text, spoken_of)
    reach = max((days for days, search in _RELATIVE if search(rest)), default=0)
    if reach:
        # An expression, or a language, that moments don't know: what it can mean at the most.
        stretches.append((_moved(said_on, -timedelta(reach)), _moved(said_on, timedelta(reach))))
    return stretches


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    pieces: list[str] = []
    at = 0
    for begin, end in sorted(spans):
        pieces.append(text[at : max(at, begin)])
        at = max(at, end)
    return " ".join([*pieces, text[at:]])


def _moved(day: date, by: timedelta) -> date:
    try:
        return day + by
    except OverflowError:
        return day


def _touches(named: NamedDate, said_on: date, stretch: tuple[date, date]) -> bool:
    return any(first <= stretch[1] and last >= stretch[0] for first, last in named.days(said_on))


def _named_date(found: re.Match[str]) -> NamedDate | None:
    year = (
        found["iy"]
        or found["cy"]
        or found["ky"]
        or found["y1"]
        or found["y2"]
        or found["y3"]
        or found["year"]
    )
    name = found["m1"] or found["m2"] or found["m3"]
    if found["m3"] and not found["y3"] and not name[0].isupper():
        return None  # "may" and "march" are verbs, too.
    month = _MONTH_OF[name.lower().rstrip(".")] if name else _number(found["im"] or found["cm"])
    day = _number(found["id"] or found["cd"] or found["d1"] or found["d2"])
    try:
        date(int(year) if year else 2000, month or 1, day or 1)
    except ValueError:
        return None
    return NamedDate(found.start(), found.end(), int(year) if year else None, month, day)


def _number(written: str | None) -> int | None:
    """1 to 31, in digits or in Chinese."""
    if written is None or written.isdecimal():
        return int(written) if written else None
    tens, has_ten, ones = written.rpartition("十")
    return (_CHINESE_DIGITS.get(tens, 1) * 10 if has_ten else 0) + _CHINESE_DIGITS.get(ones, 0)
