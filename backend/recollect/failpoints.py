"""Named steps of the pipeline at which a test can kill the process, as a power cut would."""

import os
import signal
from typing import Final

FAIL_POINTS: Final = (
    "journal.in_transaction",
    "journal.committed",
    "jobs.claimed",
    "jobs.handled",
    "jobs.completed",
    "boundary.decided",
    "boundary.closed",
    "transcribe.planned",
    "vault.written_beside",
    "vault.synced",
    "vault.renamed",
    "vault.set_aside",
    "vault.emptied",
    "transcribe.recorded",
    "upgrade.kept",
    "edits.seen",
    "edits.taken_in",
    "index.written",
    "index.recorded",
    "index.embedded",
    "index.compacting",
    "index.compacted",
    "index.removed",
    "index.promoting",
    "index.promoted",
    "reindex.filled",
    "reindex.swapped",
    "extract.answered",
    "extract.answer_kept",
    "remember.applied",
    "skill.answered",
    "skill.answer_kept",
    "skill.announced",
    "forget.tombstones_written",
    "forget.folder_removed",
    "forget.transcript_rewritten",
    "forget.late_ones_gone",
    "forget.settled",
    "forget.overwritten",
    "import.added",
    "webhook.sent",
    "rebuild.imported",
    "rebuild.swapped",
    "restore.unpacked",
)


class FailPoints:
    """Kills this process with SIGKILL when the chosen step is reached for the n-th time."""

    def __init__(self, spec: str | None = None) -> None:
        """`spec` is a name of FAIL_POINTS, or `name:n`; None switches every point off."""
        name, _, count = (spec or "").partition(":")
        if name and name not in FAIL_POINTS:
            raise ValueError(f"unknown fail point {name!r}; known: {', '.join(FAIL_POINTS)}")
        self._name = name or None
        self._left = int(count) if count else 1

    def reach(self, name: str) -> None:
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
