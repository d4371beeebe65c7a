"""Transcribe: write a thread's turns and memcells to the vault, behind the journal."""

import asyncio
from dataclasses import dataclass, replace

from recollect.failpoints import FailPoints
from recollect.memory.identity import text_digest
from recollect.memory.job import Job
from recollect.memory.model import Memcell, Thread, TranscriptPart, Turn
from recollect.memory.transcript import render_part
from recollect.memory.transcript_state import PlacedTurn, StoredPart, TranscriptState
from recollect.memory.vault_paths import transcript_path
from recollect.service.ports import TranscriptStore, Vault

PART_CHARS = 32 * 1024
"""A part is closed before it exceeds this, so writing the newest turns costs the same in any thread."""
_TURNS_AT_ONCE = 200
_MOST_ANNOUNCED = 50


@dataclass(frozen=True, slots=True)
class Transcriber:
    """Every part is rendered from the journal and replaced whole: running twice leaves the same bytes."""

    store: TranscriptStore
    vault: Vault
    fail_points: FailPoints

    async def handle(self, job: Job) -> None:
        """The handler of transcribe jobs."""
        if job.thread_id is not None:
            await self.transcribe(job.space, job.thread_id)

    async def transcribe(self, space: str, thread_id: str) -> None:
        """Bring the vault up to the journal for one thread."""
        while (state := await self.store.state(space, thread_id)) is not None and not state.thread.incognito:
            self.fail_points.reach("transcribe.planned")
            new = await self.store.turns(space, thread_id, _next_position(state), limit=_TURNS_AT_ONCE)
            extended = state.last_part.part if new and state.last_part else None
            for part in state.stale_parts:
                if part.part != extended:
                    await self.rewrite(state, part)
            if new or state.last_part is None:
                await self._extend(state, new)
            if len(new) < _TURNS_AT_ONCE:
                return

    async def rewrite(self, state: TranscriptState, part: StoredPart) -> None:
        """Render one part anew from the journal."""
        turns = await self.store.turns(
            state.thread.space, state.thread.thread_id, part.first_position, part.last_position
        )
        await self._put(state, part, turns)

    async def _extend(self, state: TranscriptState, new: list[PlacedTurn]) -> None:
        part = state.last_part or StoredPart(1, 1, 0, state.header_revision)
        turns: list[PlacedTurn] = []
        if part.last_position >= part.first_position:
            turns = await self.store.turns(
                state.thread.space, state.thread.thread_id, part.first_position, part.last_position
            )
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

    async def _put(self, state: TranscriptState, part: StoredPart, turns: list[PlacedTurn]) -> None:
        thread = state.thread
        last = turns[-1].position if turns else part.last_position
        cells = await self.store.cells(thread.space, thread.thread_id, part.first_position, last)
        text = await asyncio.to_thread(render, thread, part.part, turns, cells)
        digest = text_digest(text)
        announced = [*(known for known in (part.writing or "").split() if known != digest), digest]
        ours = frozenset([*announced, *([part.digest] if part.digest else [])])
        part = replace(
            part,
            last_position=last,
            header_revision=state.header_revision,
            writing=" ".join(announced[-_MOST_ANNOUNCED:]),
        )
        await self.store.announce(thread.space, thread.thread_id, part)
        path = transcript_path(thread.space, thread.user_id, thread.thread_id, part.part)
        await self.vault.write(path, text, ours)
        await self.store.record(
            thread.space, thread.thread_id, replace(part, digest=digest, writing=None), cells
        )
        self.fail_points.reach("transcribe.recorded")


def render(thread: Thread, part: int, turns: list[PlacedTurn], cells: list[Memcell]) -> str:
    """One part of a transcript as it stands in the vault."""
    return render_part(TranscriptPart(thread, part, tuple(placed.turn for placed in turns), tuple(cells)))


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
