"""Work on long texts, off the event loop."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from recollect.domain.long_texts import is_long

T = TypeVar("T")


async def off_loop(texts: Any, work: Callable[[], T]) -> T:
    """The result of work on these texts: in a thread where they are long, or many."""
    return await asyncio.to_thread(work) if is_long(texts) else work()
