"""Whatever a person changes, one fact holds of each matter: the others are marked, or hold again, with the change.

So are the facts that a changed line of the profile shows.
"""

from collections.abc import Collection
from dataclasses import replace

from recollect.memory.consolidate import is_functional
from recollect.memory.entry_links import origin_ids
from recollect.memory.extraction.draft import OPPOSED
from recollect.memory.known_entry import FACTS, PROFILE, EntryChange, KnownEntry
from recollect.memory.line_origins import after_line, latest, lines_of
from recollect.memory.matters import matter_key, matter_of, same_matter
from recollect.memory.profile import with_what_it_is_about
from recollect.memory.succession import settled
from recollect.service.ports import EntryStore


async def with_succession(entries: EntryStore, change: EntryChange) -> EntryChange:
    """The change with all that follows from it for the facts about the same matters."""
    put = {each.entry_id: await _with_what_it_is_about(entries, each) for each in change.put}
    before = await entries.some(change.space, change.owner, [*put, *change.remove])
    marked = {each.entry_id: each for each in change.marked}
    await _settle(entries, [*before, *put.values()], put, marked, change.remove)
    again = []
    for line in lines_of([*put.values(), *before]).values():
        facts = [
            fact
            for fact in latest(await _facts_of(entries, line), put, marked)
            if fact.entry_id not in change.remove
        ]
        is_gone = line.entry_id in change.remove
        after = None if is_gone else put.get(line.entry_id)
        for each in after_line(line, after, facts, off_page=is_gone and change.bury):
            (put if each.entry_id in put else marked)[each.entry_id] = each
            again.append(each)
    # What holds again without the line may have been denied since.
    await _settle(entries, [each for each in again if not is_functional(each)], put, marked, change.remove)
    return replace(change, put=tuple(put.values()), marked=tuple(marked.values()))


async def _settle(
    entries: EntryStore,
    changed: list[KnownEntry],
    put: dict[str, KnownEntry],
    marked: dict[str, KnownEntry],
    gone: Collection[str],
) -> None:
    """Puts and marks all that follows for what these are about."""
    for like in _one_of_each(changed):
        stored = await entries.of_matter(like.space, like.owner, matter_key(like))
        for each in settled(stored, {**put, **marked}, gone, like):
            (put if each.entry_id in put else marked)[each.entry_id] = each


async def _facts_of(entries: EntryStore, line: KnownEntry) -> list[KnownEntry]:
    """Those it was made of, and all about the same attribute: one of these may have its place by now."""
    found = await entries.some(line.space, line.owner, origin_ids(line.entry))
    subject, attribute = line.entry.extra.get("subject", ""), line.entry.extra.get("attribute", "")
    for each in OPPOSED.get(attribute, (attribute,)) if attribute else ():
        found += await entries.of_subject(line.space, line.owner, FACTS, subject, each)
    return found


async def _with_what_it_is_about(entries: EntryStore, each: KnownEntry) -> KnownEntry:
    if each.kind != PROFILE:
        return each
    facts = await entries.some(each.space, each.owner, origin_ids(each.entry))
    return with_what_it_is_about(each, facts)


def _one_of_each(entries: list[KnownEntry]) -> list[KnownEntry]:
    """One fact about each matter."""
    chosen: list[KnownEntry] = []
    for each in entries:
        if matter_of(each) is not None and not same_matter(chosen, each):
            chosen.append(each)
    return chosen
