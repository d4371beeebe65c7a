"""Looks whether a vault in S3 or a shared folder that is missing is back."""

import asyncio
from collections.abc import AsyncIterator

from recollect.infra.vault_objects import ObjectVault

_AGAIN_SECONDS = 2.0


class ObjectWatcher:
    """Hand edits are seen by listing, which is what a sweep does. This looks whether a missing vault is back."""

    def __init__(self, vault: ObjectVault, *, seconds: float = _AGAIN_SECONDS) -> None:
        self._vault, self._seconds = vault, seconds
        self._stopped = asyncio.Event()

    def problem(self) -> str | None:
        return None

    async def changes(self) -> AsyncIterator[set[str]]:
        self._stopped = asyncio.Event()
        while not self._stopped.is_set():
            try:
                async with asyncio.timeout(self._seconds):
                    await self._stopped.wait()
            except TimeoutError:
                if not self._vault.is_there() and await self._vault.come_back():
                    yield {""}

    def stop(self) -> None:
        self._stopped.set()
