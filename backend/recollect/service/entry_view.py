"""Which entries a caller may see, and the words that those came from."""

from collections.abc import Iterable, Sequence

from recollect.errors import NotFound
from recollect.memory import entry_links
from recollect.memory.access import Caller
from recollect.memory.entry_owner import is_agents
from recollect.memory.entry_references import SUPERSEDED_BY, SUPERSEDES
from recollect.memory.known_entry import KnownEntry
from recollect.memory.vault_paths import owner_folder
from recollect.service.cited_turns import CitedTurns, Quote
from recollect.service.ports import EntryStore, ThreadStore, TranscriptStore

_DEEPEST_ORIGIN = 3


class EntryView:
    """The entries of a space as one request sees them. What is not the caller's is as absent as what never was.

    A user has the entries of their own, and of an agent's those that came from their threads alone: an agent works
    for many. The operator of the space has all of it.
    """

    def __init__(
        self,
        store: EntryStore,
        threads: ThreadStore,
        transcripts: TranscriptStore,
        caller: Caller,
        user_id: str | None,
    ) -> None:
        self._store = store
        self._cited = CitedTurns(threads, transcripts, caller.space)
        self.space = caller.space
        self.acting = caller.acting_for(user_id)

    async def get(self, entry_id: str, *, field: str | None = None) -> KnownEntry:
        known = await self._store.get(self.space, entry_id)
        if known is None or not await self.may_see(known):
            raise NotFound(
                f"there is no entry {entry_id!r}; one that was deleted is forgotten and can't be brought back",
                field=field,
            )
        return known

    async def may_see(self, known: KnownEntry, depth: int = _DEEPEST_ORIGIN) -> bool:
        if self.acting is None or known.owner == owner_folder(self.space, self.acting):
            return True
        if not is_agents(known.owner):
            return False
        if known.sources:
            threads = {source.thread_id for source in known.sources}
            return all([await self._cited.user_of(thread_id) == self.acting for thread_id in threads])
        named = entry_links.origin_ids(known.entry)
        origins = await self.named(known, named)
        if depth == 0 or not named or len(origins) < len(named):
            return False
        return all([await self.may_see(each, depth - 1) for each in origins.values()])

    async def named(self, known: KnownEntry, ids: Iterable[str]) -> dict[str, KnownEntry]:
        """Those that there are, of the same owner: nothing links across owners."""
        found: dict[str, KnownEntry] = {}
        for entry_id in ids:
            other = await self._store.get(self.space, entry_id)
            if other is not None and other.owner == known.owner and entry_id != known.entry_id:
                found[entry_id] = other
        return found

    async def linked(self, known: KnownEntry) -> tuple[tuple[str, KnownEntry], ...]:
        """The entries that this one names, by how it names them."""
        by_relation = {
            SUPERSEDES: entry_links.superseded_ids(known.entry),
            SUPERSEDED_BY: entry_links.successor_ids(known.entry),
            entry_links.MADE_OF: entry_links.origin_ids(known.entry),
        }
        return tuple(
            [
                (relation, other)
                for relation, ids in by_relation.items()
                for other in (await self.named(known, ids)).values()
                if await self.may_see(other)
            ]
        )

    async def quotes(self, entries: Sequence[KnownEntry]) -> list[tuple[Quote, ...]]:
        """What each of these entries cites, in its order."""
        return await self._cited.quotes(entries)
