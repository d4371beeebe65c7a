"""Images as objects, beside the other files of their owners."""

from pathlib import PurePosixPath

from recollect.domain.images import images_folder, is_image_name
from recollect.infra.vault_objects import ObjectVault, off_loop


class ObjectImages:
    """As `Images` promises."""

    def __init__(self, vault: ObjectVault) -> None:
        self.vault = vault

    @off_loop("kept", "an image")
    def keep(self, space: str, user_id: str, name: str, content: bytes) -> None:
        self.vault.refuse_if_missing()
        path = _image_path(space, user_id, name)
        found = self.vault.objects.get(path)
        if found is None or found.content != content:
            self.vault.objects.replace(path, content)

    @off_loop("read", "an image")
    def read(self, space: str, user_id: str, name: str) -> bytes | None:
        found = self.vault.objects.get(_image_path(space, user_id, name))
        return None if found is None else found.content

    @off_loop("listed", "an image")
    def names(self, space: str, user_id: str) -> set[str]:
        self.vault.refuse_if_missing()
        folder = PurePosixPath(images_folder(space, user_id))
        paths = [PurePosixPath(each.path) for each in self.vault.objects.list(str(folder))]
        return {path.name for path in paths if path.parent == folder and is_image_name(path.name)}

    @off_loop("removed", "an image")
    def remove(self, space: str, user_id: str, names: set[str]) -> None:
        self.vault.refuse_if_missing()
        self.vault.objects.delete([_image_path(space, user_id, name) for name in sorted(names)])


def _image_path(space: str, user_id: str, name: str) -> str:
    if not is_image_name(name):
        raise ValueError(f"{name!r} is no name of an image")
    return f"{images_folder(space, user_id)}/{name}"
