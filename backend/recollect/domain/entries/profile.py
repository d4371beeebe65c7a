"""The profile: one page per user, made of the facts that hold about them, every line with its sources."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from recollect.domain.entries.consolidate import is_functional, matter_of, names_its_value, same_matter
from recollect.domain.entries.entry import FACTS, PROFILE, Deletion, KnownEntry, entry_id, text_key
from recollect.domain.entries.links import (
    SUPERSEDED_BY,
    UNTIL,
    holding_again,
    origin_ids,
    successor_ids,
    superseded,
)
from recollect.domain.entries.succession import written
from recollect.domain.extraction.draft import FUNCTIONAL
from recollect.domain.model import Entry

ON_PAGE, NO = "profile", "no"
"""The mark of a fact whose line a person took off the page."""


def is_off_page(fact: KnownEntry) -> bool:
    return fact.entry.extra.get(ON_PAGE) == NO


def is_replaced(fact: KnownEntry) -> bool:
    """Whether a person's line replaced it, and its attribute can have several values."""
    return fact.kind == FACTS and matter_of(fact) is None and not fact.is_edited and not fact.holds


def is_spoken_for(fact: KnownEntry) -> bool:
    """Whether a person replaced or deleted its line. The same statement, made again, keeps its id and marks."""
    return is_replaced(fact) or (is_off_page(fact) and not fact.is_edited)


def with_marks_of(entry: KnownEntry, spoken_for: KnownEntry) -> KnownEntry:
    """The same statement made again, with the id and the marks of the one whose line a person replaced or deleted."""
    keys = [ON_PAGE, *([UNTIL, SUPERSEDED_BY] if is_replaced(spoken_for) else [])]
    marks = {key: spoken_for.entry.extra[key] for key in keys if key in spoken_for.entry.extra}
    extra = {**entry.entry.extra, **marks}
    return replace(entry, entry=replace(entry.entry, entry_id=spoken_for.entry_id, extra=extra))


def lines_of(entries: Iterable[KnownEntry]) -> dict[str, KnownEntry]:
    return {each.entry_id: each for each in entries if each.kind == PROFILE}


def after_line(
    before: KnownEntry, after: KnownEntry | None, facts: Sequence[KnownEntry], *, off_page: bool = False
) -> list[KnownEntry]:
    """The facts that change with a line. A line that a person wrote supersedes them; without it they hold again.

    Facts whose attribute has one value at a time follow `succession`. `off_page`: a person deleted the line, so these
    facts get no line again; a fact that was said later than the line may. What a person wrote is never marked.
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
        if off_page and entry.when <= before.entry.when:
            entry = replace(entry, extra={**entry.extra, ON_PAGE: NO})
        if entry != fact.entry and not fact.is_edited:
            changed.append(replace(fact, entry=entry))
    return changed


def latest(facts: Iterable[KnownEntry], *changes: Mapping[str, KnownEntry]) -> list[KnownEntry]:
    """Each fact once, as the changes leave it."""
    found = {fact.entry_id: fact for fact in facts}
    for change in changes:
        found |= {name: change[name] for name in found.keys() & change.keys()}
    return list(found.values())


USER = "user"
"""The subject of facts about the owner, whatever they are called."""


@dataclass(frozen=True, slots=True)
class _Line:
    title: str
    attributes: tuple[str, ...]
    most: int = 12
    """Newest first; so many fit on a page."""


_PAGE = (
    _Line("Name", ("name",), 2),
    _Line("Age and birthday", ("age", "birthday"), 4),
    _Line("Home", ("lives_in", "comes_from", "time_zone"), 6),
    _Line("Work and studies", ("works_as", "works_at", "studies"), 6),
    _Line("Family and partner", ("partner", "relationship", "has_child", "has_sibling", "has_parent")),
    _Line("Pets", ("has_pet",)),
    _Line("Food and health", ("diet", "avoids", "allergic_to")),
    _Line("Languages", ("native_language", "speaks")),
    _Line("Likes and dislikes", ("likes", "prefers", "dislikes"), 20),
    _Line("Skills and hobbies", ("plays", "can")),
    _Line("Things", ("owns",)),
    _Line("How to answer", ("instruction",), 20),
    _Line("Contact", ("email", "phone"), 6),
)
PROFILE_ATTRIBUTES = tuple(attribute for line in _PAGE for attribute in line.attributes)


def profile_of(space: str, owner: str, facts: Sequence[KnownEntry]) -> list[KnownEntry]:
    """The page's lines, one for each fact on it. The same facts give the same page, in whatever order they come.

    The facts may include lines that a person wrote: these are on the page already, and replace others.
    """
    return [_line_of(space, owner, line.title, fact) for line in _PAGE for fact in _chosen(line, facts)]


def in_free_places(
    lines: Sequence[KnownEntry],
    facts: Sequence[KnownEntry],
    theirs: Sequence[KnownEntry],
    deletions: Sequence[Deletion],
) -> list[KnownEntry]:
    """The lines, without those that a person rewrote or deleted.

    An id may belong to another fact by now. A line about another attribute, or from other messages, than the one that
    the person rewrote or deleted gets a free id.
    """
    attributes = {fact.entry_id: fact.entry.extra.get("attribute") for fact in facts}
    written_there = {line.entry_id: line.entry.extra.get("attribute") for line in theirs}
    deleted_there = {deletion.entry_id: set(deletion.turn_ids) for deletion in deletions}
    taken = written_there.keys() | deleted_there.keys()
    placed = []
    for line in lines:
        fact_id = line.entry.extra["fact"]
        wrote, turns = written_there.get(line.entry_id), deleted_there.get(line.entry_id)
        if line.entry_id in written_there and wrote in (None, attributes[fact_id]):
            continue
        if turns is not None and not turns.isdisjoint(source.turn_id for source in line.sources):
            continue
        ids = (entry_id(PROFILE, line.space, line.owner, fact_id, PROFILE, place) for place in count())
        free = next(each for each in ids if each not in taken)
        placed.append(replace(line, entry=replace(line.entry, entry_id=free)))
    return placed


def place_on_page(entry: Entry) -> int:
    """The position of a line on the page, by its title. Lines that a person added come last."""
    titles = [line.title for line in _PAGE]
    return titles.index(entry.title) if entry.title in titles else len(titles)


def with_what_it_is_about(line: KnownEntry, facts: Sequence[KnownEntry]) -> KnownEntry:
    """A person's line, marked with the attribute of the fact it was made of.

    So it counts as a fact of theirs about that attribute, even if the fact that it was made of is gone.
    """
    if line.kind != PROFILE or not line.is_edited or "attribute" in line.entry.extra:
        return line
    shown = next((fact for fact in facts if fact.kind == FACTS and "attribute" in fact.entry.extra), None)
    if shown is None:
        return line
    about = {key: value for key, value in shown.entry.extra.items() if key in ("subject", "attribute")}
    thing = shown.entry.extra.get("value", "")
    if about["attribute"] not in FUNCTIONAL and names_its_value(line.entry.text, thing):
        about["value"] = thing
    return replace(line, entry=replace(line.entry, extra={**line.entry.extra, **about}))


def _chosen(line: _Line, facts: Sequence[KnownEntry]) -> list[KnownEntry]:
    """The facts that get a line. Not those whose line a person deleted, or whose text a line of theirs repeats."""
    theirs = [each for each in facts if each.kind == PROFILE]
    about = [
        fact
        for attribute in line.attributes
        for fact in _holding(
            [each for each in facts if each.entry.extra.get("attribute") == attribute], attribute
        )
        if fact.kind == FACTS
        and not is_off_page(fact)
        and not _is_taken_back(fact, facts)
        and not any(text_key(each.entry.text) == text_key(fact.entry.text) for each in theirs)
    ]
    about.sort(key=lambda fact: (not fact.is_pinned, -fact.entry.when, fact.entry_id))
    return about[: line.most]


def _holding(facts: Sequence[KnownEntry], attribute: str) -> list[KnownEntry]:
    """Those that hold; where there can be one, and a person wrote any, the newest of theirs."""
    if attribute in FUNCTIONAL and (words := written(facts)):
        return words[-1:]
    return [fact for fact in facts if fact.holds]


def _is_taken_back(fact: KnownEntry, facts: Sequence[KnownEntry]) -> bool:
    """Whether a person wrote it, and wrote something else about the same matter for a later time."""
    words = written(same_matter(facts, fact)) if fact.is_edited else []
    return bool(words) and words[-1] != fact


def _line_of(space: str, owner: str, title: str, fact: KnownEntry) -> KnownEntry:
    entry = Entry(
        entry_id=entry_id(PROFILE, space, owner, fact.entry_id, PROFILE, 0),
        title=title,
        text=fact.entry.text,
        when=fact.entry.when,
        sources=fact.entry.sources,
        by="profile, rules",
        extra={"fact": fact.entry_id},
    )
    return KnownEntry(space, owner, PROFILE, entry, fact.sources, strategy=PROFILE)
