"""Cited turns: the words that entries came from, as far as they are still there."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from recollect.memory.entry_owner import is_agents
from recollect.memory.identity import turn_number
from recollect.memory.known_entry import KnownEntry, Source
from recollect.memory.model import Thread, Turn
from recollect.memory.vault_paths import owner_folder
from recollect.service.ports import ThreadStore, TranscriptStore

_NEAR = 50
"""Places that lie so near to each other are read at once."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A turn that an entry cites; None for one that was forgotten."""

    source: Source
    turn: Turn | None


class CitedTurns:
    """Finds cited turns for the entries of one request: each thread is looked at once."""

    def __init__(self, threads: ThreadStore, transcripts: TranscriptStore, space: str) -> None:
        self._threads = threads
        self._transcripts = transcripts
        self._space = space
        self._known_threads: dict[str, Thread | None] = {}

    async def user_of(self, thread_id: str) -> str | None:
        """Whose the thread is; None for one that is gone."""
        if thread_id not in self._known_threads:
            found = await self._threads.get_thread(thread_id, space=self._space)
            self._known_threads[thread_id] = found
        thread = self._known_threads[thread_id]
        return None if thread is None else thread.user_id

    async def quotes(self, entries: Sequence[KnownEntry]) -> list[tuple[Quote, ...]]:
        """What each of these entries cites, in its order."""
        turns = await self._turns({source for known in entries for source in known.sources})
        return [
            tuple([Quote(source, await self._shown(known, source, turns)) for source in known.sources])
            for known in entries
        ]

    async def _shown(self, known: KnownEntry, source: Source, turns: dict[Source, Turn]) -> Turn | None:
        """A thread that was forgotten may be another user's by now: its words are none of this entry's."""
        user_id = await self.user_of(source.thread_id)
        if user_id is None or (
            not is_agents(known.owner) and owner_folder(self._space, user_id) != known.owner
        ):
            return None
        return turns.get(source)

    async def _turns(self, sources: Iterable[Source]) -> dict[Source, Turn]:
        places: dict[str, set[int]] = {}
        for source in sources:
            if (number := turn_number(source.turn_id)) is not None:
                places.setdefault(source.thread_id, set()).add(number)
        found: dict[Source, Turn] = {}
        for thread_id, numbers in places.items():
            for first, last in _stretches(numbers):
                for placed in await self._transcripts.turns(self._space, thread_id, first, last):
                    found[Source(thread_id, placed.turn.turn_id)] = placed.turn
        return found


def _stretches(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    ordered = sorted(numbers)
    first = last = ordered[0]
    for number in ordered[1:]:
        if number - last > _NEAR:
            yield first, last
            first = number
        last = number
    yield first, last
