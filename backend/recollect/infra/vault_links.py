"""Links in the vault: one rule says which are followed, for all who look at its files."""

import os
from pathlib import Path


class VaultLinks:
    """A link is followed where what it leads to lies in the same owner's folder.

    What is nobody's, as presets are, stays in its own folder of the space; those folders themselves are no links.
    One folder on a path may be a link, and none that leads to a folder it lies in: whatever is linked to what, every
    walk ends.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def real_path(self, path: str) -> str | None:
        """Where what stands at a path really lies in the vault; None where a link on the way is not followed.

        Raises OSError where that cannot be told.
        """
        root = os.path.realpath(self._root)
        real = os.path.realpath(f"{root}/{path}")
        if not path or real == f"{root}/{path}":
            return path
        if not _is_inside(real, f"{root}/{_walls(path)}") or not _ends(root, path):
            return None
        return real.removeprefix(f"{root}/")


def _walls(path: str) -> str:
    """The folder that nothing on this path may lead out of."""
    parts = path.split("/")
    depth = 3 if len(parts) > 1 and parts[1] in ("users", "agents") else 2
    return "/".join(parts[:depth])


def _ends(root: str, path: str) -> bool:
    places = [Path(root, path), *Path(root, path).parents]
    folders = [place for place in places if place.is_symlink() and place.is_dir()]
    return len(folders) < 2 and not any(
        _is_inside(os.path.realpath(link.parent), os.path.realpath(link)) for link in folders
    )


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
