"""The turns behind the links of an entry."""

from dataclasses import dataclass, field

from recollect.memory.entry_paths import linked_turn
from recollect.memory.file_names import file_name
from recollect.memory.known_entry import KnownEntry, Source
from recollect.memory.model import Entry
from recollect.service.ports import EntryFileStore


@dataclass(frozen=True, slots=True)
class SourceFinder:
    """Knows the threads it has met by their folders. A link to what is not there any more has no source."""

    store: EntryFileStore
    _threads: dict[tuple[str, str], str | None] = field(default_factory=dict)

    async def sources(
        self, space: str, owner: str, entry: Entry, before: KnownEntry | None = None
    ) -> tuple[Source, ...]:
        """Of an entry as a person wrote it; what it cited before is known without looking."""
        cited = () if before is None else before.sources
        folders = {file_name(source.thread_id): source.thread_id for source in cited}
        found: dict[Source, None] = {}
        for link in entry.sources:
            place = linked_turn(owner, link)
            if place is None:
                continue
            folder, turn_id = place
            thread_id = folders.get(folder.rpartition("/")[2]) or await self._thread(space, folder)
            if thread_id is not None:
                found[Source(thread_id, turn_id)] = None
        return tuple(found)

    async def came_from_forgotten(self, space: str, owner: str, entry: Entry) -> bool:
        """Whether it cites a turn that was forgotten: an old copy of it, or what an editor still had."""
        places = [place for link in entry.sources if (place := linked_turn(owner, link)) is not None]
        return any([await self.store.is_forgotten(space, *place) for place in places])

    async def _thread(self, space: str, folder: str) -> str | None:
        if (space, folder) not in self._threads:
            self._threads[space, folder] = await self.store.thread_of(space, folder)
        return self._threads[space, folder]


def strategy_of(entry: Entry) -> str:
    """`episode, qwen3-8b` was made by the strategy `episode`."""
    return entry.by.partition(",")[0].strip()
