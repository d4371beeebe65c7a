"""Watches the vault with the system's own notifications."""

import asyncio
import errno
import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from recollect.domain.paths import is_markdown
from recollect.infra import inotify
from recollect.infra.inotify import Event, Inotify
from recollect.infra.vault_read import VaultLinks

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


Changes = Callable[[Path, threading.Event], Iterator[set[str] | None]]
"""Paths that changed below a folder, and empty sets several times a second; None where some were missed."""

_RETRY_SECONDS = 1.0
_RETRY_LIMIT_SECONDS = 60.0
_LIMITS = (errno.ENOSPC, errno.EMFILE)
_LIMIT_WORDS = ("limit reached", "Too many open files")
_log = logging.getLogger("recollect.vault")


class VaultWatcher:
    """Tells which files and folders changed. What it can't watch is left to the sweep, and `problem` says so.

    A vault that goes and comes back, a disk that is mounted anew, is watched again.
    """

    def __init__(self, root: Path, changes: Changes | None = None) -> None:
        self._root = root
        self._changes = changes or (notified_changes if Inotify.is_available() else watched_changes)
        self._stop = threading.Event()
        self._stopped: asyncio.Event | None = None
        self._problem: str | None = None

    def problem(self) -> str | None:
        return self._problem

    def stop(self) -> None:
        """End `changes`, soon."""
        self._stop.set()
        if self._stopped is not None:
            self._stopped.set()

    async def changes(self) -> AsyncIterator[set[str]]:
        """Sets of changed paths, relative to the vault, until `stop`; `""` whenever a watch begins.

        A path that is no Markdown file's is that of a folder that came, went or was renamed.
        """
        self._stop.clear()
        self._stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="vault-watcher") as executor:
            try:
                while not self._stop.is_set():
                    watch = self._watch()
                    while (paths := await loop.run_in_executor(executor, next, watch, None)) is not None:
                        if paths:
                            yield paths
                    await self._wait_before_retry()
            finally:
                self._stop.set()

    async def _wait_before_retry(self) -> None:
        assert self._stopped is not None
        seconds = _RETRY_SECONDS if self._problem is None else _RETRY_LIMIT_SECONDS
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            return

    def _watch(self) -> Iterator[set[str]]:
        """Everything up to the moment at which the vault is another one, or gone. Runs in a thread of its own."""
        if (watched := self._identity()) is None:
            return
        began = False
        try:
            for changes in self._changes(self._root, self._stop):
                is_over = changes is None or self._identity() != watched
                if is_over or not began:
                    yield {""}
                if changes is None or is_over:
                    return
                began, self._problem = True, None
                yield changes
        except FileNotFoundError:
            return  # It went just now.
        except (OSError, RuntimeError) as error:  # The error of the library is a RuntimeError.
            self._tell(error)

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._root.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _tell(self, error: Exception) -> None:
        limit = getattr(error, "errno", None) in _LIMITS or any(words in str(error) for words in _LIMIT_WORDS)
        reason = "the system's limit of watched folders is reached" if limit else "the system refuses"
        self._problem = (
            f"the vault cannot be watched ({reason}): hand edits are seen at the next sweep only. "
            "Raise fs.inotify.max_user_watches"
        )
        _log.warning("%s (%s)", self._problem, error)
