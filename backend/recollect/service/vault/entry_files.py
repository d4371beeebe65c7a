"""Files of entries: writes the journal's entries to the vault, and imports what a person writes there."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from recollect.domain.entries.entry import EntryFileState, FiledEntry, owner_words
from recollect.domain.entries.links import NO_LINKS, Links, linkable, named_ids
from recollect.domain.identity import text_digest
from recollect.domain.job import Job, Unfinished
from recollect.domain.markdown.entry_document import is_bare, read_document, splice
from recollect.domain.markdown.entry_file import is_filed, section_digest
from recollect.domain.model import Note
from recollect.domain.paths import ENTRY_FILE_BYTES, entry_kind_of, entry_owner, is_entry_path
from recollect.domain.recall.rows import rest_rows
from recollect.domain.vault_file import EMPTY, FileStamp, VaultFile, lf_form
from recollect.infra.journal.files import SqlNoteStore
from recollect.service.vault.entry_edits import SETTLE_MS, EntryTaker
from recollect.service.vault.reader import queue_changed, without_copies, written_digests

_MOST_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class EntryFiles:
    """Synchronises each file with the journal, in a lane of its own.

    A person's save is never overwritten: it is imported first. A little later, sections that the journal changed are
    written into their file. Everything else in the file stays byte for byte.
    """

    taker: EntryTaker
    notes: SqlNoteStore
    """The records of files that hold more than entries of the journal: the index reads the rest from the file."""
    on_changed: Callable[[set[str]], None] = lambda owners: None
    """Called with the folders of the owners whose files changed, and are recorded."""

    async def handle(self, job: Job) -> None:
        """The handler of jobs for files of entries."""
        path = str(job.payload["path"])
        if job.payload.get("gone") and await self._look(path) is None:
            if self.taker.reports.goes_back():
                await self.write_again([path])
            else:
                await self.taker.let_go(path)
            self._tell(path)
        else:
            await self.settle(path, vanished=job.payload.get("vanished"))

    async def settle(self, path: str, *, vanished: str | None = None) -> None:
        """Import what a person wrote; else write what the journal has and the file lacks.

        `vanished` is the digest of the version that lacked entries at the last look. If the file still has that digest,
        they count as removed.
        """
        if not is_entry_path(path):
            raise ValueError(f"{path} is no file of entries")
        file, found = await self.taker.store.file(path), await self._look(path)
        if found is not None and _is_foreign(file, found):
            confirmed = found.digest == vanished
            store = self.taker.store
            if await (store.is_deleted if file is None else store.is_old_copy)(path, *found.digests):
                await self._replace_old_copy(file, path, found)
                return
            await self.notes.seen(Note(path, entry_owner(path), found.digest, found.modified))
            is_read = await self.taker.apply_edits(path, file, found, confirmed=confirmed)
            if not is_read and file is not None and not file.is_written:
                await self._write_over(file)
            else:
                await self._record_rest(path, found.text, found.digest)
                self._tell(path)
        elif file is not None and not file.is_written:
            await self._write(file, found)

    async def settle_all(self) -> None:
        """Settle every file that exists or should."""
        paths = {file.path for file in await self.taker.store.files()}
        listed, _ = await without_copies(self.taker.store, await self.taker.vault.list_files())
        for path in sorted(paths | set(filter(is_entry_path, listed))):
            for _ in range(_MOST_ROUNDS):
                try:
                    await self.settle(path)
                except Unfinished:
                    continue
                file = await self.taker.store.file(path)
                if file is None or file.is_written:
                    break

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

    async def _look(self, path: str) -> VaultFile | None:
        self.taker.vault.refuse_if_missing()
        return await self.taker.vault.look(path, ENTRY_FILE_BYTES)

    async def _replace_old_copy(self, file: EntryFileState | None, path: str, found: VaultFile) -> None:
        """Bring the file back to what the journal has. Raises Unfinished where it was written meanwhile."""
        seen = await self._look(path)
        if seen is None or seen.digest != found.digest or file != await self.taker.store.file(path):
            raise Unfinished  # It was being written: another version is the current one now.
        if file is None and await self.taker.store.is_purging():
            return  # The file goes with all else that was forgotten.
        if file is None:
            await self.taker.vault.remove_file(path, frozenset([found.digest]))
            await self.notes.gone([path])
            self._tell(path)
            self.taker.reports.old_copy_removed(path)
        else:
            await self._write(file, found, is_old=True)
            self.taker.reports.old_copy_replaced(path)

    async def restyle(
        self, file: EntryFileState, found: VaultFile, keep: Callable[[str, str, str], Awaitable[None]]
    ) -> bool:
        """Write every section in the form of today; damaged ones stay. Returns whether anything changed.

        `keep` is given the path, the text before and the digest after. Raises Unfinished if a person saved meanwhile.
        """
        here, gone = await self.taker.store.contents(file.path)
        links = await self._links(file, here)
        damaged = (await asyncio.to_thread(read_document, file.path, found.text, found.modified)).damaged
        text = await asyncio.to_thread(_spliced, file, found.text, here, gone, damaged, links, restyle=True)
        if text == found.text:
            return False
        digest = text_digest(text)
        await keep(file.path, found.text, digest)
        await self._announce(file, digest, here, damaged)
        ours = frozenset([found.digest, digest])
        if await self.taker.vault.write_unless_foreign(file.path, text, ours) is not None:
            raise Unfinished
        await self._record_rest(file.path, text, digest)
        await self.taker.store.record(file.path, file.revision, digest, gone)
        self._tell(file.path)
        return True

    async def _write(self, file: EntryFileState, found: VaultFile | None, *, is_old: bool = False) -> None:
        """Write the journal's entries into the file. Raises Unfinished if a person saved it meanwhile.

        `is_old`: the file is an old copy, so sections of entries that are gone are removed from it.
        """
        here, gone = await self.taker.store.contents(file.path)
        before = None if found is None else found.text
        if is_old and found is not None:
            found = replace(found, text=lf_form(found.text))
            gone |= read_document(file.path, found.text).written.keys() - {
                each.known.entry_id for each in here
            }
        links = await self._links(file, here)
        kept = await self._keep_damaged(file.path, found, here, links)
        text = await asyncio.to_thread(
            _spliced, file, None if found is None else found.text, here, gone, kept, links
        )
        ours = frozenset() if found is None else frozenset([found.digest])
        if not here and is_bare(text, _kind(file), owner_words(file.owner)):
            await self._remove(file, ours)
            return
        digest = text_digest(text)
        await self._announce(file, digest, here, kept)
        foreign = None
        if text != before:
            foreign = await self.taker.vault.write_unless_foreign(file.path, text, ours | {digest})
        if foreign is not None:
            raise Unfinished
        await self._record_rest(file.path, text, digest)
        await self.taker.store.record(file.path, file.revision, digest, gone)
        self._tell(file.path)

    async def _write_over(self, file: EntryFileState) -> None:
        """The file can't be read: replace it, and keep it as a conflict file."""
        here, gone = await self.taker.store.contents(file.path)
        text = _spliced(file, None, here, gone, frozenset(), await self._links(file, here))
        digest = text_digest(text)
        await self._announce(file, digest, here, frozenset())
        conflict = await self.taker.vault.write(file.path, text, file.digests | {digest})
        await self.notes.gone([file.path])
        await self.taker.store.record(file.path, file.revision, digest, gone)
        if conflict is not None:
            self.taker.reports.tell(file.path, f"could not be read; that version is kept as {conflict}")
        self._tell(file.path)

    async def _remove(self, file: EntryFileState, ours: frozenset[str]) -> None:
        conflict = await self.taker.vault.remove_file(file.path, ours)
        await self.taker.store.removed(file.path)
        await self.notes.gone([file.path])
        if conflict is not None:
            self.taker.reports.tell(file.path, f"was changed by hand too; that version is kept as {conflict}")
        self._tell(file.path)

    async def _announce(
        self, file: EntryFileState, digest: str, here: list[FiledEntry], kept: frozenset[str]
    ) -> None:
        filing: dict[str, str] = {}
        for each in here:
            mine = section_digest(each.known.entry)
            if each.known.entry_id not in kept and each.digests != {mine}:
                filing[each.known.entry_id] = mine
        await self.taker.store.announce(file.path, file.announcing(digest), filing)

    async def _links(self, file: EntryFileState, here: list[FiledEntry]) -> Links:
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
            conflict = await self.taker.vault.keep_copy(path, found.digest)
            self.taker.reports.tell(
                path, f"what could not be read is written over; that version is kept as {conflict}"
            )
        return kept

    async def _record_rest(self, path: str, text: str, digest: str) -> None:
        """Where the file has a record: as it is now, or none, where it holds nothing but entries of the journal."""
        for note in await self.notes.at([path]):
            here = {each.known.entry_id for each in await self.taker.store.entries_in(path)}
            intact = (await asyncio.to_thread(read_document, path, text)).intact.keys()
            if await asyncio.to_thread(rest_rows, note, text, here & intact):
                await self.notes.seen(replace(note, digest=digest))
            else:
                await self.notes.gone([path])

    def _tell(self, path: str) -> None:
        self.on_changed({"/".join(path.split("/")[:3])})

    def follows(self, path: str) -> bool:
        return is_entry_path(path)

    async def known(self) -> dict[str, str]:
        return await written_digests(self.taker.store)

    async def look_at(self, paths: Iterable[str]) -> dict[str, FileStamp]:
        return await queue_changed(
            self.taker.store, self.taker.vault, paths, ENTRY_FILE_BYTES, self.taker.reports, ignored=[EMPTY]
        )

    async def let_go(self, paths: Iterable[str]) -> None:
        """A person removed or moved these files. Their entries are looked for elsewhere before they are deleted."""
        for path in paths:
            await self.taker.store.queue(path, delay_ms=SETTLE_MS, gone="yes")

    async def write_again(self, paths: Iterable[str]) -> None:
        """Restore these files, which nobody meant to remove, and those from which many entries vanished at once."""
        for path in sorted({*paths, *self.taker.losses}):
            self.taker.losses.pop(path, None)
            await self.taker.store.write_again(path)
            self.taker.reports.file_restored(path)


def _is_foreign(file: EntryFileState | None, found: VaultFile) -> bool:
    """Whether it is a person's version. An emptied file is not: the sweep judges it together with missing files."""
    return found.digest != EMPTY and (file is None or found.digest not in file.digests)


def _kind(file: EntryFileState) -> str:
    kind = entry_kind_of(file.path)
    assert kind is not None
    return kind


def _spliced(
    file: EntryFileState,
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
