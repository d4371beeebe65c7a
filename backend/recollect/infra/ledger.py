"""The ledger of a home: what was deleted or forgotten, in a file that outlives the journal."""

import os
from collections.abc import Sequence
from pathlib import Path

from recollect.domain.forgetting import Remembered
from recollect.infra.vault_read import in_thread, make_folder, sync, unavailable

LEDGER = "ledger"
"""Its name in the home."""


class Ledger:
    """Lines are only ever added. It names users, threads by their keys, and files by digests: it holds no texts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def is_there(self) -> bool:
        return self.path.is_file()

    @in_thread("read", "the ledger")
    def read(self) -> Remembered:
        """All that is recorded; nothing if there is no ledger."""
        remembered = Remembered()
        if self.is_there():
            with self.path.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    remembered.take(line)
        return remembered

    def append(self, lines: Sequence[str]) -> None:
        """Durable when this returns. It makes the file where there is none. For threads that may wait for the disk."""
        try:
            self._append(lines)
        except OSError as error:
            raise unavailable(error, "written", "the ledger") from error

    def _append(self, lines: Sequence[str]) -> None:
        make_folder(self.path.parent)
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+b") as ledger:
            if size := ledger.seek(0, os.SEEK_END):
                ledger.seek(size - 1)
                whole = ledger.read(1) == b"\n"
                ledger.write(b"" if whole else b"\n")  # A write was cut short: its line ends here.
            ledger.write("".join(f"{line}\n" for line in lines).encode())
            ledger.flush()
            os.fsync(ledger.fileno())
        sync(self.path.parent)
