"""Upgrade: writes old files of the vault in the form of today, and puts them back when asked to."""

import asyncio
from dataclasses import dataclass, field, replace

from recollect.domain.identity import text_digest
from recollect.domain.job import Unfinished
from recollect.domain.markdown.transcript import is_transcript, render_part, transcript_place
from recollect.domain.paths import ENTRY_FILE_BYTES, transcript_path
from recollect.domain.vault_file import KnownFile, KnownPart, StoredPart, VaultFile
from recollect.infra.journal.entry_files import FileParts
from recollect.infra.upgrade_copies import UpgradeCopies
from recollect.service.coordination import Progress, no_progress
from recollect.service.vault.entry_files import EntryFiles
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
        parts, files = await self.transcriber.store.known_parts(), await self.entry_files.store.files()
        for done, part in enumerate(parts, 1):
            await self._upgrade_part(part, result)
            progress(done, len(parts) + len(files))
        for done, file in enumerate(files, len(parts) + 1):
            await self._upgrade_entries(file, result)
            progress(done, len(parts) + len(files))
        return result

    async def _upgrade_part(self, known: KnownPart, result: Upgraded) -> None:
        store, path = self.transcriber.store, transcript_path(*known.thread, known.part)
        state, part = await store.state(known.thread), await store.part(known.thread, known.part)
        found = await self.transcriber.vault.look(path)
        if state is None or part is None or found is None:
            return
        if not _is_ours(found, part):
            result.left.append(f"{path}: {_UNSEEN}")
            return
        where = known.thread, part.first_position, part.last_position
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
        digest, ours = text_digest(old), frozenset([found.digest])
        vault = self.transcriber.vault
        if not is_transcript(path):
            file = await self.entry_files.store.file(path)
            if file is None or not file.is_written or not _is_ours(found, file):
                return False
            try:
                await self.entry_files.put(file, old, found, FileParts({}))
            except Unfinished:
                return False
            return True
        place, store = transcript_place(old), self.transcriber.store
        part = None if place is None else await store.part(place[0].ref, place[1])
        if place is None or part is None or not _is_ours(found, part):
            return False
        await store.announce(place[0].ref, replace(part, writing=part.announcing(digest)))
        if await vault.write_unless_foreign(path, old, ours) is not None:
            return False
        await store.record(place[0].ref, replace(part, digest=digest, writing=None), ())
        return True


def _is_ours(found: VaultFile, known: StoredPart | KnownFile) -> bool:
    """Whether it is what we wrote or imported, and its text is all of it."""
    return found.digest in known.digests and text_digest(found.text) == found.digest
