"""Brings entries and deletions back into an empty journal from their files alone."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

from recollect.domain.entries.entry import EntryChange, KnownEntry
from recollect.domain.entries.links import origin_ids
from recollect.domain.forgetting import (
    Remembered,
    deletions_path,
    is_deletions_path,
    parse_deletions,
    parse_tombstones,
    render_deletions,
)
from recollect.domain.identity import text_digest
from recollect.domain.job import Job
from recollect.domain.markdown.entry_document import EntryDocument
from recollect.domain.markdown.entry_file import section_digest
from recollect.domain.paths import (
    ENTRY_FILE_BYTES,
    copies_last,
    day_of_path,
    entry_day,
    entry_owner,
    is_entry_path,
    is_own_name,
)
from recollect.domain.vault_file import VaultFile
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.vault import Vault
from recollect.service.sources import SourceFinder
from recollect.service.vault.entry_edits import entry_in_file, read_entries
from recollect.service.vault.reader import without_copies

Deleted = frozenset[tuple[str, str]]
"""Spaces and ids of entries."""
Places = Mapping[tuple[str, str], str]
"""By space and id of each entry: the path of its file."""


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
