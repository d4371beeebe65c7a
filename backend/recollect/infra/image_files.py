"""Images as files of the vault: written beside, synced and renamed, so that one is whole or not there."""

import asyncio
import os
import secrets
from pathlib import Path

from recollect.domain.images import images_folder, is_image_name
from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.vault import Vault

_BESIDE = ".tmp"


class ImageFiles:
    """The images of every user, each in their owner's folder. Neither a name nor a link leads anywhere else."""

    def __init__(self, vault: Vault, *, fail_points: FailPoints | None = None) -> None:
        self._vault = vault
        self._fail_points = fail_points or FailPoints()

    async def keep(self, space: str, user_id: str, name: str, content: bytes) -> None:
        """Durable when this returns. What stands there under the name and is something else is replaced."""
        await asyncio.to_thread(self._keep, self._file(space, user_id, name), content)

    async def read(self, space: str, user_id: str, name: str) -> bytes | None:
        """None where there is none."""
        return await asyncio.to_thread(self._read, self._file(space, user_id, name))

    async def names(self, space: str, user_id: str) -> set[str]:
        """Of all images of a user. What else lies in the folder is a person's."""
        return await asyncio.to_thread(self._names, self._vault.root / images_folder(space, user_id))

    async def remove(self, space: str, user_id: str, names: set[str]) -> None:
        """Gone from the disk when this returns; those that are gone already are fine."""
        files = [self._file(space, user_id, name) for name in sorted(names)]
        await asyncio.to_thread(self._remove, files)

    def _file(self, space: str, user_id: str, name: str) -> Path:
        if not is_image_name(name):
            raise ValueError(f"{name!r} is no name of an image")
        return self._vault.root / images_folder(space, user_id) / name

    def _keep(self, file: Path, content: bytes) -> None:
        self._refuse_if_missing()
        self._vault.refuse_if_led_away(self._path(file))
        beside = file.with_name(f"{file.name}.{secrets.token_hex(4)}{_BESIDE}")
        try:
            if self._read(file) == content:
                _sync(file)  # It may have come from a backup, or from a person.
                _sync(file.parent)
                return
            _make_folders(file.parent)
            try:
                with beside.open("wb") as opened:
                    opened.write(content)
                    self._fail_points.reach("vault.written_beside")
                    opened.flush()
                    os.fsync(opened.fileno())
                self._fail_points.reach("vault.synced")
                beside.replace(file)
            finally:
                beside.unlink(missing_ok=True)
            self._fail_points.reach("vault.renamed")
            _sync(file.parent)
        except OSError as error:
            raise _unavailable("kept", error) from error

    def _read(self, file: Path) -> bytes | None:
        try:
            return None if self._vault.leads_away(self._path(file)) else file.read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise _unavailable("read", error) from error

    def _names(self, folder: Path) -> set[str]:
        self._refuse_if_missing()
        try:
            if self._vault.leads_away(self._path(folder)):
                return set()
            return {file.name for file in folder.iterdir() if is_image_name(file.name)}
        except (FileNotFoundError, NotADirectoryError):
            return set()
        except OSError as error:
            raise _unavailable("listed", error) from error

    def _remove(self, files: list[Path]) -> None:
        self._refuse_if_missing()
        for folder in {file.parent for file in files}:
            self._vault.refuse_if_led_away(f"{self._path(folder)}/")
        try:
            for file in files:
                file.unlink(missing_ok=True)
            for folder in {file.parent for file in files}:
                if folder.is_dir():
                    _sync(folder)
        except OSError as error:
            raise _unavailable("removed", error) from error

    def _path(self, file: Path) -> str:
        return file.relative_to(self._vault.root).as_posix()

    def _refuse_if_missing(self) -> None:
        if not self._vault.is_there():
            raise StorageUnavailable(self._vault.problem())


def _make_folders(folder: Path) -> None:
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(exist_ok=True)
        _sync(new.parent)


def _sync(path: Path) -> None:
    """Works on folders, too."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unavailable(verb: str, error: OSError) -> StorageUnavailable:
    """Names no path: those hold the names of users."""
    return StorageUnavailable(f"an image cannot be {verb}: {error.strerror or error}")
