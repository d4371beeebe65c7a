"""The ledger of the index in memory. `tests/contract/test_index_ledger.py` holds it against the real one."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from recollect.domain.model import Note
from recollect.domain.paths import owner_folder
from recollect.domain.recall.rows import Expected, ThreadProgress
from recollect.service.recall.generations import RefusalLedger
from tests.fakes import FakeJournal, FakeNoteStore, ThreadRows

Identity = tuple[str, str, str, int]
"""Space, thread, user and when it was created: what another thread of the same id does not share."""


@dataclass
class _Recorded:
    words_to: int
    vectors_to: int
    header_revision: int
    revision: int
    refused: int = 0


@dataclass
class _Records:
    threads: dict[int, _Recorded] = field(default_factory=dict)
    notes: dict[str, tuple[str, str, bool]] = field(default_factory=dict)
    """Path to owner, digest and whether it is embedded."""
    rows: dict[str, int] = field(default_factory=dict)
    """How many rows each note has."""
    vectors: dict[str, int] = field(default_factory=dict)


class FakeIndexLedger(RefusalLedger):
    """Keeps its records on a fake journal and fake notes."""

    def __init__(self, journal: FakeJournal, notes: FakeNoteStore) -> None:
        self._journal = journal
        self._notes = notes
        self._generations: dict[str, _Records] = {}
        self._numbers: dict[Identity, int] = {}
        self.graves: set[tuple[str, str]] = set()
        """Space and id of the entries that a person deleted."""

    async def knows(self, generation: str) -> bool:
        return generation in self._generations

    async def add_generation(self, generation: str) -> None:
        self._generations[generation] = _Records()

    async def keep_only(self, generation: str) -> None:
        self._generations = {
            name: records for name, records in self._generations.items() if name == generation
        }

    async def behind(self, generation: str, after: int = 0, limit: int = 200) -> list[ThreadProgress]:
        found = [
            progress
            for rows in self._all()
            if (progress := self._progress(generation, rows)).thread_pk > after
            and (rows.last_number > progress.words_to or progress.vectors_behind or progress.is_stale)
        ]
        return sorted(found, key=lambda progress: progress.thread_pk)[:limit]

    async def progress(self, generation: str, space: str, thread_id: str) -> ThreadProgress | None:
        rows = self._journal.rows.get((space, thread_id))
        return None if rows is None or rows.thread.incognito else self._progress(generation, rows)

    async def owner_progress(self, generation: str, space: str, user_id: str) -> list[ThreadProgress]:
        found = [self._progress(generation, rows) for rows in self._of(space, user_id)]
        return sorted(found, key=lambda progress: progress.thread.thread_id)

    async def record_words(
        self, generation: str, seen: ThreadProgress, words_to: int, vectors_to: int
    ) -> bool:
        if not self._is_as_seen(seen):
            return False
        threads = self._records(generation).threads
        now = _Recorded(words_to, min(vectors_to, words_to), seen.header_revision, seen.revision)
        before = threads.get(seen.thread_pk, now)
        if (before.revision, before.header_revision) == (now.revision, now.header_revision):
            now.refused = before.refused
        threads[seen.thread_pk] = now
        return True

    async def record_vectors(
        self, generation: str, seen: ThreadProgress, vectors_to: int, refused: int = 0
    ) -> bool:
        recorded = self._records(generation).threads.get(seen.thread_pk)
        if recorded is None or not self._is_as_seen(seen) or recorded.revision != seen.revision:
            return False
        recorded.vectors_to = min(vectors_to, recorded.words_to)
        recorded.refused = max(0, recorded.refused + refused)
        return True

    async def reset_thread(self, generation: str, thread_pk: int) -> None:
        self._records(generation).threads.pop(thread_pk, None)

    async def reset_owner(self, generation: str, owner: str, space: str, user_id: str) -> None:
        records = self._records(generation)
        for rows in self._of(space, user_id):
            records.threads.pop(self._number(rows), None)
        records.notes = {path: kept for path, kept in records.notes.items() if kept[0] != owner}

    async def count_indexed(self, generation: str, space: str, user_id: str) -> int:
        return sum(
            turn.skip_reason is None and number <= words_to and bool(turn.content.strip())
            for rows in self._of(space, user_id)
            if (words_to := self._progress(generation, rows).words_to)
            for number, turn in rows.turns.items()
        )

    async def expected(self, generation: str, owner: str, space: str, user_id: str) -> Expected:
        records = self._records(generation)
        known = {note.path: note.digest for note in await self._notes.known(owner)}
        kept = [path for path, (whose, digest, _) in records.notes.items() if known.get(path) == digest]
        return Expected(
            turns=await self.count_indexed(generation, space, user_id),
            turn_vectors=sum(
                max(0, self._count_embedded(rows, seen) - seen.refused)
                for rows in self._of(space, user_id)
                if not (seen := self._progress(generation, rows)).is_stale
            ),
            notes=sum(records.rows[path] for path in kept),
            note_vectors=sum(records.vectors[path] for path in kept),
        )

    def _count_embedded(self, rows: ThreadRows, seen: ThreadProgress) -> int:
        return sum(
            turn.skip_reason is None and number <= seen.vectors_to and bool(turn.content.strip())
            for number, turn in rows.turns.items()
        )

    async def refused(self, generation: str) -> dict[str, int]:
        records = self._records(generation)
        number: Counter[str] = Counter()
        for rows in self._all():
            number[owner_folder(rows.thread.space, rows.thread.user_id)] += self._progress(
                generation, rows
            ).refused
        known = {note.path: note.digest for note in await self._notes.known()}
        for path, (owner, digest, embedded) in records.notes.items():
            if embedded and known.get(path) == digest:
                number[owner] += records.rows[path] - records.vectors[path]
        return {owner: count for owner, count in number.items() if count > 0}

    async def owners(self, generation: str) -> dict[str, tuple[str, str]]:
        found = {owner: ("", "") for owner, _, _ in self._records(generation).notes.values()}
        users = {
            (rows.thread.space, rows.thread.user_id)
            for rows in self._all()
            if self._progress(generation, rows).words_to
        }
        return found | {owner_folder(*user): user for user in users}

    async def buried(self, space: str, row_ids: Sequence[str]) -> set[str]:
        return {row_id for row_id in row_ids if (space, row_id) in self.graves}

    async def existing(
        self, space: str, user_id: str, places: Sequence[tuple[str, int]]
    ) -> set[tuple[str, int]]:
        return {
            (thread_id, position)
            for thread_id, position in places
            if (rows := self._journal.rows.get((space, thread_id))) is not None
            and rows.thread.user_id == user_id
            and position in rows.turns
        }

    async def parts_holding(
        self, space: str, places: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        found = {}
        for thread_id, position in places:
            rows = self._journal.rows.get((space, thread_id))
            parts = [] if rows is None else sorted(rows.parts.values(), key=lambda part: part.part)
            begun = [part for part in parts if part.first_position <= position]
            if begun and begun[-1].digest is not None and begun[-1].last_position >= position:
                found[thread_id, position] = begun[-1].part
        return found

    async def notes(self, generation: str, owner: str) -> dict[str, tuple[str, bool]]:
        return {
            path: (digest, embedded)
            for path, (whose, digest, embedded) in self._records(generation).notes.items()
            if whose == owner
        }

    async def notes_behind(self, generation: str, owner: str) -> tuple[list[Note], list[str]]:
        indexed = await self.notes(generation, owner)
        known = {note.path: note for note in await self._notes.known(owner)}
        behind = [note for note in known.values() if indexed.get(note.path, ("",))[0] != note.digest]
        return behind, sorted(indexed.keys() - known.keys())

    async def unembedded_notes(self, generation: str, owner: str) -> list[Note]:
        known = await self._notes.known(owner)
        return [note for note in known if await self.is_unembedded(generation, note)]

    async def is_unembedded(self, generation: str, note: Note) -> bool:
        return (await self.notes(generation, note.owner)).get(note.path) == (note.digest, False)

    async def note_owners(self, generation: str) -> list[str]:
        indexed = self._records(generation).notes
        known = {note.path: (note.owner, note.digest, True) for note in await self._notes.known()}
        return list(
            {
                (known.get(path) or indexed[path])[0]
                for path in {**known, **indexed}
                if known.get(path) != indexed.get(path)
            }
        )

    async def record_notes(
        self,
        generation: str,
        owner: str,
        put: Sequence[Note],
        removed: Sequence[str],
        *,
        embedded: bool = False,
        counts: Mapping[str, int] | None = None,
    ) -> None:
        records = self._records(generation)
        for path in removed:
            records.notes.pop(path, None)
            records.rows.pop(path, None)
        for note in put:
            records.notes[note.path] = (owner, note.digest, embedded)
            number = (counts or {}).get(note.path, 0)
            records.vectors[note.path] = number if embedded else 0
            records.rows[note.path] = records.rows.get(note.path, 0) if embedded else number

    def _records(self, generation: str) -> _Records:
        """What is left of threads that were deleted goes first, as it does in a real journal."""
        records = self._generations.setdefault(generation, _Records())
        there = {self._number(rows) for rows in self._all()}
        for number in records.threads.keys() - there:
            del records.threads[number]
        return records

    def _all(self) -> Iterator[ThreadRows]:
        return (rows for rows in self._journal.rows.values() if not rows.thread.incognito)

    def _of(self, space: str, user_id: str) -> list[ThreadRows]:
        return [rows for rows in self._all() if (rows.thread.space, rows.thread.user_id) == (space, user_id)]

    def _number(self, rows: ThreadRows) -> int:
        thread = rows.thread
        identity = (thread.space, thread.thread_id, thread.user_id, thread.created)
        return self._numbers.setdefault(identity, len(self._numbers) + 1)

    def _is_as_seen(self, seen: ThreadProgress) -> bool:
        rows = self._journal.rows.get((seen.thread.space, seen.thread.thread_id))
        return rows is not None and (self._number(rows), _revision(rows)) == (seen.thread_pk, seen.revision)

    def _progress(self, generation: str, rows: ThreadRows) -> ThreadProgress:
        recorded = self._records(generation).threads.get(self._number(rows)) or _Recorded(0, 0, 0, 0)
        now = (rows.header_revision, _revision(rows))
        return ThreadProgress(
            thread=replace(rows.thread),
            thread_pk=self._number(rows),
            last_position=rows.last_final,
            words_to=recorded.words_to,
            vectors_to=recorded.vectors_to,
            refused=recorded.refused,
            header_revision=now[0],
            revision=now[1],
            is_stale=recorded.words_to > 0 and (recorded.header_revision, recorded.revision) != now,
        )


def _revision(rows: ThreadRows) -> int:
    """Another number whenever a person edited something."""
    edited = [(number, turn.content, turn.sender_id) for number, turn in rows.copies() if turn.edited]
    digest = hashlib.sha256(repr(edited).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") if edited else 0
