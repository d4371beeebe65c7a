"""Objects by their paths, wherever they are: read, replaced if unchanged, listed, deleted. What S3 and a folder share."""

import hashlib
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import NamedTuple

from recollect.domain.paths import is_markdown
from recollect.errors import HomeUnusable, StorageUnavailable

PROBE = ".recollect-probe-"
LEDGER_FOLDER = ".ledger"
INDEX = ".index"
_NO_FILES = (PROBE, f"{LEDGER_FOLDER}/")
REMOVED = b"Recollect removed this file, and was interrupted. It goes at the next look at the bucket.\n"
"""What an object holds between the two requests of its removal. One that is left is no file, and goes later."""
_REMOVED_DIGEST = hashlib.sha256(REMOVED).hexdigest()


class Changed(Exception):
    """An object is not what it was when it was looked at: nothing was written."""


class Refused(StorageUnavailable):
    """What holds the objects answers, and refuses what only a person can put right, as keys or permissions."""


class Found(NamedTuple):
    """An object as it was read. The digests are of all of it, as `VaultFile` has them, whatever the limit."""

    content: bytes
    digest: str
    lf_digest: str
    is_whole: bool
    etag: str
    size: int
    modified_ms: int
    could_change_unseen: bool = False
    """Whether it is so new that a change at this moment may leave its ETag as it is."""


class Listed(NamedTuple):
    """An object as it is listed."""

    path: str
    etag: str
    size: int


class Objects(ABC):
    """Paths are relative. Calls block: they are for threads.

    Raises StorageUnavailable where nothing answers, Refused where it refuses.
    """

    keeps_versions = False
    """Whether an old version was kept of anything that was written."""

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    def _get(self, path: str, limit: int | None = None) -> Found | None:
        """As `get`, one that is being removed included."""

    @abstractmethod
    def _put(self, path: str, content: bytes, etag: str | None) -> str:
        """As `put`, where none is being removed."""

    @abstractmethod
    def replace(self, path: str, content: bytes) -> None:
        """Put an object in place, whatever is there."""

    @abstractmethod
    def delete(self, paths: Sequence[str]) -> None:
        """Gone when this returns; those that are gone already are fine."""

    @abstractmethod
    def folders(self, folder: str = "") -> list[str]:
        """The names of those right below a folder that hold anything."""

    @abstractmethod
    def _list(self, folder: str, without: str | None = None) -> Iterator[Listed]:
        """Every object below a folder, but for those below the folder `without`."""

    @abstractmethod
    def is_made(self) -> bool:
        """False where nobody has made the place yet, or it is not mounted."""

    @abstractmethod
    def make(self) -> None:
        """Make the place, unless it is there or somebody else's to make."""

    @abstractmethod
    def is_blocked(self, path: str) -> bool:
        """Whether nothing can be written there: a file has the name of one of its folders, or a folder its own."""

    @abstractmethod
    def remove_leftovers(self, folder: str = "") -> None:
        """Of writes below a folder that were interrupted."""

    @abstractmethod
    def sync(self, paths: Iterable[str]) -> None:
        """Make durable what another library wrote."""

    @abstractmethod
    def for_lance(self) -> tuple[str, dict[str, str]]:
        """Where LanceDB finds the same, and its options."""

    @abstractmethod
    def is_down(self, told: str) -> bool:
        """Whether an error of LanceDB's says that what holds the objects did not answer, or refused."""

    def get(self, path: str, limit: int | None = None) -> Found | None:
        """None where there is none, or one that is being removed. With `limit`, at most that many bytes of it."""
        found = self._get(path, limit)
        return None if found is not None and found.digest == _REMOVED_DIGEST else found

    def put(self, path: str, content: bytes, etag: str | None) -> str:
        """Replace the object that has this ETag; with None, create it. Returns the new ETag; raises Changed.

        An answer that was lost is asked for again: then Changed may mean that this very content is there.
        """
        try:
            return self._put(path, content, etag)
        except Changed:
            left = self._get(path) if etag is None else None
            if left is None or left.digest != _REMOVED_DIGEST:
                raise
            return self._put(path, content, left.etag)

    def remove(self, path: str, etag: str, emptied: Callable[[], None] = lambda: None) -> None:
        """Remove the object that has this ETag; raises Changed. What is saved there meanwhile stays.

        S3 deletes without asking: so the object is emptied under a condition, and looked at once more. What is saved
        between that look and the delete is lost.
        """
        try:
            self._put(path, REMOVED, etag)
        except Changed:
            if not self.finish_removal(path):  # It was emptied, and the answer was lost.
                raise
            return
        emptied()
        self.finish_removal(path)

    def finish_removal(self, path: str) -> bool:
        """Delete an object if it is one that is being removed. Returns whether it was."""
        left = self._get(path)
        if left is None or left.digest != _REMOVED_DIGEST:
            return False
        self.delete([path])
        return True

    def list(self, folder: str = "") -> Iterator[Listed]:
        """Every object below a folder. Of all, without ledger, index and what a killed probe left."""
        if folder:
            yield from self._list(folder)
        else:
            yield from (each for each in self._list("", INDEX) if not each.path.startswith(_NO_FILES))

    def probe(self) -> None:
        """Raises HomeUnusable where no files can be kept here: missing, no permission, or conditions are ignored."""
        path = PROBE + secrets.token_hex(4)
        try:
            self.remove_leftovers()
            with suppress(Changed):  # Nobody else knows its name: an answer was lost, and it was put again.
                self._put(path, b"1", None)
            try:
                honoured = self._refuses(path, None) and self._refuses(path, "0123456789abcdef" * 2)
            finally:
                self.delete([path])
        except Refused as error:
            raise HomeUnusable(f"the files cannot be kept in {self.url}: {error.message}") from error
        if not honoured:
            raise HomeUnusable(
                f"the files cannot be kept in {self.url}: this S3 server ignores conditions (If-Match, If-None-Match), so"
                " what a person saves there could be overwritten. Use one that honours them"
            )

    def _refuses(self, path: str, etag: str | None) -> bool:
        try:
            self._put(path, b"2", etag)
        except Changed:
            return True
        return False


def conflict_path(path: str, digest: str) -> str:
    """What a person's version of a file is kept as."""
    name = PurePosixPath(path)
    suffix = ".md" if is_markdown(path) else name.suffix
    return str(name.with_name(f"{name.stem}.conflict-{digest}{suffix}"))
