"""Graves: what a person deleted stays deleted, also when the journal is brought back from the vault."""

from dataclasses import dataclass

from recollect.memory.buried_file import buried_path, is_buried_path, parse_buried, render_buried
from recollect.memory.identity import text_digest
from recollect.memory.job import Job
from recollect.service.ports import EntryStore, Vault


@dataclass(frozen=True, slots=True)
class Graves:
    """Writes each owner's list of deleted entries, ids alone, to the vault."""

    entries: EntryStore
    vault: Vault

    async def handle(self, job: Job) -> None:
        """The handler of jobs for lists of deleted entries."""
        owner = str(job.payload["owner"])
        path = buried_path(owner)
        text = render_buried(job.space, await self.entries.buried(job.space, owner))
        current = await self.vault.read(path)
        if current != text:
            ours = frozenset([text_digest(text), *([text_digest(current)] if current is not None else [])])
            await self.vault.write(path, text, ours)


async def import_graves(vault: Vault, entries: EntryStore) -> int:
    """Read every list back into the journal; returns how many entries stay deleted."""
    count = 0
    for path in await vault.list_files():
        text = await vault.read(path) if is_buried_path(path) else None
        if text is None:
            continue
        space, graves = parse_buried(text)
        if space is not None and graves:
            await entries.bury(space, path.rpartition("/")[0], graves)
            count += len(graves)
    return count
