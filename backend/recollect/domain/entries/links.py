"""How entries refer to each other: what supersedes what, and what was made of what."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from recollect.domain.entries.entry import EPISODES, FACTS, FORESIGHT, KnownEntry
from recollect.domain.identity import turn_number
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import Entry, ThreadRef
from recollect.domain.paths import file_name, linked_turn

SUPERSEDES = "supersedes"
SUPERSEDED_BY = "superseded_by"
REPLACES = "replaces"
"""Property that lists the entries an entry's text replaced or ended, whichever is valid now."""
ORIGINS = ("fact", "cases")
"""Properties in which a profile line names its fact, and a skill its cases."""
NAMES_ENTRIES = frozenset([SUPERSEDES, SUPERSEDED_BY, *ORIGINS])

Links = Mapping[str, str]
"""The file of each entry, by id: its path within the owner's folder, without the ending."""
NO_LINKS: Links = MappingProxyType({})

_PATH = r"[^\[\]#^|%\"\s]+"
_plain_path = re.compile(_PATH).fullmatch
_named = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
LINKED_KINDS = (EPISODES, FACTS, FORESIGHT)
"""Memories that a transcript links to, in this order."""
ENTRY_LINK = rf"(?:{'|'.join(LINKED_KINDS)})/{_PATH}#\^{_named.pattern}"
"""A link to one of them, as a transcript has it."""
_list = re.compile(rf"{_named.pattern}(?:[\s,]+{_named.pattern})*").fullmatch
_linked = re.compile(r"\[\[[^\[\]]*#\^([A-Za-z0-9][A-Za-z0-9_-]*)\]\]")


def with_links(named: str, links: Links) -> str:
    """The ids in a list, each as a link where its file is known. Text that is no list of ids is returned unchanged."""
    if not _list(named):
        return named
    return _named.sub(lambda each: f"[[{links[each[0]]}#^{each[0]}]]" if each[0] in links else each[0], named)


def without_links(written: str) -> str:
    """The ids alone. The file in a link is ignored: the entry may be in another by now."""
    return _linked.sub(r"\1", written)


def linkable(owner: str, path: str) -> str | None:
    """A file of an owner's, as links name it; None where no link can hold its name."""
    name = path.removeprefix(f"{owner}/").removesuffix(".md")
    return name if _plain_path(name) else None


def entry_link(owner: str, path: str, entry_id: str) -> str | None:
    """A link to an entry; None where its file or its id has a name that no link can hold."""
    link = f"{path.removeprefix(f'{owner}/').removesuffix('.md')}#^{entry_id}"
    return link if _entry_link(link) else None


_entry_link = re.compile(ENTRY_LINK).fullmatch

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


def origins_of(owner: str, entry: Entry) -> set[tuple[str, int]]:
    """What it came from: turns, by their thread's folder and their number; other entries, by their id and 0."""
    turns = filter(None, (linked_turn(owner, link) for link in entry.sources))
    places = {(folder, turn_number(turn_id) or 0) for folder, turn_id in turns}
    return places | {(entry_id, 0) for entry_id in origin_ids(entry)}


def without_origin(entry: Entry, origin: str) -> Entry:
    """No longer made of that entry."""
    for key in ORIGINS:
        entry = listing(entry, key, remove=origin)
    sources = tuple(link for link in entry.sources if link.rpartition("#^")[2] != origin)
    return replace(entry, sources=sources)


def replaced_ids(entry: Entry) -> tuple[str, ...]:
    """The entries that its own words replaced or ended."""
    return _ids(entry.extra.get(REPLACES, ""))


def holding_again(entry: Entry) -> Entry:
    """As if nothing had ever superseded it."""
    extra = {key: value for key, value in entry.extra.items() if key not in (SUPERSEDED_BY, UNTIL)}
    return replace(entry, extra=extra)


def superseded(entry: Entry, by: KnownEntry) -> Entry:
    """Held until the other was said, or for as long as it says already."""
    until = entry.extra.get(UNTIL) or write_time(by.said)
    return replace(entry, extra={**entry.extra, UNTIL: until, SUPERSEDED_BY: by.entry_id})


def taken_out(gone: KnownEntry, others: Mapping[str, KnownEntry]) -> tuple[KnownEntry, ...]:
    """The other entries without `gone`: those it superseded are valid again, or superseded by its successor."""
    changed: dict[str, Entry] = {}
    successor = others.get(gone.entry.extra.get(SUPERSEDED_BY, ""))
    if successor is not None:
        changed[successor.entry_id] = listing(successor.entry, SUPERSEDES, remove=gone.entry_id)
    for entry_id in superseded_ids(gone.entry):
        other = others.get(entry_id)
        if other is None or other.entry.extra.get(SUPERSEDED_BY) != gone.entry_id:
            continue
        if successor is None:
            changed[entry_id] = holding_again(other.entry)
        else:
            changed[entry_id] = superseded(other.entry, successor)
            heir = changed[successor.entry_id]
            changed[successor.entry_id] = listing(heir, SUPERSEDES, add=entry_id)
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
    """`after`, and the others that change with it: an entry and its successor name each other.

    Ids of entries that are gone are removed from `after`.
    """
    changed: dict[str, Entry] = {}
    if not all(named in others for named in successor_ids(after.entry)):
        after = replace(after, entry=holding_again(after.entry))
    old, new = set(successor_ids(before.entry)), set(successor_ids(after.entry))
    for entry_id in sorted((old - new) & others.keys()):
        changed[entry_id] = listing(others[entry_id].entry, SUPERSEDES, remove=after.entry_id)
    for entry_id in sorted(new - old):
        changed[entry_id] = listing(others[entry_id].entry, SUPERSEDES, add=after.entry_id)
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
            entry = listing(entry, SUPERSEDES, remove=entry_id)
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


def listing(entry: Entry, key: str, *, add: str = "", remove: str = "") -> Entry:
    """The entry with an id added to the list under a key, or removed from it. An empty list is dropped."""
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


def without_thread(known: KnownEntry, thread: ThreadRef) -> KnownEntry:
    """As it is without its sources in a thread."""
    folder = f"threads/{file_name(thread.thread_id)}/"
    places = (folder, f"users/{file_name(thread.user_id)}/{folder}")
    links = tuple(link for link in known.entry.sources if not link.startswith(places))
    sources = tuple(each for each in known.sources if each.thread_in(thread.space) != thread)
    return replace(
        known, entry=replace(known.entry, sources=links), sources=sources, cell=known.cell if sources else ""
    )
