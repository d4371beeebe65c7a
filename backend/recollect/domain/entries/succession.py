"""Succession: of the facts about one matter, which holds, and until when the others did.

What a person wrote in a line of the profile counts as a fact of theirs (`profile.with_what_it_is_about`).

Nothing here removes a fact: one that no longer holds is kept with the time until when it did and what holds instead.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from recollect.domain.entries.consolidate import denies, is_denial, is_functional
from recollect.domain.entries.entry import KnownEntry
from recollect.domain.entries.links import SUPERSEDED_BY, SUPERSEDES, UNTIL
from recollect.domain.entries.matters import is_affirmed, matter_of, same_matter, says_likewise
from recollect.domain.markdown.front_matter import write_time


def in_succession(entries: Iterable[KnownEntry]) -> list[KnownEntry]:
    """Facts about one matter, each marked with what holds instead of it, and since when.

    The newest holds. Where a person wrote any, the newest of theirs does, for good: what was extracted held until they
    first had the word, and what was extracted for a later time never held. Theirs are not marked.

    "No longer lives in Berlin" takes the place of living in Berlin; beside living anywhere else it stands. Several that
    say likewise of a thing, with nothing else in between, hold together.
    """
    everything = sorted(entries, key=_by_time)
    ordered = _without_idle_denials(everything)
    words = written(ordered)
    count = next((number for number, each in enumerate(ordered) if each in words), len(ordered))
    runs = _runs(ordered[:count])
    chain = [*runs, *([words[:1]] if words else [])]
    marked = []
    for number, run in enumerate(runs):
        before = runs[number - 1] if number else []
        after = chain[number + 1][0] if number + 1 < len(chain) else None
        successor = words[-1] if after in words else after
        marked.append(_marked(run[0], before, after, successor))
        marked += [_marked(each, (), after, successor) for each in run[1:]]
    for each in ordered[count:]:
        told = [word for word in words if word.entry.when <= each.entry.when]
        marked.append(_marked(each, (), told[-1], words[-1]))
    idle = [_marked(each, (), None, None) for each in everything if each not in ordered]
    return sorted([*marked, *idle], key=_by_time)


def written(facts: Iterable[KnownEntry]) -> list[KnownEntry]:
    """Those that a person wrote and that are not said to have ended, the oldest first."""
    return sorted((each for each in facts if each.is_edited and each.holds), key=_by_time)


def held_throughout(known: KnownEntry, new: KnownEntry, facts: Sequence[KnownEntry]) -> bool:
    """Whether nothing else was extracted about their matter for a time between the two.

    What a person wrote, and has not ended, holds at any time; what they replaced stays replaced.
    """
    is_same_matter = matter_of(known) == matter_of(new)
    if is_same_matter and not is_functional(new) and not says_likewise(known, new):
        return False
    if known.is_edited:
        return known.holds
    if not is_same_matter:
        return known.holds or matter_of(known) is None
    first, last = sorted((_by_time(known), _by_time(new)))
    between = [each for each in same_matter(facts, new) if first < _by_time(each) < last]
    return all(
        each.is_edited or says_likewise(each, new) or (is_denial(each) and not denies(each, known))
        for each in between
    )


def settled(
    stored: Sequence[KnownEntry], put: Mapping[str, KnownEntry], gone: Collection[str], like: KnownEntry
) -> list[KnownEntry]:
    """What else changes among the stored facts about one matter, that of `like`, when some are put and some go.

    Only where a person has, or had, the word, or several would hold: all else is told by what the facts say of one
    another.
    """
    now = {**{each.entry_id: each for each in stored}, **put}
    facts = [each for each in same_matter(now.values(), like) if each.entry_id not in gone]
    holding = {_stand(each) for each in facts if each.holds and not is_denial(each)}
    theirs = (*stored, *(now[each.entry_id] for each in stored), *facts)
    if len(holding) <= 1 and not any(each.is_edited for each in theirs):
        return []
    return [marked for marked in in_succession(facts) if marked != now[marked.entry_id]]


def _without_idle_denials(facts: Sequence[KnownEntry]) -> list[KnownEntry]:
    """Of facts in their order, all but denials of something else than what held before them."""
    kept: list[KnownEntry] = []
    for each in facts:
        if each.is_edited or not is_denial(each) or not kept or denies(each, kept[-1]):
            kept.append(each)
    return kept


def _runs(facts: Sequence[KnownEntry]) -> list[list[KnownEntry]]:
    """Of facts in their order, those together that say likewise."""
    runs: list[list[KnownEntry]] = []
    for each in facts:
        if runs and says_likewise(runs[-1][0], each):
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs


def _stand(fact: KnownEntry) -> str:
    """The same for facts about one matter that may hold together."""
    return fact.entry_id if is_functional(fact) else str(is_affirmed(fact))


def _by_time(fact: KnownEntry) -> tuple[int, str]:
    return fact.entry.when, fact.entry_id


def _marked(
    each: KnownEntry, before: Sequence[KnownEntry], after: KnownEntry | None, successor: KnownEntry | None
) -> KnownEntry:
    """Held from when it was said until `after` was; `successor` holds now."""
    if each.is_edited:
        return each
    marks = (UNTIL, SUPERSEDED_BY, SUPERSEDES)
    extra = {key: value for key, value in each.entry.extra.items() if key not in marks}
    if after is not None and successor is not None:
        extra[UNTIL] = write_time(after.entry.when)
        extra[SUPERSEDED_BY] = successor.entry_id
    if taken := [other.entry_id for other in before if not other.is_edited]:
        extra[SUPERSEDES] = " ".join(taken)
    return replace(each, entry=replace(each.entry, extra=extra))
