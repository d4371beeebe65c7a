"""The index store: generations of LanceDB tables, one table per owner, and every version of them on disk."""

import asyncio
import hashlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from recollect.domain.forgetting import StoredVersion
from recollect.domain.recall.rows import Generation, IndexRow, StoredRows, Vectors
from recollect.errors import IndexUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.index.generations import GenerationFiles, Upkeep

if TYPE_CHECKING:
    from recollect.infra.index.tables import OwnerTable


_THREADS = 4
_log = logging.getLogger("recollect.index")
T = TypeVar("T")


class Lanes:
    """Work of one lane runs in the order it came. A cancelled caller leaves, its lane stays taken until it is done.

    Threads are started on first use, and again after `close`.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()
        self._pool = ThreadPoolExecutor(_THREADS, "index")

    async def run(self, lane: Hashable, work: Callable[[], T]) -> T:
        lock = self._locks.setdefault(lane, asyncio.Lock())
        await lock.acquire()
        try:
            running = asyncio.get_running_loop().run_in_executor(self._pool, work)
        except BaseException:
            lock.release()
            raise
        running.add_done_callback(lambda _: lock.release())
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(_tell_of_failure)
            raise

    async def quiet(self, belongs: Callable[[Hashable], bool]) -> None:
        """Return when every lane that `belongs` has done what it was given before this call."""
        await asyncio.gather(*(self.run(lane, lambda: None) for lane in list(self._locks) if belongs(lane)))

    async def close(self) -> None:
        """Return when all that was begun is done."""
        pool, self._pool = self._pool, ThreadPoolExecutor(_THREADS, "index")
        await asyncio.to_thread(pool.shutdown)


def _tell_of_failure(done: "asyncio.Future[T]") -> None:
    """Nobody waits for this any more, so the log has to know."""
    if not done.cancelled() and (error := done.exception()) is not None:
        _log.warning("work on the index failed after its caller had left: %s", error)


_OPEN_TABLES = 64
_GENERATIONS = "generations"
_TABLE_PREFIX = "o_"


def table_name(owner: str) -> str:
    return _TABLE_PREFIX + hashlib.sha256(owner.encode()).hexdigest()[:32]


class LanceIndex:
    """Searchable rows, by generation and owner, in a folder that no other process uses. LanceDB is imported, in a worker thread, on first use.

    Calls for one owner run one after another; those for different owners beside each other.
    """

    def __init__(self, folder: Path, *, fail_points: FailPoints | None = None) -> None:
        self._fail_points = fail_points or FailPoints()
        self._files = GenerationFiles(folder, self._fail_points)
        self._lanes = Lanes()
        self._upkeep = Upkeep()
        self._tables: OrderedDict[tuple[str, str], OwnerTable] = OrderedDict()
        self._tables_lock = threading.Lock()

    @property
    def compaction_failures(self) -> int:
        """Since the start."""
        return self._upkeep.failures

    @property
    def last_problem(self) -> str | None:
        """Why compaction failed; None once it succeeded wherever it had failed."""
        return self._upkeep.last_problem

    async def close(self) -> None:
        """Return when all that was begun is done. The index can be used again afterwards."""
        await self._lanes.close()
        self._forget_tables(lambda key: True)

    async def live(self) -> Generation | None:
        """None where none is live or what is there is damaged; the log says which."""
        return await self._on_files(self._files.live)

    async def generations(self) -> list[Generation]:
        """All there are, what killed rebuilds left included: where no more is known of one, its format is 0."""
        return await self._on_files(self._files.list_all)

    async def create(self, generation: Generation) -> None:
        """A generation without rows, not live. The same again changes nothing; a name that is taken: ValueError."""
        await self._on_files(lambda: self._files.create(generation))

    async def adopt_model(self, generation: str, model: str, dimensions: int) -> Generation:
        """Record whose vectors these are. ValueError where the generation has another model's."""
        return await self._on_files(lambda: self._adopt(generation, model, dimensions))

    def _adopt(self, name: str, model: str, dimensions: int) -> Generation:
        there = self._known(name)
        adopted = Generation(name, there.format, model, dimensions)
        if dimensions < 1 or (there.model is not None and there != adopted):
            raise ValueError(f"the index holds {there.dimensions}-dimensional vectors of {there.model!r}")
        self._files.describe(adopted)
        return adopted

    async def promote(self, generation: str) -> None:
        """Make it the live one, in one step. ValueError where there is none of that name."""
        await self._on_files(lambda: self._files.promote(generation))

    async def discard(self, generation: str) -> None:
        """Remove it with all its rows; one that is gone is fine, the live one a ValueError."""
        await self._on_files(lambda: self._files.begin_discard(generation))
        await self._lanes.quiet(lambda lane: isinstance(lane, tuple) and lane[0] == generation)
        self._forget_tables(lambda key: key[0] == generation)
        await self._on_files(lambda: self._files.finish_discard(generation))
        self._upkeep.discarded(self._files.path(generation))

    async def owners(self, generation: str) -> list[str]:
        """All who have rows, sorted."""
        names = await self._on_files(lambda: self._table_names(generation))
        found = [await self._on_table(generation, name, lambda _, table: table.owner()) for name in names]
        return sorted(owner for owner in found if owner is not None)

    async def load(self, generation: str, owner: str) -> StoredRows:
        """All rows of an owner, by thread, position and id. A vector that is damaged or of another row is left out.

        Raises IndexUnavailable also if a row occurs twice or is not this owner's.
        """
        return await self._on_table(
            generation, table_name(owner), lambda known, table: table.load(owner, known.dimensions)
        )

    async def load_files(
        self, generation: str, owner: str, paths: Collection[str], row_ids: Collection[str] = ()
    ) -> StoredRows:
        """The rows of these files, and those with these ids: what else there is, is not read."""
        return await self._on_table(
            generation,
            table_name(owner),
            lambda known, table: table.load_files(owner, paths, row_ids, known.dimensions),
        )

    async def count(self, generation: str, owner: str) -> int:
        """How many rows an owner has: checked as `load` does, without reading texts and vectors."""
        return await self._on_table(generation, table_name(owner), lambda _, table: table.count(owner))

    async def put(self, generation: str, owner: str, rows: Sequence[IndexRow], words: Sequence[str]) -> None:
        """Add rows, or put them in the place of those with the same ids; those lose their vectors."""
        await self._on_table(
            generation,
            table_name(owner),
            lambda known, table: table.put(owner, rows, words, known.dimensions),
        )

    async def set_vectors(
        self, generation: str, owner: str, row_ids: Sequence[str], vectors: Vectors
    ) -> None:
        """Give rows their vectors. Ids that do not exist are passed over; what is no vector is a ValueError."""
        await self._on_table(
            generation,
            table_name(owner),
            lambda known, table: table.set_vectors(row_ids, _checked(row_ids, vectors, known)),
        )

    async def remove(self, generation: str, owner: str, row_ids: Sequence[str]) -> None:
        """Rows that are gone already are fine. Their bytes are on the disk until `compact`."""
        await self._on_table(generation, table_name(owner), lambda _, table: table.remove(row_ids))

    async def drop(self, generation: str, owner: str) -> None:
        """Remove all of an owner from the disk."""
        await self._on_table(generation, table_name(owner), lambda _, table: table.drop())

    async def compact(self, generation: str, owner: str) -> None:
        """Leave nothing of what was removed or replaced on the disk."""
        await self._on_table(generation, table_name(owner), lambda _, table: table.compact())

    async def size(self) -> tuple[int, int]:
        """Files and bytes, of all generations together."""
        return await self._on_files(self._files.size)

    async def all_versions(self) -> list[StoredVersion]:
        """Every version of every table: ids alone, without texts. Raises IndexUnavailable where one cannot be read."""
        paths = await asyncio.to_thread(lambda: sorted(self._files.folder.glob("*/*.lance")))
        found: list[StoredVersion] = []
        for path in paths:
            found += await self._lanes.run((path.parent.name, path.stem), partial(_versions, path))
        return found

    async def _on_files(self, work: Callable[[], T]) -> T:
        def translated() -> T:
            try:
                return work()
            except OSError as error:
                raise IndexUnavailable(f"the index cannot be used: {error.strerror}") from error

        return await self._lanes.run(_GENERATIONS, translated)

    async def _on_table(self, generation: str, name: str, work: Callable[[Generation, "OwnerTable"], T]) -> T:
        return await self._lanes.run(
            (generation, name), lambda: work(self._known(generation), self._table(generation, name))
        )

    def _known(self, name: str) -> Generation:
        generation = self._files.read(name)
        if generation is None:
            raise IndexUnavailable("this generation of the index is gone, or damaged")
        return generation

    def _table_names(self, generation: str) -> list[str]:
        from recollect.infra.index.tables import SUFFIX

        self._known(generation)
        return sorted(path.stem for path in self._files.path(generation).glob(f"{_TABLE_PREFIX}*{SUFFIX}"))

    def _table(self, generation: str, name: str) -> "OwnerTable":
        """Of very many owners only the last used stay open."""
        from recollect.infra.index.tables import OwnerTable

        key = (generation, name)
        with self._tables_lock:
            table = self._tables.pop(key, None) or OwnerTable(
                self._files.path(generation), name, self._fail_points, self._upkeep
            )
            self._tables[key] = table
            if len(self._tables) > _OPEN_TABLES:
                self._tables.popitem(last=False)
            return table

    def _forget_tables(self, chosen: Callable[[tuple[str, str]], bool]) -> None:
        with self._tables_lock:
            for key in [key for key in self._tables if chosen(key)]:
                del self._tables[key]


def _checked(row_ids: Sequence[str], vectors: Vectors, generation: Generation) -> Vectors:
    expected = (len(row_ids), generation.dimensions)
    if generation.dimensions == 0 or vectors.shape != expected:
        raise ValueError(f"vectors of shape {vectors.shape} where {expected} are expected")
    if not np.isfinite(vectors).all():
        raise ValueError("a vector holds what is no number")
    return vectors


def _versions(path: Path) -> list[StoredVersion]:
    if not path.exists():  # Dropped since the folder was listed.
        return []
    try:
        return list(_versions_of(path))
    except BaseException as error:  # A panic of LanceDB's is no Exception.
        _log.warning("a version of a table of the index cannot be read: %s", error)
        raise IndexUnavailable("an old version of the index cannot be read; the log says why") from error


def _versions_of(path: Path) -> Iterator[StoredVersion]:
    import lancedb

    table: Any = lancedb.connect(path.parent).open_table(path.stem)
    for version in table.list_versions():
        table.checkout(version["version"])
        read = table.search().select(["row_id", "owner", "sources"]).to_arrow()
        owners = read["owner"].to_pylist()
        rows = zip(read["row_id"].to_pylist(), read["sources"].to_pylist(), strict=True)
        yield StoredVersion(
            path.parent.name,
            owners[0] if owners else "",
            tuple((row_id, tuple(sources or ())) for row_id, sources in rows),
        )
