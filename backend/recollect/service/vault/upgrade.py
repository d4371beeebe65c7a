"""Upgrade: writes old files of the vault in the form of today, and puts them back when asked to."""

import asyncio
from dataclasses import dataclass, field

from recollect.domain.identity import text_digest
from recollect.domain.job import Unfinished
from recollect.domain.markdown.transcript import is_transcript, render_part
from recollect.domain.paths import ENTRY_FILE_BYTES
from recollect.domain.vault_file import KnownFile, StoredPart, VaultFile
from recollect.infra.journal.entry_files import FileParts
from recollect.infra.journal.files import PartParts
from recollect.infra.upgrade_copies import UpgradeCopies
from recollect.service.coordination import Progress, no_progress
from recollect.service.vault.entry_files import EntryFiles
from recollect.service.vault.sync import FileSync
from recollect.service.vault.transcripts import Transcriber, part_of

_UNSEEN = "was changed by hand and is not imported yet"
_CHANGED = "changed since the upgrade; it stays in the form of today"


@dataclass(slots=True)
class Upgraded:
    """What was done. `files` are those that were written; `current` those that needed nothing."""

    files: int = 0
    current: int = 0
    left: list[str] = field(default_factory=list)
    """Files that are left as they are, and why."""


@dataclass(frozen=True, slots=True)
class Upgrader:
    """Only files that hold what the journal says are written; the version before is kept first.

    Jobs that write files must be paused. Running twice, or after a kill, goes on where it was.
    """

    transcriber: Transcriber
    entry_files: EntryFiles
    copies: UpgradeCopies

    async def upgrade(self, progress: Progress = no_progress) -> Upgraded:
        result = Upgraded()
        parts, files = sorted(await self.transcriber.known()), await self.entry_files.store.files()
        for done, path in enumerate(parts, 1):
            await self._upgrade_part(path, result)
            progress(done, len(parts) + len(files))
        for done, file in enumerate(files, len(parts) + 1):
            await self._upgrade_entries(file, result)
            progress(done, len(parts) + len(files))
        return result

    async def _upgrade_part(self, path: str, result: Upgraded) -> None:
        store = self.transcriber.store
        found = await self.transcriber.vault.look(path)
        placed = await store.placed(path)
        state = None if placed is None else await store.state(placed[0])
        if placed is None or state is None or found is None:
            return
        thread, part = placed
        if not _is_ours(found, part):
            result.left.append(f"{path}: {_UNSEEN}")
            return
        where = thread, part.first_position, part.last_position
        wanted = part_of(state.thread, part.part, await store.turns(*where), await store.cells(*where))
        text = await asyncio.to_thread(render_part, wanted)
        if text == found.text:
            result.current += 1
            return
        await self.copies.keep(path, found.text, text_digest(text))
        self.transcriber.fail_points.reach("upgrade.kept")
        await self.transcriber.rewrite(state, part)
        result.files += 1

    async def _upgrade_entries(self, file: KnownFile, result: Upgraded) -> None:
        found = await self.transcriber.vault.look(file.path, ENTRY_FILE_BYTES)
        if found is None:
            return
        if not file.is_written or not _is_ours(found, file):
            result.left.append(f"{file.path}: {_UNSEEN}")
            return
        try:
            written = await self.entry_files.restyle(file, found, self.copies.keep)
        except Unfinished:
            result.left.append(f"{file.path}: {_UNSEEN}")
            return
        result.files += written
        result.current += not written

    async def undo(self, progress: Progress = no_progress) -> Upgraded:
        """Put back every file that is as the upgrade left it."""
        result = Upgraded()
        kept = await self.copies.kept()
        for done, (path, replaced_by) in enumerate(kept, 1):
            found = await self.transcriber.vault.look(path)
            old = await self.copies.text(path, replaced_by)
            if found is not None and found.digest == text_digest(old):
                result.current += 1
                await self.copies.drop(path)
            elif found is not None and found.digest == replaced_by and await self._put_back(path, found, old):
                result.files += 1
                await self.copies.drop(path)
            else:
                result.left.append(f"{path}: {_CHANGED}")
            progress(done, len(kept))
        return result

    async def _put_back(self, path: str, found: VaultFile, old: str) -> bool:
        ours = frozenset([found.digest])
        if is_transcript(path):
            files: FileSync = self.transcriber
            placed = await self.transcriber.store.placed(path)
            parts: object = None if placed is None else PartParts(*placed)
        else:
            files, parts = self.entry_files, FileParts({})
        file = await files.store.file(path)
        if file is None or parts is None or not file.is_written or not _is_ours(found, file):
            return False
        return await files.put(file, old, ours, parts) is None


def _is_ours(found: VaultFile, known: StoredPart | KnownFile) -> bool:
    """Whether it is what we wrote or imported, and its text is all of it."""
    return found.digest in known.digests and text_digest(found.text) == found.digest
