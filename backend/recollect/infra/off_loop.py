"""Work on long texts, off the event loop."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from recollect.domain.long_texts import is_long

T = TypeVar("T")


MANY = 250


async def off_loop(texts: Any, work: Callable[[], T], *, count: int = 0) -> T:
    """The result of work on these texts: in a thread where they are long, or their `count` is more than MANY."""
    return await asyncio.to_thread(work) if count > MANY or is_long(texts) else work()
