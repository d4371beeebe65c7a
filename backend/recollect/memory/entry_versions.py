"""The versions of an entry, and what an undo restores."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from recollect.errors import Conflict, InvalidInput
from recollect.memory.entry_edit import EDITED, YES
from recollect.memory.entry_links import origin_ids
from recollect.memory.entry_paths import linked_turn
from recollect.memory.file_names import file_name
from recollect.memory.known_entry import Actor, EntryVersion, KnownEntry, Source
from recollect.memory.line_origins import NO, ON_PAGE, is_off_page
from recollect.memory.model import Entry


@dataclass(frozen=True, slots=True)
class Version:
    """An entry as it was, or is, and the change that made it so. The first was made by no change: all three are None."""

    revision: int
    entry: Entry
    actor: Actor | None = None
    cause: str | None = None
    at: int | None = None


def versions(known: KnownEntry, history: Sequence[EntryVersion]) -> list[Version]:
    """Oldest first, the one in force last."""
    found: list[Version] = []
    made_by: EntryVersion | None = None
    for past in history:
        if past.entry is not None:
            found.append(_version(past.revision, past.entry, made_by))
        made_by = past
    return [*found, _version(known.revision, known.entry, made_by)]


def _version(revision: int, entry: Entry, made_by: EntryVersion | None) -> Version:
    if made_by is None:
        return Version(revision, entry)
    return Version(revision, entry, made_by.actor, made_by.cause, made_by.at)


def restored(known: KnownEntry, history: Sequence[EntryVersion], revision: int | None) -> list[KnownEntry]:
    """The entry as it was before its last change, before the one before that, and so on; or at a revision alone.

    Where extraction's work is undone, the entry is marked as a person's: extraction would only do it again. What a
    person did themself is undone with its marks. It keeps citing the turns it cites now: they are in its history. A
    fact whose line was deleted stays off the page: a deletion can't be undone.

    Raises Conflict where it never changed, InvalidInput where it has no such revision.
    """
    return [
        _restored(known, history, past.revision, past.entry)
        for past in _targets(known, history, revision)
        if past.entry is not None
    ]


def _restored(known: KnownEntry, history: Sequence[EntryVersion], revision: int, target: Entry) -> KnownEntry:
    undone = [past for past in history if past.revision >= revision]
    extra = dict(target.extra)
    if any(past.actor in ("extraction", "consolidation") for past in undone):
        extra[EDITED] = YES
    if is_off_page(known) and not known.is_edited:
        extra[ON_PAGE] = NO
    links = tuple(dict.fromkeys([*target.sources, *known.entry.sources]))
    entry = replace(target, extra=extra, sources=links)
    return replace(known, entry=entry, sources=_sources(links, known))


def _targets(known: KnownEntry, history: Sequence[EntryVersion], revision: int | None) -> list[EntryVersion]:
    kept = [past for past in history if past.entry is not None]
    if not kept and history:
        raise Conflict("what this entry said before was deleted: there is nothing to undo")
    if not kept:
        raise Conflict("this entry never changed: there is nothing to undo")
    if revision is None:
        return kept[::-1]
    for past in reversed(kept):
        if past.revision == revision:
            return [past]
    if revision == known.revision:
        raise InvalidInput(f"revision: {revision} is the one that is in force", field="revision")
    there = ", ".join(str(past.revision) for past in kept)
    raise InvalidInput(f"revision: there is no revision {revision}; there are {there}", field="revision")


def is_made_of(past: EntryVersion, origins: Collection[str]) -> bool:
    """It says what those entries said, and not what a person wrote instead."""
    if past.entry is None or past.entry.extra.get(EDITED) == YES:
        return False
    return not set(origins).isdisjoint(origin_ids(past.entry))


def _sources(links: Sequence[str], known: KnownEntry) -> tuple[Source, ...]:
    """The turns behind the links. A link names its thread by its folder: that of a thread it cites, or the id itself."""
    threads = {file_name(source.thread_id): source.thread_id for source in known.sources}
    found = dict.fromkeys(known.sources)
    for link in links:
        if (linked := linked_turn(known.owner, link)) is None:
            continue
        folder, turn_id = linked[0].rpartition("/")[2], linked[1]
        thread_id = threads.get(folder, folder if file_name(folder) == folder else None)
        if thread_id is not None:
            found.setdefault(Source(thread_id, turn_id))
    return tuple(found)
