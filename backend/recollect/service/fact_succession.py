"""Whatever a person changes, one fact holds of each attribute: the others are marked, or hold again, with the change."""

from dataclasses import replace

from recollect.memory.consolidate import is_functional, same_attribute
from recollect.memory.known_entry import EntryChange, KnownEntry
from recollect.memory.succession import settled
from recollect.service.ports import EntryStore


async def with_succession(entries: EntryStore, change: EntryChange) -> EntryChange:
    """The change with all that follows from it for the facts about the same attributes."""
    put = {each.entry_id: each for each in change.put}
    before = await entries.some(change.space, change.owner, [*put, *change.remove])
    marked = {each.entry_id: each for each in change.marked}
    for like in _one_of_each([*before, *put.values()]):
        extra = like.entry.extra
        stored = await entries.of_subject(
            like.space, like.owner, like.kind, extra.get("subject", ""), extra["attribute"]
        )
        for each in settled(stored, {**put, **marked}, change.remove, like):
            (put if each.entry_id in put else marked)[each.entry_id] = each
    return replace(change, put=tuple(put.values()), marked=tuple(marked.values()))


def _one_of_each(entries: list[KnownEntry]) -> list[KnownEntry]:
    """One fact about each attribute that is had once."""
    chosen: list[KnownEntry] = []
    for each in entries:
        if is_functional(each) and not same_attribute(chosen, each):
            chosen.append(each)
    return chosen
