"""What becomes of the facts that a line of the profile shows, when a person changes the line or takes it off the page."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from recollect.memory.consolidate import is_functional
from recollect.memory.entry_links import UNTIL, holding_again, origin_ids, successor_ids, superseded
from recollect.memory.entry_references import SUPERSEDED_BY
from recollect.memory.known_entry import FACTS, PROFILE, KnownEntry
from recollect.memory.matters import is_affirmed, matter_of
from recollect.memory.text_key import text_key

ON_PAGE, NO = "profile", "no"
"""The mark of a fact whose line a person took off the page."""


def is_off_page(fact: KnownEntry) -> bool:
    return fact.entry.extra.get(ON_PAGE) == NO


def is_replaced(fact: KnownEntry) -> bool:
    """It is about something of which one may have several, and a person wrote another line in its place."""
    return fact.kind == FACTS and matter_of(fact) is None and not fact.is_edited and not fact.holds


def is_spoken_for(fact: KnownEntry) -> bool:
    """A person had the word about its line: whatever says the same is this fact, and keeps its marks."""
    return is_replaced(fact) or (is_off_page(fact) and not fact.is_edited)


def with_marks_of(entry: KnownEntry, spoken_for: KnownEntry) -> KnownEntry:
    """The same statement made anew, in the place of the one that a person had the word about."""
    keys = [ON_PAGE, *([UNTIL, SUPERSEDED_BY] if is_replaced(spoken_for) else [])]
    marks = {key: spoken_for.entry.extra[key] for key in keys if key in spoken_for.entry.extra}
    extra = {**entry.entry.extra, **marks}
    return replace(entry, entry=replace(entry.entry, entry_id=spoken_for.entry_id, extra=extra))


def lines_of(entries: Iterable[KnownEntry]) -> dict[str, KnownEntry]:
    return {each.entry_id: each for each in entries if each.kind == PROFILE}


def after_line(
    before: KnownEntry, after: KnownEntry | None, facts: Sequence[KnownEntry], *, off_page: bool = False
) -> list[KnownEntry]:
    """Those of the facts that change with a line: a person's words take their place; without these they hold again.

    Facts about something of which there is one at a time follow `succession`. `off_page`: a person deleted the line,
    and it does not come back. What a person wrote is never marked.
    """
    replaced = [fact for fact in facts if before.entry_id in successor_ids(fact.entry)]
    shown = replaced or [fact for fact in facts if fact.entry_id in origin_ids(before.entry)]
    changed = []
    for fact in shown:
        entry = fact.entry
        if not is_functional(fact):
            if after is not None and after.is_edited and text_key(after.entry.text) != text_key(entry.text):
                entry = superseded(entry, after)
            elif fact in replaced:
                entry = holding_again(entry)
        if off_page and not _contradicts(before, fact):
            entry = replace(entry, extra={**entry.extra, ON_PAGE: NO})
        if entry != fact.entry and not fact.is_edited:
            changed.append(replace(fact, entry=entry))
    return changed


def _contradicts(line: KnownEntry, fact: KnownEntry) -> bool:
    """A person's line about a thing, and a fact that said the opposite: the line never showed it."""
    names_a_thing = "value" in line.entry.extra and not is_functional(line)
    return names_a_thing and is_affirmed(line) != is_affirmed(fact)


def latest(facts: Iterable[KnownEntry], *changes: Mapping[str, KnownEntry]) -> list[KnownEntry]:
    """Each once, as a change leaves it."""
    found = {fact.entry_id: fact for fact in facts}
    for change in changes:
        found |= {name: change[name] for name in found.keys() & change.keys()}
    return list(found.values())
