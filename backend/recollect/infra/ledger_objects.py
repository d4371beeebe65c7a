"""The ledger as objects, below the vault's prefix and hidden from the vault."""

from collections.abc import Sequence
from pathlib import Path

from recollect.errors import StorageUnavailable
from recollect.infra.objects import LEDGER_FOLDER, Changed
from recollect.infra.vault_objects import ObjectVault, off_loop
from recollect.infra.vault_read import unavailable

PIECE_BYTES = 100_000
_TRIES = 20


class ObjectLedger:
    """As `Ledger` promises, in numbered objects. The last is replaced, if nobody did meanwhile, until it is full.

    A ledger in the home, of the time when the vault was a folder or of a restored backup, is taken along.
    """

    def __init__(self, vault: ObjectVault, file: Path, *, piece_bytes: int = PIECE_BYTES) -> None:
        self.vault = vault
        self._file = file
        self._piece_bytes = piece_bytes

    @off_loop("read", "the ledger")
    def is_there(self) -> bool:
        self.vault.refuse_if_missing()
        return bool(self._pieces()) and not self._file.is_file()

    @off_loop("read", "the ledger")
    def content(self) -> bytes | None:
        pieces = [self.vault.objects.get(path) for path in self._pieces()]
        found = [_ended(piece.content) for piece in pieces if piece is not None] + self._of_the_home()
        return b"".join(found) if found else None

    @off_loop("written", "the ledger")
    def append(self, lines: Sequence[str]) -> None:
        self.vault.refuse_if_missing()  # Another home's ledger is not written to.
        self._add(b"".join([*self._of_the_home(), *(f"{line}\n".encode() for line in lines)]))
        self._file.unlink(missing_ok=True)

    def _add(self, content: bytes) -> None:
        for _ in range(_TRIES):
            path = next(reversed(self._pieces()), f"{LEDGER_FOLDER}/{1:08}")
            found = self.vault.objects.get(path)
            if found is not None and found.size >= self._piece_bytes:
                path, found = f"{LEDGER_FOLDER}/{int(path[-8:]) + 1:08}", None
            before = b"" if found is None else _ended(found.content)
            try:
                self.vault.objects.put(path, before + content, None if found is None else found.etag)
            except Changed:
                continue
            return
        raise StorageUnavailable("it is changed again and again at this moment")

    def _pieces(self) -> list[str]:
        listed = (each.path for each in self.vault.objects.list(LEDGER_FOLDER))
        return sorted(path for path in listed if path[len(LEDGER_FOLDER) + 1 :].isdecimal())

    def _of_the_home(self) -> list[bytes]:
        try:
            return [_ended(self._file.read_bytes())] if self._file.is_file() else []
        except OSError as error:
            raise unavailable(error, "read", "the one in the home") from error


def _ended(content: bytes) -> bytes:
    """A write that was cut short, or a person, left the last line without its end."""
    return content if content[-1:] in (b"", b"\n") else content + b"\n"
