"""Entries: a person reads, corrects, pins, deletes and restores memories."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TypeVar

from recollect.domain.access import Caller
from recollect.domain.entries import links as entry_links
from recollect.domain.entries.edit import EntryEdit, Version, edited, restored, theirs, versions
from recollect.domain.entries.entry import (
    AGENT_KINDS,
    BY_HAND,
    CASES,
    PROFILE,
    SKILLS,
    Actor,
    EntryChange,
    KnownEntry,
    entry_id,
)
from recollect.domain.entries.links import origin_ids
from recollect.domain.entries.profile import (
    NO,
    ON_PAGE,
    line_of,
    place_on_page,
    shows_facts,
    written_over,
)
from recollect.domain.entries.succession import overrule
from recollect.domain.extraction.prompts import day_begins, day_of
from recollect.domain.job import JobSpec
from recollect.domain.model import DEFAULT_USER, Entry
from recollect.domain.paths import agent_folder, owner_folder
from recollect.errors import Conflict
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.files import SqlTranscriptStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.coordination import Clock, OwnerLocks
from recollect.service.sources import EntryView, Quote, Reason


async def with_succession(entries: SqlEntryStore, change: EntryChange) -> EntryChange:
    """A person's change with all that follows from it.

    What they change in a line of the profile they change in the fact that it shows; a line that they delete takes its
    facts off the page. Entries that supersede each other name each other. What they say of an entry that was superseded
    wins over what holds instead of it.
    """
    put = {each.entry_id: each for each in change.put}
    marked = {each.entry_id: each for each in change.marked}
    names = [*put, *marked, *change.remove]
    before = {each.entry_id: each for each in await entries.some(change.space, change.owner, names)}
    for line in [each for each in before.values() if shows_facts(each)]:
        facts = await entries.some(line.space, line.owner, origin_ids(line.entry))
        before |= {fact.entry_id: fact for fact in facts if fact.entry_id not in before}
        facts = [put.get(fact.entry_id, fact) for fact in facts if fact.entry_id not in change.remove]
        if line.entry_id in change.remove and change.keep_deleted:
            for fact in facts:
                told = replace(fact.entry, extra={**fact.entry.extra, ON_PAGE: NO})
                (put if fact.entry_id in put else marked)[fact.entry_id] = replace(fact, entry=told)
        elif line.entry_id in put and facts and put.keys().isdisjoint(fact.entry_id for fact in facts):
            fact = written_over(line, put[line.entry_id], facts[0], facts[1:])
            put[fact.entry_id] = fact
            shown = line_of(fact)
            put[line.entry_id] = in_place_of(line, shown)
    for name in [*put, *marked]:
        if name in before:
            await _relink(entries, change, before[name], put, marked)
    return replace(change, put=tuple(put.values()), marked=tuple(marked.values()))


async def _relink(
    entries: SqlEntryStore,
    change: EntryChange,
    before: KnownEntry,
    put: dict[str, KnownEntry],
    marked: dict[str, KnownEntry],
) -> None:
    after = put.get(before.entry_id) or marked[before.entry_id]
    named = [*entry_links.named_ids(before.entry), *entry_links.named_ids(after.entry)]
    is_linked_alike = entry_links.partners(before.entry) == entry_links.partners(after.entry)
    if is_linked_alike and change.actor != "undo":
        return
    stored = {each.entry_id: each for each in await entries.linked(before.space, before.owner, named)}
    others = {
        name: put.get(name) or marked.get(name) or each
        for name, each in stored.items()
        if name not in change.remove and name != before.entry_id
    }
    after, *rest = entry_links.relinked(before, after, others)
    state = {**others, **{each.entry_id: each for each in (after, *rest)}}
    if after.said != before.said and after.holds and not before.holds:
        overrule(state, before, after)
    for name, each in state.items():
        if name in put:
            put[name] = each
        elif name in marked or each != stored.get(name):
            marked[name] = each


def in_place_of(line: KnownEntry, shown: KnownEntry) -> KnownEntry:
    """What a line shows now, as a new version of the line."""
    entry = replace(shown.entry, entry_id=line.entry_id)
    return replace(shown, entry=entry, path=line.path, revision=line.revision)


_TRIES = 5
_MOST_LINES = 1000
_LONGEST_TITLE = 200
T = TypeVar("T")
FollowUp = Callable[[EntryChange, frozenset[str]], Sequence[JobSpec]]
"""The work that a person's change brings about, by what changes and of which kinds."""


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Which entries somebody wants to see. `agent_id`: that agent's instead of the user's.

    Where only cases are wanted and no agent is named: those of every agent that the user may see.
    """

    user_id: str | None = None
    agent_id: str | None = None
    kinds: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class ShownEntry:
    """An entry, the words it came from, and the entries that it names, by how it names them."""

    known: KnownEntry
    quotes: tuple[Quote, ...]
    linked: tuple[tuple[str, KnownEntry], ...] = ()

    @property
    def message_ids(self) -> list[str]:
        """Of the messages that are still there."""
        return [quote.turn.message_id for quote in self.quotes if quote.turn is not None]


@dataclass(frozen=True, slots=True)
class Deletion:
    """The effects of deleting an entry, planned or done."""

    known: KnownEntry
    goes_along: tuple[KnownEntry, ...]
    """Entries that were made of it alone, and are deleted with it."""
    changes: tuple[KnownEntry, ...]
    """Entries that refer to it, as they are without it."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Every verb on entries, for those a caller may see (`EntryView`). Raises NotFound for all others.

    Extraction never changes a person's words; what is said after them may supersede them.
    """

    store: SqlEntryStore
    threads: SqlThreadStore
    transcripts: SqlTranscriptStore
    clock: Clock
    jobs_after: FollowUp = lambda change, kinds: ()
    """Returns the jobs that are queued with the change."""
    locks: OwnerLocks = field(default_factory=OwnerLocks)
    """One per owner, held while memories of that owner are written."""

    async def list_entries(
        self, caller: Caller, wanted: EntryFilter, limit: int, after: str | None = None
    ) -> list[ShownEntry]:
        """The newest first, by when they happened; `after` is the entry that the last page ended with."""
        view = self._view(caller, wanted.user_id)
        if after is not None:
            await view.get(after, field="after")
        owner = _owner(view, wanted)
        found: list[KnownEntry] = []
        while len(found) < limit:
            page = await self.store.list_entries(
                caller.space,
                owner,
                kinds=wanted.kinds,
                since=wanted.since,
                until=wanted.until,
                limit=limit,
                after=after,
            )
            found += [known for known in page if await view.may_see(known)]
            if len(page) < limit:
                break
            after = page[-1].entry_id
        quotes = await view.quotes(found[:limit])
        return [ShownEntry(known, quoted) for known, quoted in zip(found, quotes, strict=False)]

    async def months(self, caller: Caller, wanted: EntryFilter, time_zone: str) -> list[tuple[date, int]]:
        """The months in which something of it happened, by their first days there, and how much; the newest first."""
        owner = _owner(self._view(caller, wanted.user_id), wanted)
        found = await self.store.first_and_last(caller.space, owner, wanted.kinds)
        if found is None:
            return []
        first, last = (day_of(when, time_zone) for when in found)
        span = range(12 * last.year + last.month - 1, 12 * first.year + first.month - 2, -1)
        days = [date(number // 12, number % 12 + 1, 1) for number in span]
        begins = [day_begins(day, time_zone) for day in days]
        ends = [found[1] + 1, *begins[:-1]]
        stretches = list(zip(begins, ends, strict=True))
        counts = await self.store.counts(caller.space, owner, wanted.kinds, stretches)
        return [(day, count) for day, count in zip(days, counts, strict=True) if count]

    async def profile(self, caller: Caller, user_id: str) -> list[ShownEntry]:
        """The user's page: what holds, by category, what is pinned first, then the newest."""
        found = await self.list_entries(caller, EntryFilter(user_id, kinds=(PROFILE,)), _MOST_LINES)
        now = self.clock()
        holding = [shown for shown in found if shown.known.holds_at(now)]
        return sorted(
            holding, key=lambda shown: (place_on_page(shown.known.entry), not shown.known.is_pinned)
        )

    async def get_entry(self, caller: Caller, entry_id: str, user_id: str | None = None) -> ShownEntry:
        view = self._view(caller, user_id)
        known = await view.get(entry_id)
        (quotes,) = await view.quotes([known])
        return ShownEntry(known, quotes, await view.linked(known))

    async def add_entry(
        self, caller: Caller, user_id: str | None, kind: str, text: str, when: int | None = None
    ) -> ShownEntry:
        """What a person writes down themselves; their words, said now. `when` is when it happened."""
        acting = caller.acting_for(user_id) or DEFAULT_USER
        owner, now = owner_folder(caller.space, acting), self.clock()
        made = entry_id(kind, caller.space, owner, text, BY_HAND, now)
        first_line = text.strip().splitlines()[0]
        title = first_line if len(first_line) <= _LONGEST_TITLE else f"{first_line[: _LONGEST_TITLE - 1]}…"
        entry = Entry(made, title, text.strip(), now if when is None else when, extra=theirs(now))
        known = KnownEntry(caller.space, owner, kind, entry)
        await self._apply(known, "person", BY_HAND, (known,))
        return await self.get_entry(caller, made, acting)

    async def edit_entry(
        self, caller: Caller, entry_id: str, user_id: str | None, edit: EntryEdit
    ) -> ShownEntry:
        """Change an entry. Extraction never changes it back; what is said later may supersede it.

        Raises Conflict if `edit` names another revision.
        """

        async def attempt() -> None:
            view = self._view(caller, user_id)
            known = await view.get(entry_id)
            _require_revision(known, edit.revision)
            changed = edited(known, edit, self.clock())
            if changed != known:
                await self._apply(known, "person", edit.in_words, (changed,))

        await _retried(attempt)
        return await self.get_entry(caller, entry_id, user_id)

    async def what_goes(self, caller: Caller, entry_id: str, user_id: str | None = None) -> Deletion:
        """What `delete_entry` would do now. Changes nothing."""
        view = self._view(caller, user_id)
        known = await view.get(entry_id)
        others = await view.named(known, entry_links.partners(known.entry))
        alone, shared = _parted(known, await self._made_of(known))
        put = (*entry_links.taken_out(known, others), *shared)
        change = EntryChange(known.space, known.owner, "person", "", put, (entry_id,), keep_deleted=True)
        change = await with_succession(self.store, change)
        return Deletion(known, alone, (*change.put, *change.marked))

    async def delete_entry(self, caller: Caller, entry_id: str, user_id: str | None = None) -> Deletion:
        """Forget an entry for good: it is never derived again. What it superseded holds again.

        Entries derived only from it are deleted too. Entries with other sources lose this one, and a queued job derives
        them again.
        """

        async def attempt() -> Deletion:
            deletion = await self.what_goes(caller, entry_id, user_id)
            cause, put = "deleted by a person", deletion.changes
            await self._apply(deletion.known, "person", cause, put, (entry_id,), keep_deleted=True)
            return deletion

        return await _retried(attempt)

    async def history(
        self, caller: Caller, entry_id: str, user_id: str | None = None
    ) -> tuple[KnownEntry, list[Version]]:
        """Every version, oldest first, the one in force last."""
        known = await self._view(caller, user_id).get(entry_id)
        return known, versions(known, await self.store.history(caller.space, entry_id))

    async def undo(
        self, caller: Caller, entry_id: str, user_id: str | None = None, revision: int | None = None
    ) -> ShownEntry:
        """Take back the last change, or all since a revision. That is a change too, and can be undone.

        Of a line of the profile, the last change of the fact that it shows is taken back. A change that only followed
        another entry's deletion can't be taken back: then it is the one before it.
        Raises Conflict where there is nothing to undo, InvalidInput for a revision that it never had. A deletion
        can't be undone: it is forgotten.
        """

        async def attempt() -> None:
            view = self._view(caller, user_id)
            known = await view.get(entry_id)
            cause = "the last change undone" if revision is None else f"undone back to revision {revision}"
            line = known if shows_facts(known) and revision is None else None
            if line is not None:
                known = await view.get(origin_ids(line.entry)[0])
            history = await self.store.history(caller.space, known.entry_id)
            for past in restored(known, history, revision, self.clock()):
                put = (past,) if line is None else (past, in_place_of(line, line_of(past)))
                change = EntryChange(known.space, known.owner, "undo", "", put)
                changed = next(iter((await with_succession(self.store, change)).put))
                if revision is not None or changed.entry != known.entry:
                    await self._apply(known, "undo", cause, put)
                    return
            raise Conflict("what changed this entry was deleted since: there is nothing to undo")

        await _retried(attempt)
        return await self.get_entry(caller, entry_id, user_id)

    async def why(self, caller: Caller, entry_id: str, user_id: str | None = None) -> Reason:
        view = self._view(caller, user_id)
        return await view.why(await view.get(entry_id))

    def _view(self, caller: Caller, user_id: str | None) -> EntryView:
        return EntryView(self.store, self.threads, self.transcripts, caller, user_id)

    async def _apply(
        self,
        about: KnownEntry,
        actor: Actor,
        cause: str,
        put: tuple[KnownEntry, ...],
        remove: tuple[str, ...] = (),
        *,
        keep_deleted: bool = False,
    ) -> None:
        change = EntryChange(about.space, about.owner, actor, cause, put, remove, keep_deleted)
        async with self.locks.of(about.owner):
            change = await with_succession(self.store, change)
            kinds = frozenset([about.kind, *(each.kind for each in (*change.put, *change.marked))])
            await self.store.apply(replace(change, extra_jobs=tuple(self.jobs_after(change, kinds))))

    async def _made_of(self, known: KnownEntry) -> list[KnownEntry]:
        """What names the entry as its origin."""
        if known.kind in (PROFILE, SKILLS):
            return []
        kinds = (SKILLS,) if known.kind == CASES else (PROFILE,)
        candidates = await self.store.list_entries(known.space, known.owner, kinds=kinds)
        return [each for each in candidates if known.entry_id in entry_links.origin_ids(each.entry)]


def _parted(
    known: KnownEntry, derived: Sequence[KnownEntry]
) -> tuple[tuple[KnownEntry, ...], tuple[KnownEntry, ...]]:
    """Those made of the entry alone; and the others without it. What a person wrote since is theirs and stays."""
    alone = tuple(
        each
        for each in derived
        if entry_links.origin_ids(each.entry) == (known.entry_id,) and not each.is_edited
    )
    shared = tuple(
        replace(each, entry=entry_links.without_origin(each.entry, known.entry_id))
        for each in derived
        if each not in alone
    )
    return alone, shared


def _owner(view: EntryView, wanted: EntryFilter) -> str | None:
    if wanted.agent_id is not None:
        return agent_folder(view.space, wanted.agent_id)
    if view.acting is None or (wanted.kinds and set(wanted.kinds) <= set(AGENT_KINDS)):
        return None
    return owner_folder(view.space, view.acting)


def _require_revision(known: KnownEntry, revision: int | None) -> None:
    if revision is not None and revision != known.revision:
        raise Conflict(
            f"the entry was changed meanwhile: it is at revision {known.revision}, not {revision}; read it again",
            field="revision",
        )


async def _retried(attempt: Callable[[], Awaitable[T]]) -> T:
    """Once more from the start where the entry was changed in between: a person is not asked to try again."""
    for _ in range(_TRIES - 1):
        try:
            return await attempt()
        except Conflict as conflict:
            if conflict.field is not None:
                raise
    return await attempt()
