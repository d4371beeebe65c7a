"""One lock per owner, for as long as somebody holds or awaits it."""

import asyncio
from weakref import WeakValueDictionary


class OwnerLocks:
    """What is written to an owner's index, and what of it is in memory, change together or not at all."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, owner: str) -> asyncio.Lock:
        lock = self._locks.get(owner)
        if lock is None:
            lock = self._locks[owner] = asyncio.Lock()
        return lock
