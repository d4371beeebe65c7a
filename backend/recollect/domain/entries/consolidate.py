"""Consolidation: what says the same as something known.

No word is understood here: statements are compared by their kind, text and subject. What no longer holds is told by
`succession`.
"""

import hashlib
import json
from dataclasses import replace

from recollect.domain.entries.entry import KnownEntry, text_key

MANY_SOURCES = 24
"""A statement that is repeated gets no more sources than this: each new one rewrites the whole entry."""


def is_same_statement(one: KnownEntry, other: KnownEntry) -> bool:
    """Two entries of one kind and subject say the same if their texts differ in case, spaces and punctuation alone.

    Plans must also be for the same time.
    """
    return _statement(one) == _statement(other)


def statement_key(known: KnownEntry) -> str:
    """A digest, equal for the same statements of one owner."""
    told = [known.space, known.owner, *_statement(known)]
    return hashlib.sha256(json.dumps(told, ensure_ascii=False).encode()).hexdigest()[:24]


def _statement(known: KnownEntry) -> tuple[str, str, str, str]:
    return known.kind, known.subject, text_key(known.entry.text), known.entry.extra.get("about", "")


def is_repeated_by(known: KnownEntry, new: KnownEntry) -> bool:
    """Whether `new` says again what held when it was said. What is said again after its end is a new entry."""
    return is_same_statement(known, new) and (known.ends is None or new.said < known.ends)


def merged(known: KnownEntry, new: KnownEntry) -> KnownEntry:
    """The known entry with the sources of both; unchanged if a person wrote it or it has many sources already."""
    if known.is_edited or len(known.sources) >= MANY_SOURCES:
        return known
    return with_sources(known, known, new)


def with_sources(entry: KnownEntry, *cited: KnownEntry) -> KnownEntry:
    """The entry with the sources of all these, each once."""
    links = dict.fromkeys(link for each in cited for link in each.entry.sources)
    sources = dict.fromkeys(source for each in cited for source in each.sources)
    return replace(entry, entry=replace(entry.entry, sources=tuple(links)), sources=tuple(sources))
