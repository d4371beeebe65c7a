"""Files of entries: what each should hold, spliced into what it holds."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

from recollect.domain.entries.entry import FiledEntry, owner_words
from recollect.domain.entries.links import NO_LINKS, Links, linkable, named_ids
from recollect.domain.identity import text_digest
from recollect.domain.job import Unfinished
from recollect.domain.markdown.entry_document import is_bare, read_document, splice
from recollect.domain.markdown.entry_file import is_filed, section_digest
from recollect.domain.model import Note
from recollect.domain.paths import ENTRY_FILE_BYTES, entry_kind_of, entry_owner, is_entry_path
from recollect.domain.recall.rows import rest_rows
from recollect.domain.vault_file import KnownFile, VaultFile, lf_form
from recollect.infra.journal.entry_files import FileParts, SqlEntryFileStore
from recollect.infra.journal.files import SqlNoteStore
from recollect.infra.vault import Vault
from recollect.service.vault.entry_edits import SETTLE_MS, EntryTaker
from recollect.service.vault.reader import EditReports
from recollect.service.vault.sync import FileSync, Rendered


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
