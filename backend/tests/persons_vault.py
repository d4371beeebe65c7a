"""A real vault in a temporary folder, and what a person does to its files past the server."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, MutableMapping
from pathlib import Path

from recollect.infra.vault_folder import FolderVault
from recollect.infra.watcher import VaultWatcher

_NOTES = (".md", ".markdown")


class Files(MutableMapping[str, str]):
    """The text files of a folder by their paths, as a person finds, saves and deletes them."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __getitem__(self, path: str) -> str:
        if not (self._root / path).is_file():
            raise KeyError(path)
        return (self._root / path).read_bytes().decode()

    def __setitem__(self, path: str, text: str) -> None:
        file = self._root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())

    def __delitem__(self, path: str) -> None:
        if path not in self:
            raise KeyError(path)
        (self._root / path).unlink()

    def __iter__(self) -> Iterator[str]:
        found = (file for file in self._root.rglob("*") if file.suffix.lower() in _NOTES and file.is_file())
        return iter(sorted(file.relative_to(self._root).as_posix() for file in found))

    def __len__(self) -> int:
        return len(list(iter(self)))


class PersonsVault(FolderVault):
    """A vault with a person at it, who can take it away, as one unmounts a disk, and bring it back."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.files = Files(root)

    def take_away(self) -> None:
        self.root.rename(self.root.with_name("elsewhere"))

    def age(self) -> None:
        """No file was written just now: what was, is read again in any case."""
        for path in self.files:
            os.utime(self.root / path, (1_000_000_000, 1_000_000_000))

    def bring_back(self) -> None:
        self.root.with_name("elsewhere").rename(self.root)


async def new_vault(root: Path) -> PersonsVault:
    vault = PersonsVault(root)
    await vault.open(expected=False)
    return vault


class ToldWatcher(VaultWatcher):
    """Tells what it is told to tell, until it is stopped."""

    def __init__(self) -> None:
        super().__init__(Path())
        self._told: asyncio.Queue[set[str] | None] = asyncio.Queue()

    def tell(self, *paths: str) -> None:
        self._told.put_nowait(set(paths))

    async def changes(self) -> AsyncIterator[set[str]]:
        while (paths := await self._told.get()) is not None:
            yield paths

    def stop(self) -> None:
        self._told.put_nowait(None)
