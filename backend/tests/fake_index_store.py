"""The index store in memory. `tests/contract/test_index_store.py` holds it against the real one."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from recollect.domain.recall.rows import Generation, IndexRow, StoredRows, Vectors
from recollect.errors import IndexUnavailable
from recollect.service.ports import IndexStore


@dataclass
class _Kept:
    row: IndexRow
    words: str
    vector: Vectors | None = None


@dataclass
class _Contents:
    described: Generation
    owners: dict[str, dict[str, _Kept]] = field(default_factory=dict)


class FakeIndexStore(IndexStore):
    """`broken`, once set, is what every call raises IndexUnavailable with. `compacted` lists what was compacted."""

    def __init__(self) -> None:
        self.contents: dict[str, _Contents] = {}
        self.live_name: str | None = None
        self.broken: str | None = None
        self.compacted: list[tuple[str, str]] = []
        self.compaction_failures = 0
        self.last_problem: str | None = None

    async def close(self) -> None:
        """There is nothing to wait for."""

    async def live(self) -> Generation | None:
        there = self.contents.get(self.live_name or "")
        return there.described if there else None

    async def generations(self) -> list[Generation]:
        return [self.contents[name].described for name in sorted(self.contents)]

    async def create(self, generation: Generation) -> None:
        self._refuse_if_broken()
        if not generation.name or "/" in generation.name or generation.name.startswith("."):
            raise ValueError(f"{generation.name!r} cannot be the name of a generation")
        there = self.contents.setdefault(generation.name, _Contents(generation))
        if there.described != generation:
            raise ValueError(f"there is another generation {generation.name!r}")

    async def adopt_model(self, generation: str, model: str, dimensions: int) -> Generation:
        there = self._known(generation)
        adopted = replace(there.described, model=model, dimensions=dimensions)
        if dimensions < 1 or (there.described.model is not None and there.described != adopted):
            raise ValueError("the index holds vectors of another model")
        there.described = adopted
        return adopted

    async def promote(self, generation: str) -> None:
        self._refuse_if_broken()
        if generation not in self.contents:
            raise ValueError(f"there is no generation {generation!r}")
        self.live_name = generation

    async def discard(self, generation: str) -> None:
        self._refuse_if_broken()
        if generation == self.live_name:
            raise ValueError("the live generation cannot be discarded")
        self.contents.pop(generation, None)

    async def owners(self, generation: str) -> list[str]:
        return sorted(owner for owner, rows in self._known(generation).owners.items() if rows)

    async def load_files(
        self, generation: str, owner: str, paths: Collection[str], row_ids: Collection[str] = ()
    ) -> StoredRows:
        known = self._known(generation).owners.get(owner, {})
        return self._stored(
            generation,
            [one for one in known.values() if one.row.path in paths or one.row.row_id in row_ids],
        )

    async def load(self, generation: str, owner: str) -> StoredRows:
        return self._stored(generation, self._known(generation).owners.get(owner, {}).values())

    def _stored(self, generation: str, chosen: Collection[_Kept]) -> StoredRows:
        there = self._known(generation)
        kept = sorted(
            chosen,
            key=lambda one: (one.row.thread_id, one.row.position, one.row.row_id),
        )
        vectors = np.zeros((len(kept), there.described.dimensions), np.float32)
        for line, one in zip(vectors, kept, strict=True):
            if one.vector is not None:
                line[:] = one.vector
        return StoredRows(
            rows=[one.row for one in kept],
            words=[one.words for one in kept],
            vectors=vectors,
            has_vector=np.array([one.vector is not None for one in kept], np.bool_),
        )

    async def count(self, generation: str, owner: str) -> int:
        return len((await self.load(generation, owner)).rows)

    async def put(self, generation: str, owner: str, rows: Sequence[IndexRow], words: Sequence[str]) -> None:
        there = self._known(generation).owners.setdefault(owner, {})
        there.update({row.row_id: _Kept(row, terms) for row, terms in zip(rows, words, strict=True)})

    async def set_vectors(
        self, generation: str, owner: str, row_ids: Sequence[str], vectors: Vectors
    ) -> None:
        there = self._known(generation)
        dimensions = there.described.dimensions
        if dimensions == 0 or vectors.shape != (len(row_ids), dimensions) or not np.isfinite(vectors).all():
            raise ValueError(f"these are no vectors of {dimensions} dimensions")
        rows = there.owners.get(owner, {})
        for row_id, vector in zip(row_ids, vectors, strict=True):
            if row_id in rows:
                rows[row_id].vector = vector.copy()

    async def remove(self, generation: str, owner: str, row_ids: Sequence[str]) -> None:
        rows = self._known(generation).owners.get(owner, {})
        for row_id in row_ids:
            rows.pop(row_id, None)

    async def drop(self, generation: str, owner: str) -> None:
        self._known(generation).owners.pop(owner, None)

    async def compact(self, generation: str, owner: str) -> None:
        self._known(generation)
        self.compacted.append((generation, owner))

    async def size(self) -> tuple[int, int]:
        rows = [
            one for there in self.contents.values() for rows in there.owners.values() for one in rows.values()
        ]
        return len(self.contents), sum(len(one.row.text.encode()) for one in rows)

    def _known(self, generation: str) -> _Contents:
        self._refuse_if_broken()
        if generation not in self.contents:
            raise IndexUnavailable("this generation of the index is gone, or damaged")
        return self.contents[generation]

    def _refuse_if_broken(self) -> None:
        if self.broken is not None:
            raise IndexUnavailable(self.broken)
