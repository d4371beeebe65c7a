"""The folders of the vault, each with a watch of its own, so that one that cannot be watched blinds nobody else."""

import errno
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from recollect.infra import inotify
from recollect.infra.inotify import Event, Inotify
from recollect.infra.vault_links import VaultLinks
from recollect.memory.vault_paths import is_markdown

_LOOK_SECONDS = 0.1
_GROUP_SECONDS = 0.2
_QUIET_SECONDS = 0.05
_CAME = inotify.CREATED | inotify.MOVED_HERE | inotify.ATTRIBUTES
_WENT = inotify.DELETED | inotify.MOVED_AWAY
_FATAL = (errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def notified_changes(root: Path, stop: threading.Event) -> Iterator[set[str] | None]:
    """Paths that changed, soon after they did, and empty sets meanwhile; None where some were missed, and it ends.

    A path that is no Markdown file's is that of a folder. Hidden ones, and links that are not followed, are none.
    """
    with Inotify() as watches:
        folders = _Folders(root, watches)
        folders.add("")
        yield set()
        while not stop.is_set():
            events = watches.read(_LOOK_SECONDS)
            changed = folders.changed_by(events)
            deadline = time.monotonic() + _GROUP_SECONDS
            while changed and time.monotonic() < deadline and (events := watches.read(_QUIET_SECONDS)):
                changed |= folders.changed_by(events)
            if folders.missed:
                yield None
                return
            yield changed


class _Folders:
    """By which names each watched folder goes: beside its own, that of every link to it."""

    def __init__(self, root: Path, watches: Inotify) -> None:
        self._root = root
        self._watches = watches
        self._links = VaultLinks(root)
        self._names: defaultdict[int, set[str]] = defaultdict(set)
        self._linked_folders: set[str] = set()
        self._linked_files: defaultdict[str, set[str]] = defaultdict(set)
        """Links to files, by where these really lie."""
        self.missed = False

    def add(self, folder: str) -> None:
        """Watch a folder and all below it. Watched first, then read: what comes meanwhile is told or read.

        One that went, or cannot be read, is passed over: the sweep says so, and its parent tells when that changes.
        """
        try:
            self._names[self._watches.add(str(self._root / folder))].add(folder)
            entries = list(os.scandir(self._root / folder))
        except OSError as error:
            if not folder or error.errno in _FATAL:
                raise
            return
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                self._add_link(path)
            elif entry.is_dir(follow_symlinks=False):
                self.add(path)

    def _add_link(self, path: str) -> None:
        try:
            real, is_folder = self._links.real_path(path), (self._root / path).is_dir()
        except OSError:
            return
        if real is not None and is_folder:
            self._linked_folders.add(path)
            self.add(path)
        elif real is not None and is_markdown(path):
            self._linked_files[real].add(path)

    def changed_by(self, events: list[Event]) -> set[str]:
        changed: set[str] = set()
        for event in events:
            if event.what & inotify.OVERFLOW:
                self.missed = True
            elif event.what & inotify.ENDED:
                self._names.pop(event.watch, None)
            elif event.what & inotify.UNMOUNTED:
                changed |= self._names.get(event.watch, set())
            elif event.name and not event.name.startswith("."):
                for folder in list(self._names.get(event.watch, ())):
                    path = f"{folder}/{event.name}" if folder else event.name
                    changed |= self._happened(path, event.what)
        return changed

    def _happened(self, path: str, what: int) -> set[str]:
        is_folder = bool(what & inotify.IS_FOLDER) or path in self._linked_folders
        if what & _WENT and is_folder:
            self._forget(path)
        elif what & _CAME and is_folder:
            self.add(path)
        elif what & _CAME and self._is_link(path):
            self._add_link(path)
            is_folder = not is_markdown(path)  # Or a link that is not followed: whoever looks counts it.
        if is_folder:
            return {path}
        return {path, *self._linked_files.get(path, ())} if is_markdown(path) else set()

    def _is_link(self, path: str) -> bool:
        try:
            return (self._root / path).is_symlink()
        except OSError:
            return False

    def _forget(self, folder: str) -> None:
        self._linked_folders.discard(folder)
        for watch, names in list(self._names.items()):
            names -= {name for name in names if name == folder or name.startswith(f"{folder}/")}
            if not names:
                del self._names[watch]
                self._watches.remove(watch)
