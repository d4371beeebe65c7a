"""Verify the index: it holds every text of the vault as it is, and nothing else."""

import asyncio
from dataclasses import dataclass, field

from recollect.domain.markdown.transcript import parse_part
from recollect.domain.model import Thread
from recollect.domain.paths import owner_folder, transcript_path
from recollect.domain.recall.rows import IndexRow, StoredRows, ThreadProgress, turn_row, words_of
from recollect.errors import IndexUnavailable, StorageUnavailable
from recollect.infra.journal.coverage import SqlCoverage
from recollect.infra.journal.files import SqlNoteStore
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.recall.indexer import Indexer
from recollect.service.recall.words import WordIndexer

UNPROVEN = "files cannot be read, and what the index holds of them is not proven"
"""The end of a message about a problem of the vault, as opposed to one of the index."""

_LOOKS = 3
_PAUSE_SECONDS = 0.5
"""An owner who is being written to is looked at again, after a pause, before anything is called wrong."""


@dataclass(slots=True)
class _Allowed:
    """What may be in the index of one owner."""

    rows: dict[str, IndexRow] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)
    """Ids of those that must."""
    unread: set[str] = field(default_factory=set)
    """Known notes whose files are missing; their content can't be verified."""
    unreadable: set[str] = field(default_factory=set)
    """Notes and threads whose files are there and cannot be read."""


@dataclass(frozen=True, slots=True)
class IndexVerifier:
    """Reads the vault's own files: what the index is held against is what a person sees in them. Entries it reads from
    the journal: `entry_problems` holds that against their files.
    """

    words: WordIndexer
    threads: SqlThreadStore
    counts: SqlCoverage
    notes: SqlNoteStore

    async def problems(self, generation: str) -> list[str]:
        """What is missing from a generation, differs, or should not be there."""
        problems: list[str] = []
        owners: set[str] = set()
        for space in await self.counts.spaces():
            threads = await self.threads.list_threads(space=space)
            users = {thread.user_id for thread in threads if not thread.incognito}
            for user_id in sorted(users):
                owner = owner_folder(space, user_id)
                owners.add(owner)
                problems += await self._owner_problems(generation, owner, (space, user_id))
        for owner in {owner for owner, _ in await self.notes.listed()} - owners:
            owners.add(owner)
            problems += await self._owner_problems(generation, owner, None)
        return problems + await self._strangers(generation, owners)

    async def _strangers(self, generation: str, owners: set[str]) -> list[str]:
        try:
            strangers = set(await self.words.store.owners(generation)) - owners
        except IndexUnavailable as error:
            return [f"index: {error.message}"]
        return [f"index: rows of {len(strangers)} users who have nothing in the vault"] if strangers else []

    async def _owner_problems(self, generation: str, owner: str, user: tuple[str, str] | None) -> list[str]:
        problems: list[str] = []
        for look in range(_LOOKS):
            if look:
                await asyncio.sleep(_PAUSE_SECONDS)
            # First what must be there, then what is there, then what may be: an index that grows is not wrong.
            before = await self._progress(generation, user)
            noted = await self.words.ledger.notes(generation, owner)
            expected = await self.words.ledger.expected(generation, owner, *(user or ("", "")))
            try:
                stored = await self.words.store.load(generation, owner, patient=True)
            except IndexUnavailable as error:
                return [f"index: {error.message}"]
            pending = await self._pending(owner, before, noted)
            allowed = await self._allowed(generation, owner, user, before, noted)
            problems = await asyncio.to_thread(_differences, allowed, stored, pending)
            are_proven = all(problem.endswith(UNPROVEN) for problem in problems)
            if are_proven and (lacking := stored.lacks(expected)) is not None:
                problems.append(f"index: {lacking}")
            if not problems:
                return []
        return problems

    async def _progress(self, generation: str, user: tuple[str, str] | None) -> list[ThreadProgress]:
        return [] if user is None else await self.words.ledger.owner_progress(generation, *user)

    async def _pending(
        self, owner: str, before: list[ThreadProgress], noted: dict[str, tuple[str, bool]]
    ) -> set[str]:
        """Threads and notes that were edited since they were indexed: the index follows within a second."""
        notes = {note.path: note.digest for note in await self.words.ledger.sources(owner)}
        outdated = {path for path, (digest, _) in noted.items() if notes.get(path) != digest}
        return outdated | {each.thread.thread_id for each in before if each.is_stale}

    async def _allowed(
        self,
        generation: str,
        owner: str,
        user: tuple[str, str] | None,
        before: list[ThreadProgress],
        noted: dict[str, tuple[str, bool]],
    ) -> _Allowed:
        """All that the vault holds, and what of it the ledger says is indexed."""
        allowed = _Allowed()
        words_to = {each.thread.thread_id: each.words_to for each in before}
        for progress in await self._progress(generation, user):
            if (found := await self._rows_of(progress.thread)) is None:
                allowed.unreadable.add(progress.thread.thread_id)
            for row in found or ():
                allowed.rows[row.row_id] = row
                if row.position <= words_to.get(row.thread_id, 0):
                    allowed.needed.add(row.row_id)
        sources = await self.words.ledger.sources(owner)
        entries = await self.words.entries_of(sources)
        for note in sources:
            try:
                text = await self.words.rows_of_text(note)
            except StorageUnavailable:
                allowed.unreadable.add(note.path)
                continue
            if text is None:
                allowed.unread.add(note.path)
                continue
            is_indexed = noted.get(note.path, ("", False))[0] == note.digest
            for row in (*entries.get(note.path, ()), *text[1]):
                allowed.rows[row.row_id] = row
                if is_indexed:
                    allowed.needed.add(row.row_id)
        return allowed

    async def _rows_of(self, thread: Thread) -> list[IndexRow] | None:
        """From the thread's files; what is not in a file yet, from the journal. None where a file cannot be read."""
        rows: list[IndexRow] = []
        written = 0
        for part in await self.words.turns.parts(thread.ref):
            try:
                text = await self.words.vault.read(transcript_path(*thread.ref, part.part))
            except StorageUnavailable:
                return None
            if part.digest is None or text is None:
                rows += await self._in_journal(thread, part.first_position, part.last_position)
            else:
                parsed = await asyncio.to_thread(parse_part, text)
                rows += [row for turn in parsed.turns if (row := turn_row(thread, turn)) is not None]
            written = max(written, part.last_position)
        known = {row.row_id for row in rows}
        late = await self._in_journal(thread, written + 1, None)
        return rows + [row for row in late if row.row_id not in known]

    async def _in_journal(self, thread: Thread, first: int, last: int | None) -> list[IndexRow]:
        placed = await self.words.turns.turns(thread.ref, first, last)
        return [row for each in placed if (row := turn_row(thread, each.turn)) is not None]


def _source(row: IndexRow) -> str:
    """The thread, or the note, that a row comes from."""
    return row.thread_id or row.path


def _differences(allowed: _Allowed, stored: StoredRows, pending: set[str]) -> list[str]:
    passed_over = pending | allowed.unread | allowed.unreadable
    there = {
        row.row_id: (row, words)
        for row, words in zip(stored.rows, stored.words, strict=True)
        if _source(row) not in passed_over
    }
    needed = {row_id for row_id in allowed.needed if _source(allowed.rows[row_id]) not in passed_over}
    # What is there and not recorded yet is put again before it counts.
    both = [(allowed.rows[row_id], *there[row_id]) for row_id in needed & there.keys()]
    said = (
        (len(needed - there.keys()), "texts are missing from the index"),
        (len(there.keys() - allowed.rows.keys()), "texts are in the index and not in the vault"),
        (sum(row != wanted for wanted, row, _ in both), "texts differ from the vault"),
        (sum(words != words_of(wanted) for wanted, _, words in both), "texts have other words in the index"),
        (len(allowed.unread - pending), "notes are known whose files are not in the vault"),
        (len(allowed.unreadable), UNPROVEN),
    )
    return [f"index: {number} {what}" for number, what in said if number]


_UNTIL = "search finds every message by reading the journal meanwhile"


def index_problem(indexer: Indexer) -> str | None:
    """Why the index does not keep up by words."""
    if indexer.words_problem is not None:
        return f"the index cannot be written: {indexer.words_problem}; {_UNTIL}, but no notes"
    if indexer.notes_problem is not None:
        return f"notes are missing from search: {indexer.notes_problem}"
    if indexer.remaking:
        threads, owners = indexer.waiting[0], indexer.notes_waiting
        left = f"{threads} threads and the notes of {owners} users are left"
        return f"the index is being rebuilt, {left}; {_UNTIL}"
    return None


def meaning_problem(indexer: Indexer) -> str | None:
    """Why search goes by words alone; not because of another model, which `Reindexer.problem` tells."""
    if indexer.meaning_problem is not None:
        return f"search goes by words alone for what is new: {indexer.meaning_problem}"
    if indexer.refused:
        return (
            f"{indexer.refused} texts are found by words alone: the embedding model refuses them, and is asked again "
            "every hour"
        )
    return None
