"""Indexes by words: brings an owner's rows up to the journal and the notes."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from recollect.domain.markdown.entry_document import read_document
from recollect.domain.model import NOTE_BYTES, Note, ThreadRef
from recollect.domain.paths import ENTRY_FILE_BYTES, is_entry_path, owner_folder
from recollect.domain.recall.rows import (
    NOTE,
    IndexRow,
    StoredRows,
    ThreadProgress,
    entry_row,
    meaning_of,
    note_rows,
    rest_rows,
    turn_row,
    turn_row_id,
    words_of,
)
from recollect.domain.vault_file import PlacedTurn
from recollect.errors import IndexUnavailable, IndexUnreachable, StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.index.store import LanceIndex
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.journal.files import SqlTranscriptStore
from recollect.infra.journal.index import SqlIndexLedger
from recollect.infra.vault import Vault
from recollect.service.coordination import OwnerLocks
from recollect.service.recall.corpus_cache import CorpusCache

User = tuple[str, str]
"""Space and user."""

_TURNS_AT_ONCE = 500
_PASSAGES_AT_ONCE = 500
_log = logging.getLogger("recollect.index")


@dataclass(frozen=True, slots=True)
class WordIndexer:
    """Every step can be cut short and run again with the same outcome: rows are put by their ids, then recorded."""

    store: LanceIndex
    ledger: SqlIndexLedger
    turns: SqlTranscriptStore
    entries: SqlEntryStore
    entry_files: SqlEntryFileStore
    vault: Vault
    locks: OwnerLocks
    corpus_cache: CorpusCache
    fail_points: FailPoints

    async def index_threads(
        self, generation: str, space: str, user_id: str, threads: Sequence[str], *, live: bool
    ) -> list[str]:
        """Index what is new in these threads of one owner, some hundred turns at most. Returns those with more to do."""
        owner = owner_folder(space, user_id)
        unfinished: list[str] = []
        async with self.locks.of(owner):
            rows: list[IndexRow] = []
            unsearched: list[str] = []
            reached: list[tuple[ThreadProgress, int]] = []
            for thread_id in threads:
                if len(rows) >= _TURNS_AT_ONCE:
                    unfinished.append(thread_id)
                    continue
                # Looked up under the lock: what was forgotten since is not there any more.
                seen = await self.ledger.progress(generation, ThreadRef(space, user_id, thread_id))
                if seen is None or not seen.words_behind:
                    continue
                if seen.is_stale:
                    unfinished += (
                        [thread_id] if not await self._rework(generation, owner, seen, live=live) else []
                    )
                    continue
                placed = await self._turns_of(seen, seen.words_to + 1)
                rows += _rows(seen, placed)
                unsearched += [
                    turn_row_id(seen.thread.ref, each.turn.turn_id)
                    for each in placed
                    if each.turn.skip_reason
                ]
                is_all = len(placed) < _TURNS_AT_ONCE
                reached.append((seen, seen.last_position if is_all else placed[-1].position))
                unfinished += [] if is_all else [thread_id]
            words = await self._put(generation, owner, rows)
            changed: set[str] = set()
            for seen, words_to in reached:
                if not await self.ledger.record_words(generation, seen, words_to, seen.vectors_to):
                    changed.add(seen.thread.thread_id)
            unfinished += changed
            self.fail_points.reach("index.recorded")
            # What changed meanwhile may not be searched any more: its rows are put again as they are then.
            gone = [row.row_id for row in rows if row.thread_id in changed]
            if gone:
                await self.store.remove(generation, owner, gone)
            if live:
                kept = [n for n, row in enumerate(rows) if row.thread_id not in changed]
                # Until now a search may have read them from the journal.
                gone += unsearched
                await self.corpus_cache.extend(owner, [rows[n] for n in kept], [words[n] for n in kept], gone)
        return unfinished

    async def _turns_of(self, seen: ThreadProgress, first: int) -> list[PlacedTurn]:
        return await self.turns.turns(seen.thread.ref, first, seen.last_position, limit=_TURNS_AT_ONCE)

    async def _put(self, generation: str, owner: str, rows: Sequence[IndexRow]) -> list[str]:
        if not rows:
            return []
        words = await asyncio.to_thread(lambda: [words_of(row) for row in rows])
        await self.store.put(generation, owner, rows, words)
        return words

    async def _rework(self, generation: str, owner: str, seen: ThreadProgress, *, live: bool) -> bool:
        """A turn was edited, or the tags changed: put what differs. Vectors of words that did not change stay."""
        thread = seen.thread
        stored = await self.store.load(generation, owner, patient=True)
        placed = await self.turns.turns(thread.ref, 1, seen.words_to)
        wanted = _rows(seen, placed)
        before = [row for row in stored.rows if row.thread_id == thread.thread_id]
        await self._replace(generation, owner, stored, before, wanted, live=live)
        vectors_to = min([seen.vectors_to, *(row.position - 1 for row in _unembedded(stored, wanted))])
        recorded = await self.ledger.record_words(generation, seen, seen.words_to, vectors_to)
        return recorded and seen.words_to >= seen.last_position

    async def _keep_vectors(
        self, generation: str, owner: str, stored: StoredRows, changed: Sequence[IndexRow]
    ) -> None:
        kept = await asyncio.to_thread(_with_same_meaning, stored, changed)
        if kept:
            vectors = stored.vectors[list(kept.values())]
            await self.store.set_vectors(generation, owner, list(kept), vectors)

    async def start_over(self, generation: str, owner: str, space: str, user_id: str) -> None:
        """Have nothing of an owner in a generation, and say so. The caller holds the owner's lock."""
        # In this order: rows that nobody knows of are put again; rows that are not there would be missed.
        await self.ledger.reset_owner(generation, owner, space, user_id)
        await self.store.drop(generation, owner)

    async def refill(self, generation: str, owner: str, space: str, user_id: str) -> list[ThreadRef]:
        """Have nothing of an owner in a generation. Returns the threads that are to be indexed there again."""
        async with self.locks.of(owner):
            await self.start_over(generation, owner, space, user_id)
        return [each.thread.ref for each in await self.ledger.owner_progress(generation, space, user_id)]

    async def index_notes(self, generation: str, owner: str, *, live: bool) -> tuple[int, bool]:
        """Make the index hold an owner's entries, and some hundred passages of notes, as they are, touching only the
        rows that differ.

        Returns how many files cannot be read (nothing of their text changes), and whether there are more notes to index.
        """
        async with self.locks.of(owner):
            changed, removed = await self.ledger.notes_behind(generation, owner)
            # An entry may have moved from one file to another: those are indexed together.
            changed.sort(key=lambda note: not is_entry_path(note.path))
            entries = await self.entries_of(changed)
            read: list[Note] = []
            rows: list[IndexRow] = []
            unread: set[str] = set()
            for note in changed:
                if len(rows) >= _PASSAGES_AT_ONCE and not is_entry_path(note.path):
                    break
                rows += entries.get(note.path, ())
                try:
                    found = await self.rows_of_text(note)
                except StorageUnavailable as error:
                    _log.warning("a note cannot be read: %s", error)
                    found = None
                if found is None:
                    unread.add(note.path)
                else:
                    read.append(found[0])
                    rows += found[1]
            if outdated := {*removed, *unread, *(note.path for note in read)}:
                ids = {row.row_id for row in rows if row.is_entry}
                stored = await self.store.load_files(generation, owner, outdated, ids)
                stays = {(NOTE, path) for path in unread}
                before = [
                    row for row in stored.rows if row.path in outdated and (row.type, row.path) not in stays
                ]
                if await self._replace(generation, owner, stored, before, rows, live=live):
                    # No text that is gone stays in an old version.
                    await self.store.compact(generation, owner)
                counts = Counter(row.path for row in rows)
                await self.ledger.record_notes(generation, owner, read, removed, counts=counts)
            return len(unread), len(read) + len(unread) < len(changed)

    async def entries_of(self, notes: Iterable[Note]) -> dict[str, list[IndexRow]]:
        """By file: the rows of the entries that belong in it, whether or not they are written there yet."""
        rows: defaultdict[str, list[IndexRow]] = defaultdict(list)
        for known in await self.entries.in_files([note.path for note in notes if is_entry_path(note.path)]):
            rows[known.path] += filter(None, [entry_row(known)])
        return rows

    async def _replace(
        self,
        generation: str,
        owner: str,
        stored: StoredRows,
        before: Sequence[IndexRow],
        wanted: Sequence[IndexRow],
        *,
        live: bool,
    ) -> bool:
        """Put the wanted rows in the place of those before. Returns whether a text went or changed."""
        gone, changed, is_rewritten = await asyncio.to_thread(_differences, stored, before, wanted)
        if gone:
            await self.store.remove(generation, owner, gone)
            self.fail_points.reach("index.removed")
        words = await self._put(generation, owner, changed)
        await self._keep_vectors(generation, owner, stored, changed)
        if live:
            await self.corpus_cache.extend(owner, changed, words, gone)
        return bool(gone) or is_rewritten

    async def rows_of_text(self, note: Note) -> tuple[Note, list[IndexRow]] | None:
        """The note as its file is now, and the rows of its text: of a file of entries, of what is none of them.

        None where the file is not there. Raises StorageUnavailable where it cannot be read.
        """
        if not has_text(note):
            return note, []
        is_of_entries = is_entry_path(note.path)
        file = await self.vault.look(note.path, ENTRY_FILE_BYTES if is_of_entries else NOTE_BYTES)
        if file is None:
            return None
        # It may have changed since it was recorded, and change back.
        revision, found, recorded = note.digest.rpartition(" ")
        if file.digest != recorded:
            note = replace(note, digest=f"{revision}{found}{file.digest}", modified=file.modified)
        if not is_of_entries:
            return note, await asyncio.to_thread(note_rows, note, file.text)
        written = (await asyncio.to_thread(read_document, note.path, file.text)).written
        space = await self.entry_files.space_of(note.owner) or ""
        there, deleted = await self.entries.named(space, list(written))
        # One that was derived and is not there was forgotten, or is another owner's.
        ours = {
            name
            for name, each in written.items()
            if name in deleted or (each.is_intact if name in there else each.entry.sources)
        }
        return note, await asyncio.to_thread(rest_rows, note, file.text, ours)


def has_text(note: Note) -> bool:
    """False for a file of entries that holds nothing else: whether it is there does not matter."""
    return note.modified > 0 or not is_entry_path(note.path)


class WordQueue:
    """Threads that hold more than the index does."""

    def __init__(self, words: WordIndexer, to_embed: Callable[[Iterable[ThreadRef]], None]) -> None:
        """`to_embed` is given the threads that are indexed by words and have texts without a vector."""
        self._words = words
        self._to_embed = to_embed
        self._waiting: dict[ThreadRef, None] = {}
        self._in_work: dict[ThreadRef, None] = {}
        self._read_ahead: set[ThreadRef] = set()
        """Of those that wait, what search found in the journal while the index could not be reached."""
        self.users: set[User] = set()
        """Whose threads were indexed last."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_work)

    def add(self, thread: ThreadRef) -> None:
        self._waiting[thread] = None
        self._read_ahead.discard(thread)

    async def index(self, generation: str) -> dict[str, IndexUnavailable]:
        """Index what waits. Returns the owners whose index cannot be written: they keep nobody else waiting, and
        their threads are in the queue again.
        """
        # Taken before they are looked at: what is added to a thread after that puts it back.
        self._in_work, self._waiting = self._waiting, {}
        unwritable = {}
        try:
            for (space, user_id), threads in (await self._by_owner(generation)).items():
                ids = [thread.thread_id for thread in threads]
                try:
                    more = await self._words.index_threads(generation, space, user_id, ids, live=True)
                except IndexUnavailable as error:
                    unwritable[owner_folder(space, user_id)] = error
                    if isinstance(error, IndexUnreachable):
                        await self.read_ahead()
                        break
                    continue
                for thread in threads:
                    del self._in_work[thread]
                for thread_id in more:
                    self.add(ThreadRef(space, user_id, thread_id))
                self._to_embed(threads)
        finally:
            self._waiting.update(self._in_work)
            self._in_work = {}
        return unwritable

    async def read_ahead(self) -> None:
        """Have searches find what waits, by its words, though it can't be indexed."""
        for thread in {**self._in_work, **self._waiting}.keys() - self._read_ahead:
            self._read_ahead.add(thread)
            try:
                await self._words.corpus_cache.read_ahead(thread)
            except BaseException:
                self._read_ahead.discard(thread)
                raise

    async def _by_owner(self, generation: str) -> dict[User, list[ThreadRef]]:
        owners: defaultdict[User, list[ThreadRef]] = defaultdict(list)
        for thread in list(self._in_work):
            seen = await self._words.ledger.progress(generation, thread)
            if seen is not None and seen.words_behind:
                owners[thread.space, thread.user_id].append(thread)
                continue
            del self._in_work[thread]
            if seen is not None and seen.vectors_behind:
                self._to_embed([thread])
        self.users = set(owners)
        return owners


def _differences(
    stored: StoredRows, before: Sequence[IndexRow], wanted: Sequence[IndexRow]
) -> tuple[list[str], list[IndexRow], bool]:
    """The ids of the rows that go, the rows to put, and whether one of these has another text than before."""
    old = {row.row_id: row for row in stored.rows}
    kept = {row.row_id for row in wanted}
    gone = [row.row_id for row in before if row.row_id not in kept]
    changed = [row for row in wanted if old.get(row.row_id) != row]
    return gone, changed, any(row.row_id in old and old[row.row_id].text != row.text for row in changed)


def _with_same_meaning(stored: StoredRows, changed: Sequence[IndexRow]) -> dict[str, int]:
    """Of the changed rows, those whose vectors stay, with their places among the stored ones."""
    places = {row.row_id: place for place, row in enumerate(stored.rows)}
    return {
        row.row_id: place
        for row in changed
        if (place := places.get(row.row_id)) is not None
        and stored.has_vector[place]
        and not _reads_differently(stored.rows[place], row)
    }


def _rows(seen: ThreadProgress, placed: Sequence[PlacedTurn]) -> list[IndexRow]:
    return [row for each in placed if (row := turn_row(seen.thread, each.turn)) is not None]


def _unembedded(stored: StoredRows, wanted: Sequence[IndexRow]) -> list[IndexRow]:
    """Rows that have no vector of the words they hold: these are new, or a kill came before the vector was back."""
    embedded = {
        row.row_id: row for row, is_there in zip(stored.rows, stored.has_vector, strict=True) if is_there
    }
    return [row for row in wanted if _reads_differently(embedded.get(row.row_id), row)]


def _reads_differently(old: IndexRow | None, new: IndexRow) -> bool:
    return old is None or meaning_of(old) != meaning_of(new)


def unread_in_words(number: int) -> str:
    return f"{number} notes cannot be read in the vault: bring their files back"
