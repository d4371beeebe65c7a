"""Consolidation: what is new, and what says the same as something known.

Nothing here removes an entry: one that says the same lends its sources to the one that is known. Entries that a person
wrote are never changed. What no longer holds is told by `succession`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from recollect.domain.entries.entry import FACTS, FORESIGHT, PROFILE, KnownEntry, Wording, text_key
from recollect.domain.extraction.draft import FUNCTIONAL
from recollect.domain.markdown.front_matter import read_time
from recollect.domain.recall.words import words_in

NEAR = 0.8
"""Of the words of both together, two statements share at least so many to say the same."""
PERHAPS = 0.5
"""From here on, their meaning is compared."""
SAME_MEANING = 0.93
"""The cosine from which two statements with the same names and numbers say the same."""

MANY_SOURCES = 24
"""What is said again and again gets no more of them: each would write all the others anew."""

_numbers = re.compile(r"\d+(?:[.,:]\d+)*").findall
_NEGATIONS = frozenset(
    [
        "not", "never", "no", "none", "nobody", "nothing", "neither", "nor", "without", "cannot", "can't", "couldn't",
        "don't", "doesn't", "didn't", "isn't", "aren't", "wasn't", "weren't", "haven't", "hasn't", "hadn't", "won't",
        "wouldn't", "shouldn't", "mustn't", "needn't", "ain't", "不", "没", "沒", "别",
    ]
)  # fmt: skip
_denial = re.compile(
    r"\b(?:no longer|not|never|isn't|doesn't|don't)\b|不再|不(?=住|居住|在|是)|没有?(?=住|在)|沒有?(?=住|在)",
    re.IGNORECASE,
).search
_denied_diet = re.compile(
    r"\b(?:no longer|not|isn't)\s(?:an?\s)?(?:strict\s)?(?:vegan|vegetarian|pescatarian|pescetarian)\b|不再?(?:是)?(?:吃素|素食)",
    re.IGNORECASE,
).search
_leaving = re.compile(
    r"\b(?:moved|relocated)\s(?:away\sfrom|out\sof)\s(?P<en>.+)|\bleft\s(?P<good>.+?)\sfor\sgood\b"
    r"|\b(?:quit|left|lost)\s\S+\sjob\s(?:at|with)\s(?P<job>.+)|\b(?:resigned|retired|fired|laid\soff|let\sgo)\sfrom\s(?P<firm>.+)"
    r"|(?:搬离|搬離|搬出)了?(?P<zh>.+)|(?:从|從|离开了?|離開了?)(?P<of>.+?)(?:的家)?搬[走离離出]",
    re.IGNORECASE,
).search
"""That one lives or works somewhere no longer, and from where on it says where that was."""
_LIKES = {"likes", "dislikes"}
_TELL_LIKING = ("likes", "prefers", "other")
_favourite = re.compile(
    r"\A(?!one of\b|among\b).{1,60}?(?:\bfavou?rite (?P<what>[\w' -]{2,30}?) (?:is|are)\b|最喜[欢歡]的(?P<of>[\u4e00-\u9fff]{1,6}?)是)",
    re.IGNORECASE,
).match
_named = re.compile(r"\bnamed\b").sub
_capitalised = re.compile(r"\b[A-Z][\w-]*").findall
_within = re.compile(r"(?<=[^.!?\s]\s)[A-Z][\w-]*").findall
"""Capitalised words that begin no sentence: names."""


def is_same_statement(one: KnownEntry, other: KnownEntry) -> bool:
    """By their words alone: equal texts, equal values of one attribute, or nearly all words shared."""
    if one.kind != other.kind:
        return False
    if _signs(one.entry.text).key == _signs(other.entry.text).key:
        return _about(one) == _about(other)
    if not _may_be_same(one, other):
        return False
    mine, others = one.entry.extra, other.entry.extra
    if attribute_of(one) not in ("", "did", "other") and attribute_of(one) == attribute_of(other):
        if _is_same_value(mine.get("value", ""), others.get("value", "")):
            return True
        if is_functional(one):
            return False
    return shared_words(one.entry.text, other.entry.text) >= NEAR


@lru_cache(maxsize=8192)
def value_key(value: str) -> str:
    """A dog named Rex is a dog called Rex."""
    return text_key(_named("called", value))


def says_the_same(line: KnownEntry, fact: KnownEntry) -> bool:
    """Whether a line of the profile has the words of a fact."""
    return value_key(line.entry.text) == value_key(fact.entry.text)


def worth_comparing(entry: KnownEntry, known: Iterable[Wording], perhaps: int) -> list[str]:
    """Which of those about the same attribute, oldest first, may say the same in other words; no other does.

    Those of which meaning alone would tell are many where a name is long: of them the newest `perhaps`.
    """
    text, value = entry.entry.text, entry.entry.extra.get("value", "")
    likely, open_to_doubt = [], []
    for other in known:
        shared = shared_words(text, other.text)
        if shared >= NEAR or _is_same_value(value, other.value):
            likely.append(other.entry_id)
        elif shared >= PERHAPS and _same_signs(text, other.text):
            open_to_doubt.append(other.entry_id)
    return [*likely, *open_to_doubt[max(0, len(open_to_doubt) - perhaps) :]]


def _is_same_value(one: str, other: str) -> bool:
    key = value_key(one)
    return key == value_key(other) and key != value_key("")


def is_perhaps_same(one: KnownEntry, other: KnownEntry) -> bool:
    """Their words leave it open: whoever has a model of meaning asks it."""
    if not _may_be_same(one, other) or is_functional(one):
        return False
    return PERHAPS <= shared_words(one.entry.text, other.entry.text) < NEAR


def shared_words(one: str, other: str) -> float:
    mine, others = _signs(one).words, _signs(other).words
    return len(mine & others) / max(1, len(mine | others))


def merged(known: KnownEntry, new: KnownEntry) -> KnownEntry:
    """The known one with the sources of both; what a person wrote stays as it is, and so does what has many sources."""
    added = tuple(source for source in new.sources if source not in known.sources)
    if not added or known.is_edited or len(known.sources) >= MANY_SOURCES:
        return known
    links = tuple(link for link in new.entry.sources if link not in known.entry.sources)
    entry = replace(known.entry, sources=(*known.entry.sources, *links))
    return replace(known, entry=entry, sources=(*known.sources, *added))


def may_tell(entry: KnownEntry) -> bool:
    """A fact, or a person's line of the profile."""
    return entry.kind == FACTS or (entry.kind == PROFILE and entry.is_edited)


def is_functional(entry: KnownEntry) -> bool:
    """It tells of something of which its subject has one at a time."""
    attribute = attribute_of(entry)
    is_one = attribute in FUNCTIONAL or favourite_in(attribute, entry.entry.text) is not None
    return is_one and may_tell(entry)


@lru_cache(maxsize=4096)
def favourite_in(attribute: str, text: str) -> str | None:
    """Of what it tells which one somebody likes best: "colour". One of several favourites is not the one."""
    found = _favourite(text) if attribute in _TELL_LIKING else None
    return text_key(found[found.lastgroup or 0].replace("color", "colour")) if found else None


def is_denial(fact: KnownEntry) -> bool:
    """It says of something that is had once that it is not so (any more). What one doesn't eat is a diet, no denial."""
    if not is_functional(fact):
        return False
    if attribute_of(fact) == "diet":
        return _denied_diet(fact.entry.text) is not None
    return _denial(fact.entry.text) is not None or _leaves(fact)


def _leaves(fact: KnownEntry) -> bool:
    """Whether its value is the place that it says was left, and not one that is told beside it."""
    found, value = _leaving(fact.entry.text), fact.entry.extra.get("value", "").casefold()
    if found is None or not value:
        return False
    return any(place is not None and place.casefold().startswith(value) for place in found.groups())


def denies(denial: KnownEntry, other: KnownEntry) -> bool:
    """Whether what the other says is what the denial denies."""
    value = denial.entry.extra.get("value", "").casefold()
    told = other.entry.extra.get("value") or other.entry.text
    return bool(value) and not is_denial(other) and value in told.casefold()


def lapsed(entry: KnownEntry, now: int) -> bool:
    """A plan whose time is over."""
    if entry.kind != FORESIGHT or "lapses" not in entry.entry.extra:
        return False
    try:
        return read_time(entry.entry.extra["lapses"]) <= now
    except ValueError:
        return False


def _may_be_same(one: KnownEntry, other: KnownEntry) -> bool:
    """Of one kind and subject, with the same numbers and names, and both affirmed or both denied."""
    if one.kind != other.kind or subject_of(one) != subject_of(other) or _about(one) != _about(other):
        return False
    if {attribute_of(one), attribute_of(other)} == _LIKES:
        return False
    return _same_signs(one.entry.text, other.entry.text)


def _same_signs(one: str, other: str) -> bool:
    mine, others = _signs(one), _signs(other)
    return (
        mine.numbers == others.numbers
        and mine.denies == others.denies
        and mine.names <= others.capitalised
        and others.names <= mine.capitalised
    )


@dataclass(frozen=True, slots=True)
class _Signs:
    """What texts are compared by."""

    key: str
    words: frozenset[str]
    numbers: tuple[str, ...]
    names: frozenset[str]
    capitalised: frozenset[str]
    denies: bool


@lru_cache(maxsize=4096)
def _signs(text: str) -> _Signs:
    """Told once: the same few hundred statements of an owner are compared with each new one."""
    return _Signs(
        text_key(text),
        frozenset(words_in(text)),
        tuple(sorted(_numbers(text))),
        frozenset(_within(text)),
        frozenset(_capitalised(text)),
        _denies(text),
    )


def _denies(text: str) -> bool:
    if _leaving(text):
        return True
    words = text.casefold().replace("’", "'")  # noqa: RUF001
    return any(each in _NEGATIONS for each in re.findall(r"[\w']+", words)) or any(
        sign in text for sign in "不没沒别"
    )


def subject_of(entry: KnownEntry) -> tuple[str, str]:
    """By name, and by what they are to the owner: two of one name are two."""
    extra = entry.entry.extra
    return extra.get("subject", "").casefold(), extra.get("relation", "").casefold()


def attribute_of(entry: KnownEntry) -> str:
    return entry.entry.extra.get("attribute", "")


def _about(entry: KnownEntry) -> str:
    return entry.entry.extra.get("about", "")


def same_attribute(entries: Sequence[KnownEntry], like: KnownEntry) -> list[KnownEntry]:
    """Those about the attribute and the subject that `like` is about."""
    key = (subject_of(like), attribute_of(like))
    return [each for each in entries if (subject_of(each), attribute_of(each)) == key]
