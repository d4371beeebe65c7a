"""Files of entries: what each should hold, spliced into what it holds; and brought back from the files alone."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType

from recollect.domain.entries.entry import EntryChange, FiledEntry, KnownEntry, owner_words
from recollect.domain.entries.links import NO_LINKS, Links, linkable, named_ids, origin_ids
from recollect.domain.forgetting import (
    Remembered,
    deletions_path,
    is_deletions_path,
    parse_deletions,
    parse_tombstones,
    render_deletions,
)
from recollect.domain.identity import text_digest
from recollect.domain.job import Job, Unfinished
from recollect.domain.markdown.entry_document import EntryDocument, is_bare, read_document, splice
from recollect.domain.markdown.entry_file import is_filed, section_digest
from recollect.domain.model import Note
from recollect.domain.paths import (
    ENTRY_FILE_BYTES,
    copies_last,
    day_of_path,
    entry_day,
    entry_kind_of,
    entry_owner,
    is_entry_path,
    is_own_name,
)
from recollect.domain.recall.rows import rest_rows
from recollect.domain.vault_file import KnownFile, VaultFile, lf_form
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import FileParts, SqlEntryFileStore
from recollect.infra.journal.files import SqlNoteStore
from recollect.infra.vault import Vault
from recollect.service.sources import SourceFinder
from recollect.service.vault.entry_edits import SETTLE_MS, EntryTaker, entry_in_file, read_entries
from recollect.service.vault.reader import EditReports, without_copies
from recollect.service.vault.sync import FileSync, Rendered

Deleted = frozenset[tuple[str, str]]
"""Spaces and ids of entries."""
Places = Mapping[tuple[str, str], str]
"""By space and id of each entry: the path of its file."""


@dataclass(frozen=True, slots=True)
class EntryFiles(FileSync):
    """A person's save is never overwritten: it is imported first. A little later, sections that the journal changed
    are written into their file. Everything else in the file stays byte for byte.
    """

    store: SqlEntryFileStore
    vault: Vault
    reports: EditReports
    taker: EntryTaker
    notes: SqlNoteStore
    """The records of files that hold more than entries of the journal: the index reads the rest from the file."""
    on_changed: Callable[[set[str]], None] = lambda owners: None
    """Called with the folders of the owners whose files changed, and are recorded."""
    limit = ENTRY_FILE_BYTES
    ignores_empty = True
    not_imported = "could not be read"

    def follows(self, path: str) -> bool:
        return is_entry_path(path)

    def problem(self) -> str | None:
        """What a person has to decide; None if nothing. Names no file."""
        if not self.taker.losses:
            return None
        lost = next(iter(self.taker.losses.values()))
        more = f", and from {len(self.taker.losses) - 1} files more," if len(self.taker.losses) > 1 else ""
        return (
            f"{lost} vanished from a file{more} at once; nothing was deleted. Bring them back, or run 'recollect verify "
            "--repair' to restore them"
        )

    async def import_edits(
        self, path: str, file: KnownFile | None, found: VaultFile, *, confirmed: bool
    ) -> bool:
        await self.notes.seen(Note(path, entry_owner(path), found.digest, found.modified))
        is_read = await self.taker.apply_edits(path, file, found, confirmed=confirmed)
        if is_read or file is None or file.is_written:
            await self.written(path, found.text, found.digest)
            self.changed(path)
        return is_read

    async def render(self, file: KnownFile, found: VaultFile | None, *, is_old: bool) -> Rendered:
        here, gone = await self.store.contents(file.path)
        if is_old and found is not None:
            found = replace(found, text=lf_form(found.text))
            gone |= read_document(file.path, found.text).written.keys() - {
                each.known.entry_id for each in here
            }
        links = await self._links(file, here)
        kept = await self._keep_damaged(file.path, found, here, links)
        before = None if found is None else found.text
        text = await asyncio.to_thread(_spliced, file, before, here, gone, kept, links)
        is_empty = not here and is_bare(text, _kind(file), owner_words(file.owner))
        return Rendered(None if is_empty else text, FileParts(_new_sections(here, kept), gone))

    async def restyle(
        self, file: KnownFile, found: VaultFile, keep: Callable[[str, str, str], Awaitable[None]]
    ) -> bool:
        """Write every section in the form of today; damaged ones stay. Returns whether anything changed.

        `keep` is given the path, the text before and the digest after. Raises Unfinished if a person saved meanwhile.
        """
        here, gone = await self.store.contents(file.path)
        links = await self._links(file, here)
        damaged = (await asyncio.to_thread(read_document, file.path, found.text, found.modified)).damaged
        text = await asyncio.to_thread(_spliced, file, found.text, here, gone, damaged, links, restyle=True)
        if text == found.text:
            return False
        await keep(file.path, found.text, text_digest(text))
        parts = FileParts(_new_sections(here, damaged), gone)
        if await self.put(file, text, frozenset([found.digest]), parts) is not None:
            raise Unfinished
        return True

    async def _links(self, file: KnownFile, here: list[FiledEntry]) -> Links:
        """The files of the entries that the entries of this file refer to."""
        named = dict.fromkeys(name for each in here for name in named_ids(each.known.entry))
        if not named:
            return NO_LINKS
        found = await self.taker.entries.some(here[0].known.space, file.owner, list(named))
        places = {each.entry_id: linkable(each.owner, each.path) for each in found}
        return {name: place for name, place in places.items() if place}

    async def _keep_damaged(
        self, path: str, found: VaultFile | None, here: list[FiledEntry], links: Links
    ) -> frozenset[str]:
        """The ids of damaged sections whose entries the journal did not change: they are left as they are.

        If a damaged section has to be overwritten, the person's version is kept as a conflict file.
        """
        if found is None:
            return frozenset()
        entries = [each.known.entry for each in here]
        document = await asyncio.to_thread(
            read_document, path, found.text, found.modified, known=entries, links=links
        )
        damaged = document.damaged
        if not damaged:
            return frozenset()
        ours = {each.known.entry_id: is_filed(each.known.entry, each.digests) for each in here}
        kept = frozenset(name for name in damaged if ours.get(name))
        if any(name in ours for name in damaged - kept):
            conflict = await self.vault.keep_copy(path, found.digest)
            self.reports.tell(
                path, f"what could not be read is written over; that version is kept as {conflict}"
            )
        return kept

    async def written(self, path: str, text: str, digest: str) -> None:
        """Where the file has a record: as it is now, or none, where it holds nothing but entries of the journal."""
        for note in await self.notes.at([path]):
            here = {each.known.entry_id for each in await self.store.entries_in(path)}
            intact = (await asyncio.to_thread(read_document, path, text)).intact.keys()
            if await asyncio.to_thread(rest_rows, note, text, here & intact):
                await self.notes.seen(replace(note, digest=digest))
            else:
                await self.notes.gone([path])

    async def removed(self, path: str) -> None:
        await self.notes.gone([path])
        self.changed(path)

    def changed(self, path: str) -> None:
        self.on_changed({"/".join(path.split("/")[:3])})

    async def remove_contents(self, path: str) -> None:
        await self.taker.let_go(path)

    async def let_go(self, paths: Iterable[str]) -> None:
        """Their entries are looked for elsewhere before they are deleted. An emptied file stays as it is."""
        for path in paths:
            if await self._look(path) is None:
                await self.store.queue(path, delay_ms=SETTLE_MS, gone="yes")

    async def write_again(self, paths: Iterable[str]) -> None:
        """And those from which many entries vanished at once."""
        lost = set(self.taker.losses)
        self.taker.losses.clear()
        await FileSync.write_again(self, sorted({*paths, *lost}))


def _new_sections(here: list[FiledEntry], kept: frozenset[str]) -> dict[str, str]:
    """The digests of sections that the file doesn't hold yet, by their ids; those `kept` stay as they are."""
    digests = {each.known.entry_id: section_digest(each.known.entry) for each in here}
    return {
        each.known.entry_id: digests[each.known.entry_id]
        for each in here
        if each.known.entry_id not in kept and each.digests != {digests[each.known.entry_id]}
    }


def _kind(file: KnownFile) -> str:
    kind = entry_kind_of(file.path)
    assert kind is not None
    return kind


def _spliced(
    file: KnownFile,
    text: str | None,
    here: list[FiledEntry],
    gone: frozenset[str],
    kept: frozenset[str],
    links: Links,
    *,
    restyle: bool = False,
) -> str:
    entries = [each.known.entry for each in here]
    return splice(
        text,
        _kind(file),
        owner_words(file.owner),
        entries,
        gone,
        path=file.path,
        untouched=kept,
        links=links,
        restyle=restyle,
    )


async def import_entries(
    vault: Vault,
    store: SqlEntryFileStore,
    deleted: Deleted = frozenset(),
    known: Places = MappingProxyType({}),
) -> tuple[int, list[str]]:
    """Import every file of entries. The threads that they cite must be in the journal already.

    Returns the number of entries, and the problems. What can't be read stays in its file and is reported. Of two
    entries with one id that one is kept whose place is `known`, else the one in the file of its day. `deleted` entries,
    and lines of a profile made of these alone, are left out and removed from the files.
    """
    count, problems = 0, list[str]()
    finder = SourceFinder(store)
    listed, _ = await without_copies(store, await vault.list_files(), ours=is_own_name)
    paths = sorted(filter(is_entry_path, listed), key=copies_last)
    places = await _places(vault, store, paths, known)
    for path in paths:
        try:
            count += await _import_file(vault, store, finder, path, places, deleted, problems)
        except ValueError as error:
            problems.append(f"{path}: {error}")
    return count, problems


async def _places(vault: Vault, store: SqlEntryFileStore, paths: Iterable[str], known: Places) -> Places:
    """Which of the files that hold an entry counts: a copy must not take the place of what it is a copy of."""
    best: dict[tuple[str, str], tuple[int, str]] = {}
    for path in paths:
        with suppress(ValueError):
            _, space, document = await _read(vault, store, path)
            for name, entry in document.intact.items():
                is_of_day = day_of_path(path) == entry_day(entry.when)
                rank = 0 if known.get((space, name)) == path else 1 if is_of_day else 2
                if (space, name) not in best or rank < best[space, name][0]:
                    best[space, name] = rank, path
    return {entry: path for entry, (_, path) in best.items()}


async def _import_file(
    vault: Vault,
    store: SqlEntryFileStore,
    finder: SourceFinder,
    path: str,
    places: Places,
    deleted: Deleted,
    problems: list[str],
) -> int:
    found, space, document = await _read(vault, store, path)
    known, leaving = [], []
    for written in document.written.values():
        if not written.is_intact:
            continue
        by_hand_at = None if written.has_id else found.modified
        entry = await entry_in_file(finder, space, path, written, by_hand_at=by_hand_at)
        if (other := places.get((space, entry.entry_id), path)) != path:
            problems.append(f"{path}: {entry.entry_id} is in {other} too; this one was left out")
        elif await finder.came_from_forgotten(space, entry.owner, entry.entry):
            problems.append(f"{path}: {entry.entry_id} came from a forgotten message; it was left out")
            leaving.append(entry.entry_id)
        elif _is_deleted(entry, deleted):
            problems.append(f"{path}: {entry.entry_id} was deleted; it was left out")
            leaving.append(entry.entry_id)
        else:
            known.append(entry)
    change = EntryChange(space, entry_owner(path), "person", "brought back from the vault", tuple(known))
    filed = {each.entry_id: section_digest(document.written[each.entry_id].entry) for each in known}
    has_ids = all(document.written[each.entry_id].has_id for each in known)
    await store.record_edits(
        path, found.digest, change, filed, settled_at=0 if has_ids and not leaving else None, leaving=leaving
    )
    problems += [f"{path}:{problem.line}: {problem.message}" for problem in document.problems]
    return len(known)


async def _read(vault: Vault, store: SqlEntryFileStore, path: str) -> tuple[VaultFile, str, EntryDocument]:
    found = await vault.look(path, ENTRY_FILE_BYTES)
    if found is None:
        raise ValueError("it was removed meanwhile")
    if await store.is_deleted(path, *found.digests):
        raise ValueError("it was deleted; this copy was left out")
    return found, *await read_entries(store, path, found)


def _is_deleted(known: KnownEntry, deleted: Deleted) -> bool:
    made_of = {(known.space, name) for name in origin_ids(known.entry)}
    is_made_of_deleted = bool(made_of) and made_of <= deleted and not known.is_edited
    return (known.space, known.entry_id) in deleted or is_made_of_deleted


@dataclass(frozen=True, slots=True)
class EntryDeletions:
    """Writes each owner's list of deleted entries, ids and digests alone, to the vault."""

    entries: SqlEntryStore
    vault: Vault

    async def handle(self, job: Job) -> None:
        """The handler of jobs for lists of deleted entries."""
        await self._write(job.space, str(job.payload["owner"]))

    async def write_again(self) -> None:
        """All lists that the vault lacks, or has an old copy of."""
        for space, owner in await self.entries.owners_of_deletions():
            await self._write(space, owner)

    async def _write(self, space: str, owner: str) -> None:
        path = deletions_path(owner)
        text = render_deletions(space, await self.entries.deletions(space, owner))
        current = await self.vault.read(path)
        if current != text:
            ours = frozenset([text_digest(text), *([text_digest(current)] if current is not None else [])])
            await self.vault.write(path, text, ours)


async def read_deletions(vault: Vault, paths: Iterable[str], remembered: Remembered) -> list[str]:
    """Add what the vault says was deleted or forgotten. Returns what could not be read."""
    found: list[str] = []
    for path in paths:
        if "/forgotten/" in path:
            file, problems = parse_tombstones(await vault.read(path) or "")
            found += [f"{path}: {problem}" for problem in problems]
            if file is not None:
                whose = (file.space, file.user_id, file.thread_key)
                remembered.tombstones |= {(*whose, key, number) for number, key in file.messages}
        elif is_deletions_path(path):
            space, deletions = parse_deletions(await vault.read(path) or "")
            owner = path.rpartition("/")[0]
            if space is not None:
                remembered.deletions |= {(space, each.entry_id): (owner, each) for each in deletions}
    return found
