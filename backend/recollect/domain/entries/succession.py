"""Succession: of the facts about one matter, which holds, and until when the others did.

What a person wrote in a line of the profile counts as a fact of theirs (`profile.with_what_it_is_about`).

Nothing here removes a fact: one that no longer holds is kept with the time until when it did and what holds instead.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from recollect.domain.entries.consolidate import matter_of, same_matter
from recollect.domain.entries.entry import KnownEntry
from recollect.domain.entries.links import SUPERSEDED_BY, SUPERSEDES, UNTIL
from recollect.domain.markdown.front_matter import write_time


def in_succession(entries: Iterable[KnownEntry]) -> list[KnownEntry]:
    """Facts about one matter, each marked with what holds instead of it, and since when.

    The newest holds. Where a person wrote any, the newest of theirs does, for good: what was extracted held until the
    first of theirs, and what was extracted for a later time never held. Theirs are not marked.
    """
    ordered = sorted(entries, key=_by_time)
    words = written(ordered)
    count = next((number for number, each in enumerate(ordered) if each in words), len(ordered))
    marked = []
    for number, each in enumerate(ordered[:count]):
        after = ordered[number + 1] if number + 1 < len(ordered) else None
        successor = words[-1] if after in words else after
        marked.append(_marked(each, ordered[number - 1] if number else None, after, successor))
    for each in ordered[count:]:
        told = [word for word in words if word.entry.when <= each.entry.when]
        marked.append(_marked(each, None, told[-1], words[-1]))
    return marked


def written(facts: Iterable[KnownEntry]) -> list[KnownEntry]:
    """Those that a person wrote and that are not said to have ended, the oldest first."""
    return sorted((each for each in facts if each.is_edited and each.holds), key=_by_time)


def held_throughout(known: KnownEntry, new: KnownEntry, facts: Sequence[KnownEntry]) -> bool:
    """Whether nothing else was extracted about their matter for a time between the two.

    What a person wrote, and has not ended, holds at any time; what they replaced stays replaced.
    """
    if known.is_edited:
        return known.holds
    if matter_of(known) != matter_of(new):
        return known.holds or matter_of(known) is None
    first, last = sorted((_by_time(known), _by_time(new)))
    return all(each.is_edited or not first < _by_time(each) < last for each in same_matter(facts, new))


def settled(
    stored: Sequence[KnownEntry], put: Mapping[str, KnownEntry], gone: Collection[str], like: KnownEntry
) -> list[KnownEntry]:
    """What else changes among the stored facts about one matter, that of `like`, when some are put and some go.

    Only where a person wrote one of them, or several would hold: otherwise the facts' own marks say it all.
    """
    now = {**{each.entry_id: each for each in stored}, **put}
    facts = [each for each in same_matter(now.values(), like) if each.entry_id not in gone]
    theirs = (*stored, *(now[each.entry_id] for each in stored), *facts)
    if sum(each.holds for each in facts) <= 1 and not any(each.is_edited for each in theirs):
        return []
    return [marked for marked in in_succession(facts) if marked != now[marked.entry_id]]


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
