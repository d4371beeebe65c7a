"""Succession: what holds instead of what, by the ids that a new entry names and by when each was said.

Nothing here removes an entry or changes its words: one that no longer holds is kept with the time until when it did and
what holds instead.
"""

from collections.abc import Iterable
from dataclasses import replace

from recollect.domain.entries.entry import KnownEntry
from recollect.domain.entries.links import (
    SUPERSEDED_BY,
    SUPERSEDES,
    UNTIL,
    holding_again,
    listing,
    successor_ids,
)
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import Entry

State = dict[str, KnownEntry]
"""The entries that are looked at, by id, as they will be. The functions here change it."""


def claim(
    state: State, entry_id: str, replaces: Iterable[str], ends: Iterable[str], at: int
) -> tuple[str, ...]:
    """Mark what an entry replaces or ends by words that were said `at` that time. Returns what it is linked with.

    What was said later, or said again, is not overruled: it holds instead of the entry. Where something replaced a named entry before
    that time, that is replaced in its place, unless it is of the same memcell: what is said together holds together.
    """
    found = [_claim(state, entry_id, name, at, follow=True) for name in replaces]
    found += [_claim(state, entry_id, name, at, follow=False) for name in ends]
    return tuple(dict.fromkeys(name for name in found if name is not None))


def release(state: State, entry_id: str, names: Iterable[str]) -> None:
    """Take back what an entry claimed: those that it superseded hold again, or give way to what superseded it."""
    for name in names:
        known, other = state[entry_id], state.get(name)
        if other is None:
            continue
        if name in successor_ids(known.entry):
            _put(state, known, holding_again(known.entry))
            _put(state, other, listing(other.entry, SUPERSEDES, remove=entry_id))
        elif entry_id in successor_ids(other.entry):
            _put(state, known, listing(known.entry, SUPERSEDES, remove=name))
            after = _successor(state, known)
            if after is None:
                _put(state, other, holding_again(other.entry))
            else:
                _give_way(state, other, after.entry_id, after.said)


def overrule(state: State, before: KnownEntry, after: KnownEntry) -> None:
    """What a person says of an entry that was superseded wins over what holds instead of it."""
    holding = _successor(state, before)
    seen = {after.entry_id}
    while holding is not None and not holding.holds and holding.entry_id not in seen:
        seen.add(holding.entry_id)
        holding = _successor(state, holding)
    if holding is not None and holding.entry_id not in seen:
        _give_way(state, holding, after.entry_id, after.said)


def _claim(state: State, entry_id: str, name: str, at: int, *, follow: bool) -> str | None:
    target = state.get(name)
    seen = {entry_id}
    after: KnownEntry | None = None
    while target is not None and target.entry_id not in seen and not target.holds:
        seen.add(target.entry_id)
        after = _successor(state, target)
        if after is None:
            return None
        if after.entry_id == entry_id:
            return target.entry_id
        if after.said > at:
            seen.discard(target.entry_id)
            break
        if not follow or after.cell == state[entry_id].cell != "":
            return None
        target, after = after, None
    if target is None or target.entry_id in seen:
        return None
    known = state[entry_id]
    if target.last_said > at:
        if known.holds and entry_id not in _successors(state, target):
            _give_way(state, known, target.entry_id, _began(target, at))
        return target.entry_id if target.entry_id in successor_ids(state[entry_id].entry) else None
    if target.entry_id in _successors(state, known):
        return None
    if after is not None:
        _put(state, after, listing(after.entry, SUPERSEDES, remove=target.entry_id))
    _give_way(state, target, entry_id, at)
    if after is not None and known.holds:
        _give_way(state, state[entry_id], after.entry_id, _began(after, at))
    return target.entry_id


def _began(known: KnownEntry, after: int) -> int:
    """When it was said or, by its `when`, began before that, the first time after `after`; else when it was repeated."""
    if known.said <= after:
        return known.last_said
    return known.entry.when if after < known.entry.when < known.said else known.said


def _give_way(state: State, old: KnownEntry, new_id: str, at: int) -> None:
    """`old` held until then, and the other holds instead."""
    extra = {**old.entry.extra, UNTIL: write_time(at), SUPERSEDED_BY: new_id}
    _put(state, old, replace(old.entry, extra=extra))
    _put(state, state[new_id], listing(state[new_id].entry, SUPERSEDES, add=old.entry_id))


def _successor(state: State, known: KnownEntry) -> KnownEntry | None:
    return next((state[name] for name in successor_ids(known.entry) if name in state), None)


def _successors(state: State, known: KnownEntry) -> set[str]:
    found: set[str] = set()
    after = _successor(state, known)
    while after is not None and after.entry_id not in found:
        found.add(after.entry_id)
        after = _successor(state, after)
    return found


def _put(state: State, known: KnownEntry, entry: Entry) -> None:
    state[known.entry_id] = replace(state[known.entry_id], entry=entry)
