"""Images as files of the vault: written beside, synced and renamed, so that one is whole or not there."""

from recollect.domain.images import images_folder, is_image_name
from recollect.failpoints import FailPoints
from recollect.infra.vault_folder import FolderVault
from recollect.infra.vault_read import (
    in_thread,
    make_folder,
    name_while_written,
    read_content,
    sync,
    write_synced,
)


class ImageFiles:
    """The images of every user, each in their owner's folder. Neither a name nor a link leads anywhere else."""

    def __init__(self, vault: FolderVault, *, fail_points: FailPoints | None = None) -> None:
        self._vault = vault
        self._fail_points = fail_points or FailPoints()

    @in_thread("kept", "an image")
    def keep(self, space: str, user_id: str, name: str, content: bytes) -> None:
        """Durable when this returns. A file that has the name and another content is replaced."""
        path = _path(space, user_id, name)
        file = self._vault.writable(path)
        if self._read(path) == content:
            sync(file)  # It may have come from a backup, or from a person.
            sync(file.parent)
            return
        make_folder(file.parent)
        beside = name_while_written(file)
        try:
            write_synced(beside, content, self._fail_points)
            beside.replace(file)
        finally:
            beside.unlink(missing_ok=True)
        self._fail_points.reach("vault.renamed")
        sync(file.parent)

    @in_thread("read", "an image")
    def read(self, space: str, user_id: str, name: str) -> bytes | None:
        """None where there is none."""
        return self._read(_path(space, user_id, name))

    def _read(self, path: str) -> bytes | None:
        found = read_content(self._vault.root, path)
        return None if found is None else found.content

    @in_thread("listed", "an image")
    def names(self, space: str, user_id: str) -> set[str]:
        """Names of all images of a user. Other files in the folder are a person's."""
        self._vault.refuse_if_missing()
        folder = images_folder(space, user_id)
        try:
            if self._vault.leads_away(folder):
                return set()
            return {file.name for file in (self._vault.root / folder).iterdir() if is_image_name(file.name)}
        except (FileNotFoundError, NotADirectoryError):
            return set()

    @in_thread("removed", "an image")
    def remove(self, space: str, user_id: str, names: set[str]) -> None:
        """Gone from the disk when this returns; those that are gone already are fine."""
        files = [self._vault.writable(_path(space, user_id, name)) for name in sorted(names)]
        for file in files:
            file.unlink(missing_ok=True)
        if files and files[0].parent.is_dir():
            sync(files[0].parent)


def _path(space: str, user_id: str, name: str) -> str:
    if not is_image_name(name):
        raise ValueError(f"{name!r} is no name of an image")
    return f"{images_folder(space, user_id)}/{name}"
