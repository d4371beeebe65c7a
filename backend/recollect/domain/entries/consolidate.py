"""Consolidation: what says the same as something known, and which facts cannot hold together.

No word is understood here: statements are compared by their text, and by the subject, attribute and value that the
model gave them. Nothing here removes an entry, and entries that a person wrote are never changed. What no longer holds
is told by `succession`.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from recollect.domain.entries.entry import FACTS, FORESIGHT, PROFILE, KnownEntry, is_line_id, text_key
from recollect.domain.entries.links import successor_ids
from recollect.domain.extraction.draft import FUNCTIONAL, OPPOSITES
from recollect.domain.markdown.front_matter import read_time

MANY_SOURCES = 24
"""A statement that is repeated gets no more sources than this: each new one rewrites the whole entry."""
_SEPARATE = frozenset(["", "did", "other"])
"""Facts with these attributes hold beside all others."""

Matter = tuple[str, ...]


def is_same_statement(one: KnownEntry, other: KnownEntry) -> bool:
    """Two entries of one kind say the same if their texts differ in case, spaces and punctuation alone.

    Plans must also be for the same time.
    """
    return (
        one.kind == other.kind
        and text_key(one.entry.text) == text_key(other.entry.text)
        and one.entry.extra.get("about", "") == other.entry.extra.get("about", "")
    )


def merged(known: KnownEntry, new: KnownEntry) -> KnownEntry:
    """The known entry with the sources of both; unchanged if a person wrote it or it has many sources already."""
    added = tuple(source for source in new.sources if source not in known.sources)
    if not added or known.is_edited or len(known.sources) >= MANY_SOURCES:
        return known
    links = tuple(link for link in new.entry.sources if link not in known.entry.sources)
    entry = replace(known.entry, sources=(*known.entry.sources, *links))
    return replace(known, entry=entry, sources=(*known.sources, *added))


def matter_of(entry: KnownEntry) -> Matter | None:
    """What an entry is about; of all entries about one matter the newest holds. None if it holds beside all others.

    That is a subject's attribute; where a subject can have several values of it, the attribute with one value. A fact
    that a person replaced by a line of the profile is about no matter, unless there can be only one value.
    """
    topic = _topic(entry) if _is_fact(entry) else None
    has_line_instead = not entry.holds and any(map(is_line_id, successor_ids(entry.entry)))
    if topic is None or (len(topic) > 1 and has_line_instead):
        return None
    return (*subject_of(entry), *topic)


def matter_key(entry: KnownEntry) -> str:
    """A digest that the journal finds all entries about a matter by, whether they hold or not; empty for none."""
    topic = _topic(entry) if entry.kind in (FACTS, PROFILE) else None
    if topic is None:
        return ""
    return hashlib.sha256("\n".join((*subject_of(entry), *topic)).encode()).hexdigest()[:24]


def same_matter(entries: Iterable[KnownEntry], like: KnownEntry) -> list[KnownEntry]:
    """The entries about the matter that `like` is about."""
    matter = matter_of(like)
    return [each for each in entries if matter is not None and matter_of(each) == matter]


def is_functional(entry: KnownEntry) -> bool:
    """Its attribute has one value at a time."""
    return attribute_of(entry) in FUNCTIONAL and _is_fact(entry)


def lapsed(entry: KnownEntry, now: int) -> bool:
    """A plan whose time is over."""
    if entry.kind != FORESIGHT or "lapses" not in entry.entry.extra:
        return False
    try:
        return read_time(entry.entry.extra["lapses"]) <= now
    except ValueError:
        return False


def subject_of(entry: KnownEntry) -> tuple[str, str]:
    """The subject's name, and its relation to the owner where the entry has one."""
    extra = entry.entry.extra
    return extra.get("subject", "").casefold(), extra.get("relation", "").casefold()


def attribute_of(entry: KnownEntry) -> str:
    return entry.entry.extra.get("attribute", "")


def same_attribute(entries: Sequence[KnownEntry], like: KnownEntry) -> list[KnownEntry]:
    """The entries about the attribute and the subject that `like` is about."""
    key = (subject_of(like), attribute_of(like))
    return [each for each in entries if (subject_of(each), attribute_of(each)) == key]


def names_its_value(text: str, value: str) -> bool:
    return bool(value.strip()) and value.casefold() in text.casefold()


def _is_fact(entry: KnownEntry) -> bool:
    """A fact, or a line of the profile that a person wrote."""
    return entry.kind == FACTS or (entry.kind == PROFILE and entry.is_edited)


def _topic(entry: KnownEntry) -> tuple[str, ...] | None:
    attribute, value = attribute_of(entry), entry.entry.extra.get("value", "")
    if attribute in FUNCTIONAL:
        return (attribute,)
    if attribute in _SEPARATE or not names_its_value(entry.entry.text, value):
        return None
    return OPPOSITES.get(attribute, (attribute,))[0], text_key(value)
