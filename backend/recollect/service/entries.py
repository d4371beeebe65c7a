"""Entries: a person reads, corrects, pins, deletes and restores memories."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from recollect.domain.access import Caller
from recollect.domain.entries import links as entry_links
from recollect.domain.entries.consolidate import is_functional, matter_key, matter_of, same_matter
from recollect.domain.entries.edit import EntryEdit, Version, edited, restored, versions
from recollect.domain.entries.entry import (
    AGENT_KINDS,
    CASES,
    FACTS,
    PROFILE,
    SKILLS,
    Actor,
    EntryChange,
    KnownEntry,
)
from recollect.domain.entries.links import origin_ids
from recollect.domain.entries.profile import (
    after_line,
    latest,
    lines_of,
    place_on_page,
    with_what_it_is_about,
)
from recollect.domain.entries.succession import settled
from recollect.domain.extraction.draft import OPPOSITES
from recollect.domain.job import JobSpec
from recollect.domain.paths import agent_folder, owner_folder
from recollect.errors import Conflict
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.files import SqlTranscriptStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.coordination import OwnerLocks
from recollect.service.sources import EntryView, Quote, Reason


async def with_succession(entries: SqlEntryStore, change: EntryChange) -> EntryChange:
    """The change with all that follows from it for the facts about the same matters."""
    put = {each.entry_id: await _with_what_it_is_about(entries, each) for each in change.put}
    before = await entries.some(change.space, change.owner, [*put, *change.remove])
    marked = {each.entry_id: each for each in change.marked}
    await _settle(entries, [*before, *put.values()], put, marked, change.remove)
    again = []
    for line in lines_of([*put.values(), *before]).values():
        facts = [
            fact
            for fact in latest(await _facts_of(entries, line), put, marked)
            if fact.entry_id not in change.remove
        ]
        is_gone = line.entry_id in change.remove
        after = None if is_gone else put.get(line.entry_id)
        for each in after_line(line, after, facts, off_page=is_gone and change.keep_deleted):
            (put if each.entry_id in put else marked)[each.entry_id] = each
            again.append(each)
    # What holds again without the line may have been replaced since.
    await _settle(entries, [each for each in again if not is_functional(each)], put, marked, change.remove)
    return replace(change, put=tuple(put.values()), marked=tuple(marked.values()))


async def _settle(
    entries: SqlEntryStore,
    changed: list[KnownEntry],
    put: dict[str, KnownEntry],
    marked: dict[str, KnownEntry],
    gone: Collection[str],
) -> None:
    """Puts and marks all that follows for what these are about."""
    for like in _one_of_each(changed):
        stored = await entries.of_matter(like.space, like.owner, matter_key(like))
        for each in settled(stored, {**put, **marked}, gone, like):
            (put if each.entry_id in put else marked)[each.entry_id] = each


async def _facts_of(entries: SqlEntryStore, line: KnownEntry) -> list[KnownEntry]:
    """The facts that a line was made of, and all about the same attribute, one of which may have replaced them."""
    found = await entries.some(line.space, line.owner, origin_ids(line.entry))
    subject, attribute = line.entry.extra.get("subject", ""), line.entry.extra.get("attribute", "")
    for each in OPPOSITES.get(attribute, (attribute,)) if attribute else ():
        found += await entries.of_subject(line.space, line.owner, FACTS, subject, each)
    return found


async def _with_what_it_is_about(entries: SqlEntryStore, each: KnownEntry) -> KnownEntry:
    if each.kind != PROFILE:
        return each
    facts = await entries.some(each.space, each.owner, origin_ids(each.entry))
    return with_what_it_is_about(each, facts)


def _one_of_each(entries: list[KnownEntry]) -> list[KnownEntry]:
    """One fact about each matter."""
    chosen: list[KnownEntry] = []
    for each in entries:
        if matter_of(each) is not None and not same_matter(chosen, each):
            chosen.append(each)
    return chosen


_TRIES = 5
_MOST_LINES = 1000
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

    Extraction never changes what a person changed.
    """

    store: SqlEntryStore
    threads: SqlThreadStore
    transcripts: SqlTranscriptStore
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

    async def profile(self, caller: Caller, user_id: str) -> list[ShownEntry]:
        """The user's page: what holds, in the order of its lines, the newest first within a line."""
        found = await self.list_entries(caller, EntryFilter(user_id, kinds=(PROFILE,)), _MOST_LINES)
        holding = [shown for shown in found if shown.known.holds]
        return sorted(holding, key=lambda shown: place_on_page(shown.known.entry))

    async def get_entry(self, caller: Caller, entry_id: str, user_id: str | None = None) -> ShownEntry:
        view = self._view(caller, user_id)
        known = await view.get(entry_id)
        (quotes,) = await view.quotes([known])
        return ShownEntry(known, quotes, await view.linked(known))

    async def edit_entry(
        self, caller: Caller, entry_id: str, user_id: str | None, edit: EntryEdit
    ) -> ShownEntry:
        """Change an entry. Extraction never changes it back. Raises Conflict if `edit` names another revision."""

        async def attempt() -> None:
            view = self._view(caller, user_id)
            known = await view.get(entry_id)
            _require_revision(known, edit.revision)
            changed = edited(known, edit)
            if changed != known:
                linked: list[KnownEntry] = []
                if changed.holds and not known.holds:
                    others = await view.named(known, entry_links.named_ids(known.entry))
                    changed, *linked = entry_links.relinked(known, changed, others)
                await self._apply(known, "person", edit.in_words, (changed,), marked=tuple(linked))

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

        What was made of it alone goes along; what was made of others too loses it, and is made again by what follows.
        """
        went_along: dict[str, KnownEntry] = {}

        async def attempt() -> Deletion:
            deletion = await self.what_goes(caller, entry_id, user_id)
            known, alone, put = deletion.known, deletion.goes_along, deletion.changes
            went_along.update({each.entry_id: each for each in alone})
            if alone:
                # First, and not kept as a deletion: the same line may come of other entries one day.
                ids = tuple(each.entry_id for each in alone)
                await self._apply(known, "person", "what it was made of was deleted", (), ids)
            await self._apply(known, "person", "deleted by a person", put, (entry_id,), keep_deleted=True)
            return Deletion(known, tuple(went_along.values()), put)

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

        A change that only followed another entry's deletion can't be taken back: then it is the one before it.
        Raises Conflict where there is nothing to undo, InvalidInput for a revision that it never had. A deletion
        can't be undone: it is forgotten.
        """

        async def attempt() -> None:
            view = self._view(caller, user_id)
            known = await view.get(entry_id)
            cause = "the last change undone" if revision is None else f"undone back to revision {revision}"
            for past in restored(known, await self.store.history(caller.space, entry_id), revision):
                named = (*entry_links.partners(known.entry, past.entry), *entry_links.origin_ids(past.entry))
                others = await view.named(known, named)
                changed = entry_links.relinked(known, past, others)
                if revision is not None or await self._changes_anything((known, *others.values()), changed):
                    await self._apply(known, "undo", cause, changed)
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
        marked: tuple[KnownEntry, ...] = (),
    ) -> None:
        change = EntryChange(about.space, about.owner, actor, cause, put, remove, keep_deleted, marked=marked)
        async with self.locks.of(about.owner):
            change = await with_succession(self.store, change)
            kinds = frozenset([about.kind, *(each.kind for each in (*change.put, *change.marked))])
            await self.store.apply(replace(change, extra_jobs=tuple(self.jobs_after(change, kinds))))

    async def _changes_anything(self, before: Sequence[KnownEntry], put: tuple[KnownEntry, ...]) -> bool:
        """Whether anything is left of the change once one fact holds of each attribute again."""
        about = before[0]
        change = await with_succession(self.store, EntryChange(about.space, about.owner, "undo", "", put))
        return any(each not in before for each in change.put)

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
