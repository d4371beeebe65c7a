"""Knowing conversations by what is resent, in memory: every thread is read from its beginning, every time."""

from collections.abc import Sequence

from recollect.domain.history_matching import FEWEST_IN_THE_MIDDLE, Sighting, said_digest
from recollect.domain.identity import place_of, turn_number
from recollect.domain.model import Thread, Turn
from recollect.service.ports import ThreadStore

Versions = set[bytes]


class FakeChainStore:
    """Remembers the words that a turn had before somebody edited it."""

    def __init__(self, threads: ThreadStore) -> None:
        self._threads = threads
        self._said: dict[tuple[str, str, str], Versions] = {}

    async def from_the_beginning(
        self, space: str, user_id: str, said: Sequence[bytes], thread_id: str | None = None
    ) -> list[Sighting]:
        await self._take_in(space, user_id)
        return await self._longest(space, user_id, said, thread_id, fewest=1, whole=True)

    async def in_the_middle(
        self,
        space: str,
        user_id: str,
        said: Sequence[bytes],
        longer_than: int = 0,
        thread_id: str | None = None,
    ) -> list[Sighting]:
        fewest = max(FEWEST_IN_THE_MIDDLE, longer_than + 1)
        return await self._longest(space, user_id, said, thread_id, fewest=fewest, whole=False)

    async def _take_in(self, space: str, user_id: str) -> None:
        for thread in await self._threads.list_threads(space=space, user_id=user_id):
            for turn in await self._threads.get_history(thread.thread_id, space=space):
                said = said_digest(turn)
                if said is not None and not _is_open(turn):
                    self._said.setdefault((space, thread.thread_id, turn.turn_id), set()).add(said)

    async def _longest(
        self,
        space: str,
        user_id: str,
        said: Sequence[bytes],
        thread_id: str | None,
        *,
        fewest: int,
        whole: bool,
    ) -> list[Sighting]:
        threads = await self._threads.list_threads(space=space, user_id=user_id)
        wanted = [thread for thread in threads if thread_id in (None, thread.thread_id)]
        for known in range(len(said), fewest - 1, -1):
            found = [await self._sighting(thread, said[:known], whole=whole) for thread in reversed(wanted)]
            if sightings := [sighting for sighting in found if sighting is not None]:
                return sightings
        return []

    async def _sighting(self, thread: Thread, run: Sequence[bytes], *, whole: bool) -> Sighting | None:
        turns = await self._threads.get_history(thread.thread_id, space=thread.space)
        closed = [turn for turn in turns if not _is_open(turn)]
        for turn in reversed(closed):
            path = [each for each in _path(turn, closed) if said_digest(each) is not None]
            versions = [
                self._said[thread.space, thread.thread_id, each.turn_id] for each in path[-len(run) :]
            ]
            long_enough = len(path) == len(run) if whole else len(path) >= len(run)
            if long_enough and all(said in each for said, each in zip(run, versions, strict=True)):
                return Sighting(
                    thread_id=thread.thread_id,
                    turn_id=turn.turn_id,
                    known=len(run),
                    is_tip=turn is closed[-1],
                    answered=any(each.role == "assistant" and each.model is not None for each in path),
                    silent=said_digest(turn) is None,
                )
        return None


def _path(turn: Turn, turns: Sequence[Turn]) -> list[Turn]:
    path = [turn]
    while True:
        parent = turn_number(path[0].parent_id or "")
        last = place_of(path[0]) - 1 if parent is None else parent
        before = [each for each in turns if place_of(each) <= last]
        if not before:
            return path
        path.insert(0, before[-1])


def _is_open(turn: Turn) -> bool:
    return turn.role == "assistant" and turn.status in ("queued", "streaming")
