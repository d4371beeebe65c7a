"""Which entries a caller may see, the words they came from, and why they are there."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from recollect.domain.access import Caller
from recollect.domain.entries import links as entry_links
from recollect.domain.entries.entry import KnownEntry, Source, is_agents
from recollect.domain.entries.links import SUPERSEDED_BY, SUPERSEDES
from recollect.domain.identity import turn_number
from recollect.domain.model import Entry, Memcell, ThreadRef, Turn
from recollect.domain.paths import linked_turn, owner_folder, thread_folder
from recollect.errors import NotFound
from recollect.infra.journal.entries import SqlEntryStore
from recollect.infra.journal.entry_files import SqlEntryFileStore
from recollect.infra.journal.files import SqlTranscriptStore
from recollect.infra.journal.threads import SqlThreadStore


@dataclass(frozen=True, slots=True)
class SourceFinder:
    """Knows the threads it has met by their folders. A link to what is not there any more has no source."""

    store: SqlEntryFileStore
    _threads: dict[tuple[str, str], ThreadRef | None] = field(default_factory=dict)

    async def sources(
        self, space: str, owner: str, entry: Entry, before: KnownEntry | None = None
    ) -> tuple[Source, ...]:
        """Of an entry as a person wrote it; what it cited before is known without looking."""
        cited = [source.thread_in(space) for source in (() if before is None else before.sources)]
        folders = {thread_folder(*thread): thread for thread in cited}
        found: dict[Source, None] = {}
        for link in entry.sources:
            place = linked_turn(owner, link)
            if place is None:
                continue
            folder, turn_id = place
            thread = folders.get(folder) or await self._thread(space, folder)
            if thread is not None:
                found[Source(thread.user_id, thread.thread_id, turn_id)] = None
        return tuple(found)

    async def came_from_forgotten(self, space: str, owner: str, entry: Entry) -> bool:
        """Whether it cites a turn that was forgotten: an old copy of it, or what an editor still had."""
        places = [place for link in entry.sources if (place := linked_turn(owner, link)) is not None]
        return any([await self.store.is_forgotten(space, *place) for place in places])

    async def _thread(self, space: str, folder: str) -> ThreadRef | None:
        if (space, folder) not in self._threads:
            self._threads[space, folder] = await self.store.thread_of(space, folder)
        return self._threads[space, folder]


def strategy_of(entry: Entry) -> str:
    """`episode, qwen3-8b` was made by the strategy `episode`."""
    return entry.by.partition(",")[0].strip()


_NEAR = 50
"""Places that lie so near to each other are read at once."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A turn that an entry cites; None for one that was forgotten."""

    source: Source
    turn: Turn | None


_MOST = 200
"""Entries in a chain: a skill may have been made of many cases."""
_DEEPEST = 8
_LONGEST_CELL = 2_000


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an entry is there: what made it, of which memcell and turns, or of which entries."""

    known: KnownEntry
    memcell: Memcell | None
    """None for what came of no memcell, or of one that is gone."""
    quotes: tuple[Quote, ...]
    made_of: tuple["Reason", ...] = ()
    left_out: int = 0
    """Origins left out: shown already, gone, or beyond the limit of the chain."""

    @property
    def strategy(self) -> str:
        return self.known.strategy or self.known.entry.by.partition(", ")[0]

    @property
    def model(self) -> str | None:
        """The model that wrote it, or `rules`; None where it does not say."""
        return self.known.entry.by.partition(", ")[2] or None


_DEEPEST_ORIGIN = 3


class EntryView:
    """The entries of a space as one request sees them. What is not the caller's is as absent as what never was.

    A user has the entries of their own, and of an agent's those that came from their threads alone: an agent works
    for many. The operator of the space has all of it.
    """

    def __init__(
        self,
        store: SqlEntryStore,
        threads: SqlThreadStore,
        transcripts: SqlTranscriptStore,
        caller: Caller,
        user_id: str | None,
    ) -> None:
        self._store = store
        self._threads = threads
        self._transcripts = transcripts
        self._known: dict[ThreadRef, bool] = {}
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
            theirs = {source.thread_in(self.space) for source in known.sources}
            return all([ref.user_id == self.acting and await self._is_there(ref) for ref in theirs])
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

    async def _is_there(self, thread: ThreadRef) -> bool:
        if thread not in self._known:
            self._known[thread] = await self._threads.find(thread) is not None
        return self._known[thread]

    async def quotes(self, entries: Sequence[KnownEntry]) -> list[tuple[Quote, ...]]:
        """What each of these entries cites, in its order."""
        turns = await self._turns({source for known in entries for source in known.sources})
        return [
            tuple([Quote(source, self._shown(known, source, turns)) for source in known.sources])
            for known in entries
        ]

    def _shown(self, known: KnownEntry, source: Source, turns: dict[Source, Turn]) -> Turn | None:
        """A user's entry cites their own threads alone, whatever a person wrote into its file."""
        if not is_agents(known.owner) and owner_folder(self.space, source.user_id) != known.owner:
            return None
        return turns.get(source)

    async def _turns(self, sources: Iterable[Source]) -> dict[Source, Turn]:
        places: dict[ThreadRef, set[int]] = {}
        for source in sources:
            if (number := turn_number(source.turn_id)) is not None:
                places.setdefault(source.thread_in(self.space), set()).add(number)
        found: dict[Source, Turn] = {}
        for thread, numbers in places.items():
            for first, last in _ranges(numbers):
                for placed in await self._transcripts.turns(thread, first, last):
                    source = Source(thread.user_id, thread.thread_id, placed.turn.turn_id)
                    found[source] = placed.turn
        return found

    async def why(self, known: KnownEntry) -> Reason:
        """The whole chain from an entry to the words it came from, each entry once."""
        return await self._reason(known, {known.entry_id}, _DEEPEST)

    async def _reason(self, known: KnownEntry, told: set[str], depth: int) -> Reason:
        (quotes,) = await self.quotes([known])
        named = entry_links.origin_ids(known.entry)
        origins = await self.named(known, named)
        made_of = []
        for entry_id, origin in origins.items():
            if depth == 0 or entry_id in told or len(told) >= _MOST or not await self.may_see(origin):
                continue
            told.add(entry_id)
            made_of.append(await self._reason(origin, told, depth - 1))
        memcell = await self._memcell(known)
        return Reason(known, memcell, quotes, tuple(made_of), len(named) - len(made_of))

    async def _memcell(self, known: KnownEntry) -> Memcell | None:
        """It ends at or after the last of its turns that the entry cites."""
        places: dict[ThreadRef, list[int]] = {}
        for source in known.sources if known.cell else ():
            places.setdefault(source.thread_in(self.space), []).append(turn_number(source.turn_id) or 0)
        for thread, numbers in places.items():
            cells = await self._transcripts.cells(thread, min(numbers), max(numbers) + _LONGEST_CELL)
            found = next((cell for cell in cells if cell.memcell_id == known.cell), None)
            if found is not None:
                return found
        return None


def _ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    ordered = sorted(numbers)
    first = last = ordered[0]
    for number in ordered[1:]:
        if number - last > _NEAR:
            yield first, last
            first = number
        last = number
    yield first, last
