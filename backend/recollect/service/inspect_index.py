"""Inspect the index: damage is found when the process starts, not when somebody searches."""

from recollect.errors import IndexUnavailable
from recollect.service.corpora import Corpora
from recollect.service.owner_locks import OwnerLocks
from recollect.service.ports import IndexLedger, IndexStore

_AT_ONCE = 20


class IndexInspector:
    """Counts every owner's rows once, and has those made anew that are fewer than the ledger says."""

    def __init__(self, store: IndexStore, ledger: IndexLedger, corpora: Corpora, locks: OwnerLocks) -> None:
        self._store = store
        self._ledger = ledger
        self._corpora = corpora
        self._locks = locks
        self._generation = ""
        self.waiting: dict[str, tuple[str, str]] = {}
        """Owners whose rows nobody has counted yet, with their space and user."""

    async def begin(self, generation: str) -> None:
        self._generation = generation
        self.waiting = await self._ledger.owners(generation)

    async def inspect_some(self) -> None:
        """A few owners at a time: new messages are not kept waiting."""
        for owner in list(self.waiting)[:_AT_ONCE]:
            space, user_id = self.waiting.pop(owner)
            async with self._locks.of(owner):
                if (problem := await self._problem(owner, space, user_id)) is not None:
                    await self._corpora.found_damaged(owner, space, user_id, problem)

    async def _problem(self, owner: str, space: str, user_id: str) -> str | None:
        # An owner that was found damaged meanwhile has nothing to lose: nothing is expected of the index.
        wanted = (await self._ledger.expected(self._generation, owner, space, user_id)).rows
        if not wanted:
            return None
        try:
            found = await self._store.count(self._generation, owner)
        except IndexUnavailable as error:
            return error.message
        return f"it holds {found} rows, fewer than the {wanted} it should" if found < wanted else None
