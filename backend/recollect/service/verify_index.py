"""Verify the index: every text of the vault stands in it as it is, and nothing else does."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from recollect.errors import IndexUnavailable
from recollect.memory.index_progress import ThreadProgress
from recollect.memory.index_row import IndexRow
from recollect.memory.model import Thread
from recollect.memory.note import NOTE_BYTES
from recollect.memory.searchable import note_rows, turn_row
from recollect.memory.transcript import parse_part
from recollect.memory.vault_paths import owner_folder, transcript_path
from recollect.service.ports import (
    CoverageStore,
    IndexLedger,
    IndexStore,
    NoteStore,
    ThreadStore,
    TranscriptStore,
    Vault,
)

_PAGE = 500
_LOOKS = 3
"""An owner who is being written to is looked at again before anything is called wrong."""


@dataclass(frozen=True, slots=True)
class IndexVerifier:
    """Reads the vault's own files: what the index is held against is what a person sees in them."""

    store: IndexStore
    ledger: IndexLedger
    turns: TranscriptStore
    threads: ThreadStore
    counts: CoverageStore
    notes: NoteStore
    vault: Vault

    async def problems(self, generation: str) -> list[str]:
        """What is missing from a generation, differs, or should not be there."""
        problems: list[str] = []
        owners: set[str] = set()
        for space in await self.counts.spaces():
            users = {thread.user_id async for thread in self._all_threads(space) if not thread.incognito}
            for user_id in sorted(users):
                owner = owner_folder(space, user_id)
                owners.add(owner)
                problems += await self._owner_problems(generation, owner, (space, user_id))
        for owner in {note.owner for note in await self.notes.known()} - owners:
            owners.add(owner)
            problems += await self._owner_problems(generation, owner, None)
        strangers = set(await self.store.owners(generation)) - owners
        if strangers:
            problems.append(f"index: rows of {len(strangers)} users who have nothing in the vault")
        return problems

    async def _all_threads(self, space: str) -> AsyncIterator[Thread]:
        after: str | None = None
        while page := await self.threads.list_threads(space=space, limit=_PAGE, after=after):
            for thread in page:
                yield thread
            after = page[-1].thread_id

    async def _owner_problems(self, generation: str, owner: str, user: tuple[str, str] | None) -> list[str]:
        problems: list[str] = []
        for _ in range(_LOOKS):
            # First what must be there, then what is there, then what may be: an index that grows is not wrong.
            before = await self._progress(generation, user)
            noted = await self.ledger.notes(generation, owner)
            try:
                stored = await self.store.load(generation, owner)
            except IndexUnavailable as error:
                return [f"index: {error.message}"]
            pending = await self._pending(owner, before, noted)
            there = {row.row_id: row.digest for row in stored.rows if _source(row) not in pending}
            allowed, needed = await self._allowed(generation, owner, user, before, noted)
            problems = _differences(
                {row_id: digest for row_id, (digest, source) in allowed.items() if source not in pending},
                {row_id for row_id in needed if allowed[row_id][1] not in pending},
                there,
            )
            if not problems:
                return []
        return problems

    async def _progress(self, generation: str, user: tuple[str, str] | None) -> list[ThreadProgress]:
        return [] if user is None else await self.ledger.owner_progress(generation, *user)

    async def _pending(
        self, owner: str, before: list[ThreadProgress], noted: dict[str, tuple[str, bool]]
    ) -> set[str]:
        """Threads and notes that were edited since they were indexed: the index follows within a second."""
        notes = {note.path: note.digest for note in await self.notes.known(owner)}
        outdated = {path for path, (digest, _) in noted.items() if notes.get(path) != digest}
        return outdated | {each.thread.thread_id for each in before if each.is_stale}

    async def _allowed(
        self,
        generation: str,
        owner: str,
        user: tuple[str, str] | None,
        before: list[ThreadProgress],
        noted: dict[str, tuple[str, bool]],
    ) -> tuple[dict[str, tuple[str, str]], set[str]]:
        """Row id to digest and source of all that the vault holds; and the ids of what the ledger says is indexed."""
        allowed: dict[str, tuple[str, str]] = {}
        needed: set[str] = set()
        words_to = {each.thread.thread_id: each.words_to for each in before}
        for progress in await self._progress(generation, user):
            for row in await self._rows_of(progress.thread):
                allowed[row.row_id] = (row.digest, _source(row))
                if row.position <= words_to.get(row.thread_id, 0):
                    needed.add(row.row_id)
        for note in await self.notes.known(owner):
            file = await self.vault.look(note.path, NOTE_BYTES)
            rows = note_rows(note, file.text) if file is not None else []
            allowed.update({row.row_id: (row.digest, _source(row)) for row in rows})
            if noted.get(note.path, ("", False))[0] == note.digest:
                needed.update(row.row_id for row in rows)
        return allowed, needed

    async def _rows_of(self, thread: Thread) -> list[IndexRow]:
        """From the thread's files; what is not in a file yet, from the journal."""
        rows: list[IndexRow] = []
        written = 0
        for part in await self.turns.parts(thread.space, thread.thread_id):
            text = await self.vault.read(
                transcript_path(thread.space, thread.user_id, thread.thread_id, part.part)
            )
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
        placed = await self.turns.turns(thread.space, thread.thread_id, first, last)
        return [row for each in placed if (row := turn_row(thread, each.turn)) is not None]


def _source(row: IndexRow) -> str:
    """The thread, or the note, that a row comes from."""
    return row.thread_id or row.path


def _differences(allowed: dict[str, str], needed: set[str], there: dict[str, str]) -> list[str]:
    missing = needed - there.keys()
    extra = there.keys() - allowed.keys()
    # What is there and not recorded yet is put again before it counts.
    differing = {row_id for row_id in needed & there.keys() if allowed[row_id] != there[row_id]}
    said = (
        (missing, "are missing from the index"),
        (extra, "are in the index and not in the vault"),
        (differing, "differ from the vault"),
    )
    return [f"index: {len(rows)} texts {what}" for rows, what in said if rows]
