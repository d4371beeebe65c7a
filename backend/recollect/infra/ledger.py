"""The ledger: what was deleted or forgotten, kept apart from the journal, which it outlives."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from recollect.domain.forgetting import Remembered
from recollect.infra.vault_read import in_thread, make_folder, sync

LEDGER = "ledger"
"""Its name in the home."""


class Ledger(Protocol):
    """In the home (`FileLedger`) or, where the vault is elsewhere, beside it (`ledger_objects`): homes may be lost.

    Lines are only ever added. It names users, threads by their keys, and files by digests: it holds no texts.
    """

    async def is_there(self) -> bool:
        """Whether everything that was ever added to it is where it is looked for."""

    async def content(self) -> bytes | None:
        """All its lines, in the order in which they were added; None where there is no ledger."""

    async def append(self, lines: Sequence[str]) -> None:
        """Durable when this returns. It makes the ledger where there is none."""


def remembered_in(content: bytes) -> Remembered:
    """What the lines of a ledger say."""
    remembered = Remembered()
    for line in content.decode(errors="replace").split("\n"):
        remembered.take(line)
    return remembered


class FileLedger:
    """As `Ledger` promises, in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @in_thread("read", "the ledger")
    def is_there(self) -> bool:
        return self.path.is_file()

    @in_thread("read", "the ledger")
    def content(self) -> bytes | None:
        return self.path.read_bytes() if self.path.is_file() else None

    @in_thread("written", "the ledger")
    def append(self, lines: Sequence[str]) -> None:
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
