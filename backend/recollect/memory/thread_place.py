"""Where a thread stands in a list of the last used: pinned ones first, then by use."""

import json
from dataclasses import dataclass
from typing import Self

from recollect.memory.model import Thread


@dataclass(frozen=True, slots=True, order=True)
class ThreadPlace:
    """A place that stays where it was, also when its thread is used, unpinned or deleted meanwhile."""

    pinned: bool
    updated: int
    thread_id: str

    @classmethod
    def of(cls, thread: Thread) -> Self:
        return cls(thread.pinned, thread.updated, thread.thread_id)

    def as_text(self) -> str:
        """To be handed out as the mark of a page's end."""
        return json.dumps(
            [self.pinned, self.updated, self.thread_id], ensure_ascii=False, separators=(",", ":")
        )

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Raises ValueError for what `as_text` did not make."""
        match json.loads(text):
            case [bool(pinned), int(updated), str(thread_id)] if abs(updated) < 2**62:
                return cls(pinned, int(updated), thread_id)
        raise ValueError("this is no place in a list of threads")
