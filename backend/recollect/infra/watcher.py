"""Watches the vault with the system's own notifications, by the library watchfiles."""

import asyncio
import logging
import os
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from recollect.domain.paths import is_markdown
from recollect.infra.vault_read import BESIDE, real_path

_GROUP_MS = 200
_QUIET_MS = 50
_LOOK_MS = 250
_RETRY_SECONDS = 1.0
_RETRY_LIMIT_SECONDS = 60.0
_LIMIT_WORDS = ("limit reached", "Too many open files")
_log = logging.getLogger("recollect.vault")


class VaultWatcher:
    """Tells which files and folders changed. What it can't watch is left to the sweep, and `problem` says so.

    A vault that goes and comes back, as a disk that is mounted again, is watched again.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
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

        A path that is no Markdown file's is that of a folder that came, went or was renamed, or of something that went.
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
            for changes in _changes(self._root, self._stop):
                is_over = self._identity() != watched
                if is_over or not began:
                    yield {""}
                if is_over:
                    return
                began, self._problem = True, None
                yield changes
        except FileNotFoundError:
            return  # It went just now.
        except (
            OSError,
            RuntimeError,
            UnicodeError,
        ) as error:  # The library has errors of its own: RuntimeErrors.
            if not began:
                self._tell(error)
                return
            # A name that is no UTF-8, or a limit. The next watch tells whether it lasts.
            _log.warning("the watch of the vault is restarted (%s)", error)
            yield {""}

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._root.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _tell(self, error: Exception) -> None:
        if any(words in str(error) for words in _LIMIT_WORDS):
            reason = "the system's limit of watched folders is reached"
            advice = "Raise fs.inotify.max_user_watches and fs.inotify.max_user_instances"
        elif isinstance(error, PermissionError):
            reason, advice = "a folder in it cannot be read", "The log names it"
        else:
            reason, advice = "the system refuses", "See the log"
        self._problem = (
            f"the vault cannot be watched ({reason}): hand edits are seen at the next sweep only. {advice}"
        )
        _log.warning("%s (%s)", self._problem, error)


def _changes(root: Path, stop: threading.Event) -> Iterator[set[str]]:
    """Paths that changed, soon after they did, and empty sets meanwhile. It may end before `stop`: then start it again.

    The library follows every link, and holds the interpreter's lock while it does. Where a link leads to a folder that
    is not ours to follow, folders are watched one by one, and the watch ends when a folder comes.
    """
    from watchfiles import watch

    names = _Names(os.path.realpath(root))
    folders = names.folders("")
    one_by_one = names.lead_astray
    for changes in watch(
        *(names.place(folder) for folder in (folders if one_by_one else [""])),
        watch_filter=None,
        debounce=_GROUP_MS,
        step=_QUIET_MS,
        stop_event=stop,
        rust_timeout=_LOOK_MS,
        yield_on_timeout=True,
        raise_interrupt=False,
        recursive=not one_by_one,
        # With True the library passes over every error, and what it would have watched after it.
        ignore_permission_denied=False,
    ):
        paths = {path for _, path in changes if not path.endswith(BESIDE)}
        came = [path for path in paths if names.learn(path)]
        yield {name for path in paths for name in names.told(path)}
        if one_by_one and came:
            return


class _Names:
    """By which names things in the vault go: beside their own, those of the links to them that are followed."""

    def __init__(self, root: str) -> None:
        """`root` is a real path."""
        self._root = root
        self._links: dict[str, str] = {}
        """The links that are followed, and where what they lead to really lies."""
        self.lead_astray = False
        """Whether a link leads to a folder, and is not followed."""

    def place(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def folders(self, folder: str) -> list[str]:
        """A folder and all below it that are neither hidden nor links. Learns the links there."""
        found = [folder]
        try:
            entries = list(os.scandir(self.place(folder)))
        except OSError:
            return found  # It went, or cannot be read: whoever watches it is told.
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                self._learn_link(path)
            elif entry.is_dir(follow_symlinks=False):
                found += self.folders(path)
        return found

    def _learn_link(self, path: str) -> None:
        if (real := self._followed(path)) is not None:
            self._links[path] = real
        elif stat.S_ISDIR(_mode(self.place(path))):
            self.lead_astray = True

    def _followed(self, path: str) -> str | None:
        try:
            return real_path(Path(self._root), path)
        except OSError:
            return None  # The sweep tells why it cannot be read.

    def learn(self, place: str) -> bool:
        """Something happened there. True: a folder is there now."""
        if not (path := self._own_name(place)) or _is_hidden(path):
            return False
        for link in [link for link in self._links if _is_at(link, path)]:
            del self._links[link]
        mode = _mode(place, of_link=True)
        if stat.S_ISLNK(mode):
            self._learn_link(path)
        elif stat.S_ISDIR(mode):
            self.folders(path)
        return stat.S_ISDIR(mode)

    def told(self, place: str) -> set[str]:
        """The names of what changed there: of Markdown files, folders, links, and of what is gone; `""` is the vault."""
        if (own := self._own_name(place)) is None:
            return set()
        names, new = {own}, [own]
        while new:
            name = new.pop()
            for link, real in self._links.items():
                if not _is_at(name, real):
                    continue
                alias = link + name.removeprefix(real)
                if alias not in names and self._followed(alias) is not None:
                    names.add(alias)
                    new.append(alias)
        return {
            name
            for name in names
            if not _is_hidden(name) and (is_markdown(name) or not stat.S_ISREG(_mode(self.place(name))))
        }

    def _own_name(self, place: str) -> str | None:
        """The name that goes through no link, whatever the library tells; None outside of the vault."""
        if place == self._root:
            return ""
        folder, _, name = place.rpartition("/")
        real = f"{os.path.realpath(folder)}/{name}"
        return real.removeprefix(f"{self._root}/") if _is_at(real, self._root) else None


def _mode(place: str, *, of_link: bool = False) -> int:
    """The file mode; 0 where nothing is there, or it cannot be told."""
    try:
        return Path(place).stat(follow_symlinks=not of_link).st_mode
    except OSError:
        return 0


def _is_at(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))
