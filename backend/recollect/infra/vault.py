"""What a vault promises, wherever it is: in a folder of the home (`vault_folder`), in S3 or in a shared folder (`vault_objects`)."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

from recollect.domain.vault_file import FileStamp, VaultFile


class Vault(Protocol):
    """The files of everybody. Paths are relative, with `/`, and made of safe components only (`domain/paths.py`).

    Every method that awaits runs off the event loop, and raises StorageUnavailable where the files can't be reached.
    """

    conflicts: int
    """How many versions were kept as conflict files since the start."""

    @property
    def place(self) -> str:
        """Where it is, in words."""

    async def open(self, *, expected: bool) -> None:
        """Make it ready. Where files are `expected` and it is missing, refuse writes until it is back."""

    async def exists(self) -> bool:
        """Whether there is a vault to read, with our mark or without."""

    async def has_owner(self) -> bool:
        """Whether it says which home it belongs to: perhaps not to this one."""

    async def recreate(self) -> None:
        """Start an empty vault: the person says that the missing one is gone for good."""

    async def fill(self, folder: Path) -> None:
        """Take all files of an unpacked backup, whose folder goes. The vault must be empty."""

    def problem(self) -> str | None:
        """What keeps the vault from being written, in words. Names no file."""

    def keeps_copies(self) -> str | None:
        """What keeps old copies of files after they were forgotten, in words."""

    def is_there(self) -> bool:
        """Whether it has our mark. Without it, it may be an empty mount point, or somebody else's."""

    def refuse_if_missing(self) -> None:
        """Raises StorageUnavailable where the whole vault is missing."""

    async def read(self, path: str) -> str | None:
        """The text of a file, None where there is none. What is not UTF-8 is replaced by U+FFFD."""

    async def look(self, path: str, limit: int | None = None) -> VaultFile | None:
        """A file as it is now, None where there is none. With `limit`, at most that many bytes of it."""

    async def is_blocked(self, path: str) -> bool:
        """Whether nothing can be written there: a file has the name of one of its folders, or a folder its own."""

    async def stamps(self, folder: str = "") -> dict[str, FileStamp]:
        """A stamp of each Markdown file below a folder. Hidden files are left out.

        What exists and cannot be looked at has UNREADABLE or NOT_FOLLOWED for a stamp.
        """

    async def list_files(self, folder: str = "") -> list[str]:
        """Every Markdown file below a folder that may be read, sorted."""

    async def holds_transcripts(self) -> bool:
        """Whether any conversation is in the vault, whoever wrote it."""

    async def bytes_below(self, folder: str) -> int:
        """Size of all files below a folder."""

    async def sources(self) -> dict[str, Callable[[], bytes]]:
        """Every file by its path, with what reads it: FileNotFoundError if it went meanwhile."""

    async def write(self, path: str, text: str, ours: frozenset[str]) -> str | None:
        """Put `text` in place, all or nothing, durable when this returns.

        `ours` are the digests of what we may have put there before. Anything else is a person's: it is kept
        beside as a conflict file, whose path is returned.
        """

    async def write_unless_foreign(self, path: str, text: str, ours: frozenset[str]) -> VaultFile | None:
        """Put `text` in place as `write` does, unless the file is a person's version: that is returned, untouched."""

    async def keep_copy(self, path: str, digest: str) -> str | None:
        """Keep a person's version beside as a conflict file, whose path is returned; None if it is there no longer."""

    async def remove_folder(self, path: str) -> None:
        """Remove a folder and all that is in it; one that is gone already is fine."""

    async def remove_empty_folder(self, path: str) -> None:
        """Remove a folder that is empty; one that is not, or is gone already, is left alone."""

    async def remove_file(self, path: str, ours: frozenset[str]) -> str | None:
        """Remove a file; one that is gone already is fine.

        A version that is not ours is kept beside as a conflict file, whose path is returned.
        """

    async def remove_leftovers(self, folder: str) -> None:
        """Remove leftovers of interrupted writes below a folder."""


class Images(Protocol):
    """The images of every user, each in their owner's folder."""

    async def keep(self, space: str, user_id: str, name: str, content: bytes) -> None:
        """Durable when this returns. A file that has the name and another content is replaced."""

    async def read(self, space: str, user_id: str, name: str) -> bytes | None:
        """None where there is none."""

    async def names(self, space: str, user_id: str) -> set[str]:
        """Names of all images of a user. Other files in the folder are a person's."""

    async def remove(self, space: str, user_id: str, names: set[str]) -> None:
        """Gone when this returns; those that are gone already are fine."""


class Watcher(Protocol):
    """Tells which files changed, where that can be told before the next sweep."""

    def problem(self) -> str | None:
        """Why changes are not told, in words."""

    def changes(self) -> AsyncIterator[set[str]]:
        """Sets of changed paths, until `stop`; `""` where anything may have changed."""

    def stop(self) -> None:
        """End `changes`, soon."""
