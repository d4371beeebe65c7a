"""The profile: one page per user, made of the facts that hold about them, every line with its sources.

A line shows facts and has no life of its own: what a person changes in it, they change in its fact. Lines that a person
added to the page are theirs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from recollect.domain.entries.entry import (
    CORRECTED,
    EVENT,
    FACTS,
    LAPSES,
    PROFILE,
    SAID,
    USER,
    KnownEntry,
    digest_of_text,
    entry_id,
    naming,
    text_key,
    with_sources,
)
from recollect.domain.entries.links import SUPERSEDES, holding_again, listing, origin_ids
from recollect.domain.extraction.draft import CATEGORIES
from recollect.domain.markdown.entry_file import HIDDEN
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import Entry

ON_PAGE, NO = "profile", "no"
"""The mark of a fact whose line a person took off the page."""
PEOPLE, WISHES = "people", "wishes to the assistant"
HEADINGS = tuple(category for category in CATEGORIES if category != EVENT)
RULES = "rules"
_MOST = 12
_MOST_WISHES = 20
_EDITED, _PINNED = "edited", "pinned"


def is_off_page(fact: KnownEntry) -> bool:
    return fact.entry.extra.get(ON_PAGE) == NO


def shows_facts(line: KnownEntry) -> bool:
    """Whether a line was made of facts, and not written by a person."""
    return line.kind == PROFILE and not line.is_edited and bool(origin_ids(line.entry))


def heading_of(fact: KnownEntry) -> str | None:
    """Where a fact belongs on the page. What is known of others is under `people`; events are on no page."""
    if fact.kind != FACTS or fact.category not in HEADINGS:
        return None
    return fact.category if fact.subject == USER else PEOPLE


def facts_on_page(
    facts: Iterable[KnownEntry], own: Sequence[KnownEntry], now: int
) -> dict[str, list[KnownEntry]]:
    """By heading, in the page's order: the facts that hold, those that a person pinned first, then the newest.

    Skips facts whose line a person deleted, or whose text a person's own line repeats. Each heading has a limit.
    """
    theirs = {text_key(line.entry.text) for line in own if line.holds_at(now)}
    found: dict[str, dict[tuple[str, str], KnownEntry]] = {heading: {} for heading in HEADINGS}
    for fact in sorted(facts, key=lambda each: (not each.is_pinned, -each.entry.when, each.entry_id)):
        heading, said = heading_of(fact), text_key(fact.entry.text)
        if heading is not None and fact.holds_at(now) and not is_off_page(fact) and said not in theirs:
            found[heading].setdefault((said, fact.subject), fact)
    return {
        heading: list(chosen.values())[: _MOST_WISHES if heading == WISHES else _MOST]
        for heading, chosen in found.items()
        if chosen
    }


def basis_of(facts: Iterable[KnownEntry]) -> str:
    """Digests of what the facts of a line say: a line that a model wrote is kept while they say the same."""
    return " ".join(digest_of_text(fact.entry.text) for fact in facts)


def line_of(fact: KnownEntry, *others: KnownEntry, text: str = "", by: str = RULES) -> KnownEntry:
    """The line that shows a fact; with `others`, one line for all of them, by a text of its own.

    A person's own properties of the fact are lines here too: what they write below the one is kept in the other.
    """
    shown, subject = (fact, *others), _subject(fact)
    names = " ".join(each.entry_id for each in shown)
    extra = {**own_properties(fact), "category": heading_of(fact) or fact.category, "fact": names}
    lapses = [each.entry.extra[LAPSES] for each in shown if LAPSES in each.entry.extra]
    if lapses:
        extra[LAPSES] = min(lapses)
    if any(each.is_pinned for each in shown):
        extra[_PINNED] = "yes"
    if corrected := [each.entry.extra[CORRECTED] for each in shown if CORRECTED in each.entry.extra]:
        extra[CORRECTED] = max(corrected)
    if by != RULES:
        extra["basis"] = basis_of(shown)
    entry = Entry(
        entry_id=entry_id(PROFILE, fact.space, fact.owner, names, PROFILE, 0),
        title=text or naming(subject, fact.entry.title),
        text=text or naming(subject, fact.entry.text),
        when=max(each.entry.when for each in shown),
        by=f"{PROFILE}, {by}",
        extra=extra,
    )
    line = KnownEntry(fact.space, fact.owner, PROFILE, entry, strategy=PROFILE)
    return with_sources(line, *shown)


def own_properties(known: KnownEntry) -> dict[str, str]:
    """The `- key: value` lines that a person added."""
    return {key: value for key, value in known.entry.extra.items() if key not in HIDDEN}


def _subject(fact: KnownEntry) -> str:
    return fact.entry.extra.get("subject", "").strip()


def place_on_page(entry: Entry) -> int:
    """The position of a line on the page, by its category. Lines that a person added without one come last."""
    category = entry.extra.get("category", "")
    return HEADINGS.index(category) if category in HEADINGS else len(HEADINGS)


def place_in_file(kind: str, entry: Entry) -> tuple[int, bool, int, str]:
    """By time; lines of the profile by category, what is pinned first, then the newest."""
    if kind != PROFILE:
        return 0, False, entry.when, entry.entry_id
    return place_on_page(entry), entry.extra.get("pinned") != "yes", -entry.when, entry.entry_id


def written_over(
    before: KnownEntry, line: KnownEntry, fact: KnownEntry, others: Iterable[KnownEntry]
) -> KnownEntry:
    """The fact as a person's change of its line makes it: pinned or not, with their own properties, and in their words
    where they changed these.

    Then the `others` that the line showed give way to it.
    """
    gone = {_PINNED, *own_properties(before)}
    extra = {key: value for key, value in fact.entry.extra.items() if key not in gone} | own_properties(line)
    if line.is_pinned:
        extra[_PINNED] = "yes"
    entry = replace(fact.entry, extra=extra)
    if line.is_edited:
        marks = {key: line.entry.extra[key] for key in (_EDITED, CORRECTED) if key in line.entry.extra}
        if CORRECTED not in marks:
            marks[SAID] = write_time(fact.said)
        if fact.subject == USER and line.category in HEADINGS:
            marks["category"] = line.category
        told, named = line.entry, f"{_subject(fact)}: "
        title, text = told.title.removeprefix(named), told.text.removeprefix(named)
        entry = replace(entry, title=title, text=text, when=told.when, extra={**extra, **marks})
        entry = holding_again(entry)
        for other in others:
            entry = listing(entry, SUPERSEDES, add=other.entry_id)
    return replace(fact, entry=entry)
