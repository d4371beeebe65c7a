"""Recall as a source of a context block: what of the owner's memory belongs beside this message, and nothing else."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from recollect.domain.access import Caller
from recollect.domain.breaker import Breaker
from recollect.domain.context_lines import Memory, render_memories
from recollect.domain.entries.entry import CASES, PROFILE, naming, text_key
from recollect.domain.identity import turn_number
from recollect.domain.model import JsonObject, Thread
from recollect.domain.paths import thread_folder
from recollect.domain.recall.hits import Hit, Scope, Selection, tokens
from recollect.domain.recall.passages import Floor, best_passage, tells_nothing
from recollect.domain.recall.query import Exchange, read_query, repeats, tells_of
from recollect.domain.recall.rows import TURN, IndexRow, Vectors, memory_digest
from recollect.domain.recall.words import words_asked_for
from recollect.errors import RecollectError
from recollect.service.chat.always_on_memories import (
    AlwaysOn,
    AlwaysOnMemories,
    QuerySimilarity,
    without_repeats,
)
from recollect.service.recall.search import Recall, Search

TOP_K = 30
"""The hits that a block is made of."""
_MOST_LOOKED_AT = 200
"""The most hits to look at. Some are turns of the window, so more are looked at than are wanted."""
_LEAST_TOKENS = 30
"""Room for less is room for no memory."""
_SHARES = 4
"""No memory takes more than this part of the room, and what was not searched for has as much to itself."""
_LONGEST_QUERY = 2_000
_STRAGGLER_SECONDS = 30.0
_log = logging.getLogger("recollect.chat")


@dataclass(frozen=True, slots=True)
class Known:
    """What the prompt holds already."""

    window: AbstractSet[tuple[str, int]] = frozenset()
    """Thread and position of every turn in it, the new one included."""
    injected: Mapping[str, str] = field(default_factory=dict)
    """The digest of every memory that the epoch holds, by its id."""
    next_position: int | None = None
    """From here on the thread's turns come after the one that is answered."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """The memories for one turn, and what was not done or not taken."""

    memories: tuple[Memory, ...] = ()
    left_out: str | None = None
    """Why there was no search, or none that ended in time."""
    degraded: tuple[str, ...] = ()
    passed_over: Mapping[str, int] = field(default_factory=dict)
    """How many hits were not taken, by the reason."""
    model: str | None = None
    """The embedding model that the query was compared by; None: by words alone."""
    ms: float = 0.0

    def as_receipt(self) -> JsonObject:
        """Without texts: the prompt itself holds those."""
        memories = [
            {
                "id": memory.id,
                "type": memory.type,
                "message_ids": list(memory.message_ids),
                "thread_id": memory.thread_id,
                "score": memory.score,
                "correction": memory.correction,
            }
            for memory in self.memories
        ]
        return {
            "memories": memories,
            "left_out": self.left_out,
            "degraded": list(self.degraded),
            "passed_over": dict(self.passed_over),
            "model": self.model,
            "ms": self.ms,
        }


class RecallSource:
    """Searches in the name of the thread's owner. Slow or broken, it says so, and the turn goes on without."""

    def __init__(
        self,
        recall: Recall,
        similarity: QuerySimilarity,
        always_on: AlwaysOnMemories | None = None,
        *,
        new_breaker: Callable[[], Breaker],
        clock: Callable[[], float],
        deadline_seconds: float = 1.0,
        floor: Floor | None = None,
    ) -> None:
        """`clock` counts seconds and never goes back. An owner whose searches fail gets a breaker of its own."""
        self._recall = recall
        self._similarity = similarity
        self._always_on = always_on
        self._new_breaker = new_breaker
        self.breakers: dict[tuple[str, str], Breaker] = {}
        """By space and user, of those whose last search failed."""
        self._clock = clock
        self._deadline = deadline_seconds
        self._floor = floor or Floor()
        self._running: set[asyncio.Task[Recalled]] = set()

    async def recall(
        self,
        thread: Thread,
        query: str,
        *,
        known: Known,
        max_tokens: int,
        now: int,
        before: Exchange = ("", ""),
    ) -> Recalled:
        """What to quote beside a message of this thread, the best first, within `max_tokens`.

        `before` is the exchange that the message may refer to. Never raises for what goes wrong in a search.
        """
        started = self._clock()
        query = query[:_LONGEST_QUERY]
        if (idle := _needless(query, max_tokens)) is not None:
            recalled = Recalled(left_out=idle)
        elif (refused := self._refuses(thread)) is not None:
            recalled = Recalled(left_out=f"memory was not searched: {refused}")
        else:
            recalled = await self._in_time(self._found(thread, query, before, known, max_tokens, now))
        return replace(recalled, ms=round((self._clock() - started) * 1000, 1))

    async def close(self) -> None:
        """End the searches that nobody waits for any more."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _in_time(self, search: Coroutine[None, None, Recalled]) -> Recalled:
        """A search that is late goes on alone: what it loaded, the next one finds loaded."""
        task = asyncio.create_task(search)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await asyncio.wait({task}, timeout=self._deadline)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done():
            return task.result()
        return Recalled(left_out=f"memory was not used: the search took longer than {self._deadline:g} s")

    def _refuses(self, thread: Thread) -> str | None:
        breaker = self.breakers.get((thread.space, thread.user_id))
        return None if breaker is None else breaker.refuses()

    async def _found(
        self, thread: Thread, query: str, before: Exchange, known: Known, max_tokens: int, now: int
    ) -> Recalled:
        """A search that only takes long is no failure: it may be the first, which loads the owner's rows."""
        owner, began = (thread.space, thread.user_id), self._clock()
        try:
            async with asyncio.timeout(_STRAGGLER_SECONDS):
                recalled = await self._searched(thread, query, before, known, max_tokens, now)
                self.breakers.pop(owner, None)
                return recalled
        except RecollectError as error:
            problem = error.message
        except Exception as error:  # noqa: BLE001 - a turn goes on without, and the receipt says so
            _log.exception("recall for a chat turn failed")
            problem = type(error).__name__
        left_out = f"memory could not be searched: {problem}"
        self.breakers.setdefault(owner, self._new_breaker()).failed(left_out, began)
        return Recalled(left_out=left_out)

    async def _searched(
        self, thread: Thread, query: str, before: Exchange, known: Known, max_tokens: int, now: int
    ) -> Recalled:
        selection = Selection(
            scope=Scope(tags=frozenset(thread.tags), but_not=frozenset([CASES])),
            top_k=min(TOP_K + len(known.window), _MOST_LOOKED_AT),
            passages=False,
        )
        caller = Caller(space=thread.space, user_id=thread.user_id)
        # Half of the time is for the embedding model: one that hangs must leave enough for a search by words.
        search = Search(query, selection=selection, now=now, before=before, embed_seconds=self._deadline / 2)
        found = await self._recall.search(caller, search)
        new, passed_over = await asyncio.to_thread(_new, found.hits, thread, known)
        similarity = await self._alike(thread, found.vector, new)
        always_on = AlwaysOn()
        if self._always_on is not None:
            always_on = await self._always_on.of(thread, known.injected, now)

        def chosen() -> list[Memory]:
            near = self._near(new, thread, query, before[0], similarity, now, passed_over)
            words = read_query("\n".join((query, *before)), now).words
            hits = tuple(_memory(hit, words, known, max_tokens, now) for hit in near)
            offered = [*always_on.corrections, *without_repeats(always_on.corrections, hits)]
            rest = without_repeats(offered, (*always_on.due, *always_on.profile))
            return _fitting(offered, rest, known, max_tokens, passed_over)

        # Texts that were found may be long: they are read off the event loop.
        memories = await asyncio.to_thread(chosen)
        if self._always_on is not None:
            memories = await self._always_on.showing(thread, memories, now)
        return Recalled(
            tuple(memories),
            degraded=tuple(found.degraded),
            passed_over=dict(passed_over),
            model=found.model,
        )

    def _near(
        self,
        hits: Sequence[Hit],
        thread: Thread,
        query: str,
        asked_before: str,
        similarity: Mapping[str, float],
        now: int,
        passed_over: Counter[str],
    ) -> Iterator[Hit]:
        """What has to do with the message, or shares words with the user's message before it, or carries a message that
        does, or holds in the place of one; and the best hit, if it is of the time that the message names.
        """
        words, words_before = read_query(query, now).words, read_query(asked_before, now).words
        repeated = {text_key(query), text_key(asked_before)}
        asked = frozenset((*words, *words_before))

        def why_not(row: IndexRow) -> str | None:
            text = row.text
            is_own = row.type == TURN and (row.role == "assistant" or row.sender in (thread.user_id, "user"))
            if text_key(text) in repeated or (is_own and repeats(text, query)):
                return "says the same"
            if is_own and not tells_of(row.read_as, asked):
                return "only asks"
            is_near = self._floor.lets_pass(similarity.get(row.row_id), query, words, text) or (
                asked_before and self._floor.lets_pass(None, asked_before, words_before, text)
            )
            return None if is_near else "not near enough"

        reasons = {each.row.row_id: why_not(each.row) for hit in hits for each in (hit, *hit.said)}
        quoted = {row_id for row_id, reason in reasons.items() if reason is None}
        if hits and hits[0].why.get("validity", 0) > 0:
            quoted.add(hits[0].row.row_id)
        for hit in hits:
            said = [each for each in hit.said if each.row.row_id in quoted]
            if said or not quoted.isdisjoint((hit.row.row_id, *hit.instead_of)):
                yield replace(hit, said=said)
            elif reason := reasons[hit.row.row_id]:
                passed_over[reason] += 1

    async def _alike(self, thread: Thread, vector: Vectors | None, hits: Sequence[Hit]) -> dict[str, float]:
        """Nothing where the search itself could not go by meaning: its vectors may be another model's."""
        if vector is None or not any("meaning" in hit.why for hit in hits):
            return {}
        row_ids = [each.row.row_id for hit in hits for each in (hit, *hit.said)]
        return await self._similarity.of(thread.space, thread.user_id, vector, row_ids)


def _needless(query: str, max_tokens: int) -> str | None:
    if max_tokens < _LEAST_TOKENS:
        return "the context is too small for memories"
    if not words_asked_for(query):
        return "there is nothing to look for in the message"
    return None


def _new(hits: Sequence[Hit], thread: Thread, known: Known) -> tuple[list[Hit], Counter[str]]:
    """The best hits that may be quoted, in this block or an earlier one, and how many others there are, by the reason."""
    passed_over: Counter[str] = Counter()

    def is_new(hit: Hit) -> bool:
        if (reason := _why_not(hit.row, thread, known)) is not None:
            passed_over[reason] += 1
        return reason is None

    new: list[Hit] = []
    for hit in hits:
        said = [each for each in hit.said if is_new(each)]
        new += [replace(hit, said=said)] if is_new(hit) else said
    return new[:TOP_K], passed_over


def _why_not(row: IndexRow, thread: Thread, known: Known) -> str | None:
    """None where it says something that the prompt does not hold as it is now."""
    if (row.thread_id, row.position) in known.window or _is_of_window(row, thread, known):
        return "in the window"
    if (
        row.thread_id == thread.thread_id
        and known.next_position is not None
        and not row.is_entry
        and row.position >= known.next_position
    ):
        return "said later"
    if row.role in ("system", "tool") or row.only_calls:
        return "not said by anybody"
    return "tells nothing" if tells_nothing(row.read_as) else None


def _is_of_window(row: IndexRow, thread: Thread, known: Known) -> bool:
    """An entry all of whose turns the prompt holds itself."""
    if not row.is_entry or not row.sources:
        return False
    folder = thread_folder(*thread.ref)
    places = [named.partition("#")[2] for named in row.sources if named.startswith(f"{folder}#")]
    return len(places) == len(row.sources) and all(
        (thread.thread_id, turn_number(place) or 0) in known.window for place in places
    )


def _fitting(
    offered: Sequence[Memory],
    rest: Sequence[Memory],
    known: Known,
    max_tokens: int,
    passed_over: Counter[str],
) -> list[Memory]:
    """As many memories as fit, those that were searched for first. Of several that say the same, the first.

    What the epoch holds takes its room as well, and is left out: so blocks shrink as the epoch grows. The rest has room
    of its own: there are often enough hits to fill any block.
    """
    memories: list[Memory] = []
    said: set[str] = set()
    told = set(known.injected)
    set_aside = min(careful_tokens(render_memories(rest)), max_tokens // _SHARES)
    for number, memory in enumerate((*offered, *rest)):
        room = max_tokens - (set_aside if number < len(offered) else 0)
        is_shown = any(memory.id in other.shows for other in memories)
        shows_known = bool(memory.shows) and memory.id not in known.injected and told.issuperset(memory.shows)
        if _statement(memory) in said or is_shown or shows_known:
            passed_over["says the same"] += 1
            continue
        carries = tuple(each for each in memory.carries if _statement(each) not in said)
        for fitting in (replace(memory, carries=carries), replace(memory, carries=())):
            if careful_tokens(render_memories([*memories, fitting])) <= room:
                memories.append(fitting)
                said.update(map(_statement, (fitting, *fitting.carries)))
                told.add(memory.id)
                break
        else:
            if number < len(offered):
                passed_over["no room"] += 1
    new: list[Memory] = []
    for memory in memories:
        carries = tuple(each for each in memory.carries if known.injected.get(each.id) != each.digest)
        if known.injected.get(memory.id) == memory.digest:
            passed_over["in the epoch already"] += 1
            new += carries
        else:
            new.append(replace(memory, carries=carries))
    return new


def _statement(memory: Memory) -> str:
    """What it says: a line of the profile and its fact say the same, though the line has a title."""
    _, _, line = memory.text.partition("\n") if memory.type == PROFILE else ("", "", "")
    return text_key(line or memory.text)


def _memory(hit: Hit, words: Sequence[str], known: Known, max_tokens: int, now: int) -> Memory:
    row = hit.row
    share = max(_LEAST_TOKENS // 2, max_tokens // _SHARES)
    chars_a_token = len(row.text) / max(1, careful_tokens(row.text))
    text, _ = best_passage(row.text, words, max(1, int(share * chars_a_token)))
    return Memory(
        id=row.row_id,
        digest=memory_digest(row.text, row.ended(now)),
        text=naming(row.subject, text),
        sender=row.sender,
        role=row.role,
        timestamp=row.timestamp,
        thread_id=row.thread_id,
        message_ids=tuple(hit.message_ids),
        score=hit.score,
        type=row.type,
        correction=row.row_id in known.injected,
        ended=row.ended(now) if row.is_entry else hit.until,
        corrected=row.corrected,
        shows=dict.fromkeys(row.shows, ""),
        carries=tuple(_memory(each, words, known, max_tokens, now) for each in hit.said),
    )


def careful_tokens(text: str) -> int:
    """Rather too many than too few: letters beyond ASCII take more tokens than four characters each would."""
    return tokens(text) if text.isascii() else max(tokens(text), len(text.encode()) // 3)
