"""Recall: find the right messages of one owner, and say how they were found."""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from recollect.errors import EmbedderUnavailable, InvalidInput
from recollect.memory.access import Caller
from recollect.memory.hits import Hit, Selection, choose
from recollect.memory.index_row import NOTE, Vectors
from recollect.memory.model import Turn
from recollect.memory.query import Query, read_query
from recollect.memory.rank import Weights, score
from recollect.memory.vault_paths import transcript_path
from recollect.service.corpora import Corpora, OwnerCorpus
from recollect.service.indexer import Indexer
from recollect.service.ports import Clock, Embedder, IndexLedger, ThreadStore, TranscriptStore
from recollect.service.threads import DEFAULT_USER, owned_thread

_SMALL = 2_000
"""Rows that are ranked in less time than it takes to ask another thread."""
_RANKING_THREADS = 2


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


@dataclass(slots=True)
class Found:
    """The hits, what the search could and could not use, and how long its steps took."""

    hits: list[Hit] = field(default_factory=list)
    paths: list[str | None] = field(default_factory=list)
    neighbours: list[list[Turn]] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    rows: int = 0
    embedded: int = 0
    from_journal: int = 0
    timing: dict[str, float] = field(default_factory=dict)


class Recall:
    """Searches what one owner has, and nothing else: nobody else's rows are in the corpus that is ranked."""

    def __init__(
        self,
        indexer: Indexer,
        corpora: Corpora,
        ledger: IndexLedger,
        threads: ThreadStore,
        turns: TranscriptStore,
        embedder: Embedder | None,
        *,
        clock: Clock,
        embed_seconds: float,
    ) -> None:
        self._indexer = indexer
        self._corpora = corpora
        self._ledger = ledger
        self._threads = threads
        self._turns = turns
        self._embedder = embedder
        self._clock = clock
        self._embed_seconds = embed_seconds
        self._ranking = ThreadPoolExecutor(_RANKING_THREADS, "rank")

    async def close(self) -> None:
        self._ranking.shutdown(wait=False)

    async def search(self, caller: Caller, search: Search, weights: Weights | None = None) -> Found:
        """Raises NotFound for a thread that is not the owner's.

        Raises EmbedderUnavailable for a search by meaning alone that has no embedder; others go on by words.
        """
        user_id = _owner(caller, search)
        if (thread_id := search.selection.scope.thread_id) is not None:
            await owned_thread(self._threads, caller, thread_id, user_id)
        started = time.perf_counter()
        query = read_query(search.query, self._clock() if search.now is None else search.now)
        found = Found()
        vector = await self._vector(query, search, found)
        embedded_at = time.perf_counter()
        owned = await self._corpora.get(caller.space, user_id)
        loaded_at = time.perf_counter()
        await self._rank(owned, query, vector, search, weights or Weights(), found)
        ranked_at = time.perf_counter()
        found.hits = await self._not_forgotten(caller.space, user_id, found.hits)
        found.from_journal = len(owned.unindexed)
        if self._indexer.notes_behind(owned.owner):
            found.degraded.append("some notes are not indexed yet and are not found")
        found.paths = await self._paths(caller.space, user_id, found.hits)
        if search.neighbours:
            found.neighbours = [
                await self._around(caller.space, user_id, hit, search.neighbours) for hit in found.hits
            ]
        found.timing = {
            "embed_ms": _ms(started, embedded_at),
            "load_ms": _ms(embedded_at, loaded_at),
            "rank_ms": _ms(loaded_at, ranked_at),
            "total_ms": _ms(started, time.perf_counter()),
        }
        return found

    async def _vector(self, query: Query, search: Search, found: Found) -> Vectors | None:
        if search.selection.mode == "keyword":
            return None
        try:
            return await self._embedded(query.focus)
        except EmbedderUnavailable as error:
            if search.selection.mode == "vector":
                raise
            found.degraded.append(f"searched by words alone: {error.message}")
            return None

    async def _embedded(self, text: str) -> Vectors:
        if self._embedder is None:
            raise EmbedderUnavailable("no embedding model is configured")
        if (mismatch := self._indexer.model_mismatch) is not None:
            raise EmbedderUnavailable(mismatch)
        try:
            async with asyncio.timeout(self._embed_seconds):
                vector: Vectors = (await self._embedder.embed([text]))[0]
        except TimeoutError:
            raise EmbedderUnavailable(
                f"the embedding model did not answer within {self._embed_seconds:g} s"
            ) from None
        dimensions = self._indexer.live.dimensions
        if dimensions and len(vector) != dimensions:
            raise EmbedderUnavailable(
                f"the embedding model gives {len(vector)} dimensions, and the index has {dimensions}"
            )
        return vector

    async def _rank(
        self,
        owned: OwnerCorpus,
        query: Query,
        vector: Vectors | None,
        search: Search,
        weights: Weights,
        found: Found,
    ) -> None:
        corpus = owned.corpus
        view = corpus.view()
        found.rows, found.embedded = view.size, int(view.embedded.sum())
        if not view.size:
            return
        if vector is not None and found.embedded < found.rows:
            found.degraded.append(
                f"{found.rows - found.embedded} of {found.rows} texts are not embedded yet and are found by words alone"
            )
        if search.selection.mode == "vector":
            query = replace(query, words=())

        def rank() -> list[Hit]:
            scores = score(corpus, view, query, vector, weights)
            return choose(corpus, view, scores, query.words, search.selection)

        if view.size <= _SMALL:
            found.hits = rank()
        else:
            found.hits = await asyncio.get_running_loop().run_in_executor(self._ranking, rank)

    async def _not_forgotten(self, space: str, user_id: str, hits: list[Hit]) -> list[Hit]:
        """The journal forgets at once; the index follows by a job, and nothing is shown meanwhile."""
        places = [(hit.row.thread_id, hit.row.position) for hit in hits if hit.row.type != NOTE]
        there = await self._ledger.existing(space, user_id, places) if places else set()
        return [hit for hit in hits if hit.row.type == NOTE or (hit.row.thread_id, hit.row.position) in there]

    async def _paths(self, space: str, user_id: str, hits: Sequence[Hit]) -> list[str | None]:
        """The file that holds each hit; None for a message that is not in the vault yet."""
        places = [(hit.row.thread_id, hit.row.position) for hit in hits if hit.row.type != NOTE]
        parts = await self._ledger.parts_holding(space, places) if places else {}
        return [
            hit.row.path
            if hit.row.type == NOTE
            else None
            if (part := parts.get((hit.row.thread_id, hit.row.position))) is None
            else transcript_path(space, user_id, hit.row.thread_id, part)
            for hit in hits
        ]

    async def _around(self, space: str, user_id: str, hit: Hit, count: int) -> list[Turn]:
        if hit.row.type == NOTE:
            return []
        first, last = hit.row.position - count, hit.row.position + count
        placed = await self._turns.turns(space, hit.row.thread_id, first, last)
        # A thread that was deleted a moment ago may be another user's by now.
        thread = await self._threads.get_thread(hit.row.thread_id, space=space)
        if thread is None or thread.user_id != user_id:
            return []
        return [
            each.turn
            for each in placed
            if each.position != hit.row.position and each.turn.skip_reason is None
        ]


def _owner(caller: Caller, search: Search) -> str:
    """Whose memory is searched. An agent alone stands for its threads with whoever asks."""
    user_id = caller.acting_for(search.user_id)
    if user_id is not None:
        return user_id
    if search.agent_id is None:
        raise InvalidInput("user_id or agent_id: one of them is needed", field="user_id")
    return DEFAULT_USER


def _ms(begin: float, end: float) -> float:
    return round((end - begin) * 1000, 2)
