"""What a query asks for: its words and, besides them, a time, a speaker, a summary."""

import calendar
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from recollect.domain.recall.dates import (
    DAY_MS,
    MONTH,
    WEEKDAYS,
    Phrase,
    Span,
    day_of,
    day_span,
    month_span,
    phrases_in,
    plain_query,
    start_of,
)
from recollect.domain.recall.words import stem, words_asked_for

_day = r"(\d{1,2})(?:st|nd|rd|th)?"
_year = r"((?:,\s*|\s+)(?:19|20)\d{2})?"
_one_month = re.compile(
    rf"\b(?:between|from)\s(?:the\s)?{_day}\s(?:and|to)\s(?:the\s)?{_day}\s(?:of\s)?({MONTH}){_year}",
    re.IGNORECASE,
).sub
_opening = re.compile(r"\b(?:between|from)\s(?:the\s)?$", re.IGNORECASE).search
_middle = re.compile(r",?\s(?:and|to|until|till)\s(?:the\s)?", re.IGNORECASE).fullmatch
_side = re.compile(
    r"(?:(?<!\S)(?P<unit>\w+)\s)?(?<!\S)(?P<side>since|before)\s(?:the\s)?$", re.IGNORECASE
).search
_LOOK_BACK = 30
_COUNTED = frozenset(
    {
        "day",
        "days",
        "week",
        "weeks",
        "weekend",
        "month",
        "months",
        "year",
        "years",
        "night",
        "morning",
        "evening",
    }
    | set(WEEKDAYS)
)
"""What is told from a date, and is not all that came before it: "the week before 3 August"."""
_LEAP_YEARS = 8
_FEW_DAYS_MS = 3 * 86_400_000
"""What happened in a longer stretch is told after its end, too."""


def spans_in(query: str, now: int) -> list[Span]:
    """The times that a query names."""
    return [span for phrase in _named(_written_out(query), now) for span in phrase.spans]


def without_times(query: str, now: int) -> str:
    """The query without the phrases that say when, and not what: those for a day or a week that is near, or meant."""
    plain = _written_out(query)
    phrases = [
        phrase for phrase in _named(plain, now) if any(span.is_near or span.is_meant for span in phrase.spans)
    ]
    if not phrases:
        return query
    edges = [0, *(edge for phrase in phrases for edge in (phrase.begin, phrase.end)), len(plain)]
    return " ".join(plain[begin:end] for begin, end in zip(edges[::2], edges[1::2], strict=True))


def _written_out(query: str) -> str:
    """With both ends of "between 1 and 3 November" as dates."""
    return _one_month(r"between \1 \3\4 and \2 \3\4", plain_query(query))


def _named(plain: str, now: int) -> list[Phrase]:
    today = day_of(now)
    phrases = [
        _from_one_side(phrase, plain, today) for phrase in _joined(phrases_in(plain, now), plain, today)
    ]
    if not any(phrase.is_absolute for phrase in phrases):
        return phrases
    # Beside a date, "last Friday" may be told from that date.
    return [
        phrase
        if phrase.is_absolute
        else replace(
            phrase, spans=tuple(replace(span, is_near=False, is_meant=False) for span in phrase.spans)
        )
        for phrase in phrases
    ]


def _joined(phrases: list[Phrase], plain: str, today: date) -> list[Phrase]:
    """Two dates with "between" and "and" around them as one stretch."""
    joined: list[Phrase] = []
    for phrase in phrases:
        first = joined[-1] if joined else None
        if first is not None and _are_ends(first, phrase, plain):
            stretch = _stretch(first.spans[0], phrase.spans[0], today)
            joined[-1] = Phrase(first.begin, phrase.end, (stretch,), is_absolute=True)
        else:
            joined.append(phrase)
    return joined


def _are_ends(first: Phrase, second: Phrase, plain: str) -> bool:
    return (
        first.is_absolute
        and second.is_absolute
        and _middle(plain, first.end, second.begin) is not None
        and _opening(plain, max(0, first.begin - _LOOK_BACK), first.begin) is not None
    )


def _stretch(first: Span, last: Span, today: date) -> Span:
    """From the beginning of one to the end of the other; a year that one has is also the other's."""
    last = _dated(last, today if first.begin is None else day_of(first.begin).replace(month=12, day=31))
    first = _dated(first, day_of((last.end or 0) - 1))
    begin, end = min(first.begin or 0, last.begin or 0), max(first.end or 0, last.end or 0)
    return Span(begin, end, is_meant=end - begin <= _FEW_DAYS_MS)


def _from_one_side(phrase: Phrase, plain: str, today: date) -> Phrase:
    """All since a time, or all before it, where that is what the words before it say."""
    found = _side(plain, max(0, phrase.begin - _LOOK_BACK), phrase.begin)
    if found is None or (found["unit"] or "").lower() in _COUNTED:
        return phrase
    span = _dated(phrase.spans[0], today)
    begin, end = span.begin or 0, span.end or 0
    if found["side"].lower() == "since":
        stretch = Span(begin, max(end, start_of(today) + DAY_MS), is_meant=True)
    elif begin > 0:
        stretch = Span(0, begin, is_meant=True)
    else:
        return phrase
    return replace(phrase, begin=found.start("side"), spans=(stretch,))


def _dated(span: Span, latest: date) -> Span:
    """A month or a day of any year as the last one that had begun on a day."""
    if span.begin is not None or span.month is None:
        return span
    for year in range(latest.year, max(0, latest.year - _LEAP_YEARS - 1), -1):
        if span.day == 29 and span.month == 2 and not calendar.isleap(year):
            continue
        first = date(year, span.month, span.day or 1)
        if first <= latest:
            return month_span(first) if span.day is None else day_span(first)
    return span


_summary = re.compile(
    r"\b(?:summar\w+|overview|recap|outline|in general|overall)\b|总结|總結|概括|要約|まとめ", re.IGNORECASE
).search
_order = re.compile(r"\border\b|\bsequence\b|\bchronolog|\btimeline\b|顺序|順番", re.IGNORECASE).search
_lasting = re.compile(r"\b(?:has|have)\b(?! to\b)", re.IGNORECASE).search
_when = re.compile(
    r"\b(?:when|how long|what (?:date|day|month|year|time)|which (?:day|month|year)"
    r"|how many (?:days|weeks|months|years))\b|什么时候|何时|いつ",
    re.IGNORECASE,
).search
_how_many = re.compile(r"\bhow (?:many|much|often|old|long|far)\b|多少|几|いくつ|何回", re.IGNORECASE).search
_of_assistant = re.compile(
    r"\b(?:did|have|had) you (?!know|remember)"
    r"|\byou(?:'ve| have| had)? (?:recommended|suggested|advised|said|told|explained|gave|given|proposed|mentioned"
    r"|outlined|provided|described|showed|listed|wrote|made)\b"
    r"|\byour (?:advice|recommendations?|suggestions?|answers?|explanations?|repl(?:y|ies)|responses?|instructions"
    r"|plan for)\b|你(?:建议|推荐|说过)",
    re.IGNORECASE,
).search

# How people ask, not what they ask for: these words would be looked for, and found in the wrong places.
_REQUEST = re.compile(
    r"""\b(?:
        (?:can|could|would|will)\ you\ (?:please\ )?
            (?:list|tell\ me|give\ me|summari[sz]e|remind\ me|show\ me|explain|describe|walk\ me\ through|help\ me|provide)?
        | please | do\ you\ remember | as\ far\ as\ you\ know
        | (?:a\ )?(?:comprehensive|complete|brief|detailed|clear|full|short)\ (?:summary|overview|recap)(?:\ of)?
        | (?:a|the)\ (?:summary|overview|recap)\ of
        | (?:list\ )?the\ order\ in\ which
        | (?:i|we)(?:'ve|\ have)?\ (?:brought\ up|mentioned|discussed|talked\ about|told\ you)
        | different\ (?:aspects|parts)\ of
        | (?:throughout|across|in|during|over)\ (?:all\ )?(?:of\ )?(?:our|my|the|these)\ (?:conversations?|chats?|discussions?|sessions?)
        | in\ order | so\ far | over\ time
        | mention\ only(?:\ and\ only)?\ \w+\ (?:items?|things?|aspects?)
    )\b""",
    re.IGNORECASE | re.VERBOSE,
)
_LEAST_FOCUS = 8
_STOP_WORDS = frozenset(
    stem(word)
    for word in (  # noqa: SIM905 - a hundred lines of one word each say no more
        "a an the and or but if of at by for with about to from in on is are was were be been being do does did doing "
        "have has had i me my we our you your he him his she her it its they them their what which who whom this that "
        "these those am will would should can could how when where why there so than too very just s t not no nor as "
        "into over after before between during any some such own same then once here all each more most other only up "
        "down out off again further us mine yours hers ours theirs"
    ).split()
)
_ASKING_WORDS = frozenset(
    stem(word)
    for word in (  # noqa: SIM905
        "talk talked discuss discussed say said tell told chat chatted speak spoke mention mentioned happen happened go "
        "went do done write wrote conversation conversations message messages anything everything something"
    ).split()
)
"""Of a query that asks what was said, these tell nothing about it."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query, taken apart."""

    text: str
    focus: str
    """What it is about, without the phrases of asking: this is embedded."""
    words: tuple[str, ...]
    spans: tuple[Span, ...] = ()
    """The times it names."""
    day_words: tuple[str, ...] = ()
    """Of "yesterday", "2023-05-08" and the like, which are not among `words`: to be looked for where nothing was said
    at that time.
    """
    only_when: bool = False
    """What was said at a time is all that it asks for."""
    wants_summary: bool = False
    wants_order: bool = False
    about_a_past: bool = False
    """Of all that somebody has done: it matters more who speaks."""
    asks_when: bool = False
    asks_how_many: bool = False
    of_assistant: bool = False
    """About what the assistant said."""


def read_query(text: str, now: int) -> Query:
    """Take a query apart. `now` is the moment it is asked, for "yesterday"."""
    focus = _focus(text)
    words = _telling(focus)
    what = _without_stop_words(without_times(focus, now))
    timeless = what or words
    return Query(
        text=text,
        focus=focus,
        words=timeless,
        spans=tuple(spans_in(text, now)),
        day_words=tuple(word for word in words if word not in timeless),
        only_when=_ASKING_WORDS.issuperset(what),
        wants_summary=_summary(text) is not None,
        wants_order=_order(text) is not None,
        about_a_past=_lasting(focus) is not None,
        asks_when=_when(focus) is not None,
        asks_how_many=_how_many(focus) is not None,
        of_assistant=_of_assistant(text) is not None,
    )


def _telling(text: str) -> tuple[str, ...]:
    return _without_stop_words(text) or tuple(dict.fromkeys(words_asked_for(text)))


def _without_stop_words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in words_asked_for(text) if word not in _STOP_WORDS))


def _focus(text: str) -> str:
    focus = re.sub(r"\s+", " ", _REQUEST.sub(" ", text)).strip(" ,")
    return focus if len(focus.strip(" ,.?!")) >= _LEAST_FOCUS else text


def speakers_named(words: Sequence[str], names: Mapping[str, frozenset[str]]) -> list[str]:
    """Those who speak and whom a query names, in the order in which it names them."""
    places = {word: place for place, word in reversed(list(enumerate(words)))}
    named = [
        (min(places[part] for part in parts), name)
        for name, parts in names.items()
        if parts and parts <= places.keys()
    ]
    return [name for _, name in sorted(named)]
