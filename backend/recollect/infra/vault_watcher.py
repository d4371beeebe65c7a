"""Watches the vault with the system's own notifications."""

import asyncio
import errno
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from recollect.infra.inotify import Inotify
from recollect.infra.vault_notifications import notified_changes
from recollect.infra.watched_folders import watched_changes

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
