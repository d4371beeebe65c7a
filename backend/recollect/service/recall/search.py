"""Recall: find the right messages of one owner, and say how they were found."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TypeVar

from recollect.domain.access import Caller
from recollect.domain.entries.entry import FACTS
from recollect.domain.extraction.prompts import in_turns
from recollect.domain.identity import turn_number
from recollect.domain.model import DEFAULT_USER, Thread, ThreadRef, Turn
from recollect.domain.paths import transcript_path
from recollect.domain.recall.corpus import Corpus
from recollect.domain.recall.hits import STRETCH, Chosen, Hit, Ranked, Scope, Selection, lengthen, tokens
from recollect.domain.recall.query import Exchange, Query, read_query
from recollect.domain.recall.rank import Scores, score
from recollect.domain.recall.relevance import relevant
from recollect.domain.recall.rows import TURN, Vectors
from recollect.domain.recall.weights import Weights
from recollect.errors import EmbedderUnavailable, InvalidInput, Unavailable
from recollect.infra.embedders.onnx import OnnxEmbedder
from recollect.infra.embedders.port import Embedder
from recollect.infra.journal.threads import SqlThreadStore
from recollect.service.coordination import Clock
from recollect.service.recall.indexer import Indexer
from recollect.service.threads import owned_thread

_FEW_ROWS, _FEW_CHARACTERS = 2_000, 200_000
"""Rows, and characters in them, that are ranked in less time than it takes to ask another thread."""
_SHORT_QUERY, _FEW_WORDS = 300, 60
"""Characters of a query that is read, and words that are looked for, in as little time."""
_RANKING_THREADS = 2
_MOST_UNKNOWN = 0.5
"""Of a query with more of it unknown to the embedding model, the vector says nothing."""
_PLACES_AT_ONCE = 1_000
_ALIKE = 5
"""Facts that are looked for by the meaning of one message."""
_log = logging.getLogger("recollect.recall")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Search:
    """What somebody looks for. One of `user_id` and `agent_id` is needed where the key names no user."""

    query: str
    user_id: str | None = None
    agent_id: str | None = None
    selection: Selection = field(default_factory=Selection)
    neighbours: int = 0
    now: int | None = None
    """The moment of asking, for "yesterday"; None: now."""
    before: Exchange = ("", "")
    """What was said before it, where it may be a follow-up: its words count a little too."""
    relevant_only: bool = False
    """No hits beyond where relevance ends."""
    with_threads: bool = False
    """Tell what the threads of the hits are called."""
    embed_seconds: float | None = None
    """How long the embedding model may take, where that is less than it may take for anybody."""


@dataclass(slots=True)
class Found:
    """The hits, what the search could and could not use, and how long its steps took."""

    hits: list[Hit] = field(default_factory=list)
    paths: list[str | None] = field(default_factory=list)
    thread_ids: list[list[str]] = field(default_factory=list)
    """Of each hit: the threads that it comes from, the one that said it last first."""
    threads: list[Thread] = field(default_factory=list)
    """Those that hits are of, if they are wanted."""
    neighbours: list[list[Turn]] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=lambda: {"hits": 0, "neighbours": 0})
    """What did not fit into the budget of tokens any more."""
    rows: int = 0
    embedded: int = 0
    from_journal: int = 0
    timing: dict[str, float] = field(default_factory=dict)
    vector: Vectors | None = None
    """Of the query, where it went by meaning."""
    model: str | None = None
    """The embedding model that made it."""


class Recall:
    """Searches what one owner has, and nothing else: nobody else's rows are in the corpus that is ranked."""

    def __init__(
        self,
        indexer: Indexer,
        threads: SqlThreadStore,
        *,
        clock: Clock,
        embed_seconds: float,
        former: Callable[[str], OnnxEmbedder | None] = lambda model: None,
    ) -> None:
        """`former` finds the model of this name that made the index before another was configured."""
        self._indexer = indexer
        self._corpus_cache, self._ledger = indexer.words.corpus_cache, indexer.words.ledger
        self._turns, self._entries = indexer.words.turns, indexer.words.entries
        self._threads = threads
        self._embedder = indexer.meaning.embedder
        self._find_former, self._former = former, dict[str, OnnxEmbedder | None]()
        self._clock = clock
        self._embed_seconds = embed_seconds
        self._ranking = ThreadPoolExecutor(_RANKING_THREADS, "rank")

    async def close(self) -> None:
        self._ranking.shutdown(wait=False)
        for former in self._former.values():
            if former is not None:
                await former.aclose()

    async def search(self, caller: Caller, search: Search, weights: Weights | None = None) -> Found:
        """Raises NotFound for a thread that is not the owner's.

        Raises EmbedderUnavailable for a search by meaning alone that has no embedder; others go on by words.
        """
        user_id = _owner(caller, search)
        if (thread_id := search.selection.scope.thread_id) is not None:
            await owned_thread(self._threads, caller, thread_id, user_id)
        started = time.perf_counter()
        now = self._clock() if search.now is None else search.now
        reading = partial(read_query, search.query, now, search.before)
        is_short = len(search.query) + sum(map(len, search.before)) <= _SHORT_QUERY
        query = reading() if is_short else await self._in_thread(reading)
        found = Found()
        vector = found.vector = await self._vector(query, search, found)
        embedded_at = time.perf_counter()
        owned = await self._corpus_cache.get(caller.space, user_id)
        loaded_at = time.perf_counter()
        scored = partial(score, weights=weights or Weights(), now=now)
        ranked = await self._rank(owned.corpus, query, vector, search, scored, found)
        if vector is not None:
            found.degraded += _without_vectors(found, self._indexer.refused_of(owned.owner))
        chosen = await self._choose(caller.space, user_id, ranked, _for_hits(search))
        found.hits, found.left_out["hits"] = chosen.hits, chosen.too_long
        if search.relevant_only:
            found.hits = relevant(ranked, chosen.hits, vector)
        ranked_at = time.perf_counter()
        found.from_journal = len(owned.unindexed)
        if self._indexer.notes_behind(owned.owner):
            found.degraded.append("some notes are not indexed yet and are not found")
        if caller.acting_for(search.user_id) is None:
            found.degraded.append(
                f"an agent_id alone searches the threads of the user {user_id} alone: name a user_id for another's"
            )
        found.paths = await self._paths(caller.space, user_id, found.hits)
        found.thread_ids = [_threads_of(hit, ranked) for hit in found.hits]
        named = dict.fromkeys(chain.from_iterable(found.thread_ids))
        if named and search.with_threads:
            found.threads = await self._threads.some(caller.space, user_id, named)
        left = await self._add_neighbours(caller.space, user_id, search, found)
        if left is not None:
            await self._run(ranked.corpus, ranked.words, partial(lengthen, found.hits, ranked.words, left))
        found.timing = {
            "embed_ms": _ms(started, embedded_at),
            "load_ms": _ms(embedded_at, loaded_at),
            "rank_ms": _ms(loaded_at, ranked_at),
            "total_ms": _ms(started, time.perf_counter()),
        }
        return found

    async def facts_like(self, space: str, user_id: str, texts: Sequence[str]) -> list[str]:
        """Ids of facts: the nearest in meaning to each of these texts, then the second nearest, and so on.

        Empty where there is no embedding model, or no index at the moment.
        """
        scope = Scope(types=frozenset((FACTS,)))
        selection = Selection(scope=scope, mode="vector", top_k=_ALIKE)
        found: list[list[str]] = []
        try:
            for text in texts:
                hits = (await self.search(Caller(space), Search(text, user_id, selection=selection))).hits
                found.append([hit.row.row_id for hit in hits])
        except Unavailable as error:
            _log.info("known facts are found by their words alone: %s", error.message)
        return in_turns(found)

    async def _vector(self, query: Query, search: Search, found: Found) -> Vectors | None:
        if search.selection.mode == "keyword":
            return None
        try:
            embedder = self._embedder_of_index(found)
            vector = await self._embedded(embedder, query.focus, search.embed_seconds)
        except EmbedderUnavailable as error:
            if search.selection.mode == "vector":
                raise
            found.degraded.append(f"searched by words alone: {error.message}")
            return None
        if embedder.unknown_share(query.focus) > _MOST_UNKNOWN:
            found.degraded.append(
                f"the embedding model {embedder.name} does not know the script of this query"
            )
            if search.selection.mode != "vector":
                found.degraded[-1] += ", which was searched by words alone"
                return None
        found.model = embedder.name
        return vector

    def _embedder_of_index(self, found: Found) -> Embedder:
        """The one whose vectors the index holds: while it is embedded again, the former one if that is still there."""
        if self._embedder is None:
            raise EmbedderUnavailable("no embedding model is configured")
        if (mismatch := self._indexer.model_mismatch) is None:
            return self._embedder
        made_with = self._indexer.live.model or ""
        if made_with not in self._former:
            self._former[made_with] = self._find_former(made_with)
        if (former := self._former[made_with]) is None:
            raise EmbedderUnavailable(mismatch)
        found.degraded.append(mismatch)
        return former

    async def _embedded(self, embedder: Embedder, text: str, most_seconds: float | None) -> Vectors:
        seconds = self._embed_seconds if most_seconds is None else min(most_seconds, self._embed_seconds)
        try:
            async with asyncio.timeout(seconds):
                vector: Vectors = (await embedder.embed([text]))[0]
        except TimeoutError:
            raise EmbedderUnavailable(f"the embedding model did not answer within {seconds:g} s") from None
        dimensions = self._indexer.live.dimensions
        if dimensions and len(vector) != dimensions:
            raise EmbedderUnavailable(
                f"the embedding model gives {len(vector)} dimensions, and the index has {dimensions}"
            )
        return vector

    async def _rank(
        self,
        corpus: Corpus,
        query: Query,
        vector: Vectors | None,
        search: Search,
        scored: Callable[..., Scores],
        found: Found,
    ) -> Ranked:
        view = corpus.view()
        found.rows, found.embedded = view.content.count, int(view.embedded.sum())
        if search.selection.mode == "vector":
            query = replace(query, words=(), day_words=())
        asked = query.words + query.day_words + query.asked_before + query.answered_before
        scores = await self._run(corpus, asked, partial(scored, corpus, view, query, vector))
        return Ranked(corpus, view, scores, query.words)

    async def _run(self, corpus: Corpus, words: Sequence[str], work: Callable[[], T]) -> T:
        """Off the event loop, unless there is so little to look at and for that this would take longer."""
        if len(corpus) <= _FEW_ROWS and corpus.characters <= _FEW_CHARACTERS and len(words) <= _FEW_WORDS:
            return work()
        return await self._in_thread(work)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._ranking, work)

    async def _choose(self, space: str, user_id: str, ranked: Ranked, selection: Selection) -> Chosen:
        """Hits of which nothing is forgotten.

        The journal forgets at once; the index follows by a job. What is forgotten leaves its place to what says the
        same, or to what comes next.
        """
        forgotten: set[int] = set()
        while True:
            chosen = await self._run(
                ranked.corpus, ranked.words, partial(ranked.choose, selection, forgotten)
            )
            places = [place for hit in chosen.hits for place in hit.places]
            shown = ranked.turns_at(places)
            gone = await self._forgotten(space, user_id, shown)
            deleted = await self._deleted(space, ranked.entries_at(places))
            if not gone and not deleted:
                return chosen
            forgotten |= deleted
            # All of the thread: it would take many rounds to find it gone, some hits at a time.
            threads = {shown[place][0] for place in gone}
            of_thread = await self._run(ranked.corpus, ranked.words, partial(ranked.turns_of, threads))
            forgotten |= gone | await self._forgotten(space, user_id, of_thread)

    async def _deleted(self, space: str, entries: Mapping[int, str]) -> set[int]:
        if not entries:
            return set()
        _, deleted = await self._entries.named(space, list(entries.values()))
        return {place for place, entry_id in entries.items() if entry_id in deleted}

    async def _forgotten(self, space: str, user_id: str, turns: Mapping[int, tuple[str, int]]) -> set[int]:
        places = list(turns)
        gone: set[int] = set()
        for start in range(0, len(places), _PLACES_AT_ONCE):
            asked = {place: turns[place] for place in places[start : start + _PLACES_AT_ONCE]}
            there = await self._ledger.existing(space, user_id, list(asked.values()))
            gone |= {place for place, turn in asked.items() if turn not in there}
        return gone

    async def _add_neighbours(self, space: str, user_id: str, search: Search, found: Found) -> int | None:
        """The turns around each hit, as far as they fit. Returns how many tokens are left, None without a budget."""
        budget = search.selection.max_tokens
        left = None if budget is None else budget - sum(hit.tokens for hit in found.hits)
        if not search.neighbours:
            return left
        for hit in found.hits:
            around = await self._around(space, user_id, hit, search.neighbours)
            kept = around
            if left is not None:
                kept, left = _fitting(around, hit.row.position, left)
                found.left_out["neighbours"] += len(around) - len(kept)
            found.neighbours.append(kept)
        return left

    async def _paths(self, space: str, user_id: str, hits: Sequence[Hit]) -> list[str | None]:
        """The file that holds each hit; None for a message that is not in the vault yet."""
        places = [(hit.row.thread_id, hit.row.position) for hit in hits if _is_said(hit)]
        parts = await self._ledger.parts_holding(space, user_id, places) if places else {}
        return [
            hit.row.path
            if not _is_said(hit)
            else None
            if (part := parts.get((hit.row.thread_id, hit.row.position))) is None
            else transcript_path(space, user_id, hit.row.thread_id, part)
            for hit in hits
        ]

    async def _around(self, space: str, user_id: str, hit: Hit, count: int) -> list[Turn]:
        if not _is_said(hit):
            return []
        first, last = hit.row.position - count, hit.row.position + count
        placed = await self._turns.turns(ThreadRef(space, user_id, hit.row.thread_id), first, last)
        return [
            each.turn
            for each in placed
            if each.position != hit.row.position and each.turn.skip_reason is None
        ]


def _without_vectors(found: Found, refused: int) -> Iterator[str]:
    """Which texts are found by words alone, and why."""
    missing = found.rows - found.embedded
    refused = min(refused, missing)
    if missing > refused:
        yield f"{missing - refused} of {found.rows} texts are not embedded yet and are found by words alone"
    if refused:
        yield (
            f"{refused} of {found.rows} texts were refused by the embedding model and are found by words alone"
        )


def _is_said(hit: Hit) -> bool:
    """Whether it is of a thread, and not of a file that is neither."""
    return hit.row.type in (TURN, STRETCH)


def _owner(caller: Caller, search: Search) -> str:
    """Whose memory is searched. An agent alone means its threads with the caller; for an operator, those with `me`."""
    user_id = caller.acting_for(search.user_id)
    if user_id is not None:
        return user_id
    if search.agent_id is None:
        raise InvalidInput("user_id or agent_id: one of them is needed", field="user_id")
    return DEFAULT_USER


def _for_hits(search: Search) -> Selection:
    """Where neighbours are wanted too, half of the budget is for the hits."""
    selection = search.selection
    if not search.neighbours or selection.max_tokens is None:
        return selection
    return replace(selection, max_tokens=max(1, selection.max_tokens // 2))


def _fitting(turns: Sequence[Turn], position: int, left: int) -> tuple[list[Turn], int]:
    """Of the turns around a position those that fit, in their order; the nearest are taken first."""
    kept = []
    for turn in sorted(turns, key=lambda turn: abs((turn_number(turn.turn_id) or 0) - position)):
        cost = tokens(turn.content)
        if cost <= left:
            kept.append(turn)
            left -= cost
    return [turn for turn in turns if turn in kept], left


def _ms(begin: float, end: float) -> float:
    return round((end - begin) * 1000, 2)


def _threads_of(hit: Hit, ranked: Ranked) -> list[str]:
    if not hit.row.is_entry:
        return [hit.row.thread_id] if hit.row.thread_id else []
    said = sorted((ranked.view.rows[place] for place in hit.places), key=lambda row: -row.timestamp)
    return list(dict.fromkeys(row.thread_id for row in said if row.thread_id))
