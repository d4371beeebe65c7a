"""Waiting for what another task brings about: the one place where tests of a running loop poll."""

import asyncio
import inspect
from collections.abc import Callable


async def eventually(condition: Callable[[], object], *, seconds: float = 30) -> None:
    """Return as soon as `condition`, awaited where it must be, is true; TimeoutError when it isn't in time."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(0.005)
