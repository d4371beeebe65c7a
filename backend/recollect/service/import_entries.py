"""Import entries: bring them back into an empty journal from their files alone."""

import asyncio
from dataclasses import dataclass, field

from recollect.memory.entry_document import EntryDocument, read_document, section_digest
from recollect.memory.entry_owner import owner_words
from recollect.memory.entry_paths import ENTRY_FILE_BYTES, entry_kind_of, entry_owner, is_entry_path
from recollect.memory.hand_written import as_theirs
from recollect.memory.known_entry import EntryChange, KnownEntry
from recollect.service.entry_sources import SourceFinder, strategy_of
from recollect.service.ports import EntryFileStore, Progress, Vault, no_progress


@dataclass(slots=True)
class ImportedEntries:
    """What came back, and what could not."""

    entries: int = 0
    files: int = 0
    problems: list[str] = field(default_factory=list)


async def import_entries(
    vault: Vault, store: EntryFileStore, progress: Progress = no_progress
) -> ImportedEntries:
    """Read every file of entries; the threads that they cite are in the journal already.

    What can't be read is left in its file, and said. Of two entries with one id the first is kept.
    """
    result = ImportedEntries()
    finder, taken = SourceFinder(store), dict[tuple[str, str], str]()
    paths = [path for path in await vault.list_files() if is_entry_path(path)]
    for done, path in enumerate(paths, 1):
        try:
            await _import_file(vault, store, finder, path, taken, result)
        except ValueError as error:
            result.problems.append(f"{path}: {error}")
        progress(done, len(paths))
    return result


async def _import_file(
    vault: Vault,
    store: EntryFileStore,
    finder: SourceFinder,
    path: str,
    taken: dict[tuple[str, str], str],
    result: ImportedEntries,
) -> None:
    found = await vault.look(path, ENTRY_FILE_BYTES)
    if found is None:
        return
    if not found.is_whole:
        raise ValueError("the file is not UTF-8 text, or far too long")
    document = await asyncio.to_thread(read_document, path, found.text, found.modified)
    space = await _space(store, path, document)
    known = []
    for entry in await _known(finder, space, path, document):
        if (other := taken.setdefault((space, entry.entry_id), path)) != path:
            result.problems.append(f"{path}: {entry.entry_id} stands in {other} too; this one was left out")
        elif await finder.came_from_forgotten(space, entry.owner, entry.entry):
            result.problems.append(f"{path}: {entry.entry_id} came from a forgotten message; it was left out")
        else:
            known.append(entry)
    change = EntryChange(space, entry_owner(path), "person", "brought back from the vault", tuple(known))
    filed = {each.entry_id: section_digest(document.written[each.entry_id].entry) for each in known}
    has_ids = all(document.written[each.entry_id].has_id for each in known)
    await store.take_in(path, found.digest, change, filed, settled_at=0 if has_ids else None)
    result.files += 1
    result.entries += len(known)
    result.problems += [f"{path}:{problem.line}: {problem.message}" for problem in document.problems]


async def _space(store: EntryFileStore, path: str, document: EntryDocument) -> str:
    """Raises ValueError, in words, where the file is not what its place says."""
    owner = entry_owner(path)
    if document.kind not in (None, entry_kind_of(path)) or document.owner not in (None, owner_words(owner)):
        raise ValueError("its front matter names another place")
    space = await store.space_of(owner)
    if space is None:
        raise ValueError("nobody is known to have this folder")
    return space


async def _known(finder: SourceFinder, space: str, path: str, document: EntryDocument) -> list[KnownEntry]:
    owner, kind = entry_owner(path), entry_kind_of(path)
    assert kind is not None
    return [
        KnownEntry(
            space,
            owner,
            kind,
            each.entry if each.has_id else as_theirs(each.entry, None),
            await finder.sources(space, owner, each.entry),
            each.entry.extra.get("cell", ""),
            strategy_of(each.entry),
            path,
        )
        for each in document.written.values()
        if each.is_intact
    ]
