"""What entries say of one another: what supersedes what, and what was made of what."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from recollect.memory.entry_references import ORIGINS, SUPERSEDED_BY, SUPERSEDES
from recollect.memory.identity import turn_number
from recollect.memory.known_entry import KnownEntry
from recollect.memory.line_values import write_time
from recollect.memory.model import Entry

UNTIL = "until"
MADE_OF = "made_of"

_between = re.compile(r"[\s,]+").split


def superseded_ids(entry: Entry) -> tuple[str, ...]:
    """The entries that this one took the place of."""
    return _ids(entry.extra.get(SUPERSEDES, ""))


def successor_ids(entry: Entry) -> tuple[str, ...]:
    """The entry that took the place of this one, if any did."""
    return _ids(entry.extra.get(SUPERSEDED_BY, ""))


def origin_ids(entry: Entry) -> tuple[str, ...]:
    """The entries that this one was made of: those it names, and those its links lead to."""
    named = [each for key in ORIGINS for each in _ids(entry.extra.get(key, ""))]
    linked = (link.rpartition("#^")[2] for link in entry.sources if "#^" in link)
    return tuple(dict.fromkeys([*named, *(each for each in linked if each and turn_number(each) is None)]))


def without_origin(entry: Entry, origin: str) -> Entry:
    """No longer made of that entry."""
    for key in ORIGINS:
        entry = _listing(entry, key, remove=origin)
    sources = tuple(link for link in entry.sources if link.rpartition("#^")[2] != origin)
    return replace(entry, sources=sources)


def holding_again(entry: Entry) -> Entry:
    """As if nothing had ever superseded it."""
    extra = {key: value for key, value in entry.extra.items() if key not in (SUPERSEDED_BY, UNTIL)}
    return replace(entry, extra=extra)


def superseded(entry: Entry, by: KnownEntry) -> Entry:
    """Held until the other happened, or for as long as it says already."""
    until = entry.extra.get(UNTIL) or write_time(by.entry.when)
    return replace(entry, extra={**entry.extra, UNTIL: until, SUPERSEDED_BY: by.entry_id})


def taken_out(gone: KnownEntry, others: Mapping[str, KnownEntry]) -> tuple[KnownEntry, ...]:
    """The others as they are without `gone`: what it superseded holds again, or gives way to what superseded it."""
    changed: dict[str, Entry] = {}
    successor = others.get(gone.entry.extra.get(SUPERSEDED_BY, ""))
    if successor is not None:
        changed[successor.entry_id] = _listing(successor.entry, SUPERSEDES, remove=gone.entry_id)
    for entry_id in superseded_ids(gone.entry):
        other = others.get(entry_id)
        if other is None or other.entry.extra.get(SUPERSEDED_BY) != gone.entry_id:
            continue
        if successor is None:
            changed[entry_id] = holding_again(other.entry)
        else:
            changed[entry_id] = superseded(other.entry, successor)
            heir = changed[successor.entry_id]
            changed[successor.entry_id] = _listing(heir, SUPERSEDES, add=entry_id)
    return _with(others, changed)


def left_behind(gone: Iterable[KnownEntry], others: Mapping[str, KnownEntry]) -> tuple[KnownEntry, ...]:
    """Those of the others that change when all of these go, one after another."""
    leaving = {known.entry_id: known for known in gone}
    now = {**others, **leaving}
    for entry_id in leaving:
        known = now.pop(entry_id)
        now |= {changed.entry_id: changed for changed in taken_out(known, now)}
    return tuple(known for name, known in now.items() if known != others.get(name))


def relinked(
    before: KnownEntry, after: KnownEntry, others: Mapping[str, KnownEntry]
) -> tuple[KnownEntry, ...]:
    """`after`, and the others that must say the same as it: what supersedes what is told on both sides.

    What `after` says of an entry that is gone is left out.
    """
    changed: dict[str, Entry] = {}
    if not all(named in others for named in successor_ids(after.entry)):
        after = replace(after, entry=holding_again(after.entry))
    old, new = set(successor_ids(before.entry)), set(successor_ids(after.entry))
    for entry_id in sorted((old - new) & others.keys()):
        changed[entry_id] = _listing(others[entry_id].entry, SUPERSEDES, remove=after.entry_id)
    for entry_id in sorted(new - old):
        changed[entry_id] = _listing(others[entry_id].entry, SUPERSEDES, add=after.entry_id)
    after = _without_the_gone(after, others)
    kept, dropped = set(superseded_ids(after.entry)), set(superseded_ids(before.entry))
    for entry_id in sorted(dropped - kept):
        if entry_id in others and others[entry_id].entry.extra.get(SUPERSEDED_BY) == after.entry_id:
            changed[entry_id] = holding_again(changed.get(entry_id, others[entry_id].entry))
    for entry_id in sorted(kept - dropped):
        changed[entry_id] = superseded(changed.get(entry_id, others[entry_id].entry), after)
    return (after, *_with(others, changed))


def partners(*entries: Entry) -> tuple[str, ...]:
    """Every entry that these supersede or are superseded by."""
    named = [each for entry in entries for each in (*superseded_ids(entry), *successor_ids(entry))]
    return tuple(dict.fromkeys(named))


def named_ids(entry: Entry) -> tuple[str, ...]:
    """Every other entry that its file names."""
    return tuple(dict.fromkeys([*partners(entry), *origin_ids(entry)]))


def _without_the_gone(known: KnownEntry, others: Mapping[str, KnownEntry]) -> KnownEntry:
    entry = known.entry
    for entry_id in superseded_ids(entry):
        if entry_id not in others:
            entry = _listing(entry, SUPERSEDES, remove=entry_id)
    for entry_id in origin_ids(entry):
        if entry_id not in others:
            entry = without_origin(entry, entry_id)
    return replace(known, entry=entry)


def _with(others: Mapping[str, KnownEntry], changed: Mapping[str, Entry]) -> tuple[KnownEntry, ...]:
    return tuple(
        replace(others[entry_id], entry=entry)
        for entry_id, entry in changed.items()
        if entry != others[entry_id].entry
    )


def _listing(entry: Entry, key: str, *, add: str = "", remove: str = "") -> Entry:
    """With an id added to what stands under a key, or removed; a key that lists nothing goes."""
    if key not in entry.extra and not add:
        return entry
    ids = [named for named in _ids(entry.extra.get(key, "")) if named not in (add, remove)]
    ids += [add] if add else []
    if ids:
        return replace(entry, extra={**entry.extra, key: " ".join(ids)})
    return replace(entry, extra={name: value for name, value in entry.extra.items() if name != key})


def _ids(listed: str) -> tuple[str, ...]:
    named: Iterable[str] = (part.rpartition("#^")[2].strip("[]^") for part in _between(listed))
    return tuple(dict.fromkeys(part for part in named if part))
