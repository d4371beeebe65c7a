"""What facts are about that cannot hold together, so that the newer replaces the older."""

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache

from recollect.domain.entries.consolidate import (
    attribute_of,
    favourite_in,
    is_functional,
    may_tell,
    subject_of,
    value_key,
)
from recollect.domain.entries.entry import FACTS, PROFILE, KnownEntry, is_line_id
from recollect.domain.entries.links import successor_ids
from recollect.domain.extraction.draft import FUNCTIONAL, OPPOSED
from recollect.domain.extraction.negation import is_negated

Matter = tuple[str, ...]

_named_animal = re.compile(r"(?P<animal>\w+) (?:named|called) (?P<name>[A-Z][\w'-]*)\W*$").search

_before_thing = re.compile(
    r"^(?:(?:a|an|the|to|can|cannot|can['\u2019]t|not|no longer|able to)\s+)+|^不?[会會能](?=.)",
    re.IGNORECASE,
).sub
_disliked_no_longer = re.compile(
    r"(?:\b(?:no longer|not|never|used to|stopped)\b|n['\u2019]t\b)\s(?:\w+\s){0,2}?(?:hat|dislik|detest|loath)(?:e|es|ing|s)?\b|不再?(?:讨厌|討厭)",
    re.IGNORECASE,
).search


def matter_of(entry: KnownEntry) -> Matter | None:
    """What it is about; None where it stands beside all else that is said.

    So does a fact in whose place a person wrote a line, unless there can be only one.
    """
    if not may_tell(entry):
        return None
    extra = entry.entry.extra
    topic = _topic(extra.get("attribute", ""), entry.entry.text, extra.get("value", ""))
    if topic is None or (topic[0] in OPPOSED and not entry.holds and _has_line_instead(entry)):
        return None
    return (*subject_of(entry), *topic)


def matter_key(entry: KnownEntry) -> str:
    """By which all that may be about its matter is found, whatever holds or not; empty where there is none.

    It is stored: who changes what two facts are told together by changes the stored ones by a migration.
    """
    extra = entry.entry.extra
    topic = (
        _topic(extra.get("attribute", ""), entry.entry.text, extra.get("value", ""))
        if entry.kind in (FACTS, PROFILE)
        else None
    )
    if topic is None:
        return ""
    return hashlib.sha256("\n".join((*subject_of(entry), *topic)).encode()).hexdigest()[:24]


def _has_line_instead(entry: KnownEntry) -> bool:
    return any(map(is_line_id, successor_ids(entry.entry)))


@lru_cache(maxsize=8192)
def _topic(attribute: str, text: str, value: str) -> tuple[str, ...] | None:
    """Told once: the same few hundred facts of an owner are compared with each new one."""
    if (liked := favourite_in(attribute, text)) is not None:
        return "favourite", liked
    if attribute in FUNCTIONAL:
        return (attribute,)
    is_told = value_key(value) != value_key("") and value.casefold() in text.casefold()
    if attribute not in OPPOSED or not is_told:
        return None
    return OPPOSED[attribute][0], _thing(attribute, text, value)


def same_matter(entries: Iterable[KnownEntry], like: KnownEntry) -> list[KnownEntry]:
    """Those about the matter that `like` is about."""
    matter = matter_of(like)
    return [each for each in entries if matter is not None and matter_of(each) == matter]


def says_likewise(one: KnownEntry, other: KnownEntry) -> bool:
    """Of two about one matter: both say that a thing is so, or both that it is not. Values of one attribute never do."""
    return not is_functional(one) and is_affirmed(one) == is_affirmed(other)


def is_affirmed(fact: KnownEntry) -> bool:
    """That somebody likes, can, has … it, and not the opposite."""
    if attribute_of(fact) == "dislikes":
        return _disliked_no_longer(fact.entry.text) is not None
    return not is_negated(fact.entry.text, _bare(fact.entry.extra.get("value", "")))


def _thing(attribute: str, text: str, value: str) -> str:
    """An animal with a name is told by both, however much else is said of it."""
    found = _named_animal(text) if attribute == "has_pet" else None
    return value_key(f"{found['animal']} called {found['name']}" if found else _bare(value))


def _bare(value: str) -> str:
    """The thing alone, of "a dog", "cannot swim" and "not to swim", as models write them."""
    return _before_thing("", value) or value


# ruff: noqa: RUF001 - Chinese brackets are meant


def relation_in(text: str, subject: str) -> str:
    """What the subject of a statement is to whoever tells it, as rules write it; else empty.

    "Marta, Ann's little sister, lives in Porto." is about a sister.
    """
    name = re.escape(subject)
    found = re.match(rf"{name}, .+?'s ([\w -]+), |{name}（.+?的(\w+)）", text) if subject else None
    if found is None:
        return ""
    relation: str = found[1] or found[2]
    return relation.rpartition(" ")[2]
