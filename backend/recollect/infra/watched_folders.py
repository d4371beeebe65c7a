"""Changes of the vault where the system is not Linux: what a library sees, by the names that are ours to tell."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from recollect.infra.vault_links import VaultLinks
from recollect.memory.vault_paths import is_markdown

_BESIDE = ".tmp"
_GROUP_MS = 200
_QUIET_MS = 50
_LOOK_AFTER_MS = 500


def watched_changes(root: Path, stop: threading.Event) -> Iterator[set[str] | None]:
    """Paths that changed, and empty sets meanwhile. One folder that cannot be read keeps all from being watched."""
    from watchfiles import watch

    links = VaultLinks(root)
    for changes in watch(
        root,
        watch_filter=lambda _change, path: not path.endswith(_BESIDE),
        debounce=_GROUP_MS,
        step=_QUIET_MS,
        stop_event=stop,
        rust_timeout=_LOOK_AFTER_MS,
        yield_on_timeout=True,
        raise_interrupt=False,
    ):
        told: set[str] = set()
        for path in (Path(path) for _, path in changes):
            if is_markdown(path.name) or not _is_file(path):
                told |= _names(root, path.relative_to(root).as_posix(), links)
        yield told


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False  # In a folder that cannot be read.


def _names(root: Path, path: str, links: VaultLinks) -> set[str]:
    """The library tells of what is linked by one of its names, and follows every link."""
    if path == ".":
        return {""}
    real = os.path.relpath(os.path.realpath(root / path), os.path.realpath(root))
    try:
        followed = {path} if links.real_path(path) is not None else set()
    except OSError:
        followed = {path}  # Whoever looks at it is told why it cannot be read.
    return followed if real.startswith("..") else {real, *followed}
