"""What a query asks for (its words and, besides them, a time, a speaker, a summary), and which messages only ask it
too.
"""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from recollect.domain.recall.dates import Span, spans_in, without_times
from recollect.domain.recall.words import (
    asking_and_telling,
    is_question,
    mostly_asks,
    normal,
    stem,
    words_asked_for,
    words_in,
)

_summary = re.compile(
    r"\b(?:summar\w+|overview|recap|outline|in general|overall)\b|总结|總結|概括|要約|まとめ", re.IGNORECASE
).search
_order = re.compile(r"\border\b|\bsequence\b|\bchronolog|\btimeline\b|顺序|順番", re.IGNORECASE).search
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
    """Those who speak and whom a query names, with all parts of their name."""
    asked = frozenset(words)
    return [name for name, parts in names.items() if parts and parts <= asked]


_REPEATED = 0.9
"""A message and a query that have so much in common, word for word in their order, say the same."""
_OTHERWISE, _THE_SAME = 1 / 3, 2 / 3
"""A question and a query that have no more than the first share of their telling words in common ask different things;
with the second share they ask the same.
"""
_ONLY_ASKS = 0.1
"""What a question counts for that asks something else."""
_SAYS_NOTHING = 24
"""Characters of its telling words: a question with no more of them says nothing of its own."""
_COMPARED = 400
"""Characters of a query that a message is compared with, and of a message."""


def tells_of(text: str, words: Set[str]) -> bool:
    """Whether a message tells something where these words are asked for, and does not only ask for them itself.

    Besides its questions it has a clause with one of these words and another one, or more other words than it asks, or
    it does not ask for these words at all.
    """
    if not is_question(text):
        return True
    asked, telling = _asked_and_told(text, words)
    new = frozenset[str]().union(*telling) - words
    return bool(new) and (
        any(not clause.isdisjoint(words) for clause in telling)
        or len(new) > len(asked)
        or asked.isdisjoint(words)
    )


def is_bare_question(text: str) -> bool:
    """Whether a message is a short question, whatever it asks, with no more than a greeting beside."""
    return mostly_asks(text) and sum(map(len, _clauses_in_words(text)[0])) <= _SAYS_NOTHING


def asked_again(text: str, query: str, words: Set[str], *, asks: bool) -> float:
    """How much a message only asks what a query with these words asks, from 0 to 1; 0 where it tells something of it.

    A message that repeats a question, without a question mark perhaps, asks it; `asks` says whether the query is one.
    """
    if asks and repeats(text, query):
        return 1.0
    if tells_of(text, words):
        return 0.0
    asked, _ = _asked_and_told(text, words)
    share = len(asked & words) / max(1, len(asked), len(words))
    return min(1.0, max(_ONLY_ASKS, (share - _OTHERWISE) / (_THE_SAME - _OTHERWISE)))


def repeats(text: str, query: str) -> bool:
    """Whether a message is almost the query itself, word for word."""
    if max(len(text), len(query)) > min(_COMPARED, 2 * min(len(text), len(query))):
        return False
    matcher = SequenceMatcher(None, words_in(text), words_in(query), autojunk=False)
    return matcher.real_quick_ratio() >= _REPEATED and matcher.ratio() >= _REPEATED


Words = frozenset[str]


def _asked_and_told(text: str, words: Set[str]) -> tuple[Words, list[Words]]:
    """The telling words of its questions, and of each other clause. A clause with these words alone is of a question."""
    asking, telling = _clauses_in_words(text)
    repeating = (clause for clause in telling if clause <= words)
    return asking.union(*repeating), [clause for clause in telling if not clause <= words]


@lru_cache(maxsize=2_000)
def _clauses_in_words(text: str) -> tuple[Words, tuple[Words, ...]]:
    asking, telling = asking_and_telling(text)
    return frozenset(telling_words(" ".join(asking))), tuple(
        frozenset(telling_words(each)) for each in telling
    )
