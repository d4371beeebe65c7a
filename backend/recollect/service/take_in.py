"""Take in: what a person changed in a transcript becomes a revision in the journal."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from recollect.failpoints import FailPoints
from recollect.memory.model import TranscriptPart
from recollect.memory.revision import Revision, compare
from recollect.memory.transcript import parse_part
from recollect.memory.transcript_state import StoredPart, TranscriptState
from recollect.memory.vault_file import VaultFile
from recollect.service.ports import TranscriptStore, Vault

_log = logging.getLogger("recollect.edits")
_NEWER_TURNS = 200
_SHOWN = 5


def nobody_asks(space: str, thread_id: str) -> None:
    """For callers that do not follow revisions."""


@dataclass(slots=True)
class EditReports:
    """What became of hand edits since the start."""

    revisions: int = 0
    """Turns whose words a person changed."""
    restored: int = 0
    """Turns and files of transcripts that were removed by hand, and are back."""
    unreadable: int = 0
    """Files that held something that could not be taken in or read."""
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=100))
    """The last of them in words, with their paths."""

    def tell(self, path: str, what: str, *, level: int = logging.INFO) -> None:
        self.recent.append(f"{path}: {what}")
        _log.log(level, "%s: %s", path, what)

    def file_restored(self, path: str) -> None:
        self.restored += 1
        self.tell(path, "was removed by hand and is written anew", level=logging.WARNING)

    def not_read(self, path: str, why: str) -> None:
        self.unreadable += 1
        self.tell(path, why, level=logging.WARNING)

    def taken_in(self, path: str, revision: Revision, revised: int) -> None:
        self.revisions += revised
        if revised:
            self.tell(
                path, f"{revised} turns were edited by hand: {_some([t.turn_id for t in revision.turns])}"
            )
        if revision.header:
            self.tell(path, f"{' and '.join(revision.header)} edited by hand")
        if revision.removed:
            self.restored += len(revision.removed)
            self.tell(
                path, f"turns removed by hand are back: {_some(revision.removed)}", level=logging.WARNING
            )
        if revision.refused:
            self.not_read(path, f"not taken in: {_some(revision.refused)}")


@dataclass(frozen=True, slots=True)
class HandEditTaker:
    """After it has taken in a person's version of a part, nothing of that version is in their file alone."""

    store: TranscriptStore
    vault: Vault
    fail_points: FailPoints
    reports: EditReports
    on_revised: Callable[[str, str], None]

    async def take_in(self, state: TranscriptState, part: StoredPart, path: str, found: VaultFile) -> None:
        """Bring the journal up to what the person wrote; what it can't hold is kept as a conflict file."""
        space, thread_id = state.thread.space, state.thread.thread_id
        revision = await self._compared(state, part, found)
        if await self.store.state(space, thread_id) is None:
            return  # The thread was deleted meanwhile: nothing of it is kept, and its file goes.
        self.fail_points.reach("edits.seen")
        if revision.turns or revision.header:
            revised = await self.store.revise(space, thread_id, revision.turns, revision.header)
            self.fail_points.reach("edits.taken_in")
            self.on_revised(space, thread_id)
        else:
            revised = 0
        if not revision.is_complete:
            await self.vault.keep_copy(path, found.digest)
        self.reports.taken_in(path, revision, revised)

    async def _compared(self, state: TranscriptState, part: StoredPart, found: VaultFile) -> Revision:
        if not found.is_whole:
            return Revision(refused=["the file is not UTF-8 text"])
        space, thread_id = state.thread.space, state.thread.thread_id
        is_last = state.last_part is None or part.part >= state.last_part.part
        # The file may hold turns of an attempt that was cut short before it was recorded.
        last = part.last_position + _NEWER_TURNS if is_last else part.last_position
        placed = await self.store.turns(space, thread_id, part.first_position, last)
        cells = await self.store.cells(space, thread_id, part.first_position, last)
        turns = tuple(item.turn for item in placed)
        ours = TranscriptPart(state.thread, part.part, turns, tuple(cells))
        return await asyncio.to_thread(
            lambda: compare(
                parse_part(found.text),
                ours,
                expected=sum(item.position <= part.last_position for item in placed),
                header_is_current=part.header_revision == state.header_revision,
            )
        )


def _some(items: list[str]) -> str:
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return "; ".join(items[:_SHOWN]) + more
