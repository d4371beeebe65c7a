"""Brings entries and deletions back into an empty journal from their files alone."""

from dataclasses import dataclass

from recollect.domain.entries.entry import EntryChange
from recollect.domain.forgetting import deletions_path, is_deletions_path, parse_deletions, render_deletions
from recollect.domain.identity import text_digest
from recollect.domain.job import Job
from recollect.domain.markdown.entry_document import section_digest
from recollect.domain.paths import ENTRY_FILE_BYTES, entry_owner, is_entry_path
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.vault import Vault
from recollect.service.sources import SourceFinder
from recollect.service.vault.entry_edits import entry_in_file, read_entries


async def import_entries(vault: Vault, store: SqlEntryFileStore) -> tuple[int, list[str]]:
    """Read every file of entries; the threads that they cite are in the journal already. Returns how many came back.

    What can't be read is left in its file, and said. Of two entries with one id the first is kept.
    """
    count, problems = 0, list[str]()
    finder, taken = SourceFinder(store), dict[tuple[str, str], str]()
    for path in filter(is_entry_path, await vault.list_files()):
        try:
            count += await _import_file(vault, store, finder, path, taken, problems)
        except ValueError as error:
            problems.append(f"{path}: {error}")
    return count, problems


async def _import_file(
    vault: Vault,
    store: SqlEntryFileStore,
    finder: SourceFinder,
    path: str,
    taken: dict[tuple[str, str], str],
    problems: list[str],
) -> int:
    found = await vault.look(path, ENTRY_FILE_BYTES)
    if found is None:
        return 0
    space, document = await read_entries(store, path, found)
    known = []
    for written in document.written.values():
        if not written.is_intact:
            continue
        entry = await entry_in_file(finder, space, path, written, mark=not written.has_id)
        if (other := taken.setdefault((space, entry.entry_id), path)) != path:
            problems.append(f"{path}: {entry.entry_id} stands in {other} too; this one was left out")
        elif await finder.came_from_forgotten(space, entry.owner, entry.entry):
            problems.append(f"{path}: {entry.entry_id} came from a forgotten message; it was left out")
        else:
            known.append(entry)
    change = EntryChange(space, entry_owner(path), "person", "brought back from the vault", tuple(known))
    filed = {each.entry_id: section_digest(document.written[each.entry_id].entry) for each in known}
    has_ids = all(document.written[each.entry_id].has_id for each in known)
    await store.record_edits(path, found.digest, change, filed, settled_at=0 if has_ids else None)
    problems += [f"{path}:{problem.line}: {problem.message}" for problem in document.problems]
    return len(known)


@dataclass(frozen=True, slots=True)
class EntryDeletions:
    """Writes each owner's list of deleted entries, ids alone, to the vault."""

    entries: SqlEntryStore
    vault: Vault

    async def handle(self, job: Job) -> None:
        """The handler of jobs for lists of deleted entries."""
        owner = str(job.payload["owner"])
        path = deletions_path(owner)
        text = render_deletions(job.space, await self.entries.deletions(job.space, owner))
        current = await self.vault.read(path)
        if current != text:
            ours = frozenset([text_digest(text), *([text_digest(current)] if current is not None else [])])
            await self.vault.write(path, text, ours)


async def import_deletions(vault: Vault, entries: SqlEntryStore) -> None:
    """Read every list back into the journal."""
    for path in filter(is_deletions_path, await vault.list_files()):
        space, deletions = parse_deletions(await vault.read(path) or "")
        if space is not None and deletions:
            await entries.add_deletions(space, path.rpartition("/")[0], deletions)
