"""Succession: of the facts about one attribute of one subject, which holds, and until when the others did.

What a person wrote in a line of the profile counts as a fact of theirs (`profile.with_what_it_is_about`).

Nothing here removes a fact: one that no longer holds is kept with the time until when it did and what holds instead.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from recollect.memory.consolidate import denies, is_denial, is_functional, same_attribute
from recollect.memory.entry_links import UNTIL
from recollect.memory.entry_references import SUPERSEDED_BY, SUPERSEDES
from recollect.memory.known_entry import KnownEntry
from recollect.memory.line_values import write_time


def in_succession(entries: Iterable[KnownEntry]) -> list[KnownEntry]:
    """Facts about one attribute of one subject, each marked with what holds instead of it, and since when.

    The newest holds. Where a person wrote any, the newest of theirs does, for good: what was extracted held until they
    first had the word, and what was extracted for a later time never held. Theirs are not marked.

    "No longer lives in Berlin" takes the place of living in Berlin; beside living anywhere else it stands.
    """
    everything = sorted(entries, key=_by_time)
    ordered = _without_idle_denials(everything)
    words = written(ordered)
    count = next((number for number, each in enumerate(ordered) if each in words), len(ordered))
    chain = [*ordered[:count], *words[:1]]
    marked = []
    for number, each in enumerate(ordered[:count]):
        before = chain[number - 1] if number else None
        after = chain[number + 1] if number + 1 < len(chain) else None
        successor = words[-1] if after in words else after
        marked.append(_marked(each, before, after, successor))
    for each in ordered[count:]:
        told = [word for word in words if word.entry.when <= each.entry.when]
        marked.append(_marked(each, None, told[-1], words[-1]))
    idle = [_marked(each, None, None, None) for each in everything if each not in ordered]
    return sorted([*marked, *idle], key=_by_time)


def written(facts: Iterable[KnownEntry]) -> list[KnownEntry]:
    """Those that a person wrote and that are not said to have ended, the oldest first."""
    return sorted((each for each in facts if each.is_edited and each.holds), key=_by_time)


def held_throughout(known: KnownEntry, new: KnownEntry, facts: Sequence[KnownEntry]) -> bool:
    """Whether nothing else was extracted about their attribute for a time between the two.

    What a person wrote, and has not ended, holds at any time.
    """
    if known.is_edited:
        return known.holds
    first, last = sorted((_by_time(known), _by_time(new)))
    between = [each for each in same_attribute(facts, new) if first < _by_time(each) < last]
    return all(each.is_edited or (is_denial(each) and not denies(each, known)) for each in between)


def settled(
    stored: Sequence[KnownEntry], put: Mapping[str, KnownEntry], gone: Collection[str], like: KnownEntry
) -> list[KnownEntry]:
    """What else changes among the stored facts about one attribute, that of `like`, when some are put and some go.

    Only where a person has, or had, the word, or several would hold: all else is told by what the facts say of one
    another.
    """
    now = {**{each.entry_id: each for each in stored}, **put}
    rest = [each for each in same_attribute(list(now.values()), like) if each.entry_id not in gone]
    facts = [each for each in rest if is_functional(each)]
    holding = [each for each in facts if each.holds and not is_denial(each)]
    if len(holding) <= 1 and not any(each.is_edited for each in (*stored, *facts)):
        return []
    return [marked for marked in in_succession(facts) if marked != now[marked.entry_id]]


def _without_idle_denials(facts: Sequence[KnownEntry]) -> list[KnownEntry]:
    """Of facts in their order, all but denials of something else than what held before them."""
    kept: list[KnownEntry] = []
    for each in facts:
        if each.is_edited or not is_denial(each) or not kept or denies(each, kept[-1]):
            kept.append(each)
    return kept


def _by_time(fact: KnownEntry) -> tuple[int, str]:
    return fact.entry.when, fact.entry_id


def _marked(
    each: KnownEntry, before: KnownEntry | None, after: KnownEntry | None, successor: KnownEntry | None
) -> KnownEntry:
    """Held from when it was said until `after` was; `successor` holds now."""
    if each.is_edited:
        return each
    marks = (UNTIL, SUPERSEDED_BY, SUPERSEDES)
    extra = {key: value for key, value in each.entry.extra.items() if key not in marks}
    if after is not None and successor is not None:
        extra[UNTIL] = write_time(after.entry.when)
        extra[SUPERSEDED_BY] = successor.entry_id
    if before is not None and not before.is_edited:
        extra[SUPERSEDES] = before.entry_id
    return replace(each, entry=replace(each.entry, extra=extra))
