"""What a query asks for: its words and, besides them, a time, a speaker, a summary."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recollect.domain.recall.dates import Span, spans_in, without_times
from recollect.domain.recall.words import normal, stem, words_asked_for

_summary = re.compile(
    r"\b(?:summar\w+|overview|recap|outline|in general|overall)\b|总结|總結|概括|要約|まとめ", re.IGNORECASE
).search
_order = re.compile(r"\border\b|\bsequence\b|\bchronolog|\btimeline\b|顺序|順番", re.IGNORECASE).search
_lasting = re.compile(r"\b(?:has|have)\b(?! to\b)", re.IGNORECASE).search
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

Exchange = tuple[str, str]
"""A user's message and its answer; either may be empty."""


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
    wants_summary: bool = False
    wants_order: bool = False
    about_a_past: bool = False
    """Of all that somebody has done: it matters more who speaks."""
    of_assistant: bool = False
    """About what the assistant said."""
    asked_before: tuple[str, ...] = ()
    answered_before: tuple[str, ...] = ()
    """Words of the exchange that a follow-up comes after."""


_LONGEST = 10_000


def read_query(text: str, now: int, before: Exchange = ("", "")) -> Query:
    """Take a query apart. `now` is the moment it is asked, for "yesterday"; `before` what it may refer to."""
    if len(plain := normal(text)) > _LONGEST:
        text = plain[:_LONGEST]  # One sign may stand for eighteen.
    focus = _focus(text)
    words = _telling(focus)
    timeless = telling_words(without_times(focus, now)) or words
    kept = frozenset(timeless)
    return Query(
        text=text,
        focus=focus,
        words=timeless,
        spans=spans_in(text, now),
        day_words=tuple(word for word in words if word not in kept),
        wants_summary=_summary(text) is not None,
        wants_order=_order(text) is not None,
        about_a_past=_lasting(focus) is not None,
        of_assistant=_of_assistant(text) is not None,
        asked_before=telling_words(before[0]),
        answered_before=telling_words(before[1]),
    )


def _telling(text: str) -> tuple[str, ...]:
    return telling_words(text) or tuple(dict.fromkeys(words_asked_for(text)))


def telling_words(text: str) -> tuple[str, ...]:
    """Each word once, without those that any text may have."""
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
