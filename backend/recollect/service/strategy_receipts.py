"""Receipts of strategies that work on what memcells have set off, long after they were closed."""

from collections.abc import Iterable

from recollect.errors import NotFound
from recollect.memory.known_entry import EntryChange, EntryReceipt
from recollect.memory.model import JsonObject
from recollect.memory.strategy import Cause
from recollect.service.ports import EntryStore

NOTHING = "nothing worth keeping"


async def leave_receipts(
    entries: EntryStore, space: str, owner: str, strategy: str, told: Iterable[tuple[Cause, JsonObject]]
) -> None:
    """With the memcells that set the strategy off, in the place of what it told of them before."""
    for cause, detail in told:
        receipt = EntryReceipt(cause.thread_id, cause.cell, strategy, detail)
        try:
            await entries.apply(EntryChange(space, owner, "extraction", strategy, receipt=receipt))
        except NotFound:
            continue  # Its thread was forgotten meanwhile, with all of its receipts.
