"""Writes turns and memcells to transcripts, and takes in what a person changed there."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from recollect.domain.job import Job
from recollect.domain.markdown.revision import Revision, compare
from recollect.domain.markdown.transcript import is_transcript, parse_part, render_part
from recollect.domain.model import Memcell, Thread, ThreadRef, TranscriptPart, Turn
from recollect.domain.paths import owner_folder, transcript_path
from recollect.domain.vault_file import (
    TRANSCRIPTS,
    KnownFile,
    PlacedTurn,
    StoredPart,
    TranscriptState,
    VaultFile,
)
from recollect.failpoints import FailPoints
from recollect.infra.journal.files import PartParts, SqlTranscriptStore
from recollect.infra.vault import Vault
from recollect.service.vault.reader import EditReports, drop_old_copy
from recollect.service.vault.sync import FileSync

_NEWER_TURNS = 200
PART_CHARS = 32 * 1024
"""A part is closed before it exceeds this, so writing the newest turns costs the same in any thread."""
_TURNS_AT_ONCE = 200
_MOST_EDITS = 5
"""If a person saves faster than we import, the later saves are kept in a conflict file."""


@dataclass(frozen=True, slots=True)
class Transcriber(FileSync):
    """Every part is rendered from the journal and replaced whole: running twice leaves the same bytes.

    What a person changed in a file is imported before that file is replaced. A file that they removed is restored.
    """

    store: SqlTranscriptStore
    vault: Vault
    fail_points: FailPoints
    on_revised: Callable[[ThreadRef], None] = lambda thread: None
    """Told the thread whenever the words of a turn, a title or tags were edited by hand."""
    reports: EditReports = field(default_factory=EditReports)
    limit = None
    ignores_empty = True

    async def handle(self, job: Job) -> None:
        """The handler of transcribe jobs."""
        if job.thread is not None:
            await self.transcribe(job.thread)

    async def transcribe(self, thread: ThreadRef) -> None:
        """Bring the vault up to the journal for one thread."""
        while (state := await self.store.state(thread)) is not None and not state.thread.incognito:
            self.fail_points.reach("transcribe.planned")
            new = await self.store.turns(thread, _next_position(state), limit=_TURNS_AT_ONCE)
            extended = state.last_part.part if new and state.last_part else None
            for part in state.stale_parts:
                if part.part != extended:
                    await self.rewrite(state, part)
            if new or state.last_part is None:
                await self._extend(state, new)
            if len(new) < _TURNS_AT_ONCE:
                return

    async def rewrite(self, state: TranscriptState, part: StoredPart) -> None:
        """Render one part from the journal and replace its file."""
        turns = await self.store.turns(state.thread.ref, part.first_position, part.last_position)
        await self._put(state, part, turns)

    async def _extend(self, state: TranscriptState, new: list[PlacedTurn]) -> None:
        part = state.last_part or StoredPart(1, 1, 0, state.header_revision)
        turns: list[PlacedTurn] = []
        if part.last_position >= part.first_position:
            turns = await self.store.turns(state.thread.ref, part.first_position, part.last_position)
        size = sum(_size(placed.turn) for placed in turns)
        for placed in new:
            length = _size(placed.turn)
            if turns and size + length > PART_CHARS:
                await self._put(state, part, turns)
                part = StoredPart(part.part + 1, placed.position, placed.position - 1, state.header_revision)
                turns, size = [], 0
            turns.append(placed)
            size += length
        await self._put(state, part, turns)

    async def handle_edits(self, job: Job) -> None:
        """The handler of jobs that look at one file."""
        if job.thread is not None:
            number, gone = int(job.payload["part"]), bool(job.payload.get("gone"))
            await self.look_again(job.thread, number, restore=gone)

    async def catch_up(self, thread: ThreadRef, *, restore: bool = False) -> None:
        """Take in whatever a person changed in any file of a thread. With `restore`, missing files are restored."""
        for part in await self.store.parts(thread):
            await self.look_again(thread, part.part, restore=restore)

    async def look_again(self, thread: ThreadRef, number: int, *, restore: bool) -> None:
        """Take in what a person changed in one part's file. With `restore`, a missing file is restored."""
        part = await self.store.part(thread, number)
        state = await self.store.state(thread)
        if state is None or part is None or state.thread.incognito:
            return
        path = _path(state, part)
        found = await self.vault.look(path)
        if found is not None and found.digest not in part.digests:
            await self.rewrite(state, part)
        elif found is None and restore:
            await self.store.forget_part(thread, number)
            await self.rewrite(state, replace(part, digest=None, announced=None))
            self.reports.file_restored(path)

    def follows(self, path: str) -> bool:
        return is_transcript(path)

    async def see_edits(self, path: str, file: KnownFile | None, found: VaultFile) -> None:
        if file is not None and file.digest is not None:
            await FileSync.see_edits(self, path, file, found)
        elif file is None:
            await drop_old_copy(self.store, self.vault, self.reports, path, found)

    async def let_go(self, paths: Iterable[str]) -> None:
        """Forgetting goes through the API: files that a person removed are restored."""
        await self.write_again(paths)

    async def write_again(self, paths: Iterable[str]) -> None:
        for path in paths:
            await self.store.queue(path, gone="yes")

    async def _put(self, state: TranscriptState, part: StoredPart, turns: list[PlacedTurn]) -> None:
        """Write a part that holds these turns. What a person changed in its file is taken in before."""
        ours = part.digests
        for _ in range(_MOST_EDITS):
            found = await self._write_part(state, part, turns, ours)
            if found is None:
                return
            ours |= {found.digest}
            if await self.store.is_old_copy(_path(state, part), *found.digests):
                if not await self._is_being_forgotten(_path(state, part), found):
                    self.reports.old_copy_replaced(_path(state, part))
                continue
            await self._apply_edits(state, part, found)
            newest = await self.store.state(state.thread.ref)
            if newest is None:
                return
            if part.header_revision == state.header_revision:
                part = replace(part, header_revision=newest.header_revision)
            state = newest
            turns = await self.store.turns(state.thread.ref, part.first_position, _last(part, turns))
        await self._write_part(state, part, turns, ours, over_theirs=True)

    async def _is_being_forgotten(self, path: str, found: VaultFile) -> bool:
        """Whether it is the file of a forgotten thread whose id is in use again before its purge ran."""
        return await self.store.is_deleted(path, *found.digests) and await self.store.is_purging()

    async def _apply_edits(self, state: TranscriptState, part: StoredPart, found: VaultFile) -> None:
        """Bring the journal up to what a person wrote; what it can't hold is kept as a conflict file.

        After this, nothing of their version is in their file alone.
        """
        thread, path = state.thread.ref, _path(state, part)
        revision = await self._compared(state, part, found)
        if await self.store.state(thread) is None:
            return  # The thread was deleted meanwhile: nothing of it is kept, and its file goes.
        self.fail_points.reach("edits.seen")
        revised = 0
        if revision.turns or revision.header:
            revised = await self.store.revise(thread, revision.turns, revision.header)
            self.fail_points.reach("edits.taken_in")
            self.on_revised(thread)
        if not revision.is_complete:
            await self.vault.keep_copy(path, found.digest)
        self.reports.applied(path, revision, revised)

    async def _compared(self, state: TranscriptState, part: StoredPart, found: VaultFile) -> Revision:
        if not found.is_whole:
            return Revision(refused=["the file is not UTF-8 text"])
        is_last = state.last_part is None or part.part >= state.last_part.part
        # The file may hold turns of a write that was interrupted before it was recorded.
        last = part.last_position + _NEWER_TURNS if is_last else part.last_position
        where = state.thread.ref, part.first_position, last
        placed, cells = await self.store.turns(*where), await self.store.cells(*where)
        turns = tuple(item.turn for item in placed)
        return await asyncio.to_thread(
            lambda: compare(
                parse_part(found.text),
                TranscriptPart(state.thread, part.part, turns, tuple(cells)),
                expected=sum(item.position <= part.last_position for item in placed),
                header_is_current=part.header_revision == state.header_revision,
            )
        )

    async def _write_part(
        self,
        state: TranscriptState,
        part: StoredPart,
        turns: list[PlacedTurn],
        ours: frozenset[str],
        *,
        over_theirs: bool = False,
    ) -> VaultFile | None:
        """Render a part and put it in place, as `put` does."""
        thread, last = state.thread.ref, _last(part, turns)
        cells = await self.store.cells(thread, part.first_position, last)
        text = await asyncio.to_thread(render_part, part_of(state.thread, part.part, turns, cells))
        part = replace(part, last_position=last, header_revision=state.header_revision)
        file = KnownFile(
            _path(state, part),
            TRANSCRIPTS,
            thread.space,
            owner_folder(thread.space, thread.user_id),
            digest=part.digest,
            announced=part.announced,
        )
        parts = PartParts(thread, part, cells)
        theirs = await self.put(file, text, ours, parts, over_theirs=over_theirs)
        if theirs is None:
            self.fail_points.reach("transcribe.recorded")
        return theirs


def part_of(thread: Thread, part: int, turns: list[PlacedTurn], cells: list[Memcell]) -> TranscriptPart:
    """One part of a transcript as the vault should have it."""
    return TranscriptPart(thread, part, tuple(placed.turn for placed in turns), tuple(cells))


def _size(turn: Turn) -> int:
    """About how long a turn is in the file. Of the turn alone: when it was written must not move a part's end."""
    return (
        100
        + len(turn.content)
        + len(turn.reasoning or "")
        + len(repr(turn.parts))
        + len(repr(turn.tool_calls))
    )


def _next_position(state: TranscriptState) -> int:
    return 1 if state.last_part is None else state.last_part.last_position + 1


def _path(state: TranscriptState, part: StoredPart) -> str:
    return transcript_path(*state.thread.ref, part.part)


def _last(part: StoredPart, turns: list[PlacedTurn]) -> int:
    return turns[-1].position if turns else part.last_position
