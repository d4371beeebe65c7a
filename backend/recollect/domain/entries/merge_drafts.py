"""From drafts to entries: what of a cell is new, what is known already, and what no longer holds."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from recollect.domain.entries.entry import (
    FACTS,
    FORESIGHT,
    PROFILE,
    Deletion,
    KnownEntry,
    Source,
    entry_id,
    is_agents,
    is_repeated_by,
    is_same_statement,
    merged,
    statement_key,
    with_sources,
)
from recollect.domain.entries.links import (
    REPLACES,
    SUPERSEDED_BY,
    SUPERSEDES,
    UNTIL,
    origin_ids,
    replaced_ids,
    taken_out,
)
from recollect.domain.entries.profile import ON_PAGE
from recollect.domain.entries.succession import State, claim, release
from recollect.domain.extraction.draft import Draft, StoredCell
from recollect.domain.model import Entry

_CARRIED = ("pinned", ON_PAGE, REPLACES, SUPERSEDES, UNTIL, SUPERSEDED_BY)
"""The marks that an entry keeps when it is made again."""
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


@dataclass(frozen=True, slots=True)
class Proposal:
    """A draft as an entry, with the id that its place gives it, and the known entries that it names."""

    known: KnownEntry
    replaces: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


def proposals_of(drafts: Sequence[Draft], origin: Origin) -> list[Proposal]:
    return [
        Proposal(_entry_of(draft, place, origin), draft.replaces, draft.ends)
        for place, draft in enumerate(drafts)
    ]


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
    told = {
        **draft.properties,
        "user": origin.cell.thread.user_id if is_agents(origin.owner) else "",
        "cell": origin.cell.memcell_id,
    }
    return {name: " ".join(value.split()) for name, value in told.items() if value}


@dataclass(frozen=True, slots=True)
class Known:
    """What there is already, as far as it can matter to the new entries."""

    of_cell: Sequence[KnownEntry]
    """What this strategy wrote for this cell before."""
    alike: Mapping[str, Sequence[KnownEntry]] = field(default_factory=dict)
    """By the id of a new entry: those that may say the same."""
    linked: Sequence[KnownEntry] = ()
    """Those that the new entries name, those that the cell's are linked with, and what superseded any of them."""
    theirs: Sequence[KnownEntry] = ()
    """Those in a person's words that came from turns of the new ones, of this cell or of others."""
    deletions: Sequence[Deletion] = ()
    """Of entries that came from this cell."""
    deleted: Mapping[str, int] = field(default_factory=dict)
    """By `statement_key`, for statements that a person deleted: when each was said the last time."""

    def after(self, outcome: Outcome) -> "Known":
        """What there is once another strategy's outcome is stored, with the revisions that there are now."""

        def changed(entries: Sequence[KnownEntry]) -> list[KnownEntry]:
            return [outcome.put.get(each.entry_id, each) for each in entries if each.entry_id not in gone]

        gone = set(outcome.remove)
        return replace(
            self,
            of_cell=changed(self.of_cell),
            alike={name: changed(found) for name, found in self.alike.items()},
            linked=[*changed(self.linked), *outcome.put.values()],
        )


def remember(new: Sequence[Proposal], known: Known) -> Outcome:
    """What this cell says now takes the place of what was written for it before; what a person wrote stays.

    The same statement, made again, keeps its id and its marks.
    """
    return _Run(known).outcome(new)


class _Run:
    """One cell's entries on their way from `known` to what will be."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._before = {each.entry_id: each for each in known.of_cell}
        alike = [each for found in known.alike.values() for each in found]
        self._stored = {each.entry_id: each for each in (*alike, *known.linked, *known.of_cell)}
        self._state: State = dict(self._stored)
        self._outcome = Outcome()

    def outcome(self, new: Sequence[Proposal]) -> Outcome:
        wanted = self._wanted(new)
        heirs = self._heirs(wanted)
        self._take_out({heir.entry_id for heir in heirs if heir is not None})
        for proposal, heir in zip(wanted, heirs, strict=True):
            same = (
                None if heir is not None and is_same_statement(heir, proposal.known) else self._same(proposal)
            )
            if same is None:
                self._write(proposal, heir)
            else:
                self._merge(proposal, same)
        self._take_out(set(self._outcome.wrote))
        return self._told()

    def _wanted(self, new: Sequence[Proposal]) -> list[Proposal]:
        """Without those that a person deleted, or said in their own words."""
        wanted = []
        for proposal in new:
            there = [each for each in self._before.values() if is_same_statement(each, proposal.known)]
            if any(each.is_edited for each in there):
                continue
            if not there and (
                _is_shadowed(proposal.known, self._known) or _is_deleted(proposal.known, self._known)
            ):
                self._outcome.kept_from += 1
            else:
                wanted.append(proposal)
        return wanted

    def _heirs(self, wanted: Sequence[Proposal]) -> list[KnownEntry | None]:
        """What each is a new version of: the same statement, else what stands in its place about the same."""
        free = {name: each for name, each in self._before.items() if not each.is_edited}
        found: list[KnownEntry | None] = []
        for proposal in wanted:
            same = next((each for each in free.values() if is_same_statement(each, proposal.known)), None)
            found.append(same)
            if same is not None:
                del free[same.entry_id]
        for place, proposal in enumerate(wanted):
            there = free.get(proposal.known.entry_id)
            if found[place] is None and there is not None and _is_about_the_same(there, proposal.known):
                found[place] = free.pop(there.entry_id)
        return found

    def _same(self, proposal: Proposal) -> KnownEntry | None:
        alike = [each.entry_id for each in self._known.alike.get(proposal.known.entry_id, ())]
        names = [*(name for name in alike if name not in self._before), *self._outcome.wrote]
        others = (self._state[name] for name in names if name in self._state)
        return next((each for each in others if is_repeated_by(each, proposal.known)), None)

    def _merge(self, proposal: Proposal, same: KnownEntry) -> None:
        self._state[same.entry_id] = merged(same, proposal.known)
        self._outcome.merged.append(same.entry_id)
        self._claim(proposal, same.entry_id)

    def _write(self, proposal: Proposal, heir: KnownEntry | None) -> None:
        entry = self._in_its_place(proposal.known, heir)
        before = () if heir is None else replaced_ids(heir.entry)
        self._state[entry.entry_id] = entry
        self._outcome.wrote.append(entry.entry_id)
        claimed = self._claim(proposal, entry.entry_id)
        release(self._state, entry.entry_id, [name for name in before if name not in claimed])
        entry = self._state[entry.entry_id]
        extra = {key: value for key, value in entry.entry.extra.items() if key != REPLACES}
        if claimed:
            extra[REPLACES] = " ".join(claimed)
        self._state[entry.entry_id] = replace(entry, entry=replace(entry.entry, extra=extra))

    def _claim(self, proposal: Proposal, entry_id: str) -> tuple[str, ...]:
        replaces, ends = self._named(proposal.replaces), self._named(proposal.ends)
        return claim(self._state, entry_id, replaces, ends, proposal.known.said)

    def _named(self, names: Sequence[str]) -> list[str]:
        """Facts and plans; for a line of the profile, the facts that it shows."""
        found: list[str] = []
        for name in names:
            each = self._state.get(name)
            if each is not None and each.kind in (FACTS, FORESIGHT, PROFILE):
                is_derived = each.kind == PROFILE and not each.is_edited
                found += (is_derived and origin_ids(each.entry)) or [name]
        return found

    def _in_its_place(self, entry: KnownEntry, heir: KnownEntry | None) -> KnownEntry:
        """The entry with the id and the marks of its heir, else with an id that is free."""
        if heir is not None:
            heir = self._state.get(heir.entry_id, heir)
            marks = {key: heir.entry.extra[key] for key in _CARRIED if key in heir.entry.extra}
            told = replace(entry.entry, entry_id=heir.entry_id, extra={**entry.entry.extra, **marks})
            entry = replace(entry, entry=told, path=heir.path, revision=heir.revision)
            # Other cells may have said the same.
            return with_sources(entry, heir, entry) if is_same_statement(heir, entry) else entry
        taken = {*self._state, *self._outcome.wrote, *(each.entry_id for each in self._known.deletions)}
        ids = (
            entry_id(entry.kind, entry.space, entry.owner, entry.cell, entry.strategy, place)
            for place in count(_SPARE_PLACES)
        )
        free = (
            entry.entry_id if entry.entry_id not in taken else next(each for each in ids if each not in taken)
        )
        entry = replace(entry, entry=replace(entry.entry, entry_id=free))
        old = self._before.get(free)
        return entry if old is None else replace(entry, path=old.path, revision=old.revision)

    def _take_out(self, made_again: Collection[str]) -> None:
        """Those that are not made again go, unless a person wants them: what they had superseded holds again."""
        for name, each in self._before.items():
            stays = each.is_edited or each.is_pinned or _is_shadowed(each, self._known)
            if name in made_again or stays or name not in self._state:
                continue
            gone = self._state.pop(name)
            self._state.update({other.entry_id: other for other in taken_out(gone, self._state)})

    def _told(self) -> Outcome:
        outcome = self._outcome
        outcome.remove = [name for name in self._before if name not in self._state]
        outcome.put = {
            name: each
            for name, each in self._state.items()
            if name in outcome.wrote or each != self._stored.get(name)
        }
        outcome.superseded = [
            name
            for name in outcome.put
            if name in self._stored
            and self._stored[name].holds
            and not outcome.put[name].holds
            and name not in outcome.wrote
        ]
        return outcome


def _is_about_the_same(one: KnownEntry, other: KnownEntry) -> bool:
    return (one.kind, one.subject, one.category) == (other.kind, other.subject, other.category)


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
        for each in (*known.of_cell, *known.theirs)
        if each.is_edited and _is_about_the_same(each, entry)
    )


def _is_deleted(entry: KnownEntry, known: Known) -> bool:
    """Whether a person deleted the same statement, and it was not said again after that one was."""
    said = known.deleted.get(statement_key(entry))
    return said is not None and entry.said <= said


def _turns_of(entry: KnownEntry) -> set[str]:
    return {source.turn_id for source in entry.sources}
