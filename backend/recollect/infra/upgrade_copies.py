"""Copies of vault files as they were before an upgrade, so that it can be undone byte for byte."""

import shutil
from pathlib import Path

from recollect.domain.paths import file_name
from recollect.failpoints import FailPoints
from recollect.infra.vault_read import discard, in_thread, make_folder, sync, write_synced

COPIES = "before-upgrade"


class UpgradeCopies:
    """In the folder `before-upgrade` of the home. A copy is named by its path and the digest of what replaced it."""

    def __init__(self, home: Path, fail_points: FailPoints) -> None:
        self._root = home / COPIES
        self._fail_points = fail_points

    @in_thread("written", "the copy of an old file")
    def keep(self, path: str, text: str, replaced_by: str) -> None:
        """Durable when this returns. An earlier copy of the same file goes."""
        target = self._root / f"{path}.{replaced_by}"
        earlier = [each for each in self._of(path) if each != target]
        make_folder(target.parent)
        beside = target.with_name(f"{target.name}.tmp")
        write_synced(beside, text.encode(), self._fail_points)
        beside.replace(target)
        for each in earlier:
            discard(each)
        sync(target.parent)

    @in_thread("read", "the copies of old files")
    def kept(self) -> list[tuple[str, str]]:
        """The path of each file, and the digest of what replaced it."""
        found = sorted(path for path in self._root.rglob("*") if path.is_file() and path.suffix != ".tmp")
        names = [path.relative_to(self._root).as_posix().rpartition(".") for path in found]
        return [(path, digest) for path, _, digest in names]

    @in_thread("read", "the copy of an old file")
    def text(self, path: str, replaced_by: str) -> str:
        return (self._root / f"{path}.{replaced_by}").read_bytes().decode()

    @in_thread("removed", "the copy of an old file")
    def drop(self, path: str) -> None:
        for each in self._of(path):
            discard(each)

    @in_thread("removed", "the copies of old files")
    def forget(self, space: str) -> None:
        """All of a space: any of them may hold what was forgotten there."""
        folder = self._root / file_name(space)
        if folder.is_dir():
            shutil.rmtree(folder)
            sync(self._root)

    def _of(self, path: str) -> list[Path]:
        target = self._root / path
        return [each for each in target.parent.glob("*") if each.name.startswith(f"{target.name}.")]
