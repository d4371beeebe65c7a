"""What follows files of the vault that people may change, beside transcripts and notes."""

from collections.abc import Iterable
from typing import Protocol

from recollect.memory.vault_file import FileStamp


class FileFollower(Protocol):
    """Keeps the journal true to one more kind of file."""

    def follows(self, path: str) -> bool: ...
    async def known(self) -> dict[str, str]:
        """The files that should be there, and the digests of what they held last."""
        ...

    async def look_at(self, paths: Iterable[str]) -> dict[str, FileStamp]:
        """Take in what changed. Returns the stamps of those that need not be read again."""
        ...

    async def let_go(self, paths: Iterable[str]) -> None: ...
    async def write_anew(self, paths: Iterable[str]) -> None: ...
