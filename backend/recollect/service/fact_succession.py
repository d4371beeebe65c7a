"""Whatever a person changes, one fact holds of each attribute: the others are marked, or hold again, with the change.

So are the facts that a changed line of the profile shows.
"""

from dataclasses import replace

from recollect.memory.consolidate import is_functional, same_attribute
from recollect.memory.entry_links import origin_ids
from recollect.memory.known_entry import FACTS, PROFILE, EntryChange, KnownEntry
from recollect.memory.line_origins import after_line, latest, lines_of
from recollect.memory.profile import with_what_it_is_about
from recollect.memory.succession import settled
from recollect.service.ports import EntryStore


async def with_succession(entries: EntryStore, change: EntryChange) -> EntryChange:
    """The change with all that follows from it for the facts about the same attributes."""
    put = {each.entry_id: await _with_what_it_is_about(entries, each) for each in change.put}
    before = await entries.some(change.space, change.owner, [*put, *change.remove])
    marked = {each.entry_id: each for each in change.marked}
    for like in _one_of_each([*before, *put.values()]):
        stored = await about_the_same(entries, like)
        for each in settled(stored, {**put, **marked}, change.remove, like):
            (put if each.entry_id in put else marked)[each.entry_id] = each
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
    return replace(change, put=tuple(put.values()), marked=tuple(marked.values()))


async def about_the_same(
    entries: EntryStore, like: KnownEntry, newest: int | None = None
) -> list[KnownEntry]:
    """The facts about the attribute that `like` is about (the `newest` so many), and the lines a person wrote of it."""
    about = like.entry.extra.get("subject", ""), like.entry.extra.get("attribute", "")
    facts = await entries.of_subject(like.space, like.owner, FACTS, *about, newest=newest)
    lines = await entries.of_subject(like.space, like.owner, PROFILE, *about)
    return [*facts, *lines]


async def _facts_of(entries: EntryStore, line: KnownEntry) -> list[KnownEntry]:
    """Those it was made of, and all about the same: one of these may have its place by now."""
    about = line.entry.extra.get("subject", ""), line.entry.extra.get("attribute", "")
    alike = await entries.of_subject(line.space, line.owner, FACTS, *about) if all(about) else []
    return [*await entries.some(line.space, line.owner, origin_ids(line.entry)), *alike]


async def _with_what_it_is_about(entries: EntryStore, each: KnownEntry) -> KnownEntry:
    if each.kind != PROFILE:
        return each
    facts = await entries.some(each.space, each.owner, origin_ids(each.entry))
    return with_what_it_is_about(each, facts)


def _one_of_each(entries: list[KnownEntry]) -> list[KnownEntry]:
    """One fact about each attribute that is had once."""
    chosen: list[KnownEntry] = []
    for each in entries:
        if is_functional(each) and not same_attribute(chosen, each):
            chosen.append(each)
    return chosen
