"""Watches the vault with the system's own notifications, by the library watchfiles."""

import asyncio
import logging
import os
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

    A change is told by the file's own path; the sweep finds it under the paths of links to it.
    A vault that goes and comes back, as a disk that is mounted again, is watched again.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stop = threading.Event()
        self._problem: str | None = None

    def problem(self) -> str | None:
        return self._problem

    def stop(self) -> None:
        """End `changes`, soon."""
        self._stop.set()

    async def changes(self) -> AsyncIterator[set[str]]:
        """Sets of changed paths, relative to the vault, until `stop`; `""` whenever a watch begins.

        A path that is no Markdown file's is that of a folder that came, went or was renamed, or of something that went.
        """
        self._stop.clear()
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="vault-watcher") as executor:
            try:
                while not self._stop.is_set():
                    watch = self._watch()
                    while (paths := await loop.run_in_executor(executor, next, watch, None)) is not None:
                        if paths:
                            yield paths
                    seconds = _RETRY_SECONDS if self._problem is None else _RETRY_LIMIT_SECONDS
                    await loop.run_in_executor(executor, self._stop.wait, seconds)
            finally:
                self._stop.set()

    def _watch(self) -> Iterator[set[str]]:
        """Report changes until the vault is replaced or gone. Runs in its own thread."""
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

    top = os.path.realpath(root)
    folders, one_by_one = _folders(top)
    for changes in watch(
        *(folders if one_by_one else [top]),
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
        places = (place for _, place in changes if not place.endswith(BESIDE))
        names = {name for place in places if (name := _name(top, place)) is not None}
        yield names
        if one_by_one and any(name and _is_folder(f"{top}/{name}") for name in names):
            return


def _folders(top: str) -> tuple[list[str], bool]:
    """All folders that are neither hidden nor links, and whether a link leads to a folder and is not followed."""
    found, leads_away = [], False
    for folder, below, _ in os.walk(top):
        below[:] = [name for name in below if not name.startswith(".")]
        found.append(folder)
        links = (f"{folder}/{name}" for name in below if not _is_folder(f"{folder}/{name}"))
        leads_away = leads_away or any(_leads_away(top, link) for link in links)
    return found, leads_away


def _leads_away(top: str, link: str) -> bool:
    try:
        return real_path(Path(top), link.removeprefix(f"{top}/")) is None
    except OSError:
        return True


def _name(top: str, place: str) -> str | None:
    """The path of what changed, through no link: a Markdown file, a folder, a link, or something that is gone.

    `""` is the vault; None is all else.
    """
    if place == top:
        return ""
    folder, _, name = place.rpartition("/")
    real = f"{os.path.realpath(folder)}/{name}"
    path = real.removeprefix(f"{top}/")
    if path == real or any(part.startswith(".") for part in path.split("/")):
        return None
    return path if is_markdown(path) or not Path(real).is_file() else None


def _is_folder(place: str) -> bool:
    return Path(place).is_dir() and not Path(place).is_symlink()
