"""Watches the vault with the system's own notifications."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from recollect.memory.vault_paths import is_markdown

_BESIDE = ".tmp"
_GROUP_MS = 200
_QUIET_MS = 50
_LOOK_AFTER_MS = 500
"""How often the watcher makes sure that the vault is still the one it watches."""
_RETRY_SECONDS = 1.0
_RETRY_LIMIT_SECONDS = 60.0
_LIMITS = ("limit reached", "Too many open files")
_log = logging.getLogger("recollect.vault")


class VaultWatcher:
    """Tells which files and folders changed. What it can't watch is left to the sweep, and `problem` says so.

    A vault that goes and comes back, a disk that is mounted anew, is watched again.
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
        from watchfiles import watch

        if (watched := self._identity()) is None:
            return
        began = False
        try:
            for changes in watch(
                self._root,
                watch_filter=lambda _change, path: not path.endswith(_BESIDE),
                debounce=_GROUP_MS,
                step=_QUIET_MS,
                stop_event=self._stop,
                rust_timeout=_LOOK_AFTER_MS,
                yield_on_timeout=True,
                raise_interrupt=False,
            ):
                if self._identity() != watched or not began:
                    yield {""}
                if self._identity() != watched:
                    return
                began, self._problem = True, None
                yield self._relative([path for _, path in changes])
        except FileNotFoundError:
            return  # It went just now.
        except (OSError, RuntimeError) as error:  # The library's own error is a RuntimeError.
            self._tell(error)

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._root.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _relative(self, paths: list[str]) -> set[str]:
        relative = set()
        for path in map(Path, paths):
            if is_markdown(path.name) or not path.is_file():
                name = path.relative_to(self._root).as_posix()
                relative.add("" if name == "." else name)
        return relative

    def _tell(self, error: Exception) -> None:
        limit = any(words in str(error) for words in _LIMITS)
        reason = "the system's limit of watched folders is reached" if limit else "the system refuses"
        self._problem = (
            f"the vault cannot be watched ({reason}): hand edits are seen at the next sweep only. "
            "Raise fs.inotify.max_user_watches"
        )
        _log.warning("%s (%s)", self._problem, error)
