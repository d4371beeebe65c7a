"""Embeds what is indexed by words, in batches, behind everything else."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from recollect.domain.model import Note, ThreadRef
from recollect.domain.paths import owner_folder
from recollect.domain.recall.rows import (
    DIGEST_MARK,
    TURN,
    Generation,
    IndexRow,
    StoredRows,
    ThreadProgress,
    Vectors,
    meaning_of,
    turn_row,
)
from recollect.errors import (
    EmbedderUnavailable,
    IndexUnavailable,
    IndexUnreachable,
    TextRefused,
    UnknownModel,
)
from recollect.infra.embedders.port import Embedder
from recollect.service.recall.words import WordIndexer

BATCH = 64
_FILES_AT_ONCE = 8
"""Of an owner's notes and entries, read from the index together."""
PROBE = "hello"
"""A text that every model takes: whether it is embedded tells a model that is down from a text that is refused."""

_Part = tuple[ThreadProgress, int, list[IndexRow]]
"""Of a batch: a thread, the position that it is embedded to, and its rows."""

_log = logging.getLogger("recollect.index")


@dataclass(slots=True)
class Embedded:
    """What came of embedding a batch."""

    generation: Generation
    """With the model in it, once it has vectors."""
    unfinished: list[ThreadRef]
    """Threads with more to do."""
    untouched: list[ThreadRef]
    """Those that the batch had no room for."""
    unwritable: dict[tuple[str, str], IndexUnavailable] = field(default_factory=dict)
    """Owners, by space and user, whose index could not be written; their threads are unfinished."""


async def embedded_texts(embedder: Embedder | None, texts: Sequence[str]) -> tuple[str, Vectors]:
    """The model's name and a vector for each text. Raises UnknownModel without an embedder, EmbedderUnavailable."""
    if embedder is None:
        raise UnknownModel(
            "there is no embedding model: RECOLLECT_EMBEDDING__KIND is none, so search goes by words alone",
            field="model",
        )
    vectors = await embedder.embed(texts)
    return embedder.name, vectors


class MeaningIndexer:
    """A batch that is cut short is embedded again; vectors are set by row, then recorded."""

    def __init__(self, words: WordIndexer, embedder: Embedder | None) -> None:
        self.words = words
        self.embedder = embedder
        self.source: Generation | None = None
        """An older generation whose vectors can be used again."""
        self._kept: tuple[str, dict[str, tuple[str, Vectors]]] = ("", {})
        self.embedded_in: Counter[str] = Counter()
        """Texts embedded since the start, by the generation they were embedded for."""

    @property
    def embedded(self) -> int:
        """Texts embedded since the start."""
        return self.embedded_in.total()

    async def embed_threads(
        self, generation: Generation, groups: Sequence[Sequence[ThreadRef]], *, live: bool
    ) -> Embedded:
        """Embed what waits in these threads, one batch at most, of which each group gets a fair share.

        Raises EmbedderUnavailable; then nothing was recorded.
        """
        batch, unfinished, untouched = await self._gather(generation, groups)
        vectors = await self.vectors_of(generation, [row for _, _, rows in batch for row in rows])
        outcome = Embedded(await self.fitting(generation, vectors), unfinished, untouched)
        start = 0
        for seen, vectors_to, rows in batch:
            mine = vectors[start : start + len(rows)]
            start += len(rows)
            thread = seen.thread
            try:
                done = await self._keep(outcome.generation, seen, vectors_to, rows, mine, live=live)
            except IndexUnavailable as error:
                done = False
                outcome.unwritable[thread.space, thread.user_id] = error
            if not done:
                unfinished.append(thread.ref)
        return outcome

    async def _gather(
        self, generation: Generation, groups: Sequence[Sequence[ThreadRef]]
    ) -> tuple[list[_Part], list[ThreadRef], list[ThreadRef]]:
        batch: list[_Part] = []
        unfinished: list[ThreadRef] = []
        untouched: list[ThreadRef] = []
        left = BATCH
        for number, threads in enumerate(groups):
            share = min(left, max(self.words.store.place.fewest_texts, ceil(left / (len(groups) - number))))
            left -= share
            for thread in threads:
                if share <= 0:
                    untouched.append(thread)
                    continue
                seen = await self.words.ledger.progress(generation.name, thread)
                # A thread that was edited comes again when its new words are indexed.
                if seen is None or not seen.vectors_behind or seen.is_stale:
                    continue
                placed = await self.words.turns.turns(thread, seen.vectors_to + 1, seen.words_to, limit=share)
                is_all = len(placed) < share
                rows = [row for each in placed if (row := turn_row(seen.thread, each.turn)) is not None]
                batch.append((seen, seen.words_to if is_all else placed[-1].position, rows))
                share -= len(placed)
                if not is_all:
                    unfinished.append(thread)
            left += share
        return batch, unfinished, untouched

    async def _keep(
        self,
        generation: Generation,
        seen: ThreadProgress,
        vectors_to: int,
        rows: Sequence[IndexRow],
        vectors: Sequence[Vectors | None],
        *,
        live: bool,
    ) -> bool:
        owner = owner_folder(seen.thread.space, seen.thread.user_id)
        async with self.words.locks.of(owner):
            # An edit since then has put other words in place of these: their vectors would lie.
            now = await self.words.ledger.progress(generation.name, seen.thread.ref)
            if now is None or now.revision != seen.revision or now.is_stale or now.words_to < seen.words_to:
                return now is None
            await self.set_vectors(generation, owner, rows, vectors, live=live)
            refused = sum(vector is None for vector in vectors)
            return await self.words.ledger.record_vectors(generation.name, seen, vectors_to, refused)

    async def set_vectors(
        self,
        generation: Generation,
        owner: str,
        rows: Sequence[IndexRow],
        vectors: Sequence[Vectors | None],
        *,
        live: bool,
    ) -> None:
        found = [
            (row.row_id, vector) for row, vector in zip(rows, vectors, strict=True) if vector is not None
        ]
        if not found:
            return
        ids, stacked = [row_id for row_id, _ in found], np.stack([vector for _, vector in found])
        await self.words.store.set_vectors(generation.name, owner, ids, stacked)
        self.words.fail_points.reach("index.embedded")
        if live:
            await self.words.corpus_cache.set_vectors(owner, ids, stacked)

    async def embed_notes(self, generation: Generation, owner: str, *, live: bool) -> tuple[Generation, bool]:
        """Embed what of an owner's notes and entries is indexed by words alone: as it is in the index, and in whole
        files, until it makes a batch. Returns whether more files wait, too.
        """
        waiting = await self.words.ledger.unembedded_notes(generation.name, owner)
        if not waiting:
            return generation, False
        paths = {note.path for note in waiting[:_FILES_AT_ONCE]}
        stored = await self.words.store.load_files(generation.name, owner, paths)
        rows, embedded = await asyncio.to_thread(_unembedded, stored, paths)
        done = texts = 0
        for note in waiting[:_FILES_AT_ONCE]:
            if texts >= BATCH:
                break
            done, texts = done + 1, texts + len(rows[note.path])
            generation, number = await self._embed_note(generation, note, rows[note.path], live=live)
            async with self.words.locks.of(owner):
                if await self.words.ledger.is_unembedded(generation.name, note):
                    counts = {note.path: embedded[note.path] + number}
                    await self.words.ledger.record_notes(
                        generation.name, owner, [note], [], embedded=True, counts=counts
                    )
        return generation, done < len(waiting)

    async def _embed_note(
        self, generation: Generation, note: Note, rows: Sequence[IndexRow], *, live: bool
    ) -> tuple[Generation, int]:
        """Returns how many vectors came, too: the model may refuse some texts."""
        number = 0
        for start in range(0, len(rows), BATCH):
            some = rows[start : start + BATCH]
            vectors = await self.vectors_of(generation, some)
            number += sum(vector is not None for vector in vectors)
            generation = await self.fitting(generation, vectors)
            async with self.words.locks.of(note.owner):
                if await self.words.ledger.is_unembedded(generation.name, note):
                    await self.set_vectors(generation, note.owner, some, vectors, live=live)
        return generation, number

    async def vectors_of(self, generation: Generation, rows: Sequence[IndexRow]) -> list[Vectors | None]:
        """Each row's vector: one that an older generation has for the same words, else a new one.

        None for a text that the model refuses.
        """
        found: list[Vectors | None] = [None] * len(rows)
        if self._is_of_use(generation):
            # Owner by owner: what the older generation holds is read once for each.
            for place in sorted(range(len(rows)), key=lambda place: rows[place].path):
                found[place] = await self._kept_vector(rows[place])
        missing = [place for place, vector in enumerate(found) if vector is None]
        if missing:
            new = await self._embed([meaning_of(rows[place]) for place in missing])
            for place, vector in zip(missing, new, strict=True):
                found[place] = vector
            refused = sum(vector is None for vector in new)
            self.embedded_in[generation.name] += len(new) - refused
        return found

    async def _embed(self, texts: Sequence[str]) -> list[Vectors | None]:
        """One text that the model refuses, or fails at, keeps no other from being embedded.

        Where it fails at every one of them, and does not say that it refuses them, they are not at fault: raises.
        """
        if self.embedder is None:
            raise EmbedderUnavailable("no embedding model is configured")
        results = await self._embed_apart(self.embedder, texts)
        failures = [result for result in results if isinstance(result, EmbedderUnavailable)]
        others = [failure for failure in failures if not isinstance(failure, TextRefused)]
        if others and len(failures) == len(results):
            raise others[0]
        for failure in failures:
            _log.warning(
                "the embedding model does not take a text, which is found by its words alone: %s", failure
            )
        return [None if isinstance(result, EmbedderUnavailable) else result for result in results]

    async def _embed_apart(
        self, embedder: Embedder, texts: Sequence[str]
    ) -> list[Vectors | EmbedderUnavailable]:
        """Each text's vector, or why there is none: found by halving. Raises where not even the probe is embedded."""
        try:
            return list(await embedder.embed(texts))
        except EmbedderUnavailable:
            await embedder.embed([PROBE])
        if len(texts) == 1:
            try:
                return list(await embedder.embed(texts))
            except EmbedderUnavailable as failure:
                return [failure]
        half = len(texts) // 2
        return [
            *await self._embed_apart(embedder, texts[:half]),
            *await self._embed_apart(embedder, texts[half:]),
        ]

    def _is_of_use(self, generation: Generation) -> bool:
        """Whether the older generation can have vectors that this one lacks."""
        if self.source is None or self.embedder is None:
            return False
        return self.source.name != generation.name and self.source.model == self.embedder.name

    async def _kept_vector(self, row: IndexRow) -> Vectors | None:
        if (source := self.source) is None:
            return None
        owner = "/".join(row.path.split("/")[:3])
        if self._kept[0] != owner:
            try:
                stored = await self.words.store.load(source.name, owner, patient=True)
            except IndexUnreachable:
                raise
            except IndexUnavailable:
                stored = StoredRows()  # The reason for the new generation, perhaps. All is embedded again.
            self._kept = (
                owner,
                await asyncio.to_thread(
                    lambda: {
                        old.row_id: (meaning_of(old), vector)
                        for old, vector, is_there in zip(
                            stored.rows, stored.vectors, stored.has_vector, strict=True
                        )
                        if is_there
                    }
                ),
            )
        kept = self._kept[1].get(row.row_id)
        return kept[1] if kept is not None and kept[0] == meaning_of(row) else None

    def forget_source(self) -> None:
        self.source = None
        self._kept = ("", {})

    async def fitting(self, generation: Generation, vectors: Sequence[Vectors | None]) -> Generation:
        """The generation with the embedder's model in it. Raises where it holds another model's vectors."""
        lengths = {len(vector) for vector in vectors if vector is not None}
        if not lengths:
            return generation
        assert self.embedder is not None
        dimensions = generation.dimensions or min(lengths)
        if lengths != {dimensions}:
            raise EmbedderUnavailable(
                f"the embedding model gives {max(lengths)} dimensions, and the index has {dimensions}; "
                "run 'recollect reindex' where it is another model"
            )
        if generation.model is None:
            return await self.words.store.adopt_model(generation.name, self.embedder.name, dimensions)
        return generation


def _unembedded(
    stored: StoredRows, paths: Collection[str]
) -> tuple[defaultdict[str, list[IndexRow]], Counter[str]]:
    """By file: the rows that have no vector yet, and how many have one."""
    rows: defaultdict[str, list[IndexRow]] = defaultdict(list)
    embedded: Counter[str] = Counter()
    for row, is_embedded in zip(stored.rows, stored.has_vector, strict=True):
        if row.type != TURN and row.path in paths:
            embedded[row.path] += bool(is_embedded)
            rows[row.path] += [] if is_embedded else [row]
    return rows, embedded


_UNTIL = "all texts are embedded again in the background, and search goes by words, and by the old vectors if their model is still here, until then"


class ModelCheck:
    """Models are told apart by their names, and those of one name by how many dimensions they give."""

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder
        self._dimensions: int | None = None
        """What the model was last seen to give."""

    def mismatch(self, live: Generation) -> str | None:
        """The index holds another model's vectors: said with what to do about it."""
        if self._embedder is None:
            return None
        name = self._embedder.name
        if not live.holds_vectors_of(name):
            return f"the index was made with the embedding model {live.model}, and {name} is configured: {_UNTIL}"
        if live.dimensions and self._dimensions not in (None, live.dimensions):
            gives = f"the embedding model {name} gives {self._dimensions} dimensions"
            return f"{gives}, and the index has {live.dimensions}: {_UNTIL}"
        return None

    def seen(self, dimensions: int) -> None:
        """The model's vectors fit into the index."""
        self._dimensions = dimensions or self._dimensions

    async def probe(self, live: Generation) -> None:
        """Raises EmbedderUnavailable where the model does not answer, or gives other dimensions than the index has."""
        if self._embedder is None or not live.dimensions or self._dimensions == live.dimensions:
            return
        # A name with a digest of the model's files in it vouches for the dimensions.
        if DIGEST_MARK in self._embedder.name or not live.holds_vectors_of(self._embedder.name):
            return
        (vector,) = await self._embedder.embed([PROBE])
        self._dimensions = len(vector)
        if (mismatch := self.mismatch(live)) is not None:
            raise EmbedderUnavailable(mismatch)
