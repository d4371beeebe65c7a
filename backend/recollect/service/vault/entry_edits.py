"""Imports what people write in files of entries. No extraction changes their words; what they remove is deleted."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace

from recollect.domain.entries.entry import EntryChange, KnownEntry, owner_words
from recollect.domain.entries.links import left_behind, partners
from recollect.domain.job import Unfinished
from recollect.domain.markdown.entry_document import (
    EntryDocument,
    WrittenEntry,
    read_document,
)
from recollect.domain.markdown.entry_file import section_digest
from recollect.domain.markdown.revision import HandWritten, as_theirs, compare_entries, is_loss
from recollect.domain.paths import ENTRY_FILE_BYTES, entry_kind_of, entry_owner, is_entry_path
from recollect.domain.vault_file import KnownFile, VaultFile
from recollect.errors import Conflict, NotFound, TooMuchQueued
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.vault import Vault
from recollect.service.coordination import Clock, OwnerLocks
from recollect.service.entries import FollowUp, with_succession
from recollect.service.sources import SourceFinder, strategy_of
from recollect.service.vault.reader import EditReports, without_copies

SETTLE_MS = 2000
"""How long a file is left alone after a person's save, and how long an entry that they cut may be missing."""
_BY_HAND = "written by hand"
_FORGOTTEN = "came from a forgotten message"


@dataclass(frozen=True, slots=True)
class EntryTaker:
    """Imports a person's version of a file into the journal. Their file stays as they saved it.

    An entry that they took out is looked for in the owner's other files before it counts as removed. Many entries that
    vanish at once are never taken for a deletion.
    """

    store: SqlEntryFileStore
    entries: SqlEntryStore
    vault: Vault
    reports: EditReports
    clock: Clock
    jobs_after: FollowUp = lambda change, kinds: ()
    """Returns the jobs that are queued with a person's change."""
    locks: OwnerLocks = field(default_factory=OwnerLocks)
    """One per owner, held while memories of that owner are written."""
    losses: dict[str, str] = field(default_factory=dict)
    """By path: how much of a file vanished at once, in words."""

    async def apply_edits(
        self, path: str, file: KnownFile | None, found: VaultFile, *, confirmed: bool
    ) -> bool:
        """Import a person's edits.

        Returns False, importing nothing, if the file can't be read, is another owner's, or goes with a forgotten user.

        Unless `confirmed`, entries that vanished are looked for again a little later.
        """
        if await self.store.is_leaving(path):
            return False
        try:
            space, document = await read_entries(self.store, path, found)
        except ValueError as error:
            why = f"not applied, and what was known before stays: {error}"
            self.reports.not_read_once(path, found.digest, why)
            return False
        here = await self.store.entries_in(path)
        seen = compare_entries(document, here, self._written_at(found))
        if is_loss(len(seen.vanished), len(here)):
            lost = self.losses[path] = f"{len(seen.vanished)} of {len(here)} entries"
            self.reports.not_read_once(path, found.digest, f"{lost} vanished at once; nothing was deleted")
            return True
        self.losses.pop(path, None)
        if seen.vanished and not confirmed:
            await self.store.queue(path, delay_ms=SETTLE_MS, vanished=found.digest)
            return True
        await self._apply(path, space, file, found, document, seen)
        return True

    async def let_go(self, path: str) -> None:
        """The file is gone: delete its entries, except those that are in another file."""
        known = [each.known for each in await self.store.entries_in(path)]
        if known:
            moved, gone = await self._whereabouts(path, known)
            if (other := await self._in_anothers_folder(path, gone)) is not None:
                await self.store.write_again(path)
                self.reports.tell(path, f"is restored: {other} is in another's folder")
                return
            left = await self._left_behind([each for each in known if each.entry_id in gone])
            change = EntryChange(
                known[0].space,
                known[0].owner,
                "person",
                "its file was removed by hand",
                (*moved, *left),
                gone,
                keep_deleted=True,
            )
            async with self.locks.of(known[0].owner):
                change = self._with_jobs(await with_succession(self.entries, change), known)
                await _unless_changed(self.entries.apply(change))
            self.reports.tell(path, f"was removed by hand: {len(gone)} entries are gone, {len(moved)} moved")
        await self.store.removed(path)

    async def _apply(
        self,
        path: str,
        space: str,
        file: KnownFile | None,
        found: VaultFile,
        document: EntryDocument,
        seen: HandWritten,
    ) -> None:
        owner, finder = entry_owner(path), SourceFinder(self.store)
        arrived, refused = await self._arrivals(path, space, found, seen.arrived, finder)
        changed: list[KnownEntry] = []
        for known in seen.changed:
            if await finder.came_from_forgotten(space, owner, known.entry):
                refused.append(f"{known.entry_id} {_FORGOTTEN}")
            else:
                sources = await finder.sources(space, owner, known.entry, known)
                changed.append(replace(known, sources=sources))
        moved, gone = await self._whereabouts(path, seen.vanished)
        put = {known.entry_id: known for known in (*changed, *arrived, *moved)}
        left = await self._left_behind([each for each in seen.vanished if each.entry_id in gone])
        # An entry that the person wrote in the same save keeps their version.
        put |= {known.entry_id: known for known in left if known.entry_id not in put}
        change = EntryChange(space, owner, "person", _BY_HAND, tuple(put.values()), gone, keep_deleted=True)
        written = {name: each.entry for name, each in document.written.items() if each.has_id}
        as_written = all(written.get(known.entry_id) == known.entry for known in arrived)
        is_settled = as_written and not seen.needs_marks and (file is None or file.is_written)
        filed = seen.filed | {
            known.entry_id: section_digest(document.written[known.entry_id].entry) for known in arrived
        }
        revision = 0 if file is None else file.revision
        async with self.locks.of(owner):
            settled = self._with_jobs(await with_succession(self.entries, change), seen.vanished)
            is_settled &= settled.put == change.put
            is_settled &= not any(known.path == path for known in settled.marked)
            await _unless_changed(
                self.store.record_edits(
                    path,
                    found.digest,
                    settled,
                    filed,
                    settled_at=revision if is_settled else None,
                    delay_ms=SETTLE_MS,
                )
            )
        self._report(path, change, len(changed), len(arrived), document, refused)

    async def _arrivals(
        self, path: str, space: str, found: VaultFile, written: Sequence[WrittenEntry], finder: SourceFinder
    ) -> tuple[list[KnownEntry], list[str]]:
        """What is new in a file, and why the rest of it is not applied."""
        leaving, at = await self.store.leaving(path), self._written_at(found)
        arrived: list[KnownEntry] = []
        refused: list[str] = []
        owner, kind = entry_owner(path), entry_kind_of(path)
        assert kind is not None
        deleted = (
            await self._deleted(space, owner) if await self.store.is_version(*found.digests) else frozenset()
        )
        for each in written:
            entry, known = each.entry, await self.entries.get(space, each.entry.entry_id)
            is_new = known is None and entry.entry_id not in leaving
            if is_new and entry.entry_id in deleted:
                refused.append(f"{entry.entry_id} was deleted, and this is a copy of a file that held it")
            elif is_new and await finder.came_from_forgotten(space, owner, entry):
                refused.append(f"{entry.entry_id} {_FORGOTTEN}")
            elif is_new:
                arrived.append(await entry_in_file(finder, space, path, each, by_hand_at=at))
            elif known is not None and known.owner != owner:
                refused.append(f"{entry.entry_id} is another owner's")
            elif known is not None and not (entry.entry_id in leaving and await self._is_waiting(known)):
                if await self._holds(known.path, entry.entry_id):
                    refused.append(f"{entry.entry_id} is in {known.path} too, and that one counts")
                    continue
                entry = as_theirs(entry, known.entry, at)
                sources = await finder.sources(space, owner, entry, known)
                arrived.append(replace(known, kind=kind, entry=entry, sources=sources, path=path))
        return arrived, refused

    def _written_at(self, found: VaultFile) -> int:
        """When a person saved the file. No file was saved in the future, whatever its time says."""
        return min(found.modified, self.clock())

    async def _deleted(self, space: str, owner: str) -> frozenset[str]:
        return frozenset(each.entry_id for each in await self.entries.deletions(space, owner))

    async def _is_waiting(self, known: KnownEntry) -> bool:
        """Whether the entry is not written to its current file yet."""
        here = await self.store.entries_in(known.path)
        return any(each.known.entry_id == known.entry_id and not each.digests for each in here)

    async def _holds(self, path: str, entry_id: str) -> bool:
        text = await self.vault.read(path)
        return text is not None and entry_id in read_document(path, text).written

    def _with_jobs(self, change: EntryChange, vanished: Sequence[KnownEntry]) -> EntryChange:
        gone = [known for known in vanished if known.entry_id in change.remove]
        kinds = frozenset(known.kind for known in (*change.put, *change.marked, *gone))
        return replace(change, extra_jobs=tuple(self.jobs_after(change, kinds)))

    async def _left_behind(self, gone: Sequence[KnownEntry]) -> tuple[KnownEntry, ...]:
        """The entries that the removed ones superseded, or were superseded by, as they are without them."""
        others: dict[str, KnownEntry] = {}
        for name in partners(*(known.entry for known in gone)):
            other = await self.entries.get(gone[0].space, name)
            if other is not None and other.owner == gone[0].owner:
                others[name] = other
        return left_behind(gone, others)

    async def _whereabouts(
        self, path: str, vanished: Sequence[KnownEntry]
    ) -> tuple[tuple[KnownEntry, ...], tuple[str, ...]]:
        """Those that a person moved to another file of the owner, and the ids of those that are nowhere."""
        missing = {known.entry_id: known for known in vanished}
        moved: list[KnownEntry] = []
        owner = entry_owner(path)
        others, _ = await without_copies(self.store, await self.vault.stamps(owner) if missing else ())
        for other in filter(is_entry_path, sorted(others)):
            if other == path or not missing:
                continue
            found = await self.vault.look(other, ENTRY_FILE_BYTES)
            if found is None or not any(entry_id in found.text for entry_id in missing):
                continue
            document = await asyncio.to_thread(read_document, other, found.text)
            kind = entry_kind_of(other)
            if kind is None or document.owner not in (None, owner_words(owner)):
                continue
            for name in document.intact.keys() & missing.keys():
                known = missing.pop(name)
                entry = as_theirs(document.intact[name], known.entry, self._written_at(found))
                moved.append(replace(known, kind=kind, entry=entry, path=other))
        return tuple(moved), tuple(missing)

    async def _in_anothers_folder(self, path: str, gone: Sequence[str]) -> str | None:
        """A file of this name in another owner's folder that holds any of these and names this owner."""
        owner, name = entry_owner(path), path.rpartition("/")[2]
        others, _ = await without_copies(self.store, await self.vault.list_files() if gone else ())
        for other in others:
            if other.rpartition("/")[2] != name or not is_entry_path(other) or entry_owner(other) == owner:
                continue
            found = await self.vault.look(other, ENTRY_FILE_BYTES)
            if found is None or not any(entry_id in found.text for entry_id in gone):
                continue
            document = await asyncio.to_thread(read_document, other, found.text)
            if document.owner == owner_words(owner) and not document.written.keys().isdisjoint(gone):
                return other
        return None

    def _report(
        self,
        path: str,
        change: EntryChange,
        changed: int,
        arrived: int,
        document: EntryDocument,
        refused: list[str],
    ) -> None:
        told = [
            f"{number} {what}"
            for number, what in ((changed, "edited"), (arrived, "written"), (len(change.remove), "removed"))
            if number
        ]
        if told:
            self.reports.tell(path, f"entries by hand: {', '.join(told)}")
        wrong = refused + [f"line {problem.line}: {problem.message}" for problem in document.problems]
        if wrong:
            self.reports.refused(path, wrong)


async def read_entries(store: SqlEntryFileStore, path: str, found: VaultFile) -> tuple[str, EntryDocument]:
    """The space that a file of entries is in, and what it says.

    Raises ValueError, in words, where it can't be read, or says that it belongs elsewhere.
    """
    if not found.is_whole:
        raise ValueError("the file is not UTF-8 text, or far too long")
    owner = entry_owner(path)
    document = await asyncio.to_thread(read_document, path, found.text, found.modified)
    if document.kind not in (None, entry_kind_of(path)):
        raise ValueError(f"its front matter says that it holds {document.kind}")
    if document.owner not in (None, owner_words(owner)):
        raise ValueError("its front matter names another owner")
    space = await store.space_of(owner)
    if space is None:
        raise ValueError("nobody is known to have this folder")
    return space, document


async def entry_in_file(
    finder: SourceFinder, space: str, path: str, written: WrittenEntry, *, by_hand_at: int | None
) -> KnownEntry:
    """An entry that the journal does not have yet. With `by_hand_at` it is marked as a person's words of that time."""
    owner, kind, entry = entry_owner(path), entry_kind_of(path), written.entry
    assert kind is not None
    return KnownEntry(
        space,
        owner,
        kind,
        entry if by_hand_at is None else as_theirs(entry, None, by_hand_at),
        await finder.sources(space, owner, entry),
        entry.extra.get("cell", ""),
        strategy_of(entry),
        path,
    )


async def _unless_changed(applied: Awaitable[None]) -> None:
    """Raises Unfinished if the entries changed since, or something they came from was forgotten: the job runs again."""
    try:
        await applied
    except (Conflict, NotFound, TooMuchQueued) as error:
        raise Unfinished from error
