"""From drafts to entries: what of a cell is new, what is known already, and what no longer holds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from recollect.domain.entries import consolidate, succession
from recollect.domain.entries.consolidate import Matter, matter_of, same_matter
from recollect.domain.entries.entry import Deletion, KnownEntry, Source, entry_id, is_agents
from recollect.domain.entries.profile import USER, is_replaced, is_spoken_for, with_marks_of
from recollect.domain.extraction.draft import Draft, StoredCell
from recollect.domain.markdown.front_matter import write_time
from recollect.domain.model import Entry

_SPARE_PLACES = 1_000
"""The first place for spare ids: beyond the number of statements in any cell."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where entries come from."""

    space: str
    owner: str
    strategy: str
    by: str
    cell: StoredCell
    user_name: str = ""


@dataclass(slots=True)
class Outcome:
    """What is to be changed, and what the receipt says of it."""

    put: dict[str, KnownEntry] = field(default_factory=dict)
    remove: list[str] = field(default_factory=list)
    wrote: list[str] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    superseded: list[str] = field(default_factory=list)
    kept_from: int = 0
    """Drafts that a person's deletion or words keep out."""

    def as_json(self) -> dict[str, Any]:
        told = {
            "wrote": self.wrote,
            "merged": self.merged,
            "superseded": self.superseded,
            "removed": self.remove,
            "kept_out": self.kept_from,
        }
        return {name: value for name, value in told.items() if value}


def entries_of(drafts: Sequence[Draft], origin: Origin) -> list[KnownEntry]:
    """The drafts as entries, each with the id that its place gives it.

    Of what is said at one time about one matter, what was said last is the newer, by a millisecond.
    """
    said = Counter[tuple[Matter | None, int]]()
    entries = []
    for place, draft in enumerate(drafts):
        entry = _entry_of(draft, place, origin)
        moment = matter_of(entry), draft.when
        if moment[0] is not None and said[moment]:
            entry = replace(entry, entry=replace(entry.entry, when=draft.when + said[moment]))
        said[moment] += 1
        entries.append(entry)
    return entries


def _entry_of(draft: Draft, place: int, origin: Origin) -> KnownEntry:
    cell = origin.cell
    turn_ids = [turn_id for turn_id in dict.fromkeys(draft.turn_ids) if turn_id in cell.parts]
    entry = Entry(
        entry_id=entry_id(draft.kind, origin.space, origin.owner, cell.memcell_id, origin.strategy, place),
        title=draft.title,
        text=draft.text,
        when=draft.when,
        sources=tuple(cell.link(turn_id, from_space=is_agents(origin.owner)) for turn_id in turn_ids),
        by=f"{origin.strategy}, {origin.by}",
        extra=_extra(draft, origin),
    )
    sources = tuple(Source(cell.thread.user_id, cell.thread.thread_id, turn_id) for turn_id in turn_ids)
    return KnownEntry(
        origin.space, origin.owner, draft.kind, entry, sources, cell.memcell_id, origin.strategy
    )


def _extra(draft: Draft, origin: Origin) -> dict[str, str]:
    names = {origin.user_name.casefold(), origin.cell.thread.user_id.casefold(), USER, "the user"}
    subject = USER if draft.subject.casefold() in names else draft.subject
    told = {
        "subject": subject,
        "attribute": draft.attribute,
        "value": draft.value,
        "about": write_time(draft.about[0]) if draft.about else "",
        "lapses": write_time(draft.about[1]) if draft.about else "",
        "tools": ", ".join(draft.tools),
        "outcome": draft.outcome,
        "user": origin.cell.thread.user_id if is_agents(origin.owner) else "",
        "cell": origin.cell.memcell_id,
    }
    return {name: " ".join(value.split()) for name, value in told.items() if value}


@dataclass(frozen=True, slots=True)
class Known:
    """What there is already, as far as it can matter to the new entries."""

    of_cell: Sequence[KnownEntry]
    """What this strategy wrote for this cell before."""
    alike: Mapping[str, Sequence[KnownEntry]]
    """By the id of a new entry: those that may say the same, or something else about the same attribute."""
    deletions: Sequence[Deletion] = ()


def remember(new: Sequence[KnownEntry], known: Known) -> Outcome:
    """What this cell says now takes the place of what was written for it before; what a person wrote stays."""
    outcome = Outcome()
    before = {each.entry_id: each for each in known.of_cell}
    spoken_for = [each for each in known.of_cell if is_spoken_for(each)]
    for draft in new:
        kept = _same(draft, spoken_for)
        entry = draft if kept is None else with_marks_of(draft, kept)
        if _is_shadowed(entry, known):
            stands = [key for key, each in before.items() if consolidate.is_same_statement(entry, each)]
            if entry.entry_id not in stands or before[entry.entry_id].is_edited:
                outcome.kept_from += not stands
                continue
        alike = known.alike.get(draft.entry_id, ())
        others = [outcome.put.get(each.entry_id, each) for each in alike if each.entry_id not in before]
        others += [each for key, each in outcome.put.items() if key in outcome.wrote]
        words = [each for each in known.of_cell if each.is_edited]
        same = _same(entry, others)
        if same is not None:
            _merge(outcome, same, entry)
            continue
        stored = _in_its_place(entry, known, outcome, kept)
        outcome.put[stored.entry_id] = stored
        outcome.wrote.append(stored.entry_id)
        if matter_of(stored) is not None:
            _succeed(outcome, stored, [*others, *words])
    outcome.remove = [
        key
        for key, old in before.items()
        if key not in outcome.put
        and not (old.is_edited or old.is_pinned or is_replaced(old) or _is_shadowed(old, known))
    ]
    return outcome


def _is_shadowed(entry: KnownEntry, known: Known) -> bool:
    """Whether a person deleted an entry of its kind from the same turns, or wrote there what holds instead.

    What a deleted entry said is not kept. So no new entry is made from those turns, and none that is left there is
    removed.
    """
    turns = _turns_of(entry)
    deleted = any(
        deletion.kind == entry.kind and turns <= set(deletion.turn_ids) for deletion in known.deletions
    )
    return deleted or any(
        turns <= _turns_of(each)
        for each in consolidate.same_attribute(known.of_cell, entry)
        if each.is_edited and each.kind == entry.kind
    )


def _turns_of(entry: KnownEntry) -> set[str]:
    return {source.turn_id for source in entry.sources}


def _in_its_place(entry: KnownEntry, known: Known, outcome: Outcome, kept: KnownEntry | None) -> KnownEntry:
    """The entry as a new version of the one with its id. Ids of a person's entries and of deletions are not reused.

    Nor is the id of a fact whose line a person replaced or deleted, unless that fact is `kept`.
    """
    before = {each.entry_id: each for each in known.of_cell}
    taken = {key for key, each in before.items() if each.is_edited or (is_spoken_for(each) and each != kept)}
    taken |= {deletion.entry_id for deletion in known.deletions}
    if entry.entry_id in taken:
        ids = (
            entry_id(entry.kind, entry.space, entry.owner, entry.cell, entry.strategy, place)
            for place in count(_SPARE_PLACES)
        )
        free = next(each for each in ids if each not in taken and each not in outcome.put)
        entry = replace(entry, entry=replace(entry.entry, entry_id=free))
    old = before.get(entry.entry_id)
    if old is None:
        return entry
    entry = replace(entry, path=old.path, revision=old.revision)
    if old.is_pinned:
        entry = replace(entry, entry=replace(entry.entry, extra={**entry.entry.extra, "pinned": "yes"}))
    return entry


def _same(entry: KnownEntry, others: Sequence[KnownEntry]) -> KnownEntry | None:
    """The one that says the same. What is repeated after something else held in between is a new entry."""
    is_separate = matter_of(entry) is None
    for other in others:
        if consolidate.is_same_statement(entry, other) and (
            is_separate or succession.held_throughout(other, entry, others)
        ):
            return other
    return None


def _merge(outcome: Outcome, same: KnownEntry, entry: KnownEntry) -> None:
    merged = consolidate.merged(same, entry)
    outcome.merged.append(same.entry_id)
    if merged != same:
        outcome.put[same.entry_id] = merged


def _succeed(outcome: Outcome, entry: KnownEntry, others: Sequence[KnownEntry]) -> None:
    rivals = same_matter(others, entry)
    for marked in succession.in_succession([*rivals, entry]):
        old = next((each for each in (*rivals, entry) if each.entry_id == marked.entry_id), None)
        if marked != old:
            outcome.put[marked.entry_id] = marked
            if marked.entry_id != entry.entry_id and not marked.holds:
                outcome.superseded.append(marked.entry_id)
