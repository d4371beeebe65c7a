"""The index store: generations of LanceDB tables, one table per owner, and every version of them that is stored."""

import asyncio
import hashlib
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from recollect.domain.forgetting import StoredVersion
from recollect.domain.recall.rows import Generation, IndexRow, StoredRows, Vectors
from recollect.errors import IndexUnavailable, IndexUnreachable, StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.index.lanes import Lanes
from recollect.infra.index.places import DESCRIPTION, LEADER, LIVE, TABLE_PREFIX, TERM, IndexFolder, Place

if TYPE_CHECKING:
    from recollect.infra.index.tables import OwnerTable

_log = logging.getLogger("recollect.index")
T = TypeVar("T")

_OPEN_TABLES, _COUNTING_SECONDS = 64, 1.0
_GENERATIONS, _SIZE = "generations", "size"


def table_name(owner: str) -> str:
    return TABLE_PREFIX + hashlib.sha256(owner.encode()).hexdigest()[:32]


class LanceIndex:
    """Searchable rows, by generation and owner: `<name>/generation.json` and a table per owner for each generation,
    and `live.json`. LanceDB is imported, in a worker thread, on first use.

    Calls for one owner run one after another; those for different owners beside each other.
    """

    def __init__(self, place: Place | Path, *, fail_points: FailPoints | None = None) -> None:
        self.place: Place = IndexFolder(place) if isinstance(place, Path) else place
        self._fail_points = fail_points or FailPoints()
        self._lanes = Lanes()
        self._size = 0, 0
        self._counting: asyncio.Task[None] | None = None
        self.compaction_failures = 0
        """Since the start."""
        self._uncompacted: dict[tuple[str, str], str] = {}
        """Tables that wait for a compaction that succeeds, and why the last one failed."""
        self._tables: OrderedDict[tuple[str, str], OwnerTable] = OrderedDict()
        self._tables_lock = threading.Lock()

    @property
    def last_problem(self) -> str | None:
        """Why compaction failed; None once it succeeded wherever it had failed."""
        return next(reversed(list(self._uncompacted.values())), None)

    async def close(self) -> None:
        """Return when all that was begun is done. The index can be used again afterwards."""
        await self._lanes.close()
        self._forget_tables(lambda key: True)

    async def open(self) -> None:
        """Before anything else is asked, and at every start: what a former process still writes counts no more."""
        await self._lanes.run(_GENERATIONS, partial(self._told, self.place.open))
        self._forget_tables(lambda key: True)

    async def reach(self) -> None:
        """Raises IndexUnreachable where its place does not answer, or did not when this was opened."""
        await self._on_files(lambda: self.place.read(LIVE))

    async def live(self) -> Generation | None:
        """None where none is live or what is there is damaged; the log says which."""

        def found() -> Generation | None:
            name = self._live_name()
            generation = None if name is None else self._read(name)
            if name is not None and generation is None:
                _log.warning("the live index generation %s is missing or damaged", name)
            return generation

        return await self._on_files(found)

    async def generations(self) -> list[Generation]:
        """All there are, what killed rebuilds left included: where no more is known of one, its format is 0."""

        def listed() -> list[Generation]:
            names = filter(_is_name, self.place.folders())
            return [self._read(name) or Generation(name, format=0) for name in names]

        return await self._on_files(listed)

    async def create(self, generation: Generation) -> None:
        """A generation without rows, not live. The same again changes nothing; a name that is taken: ValueError."""

        def created() -> None:
            if self._read(generation.name) not in (None, generation):
                raise ValueError(f"there is another generation {generation.name!r}")
            self._describe(generation)

        await self._on_files(created)

    async def adopt_model(self, generation: str, model: str, dimensions: int) -> Generation:
        """Record whose vectors these are. ValueError where the generation has another model's."""
        _refuse_unopened(generation)

        def adopted() -> Generation:
            there = self._known(generation)
            made = Generation(generation, there.format, model, dimensions)
            if dimensions < 1 or (there.model is not None and there != made):
                raise ValueError(f"the index holds {there.dimensions}-dimensional vectors of {there.model!r}")
            self._describe(made)
            return made

        return await self._on_files(adopted)

    async def promote(self, generation: str) -> None:
        """Make it the live one, in one step. ValueError where there is none of that name."""

        def promoted() -> None:
            if self._read(generation) is None:
                raise ValueError(f"there is no generation {generation!r}")
            self._fail_points.reach("index.promoting")
            self.place.replace_live({"generation": generation})
            self._fail_points.reach("index.promoted")

        await self._on_files(promoted)

    async def discard(self, generation: str) -> None:
        """Remove it with all its rows; one that is gone is fine, the live one a ValueError."""
        described = self._description(generation)

        def hidden() -> None:
            """From here on nothing takes it for a generation that can be used."""
            if self._live_name() == generation:
                raise ValueError("the live generation cannot be discarded")
            self.place.remove(described)

        await self._on_files(hidden)
        await self._lanes.quiet(lambda lane: isinstance(lane, tuple) and lane[0] == generation)
        self._forget_tables(lambda key: key[0] == generation)
        await self._on_files(lambda: self.place.remove_all(generation))
        for table in [table for table in self._uncompacted if table[0] == generation]:
            self._compacted(table)

    async def owners(self, generation: str) -> list[str]:
        """All who have rows, sorted."""
        _refuse_unopened(generation)

        def names() -> list[str]:
            self._known(generation)
            return self.place.tables(generation)

        tables = await self._on_files(names)
        found = [await self._on_table(generation, name, lambda _, table: table.owner()) for name in tables]
        return sorted(owner for owner in found if owner is not None)

    async def load(self, generation: str, owner: str, *, patient: bool = False) -> StoredRows:
        """All rows of an owner, by thread, position and id. A vector that is damaged or of another row is left out.
        Where nobody waits, be `patient`: rows that take long are loaded then, too.

        Raises IndexUnavailable also if a row occurs twice or is not this owner's.
        """
        return await self._on_table(
            generation,
            table_name(owner),
            lambda known, table: table.load(owner, known.dimensions),
            patient=patient,
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
            lambda known, table: table.set_vectors(row_ids, vectors, known.dimensions),
        )

    async def remove(self, generation: str, owner: str, row_ids: Sequence[str]) -> None:
        """Rows that are gone already are fine. Their bytes are on the disk until `compact`."""
        await self._on_table(
            generation, table_name(owner), lambda _, table: table.remove(row_ids), patient=True
        )

    async def drop(self, generation: str, owner: str) -> None:
        """Remove all of an owner from the disk."""
        await self._on_table(generation, table_name(owner), lambda _, table: table.drop(), patient=True)

    async def compact(self, generation: str, owner: str) -> None:
        """Leave nothing of what was removed or replaced on the disk."""
        await self._on_table(generation, table_name(owner), lambda _, table: table.compact(), patient=True)

    async def size(self) -> tuple[int, int]:
        """Files and bytes, of all generations together; the last that is known where counting takes long."""
        if self._counting is None or self._counting.done():
            self._counting = asyncio.create_task(self._count_files())
        done, _ = await asyncio.wait([self._counting], timeout=_COUNTING_SECONDS)
        for counted in done:
            counted.result()
        return self._size

    async def _count_files(self) -> None:
        self._size = await self._lanes.run(_SIZE, partial(self._told, self.place.size))

    async def all_versions(self) -> list[StoredVersion]:
        """Every version of every table: ids alone, without texts. Raises IndexUnavailable where one cannot be read."""

        def versions(generation: str, name: str) -> list[StoredVersion]:
            from recollect.infra.index.tables import versions_of

            return versions_of(generation, self.place.table(generation, name))

        found: list[StoredVersion] = []
        for generation, name in await self._on_files(self.place.all_tables):
            lane = (generation, name)
            try:
                found += await self._lanes.run(lane, partial(versions, *lane))
            except IndexUnreachable:
                raise
            except IndexUnavailable:
                # A compaction that was killed leaves old versions without some of their files. Another removes them.
                await self._on_table(*lane, lambda _, table: table.compact(), patient=True)
                found += await self._lanes.run(lane, partial(versions, *lane))
        return found

    async def _on_files(self, work: Callable[[], T]) -> T:
        return await self._lanes.run(_GENERATIONS, partial(self._asked, work))

    async def _on_table(
        self,
        generation: str,
        name: str,
        work: Callable[[Generation, "OwnerTable"], T],
        *,
        patient: bool = False,
    ) -> T:
        _refuse_unopened(generation)

        def asked() -> T:
            return self._asked(lambda: work(self._known(generation), self._table(generation, name)))

        try:
            async with asyncio.timeout(None if patient else self.place.patience):
                return await self._lanes.run((generation, name), asked)
        except TimeoutError as error:
            raise IndexUnreachable("the index cannot be used: its place takes too long") from error

    def _asked(self, work: Callable[[], T]) -> T:
        """What is asked of a place that did not answer a moment ago fails at once."""
        try:
            self.place.refuse_while_down()
        except StorageUnavailable as error:
            raise IndexUnreachable(f"the index cannot be used: {error.message}") from error
        return self._told(work)

    def _told(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except StorageUnavailable as error:
            self.place.went_down(error.message)
            raise IndexUnreachable(f"the index cannot be used: {error.message}") from error
        except IndexUnreachable:
            self.place.went_down("its place does not answer")
            raise
        except OSError as error:
            raise IndexUnavailable(f"the index cannot be used: {error.strerror}") from error

    def _description(self, name: str) -> str:
        if not _is_name(name):
            raise ValueError(f"{name!r} cannot be the name of a generation")
        return f"{name}/{DESCRIPTION}"

    def _read(self, name: str) -> Generation | None:
        """None where there is no such generation, or its description is damaged."""
        described = self._read_object(self._description(name))
        if described is None or described.get("name") != name:
            return None
        try:
            model = None if described["model"] is None else str(described["model"])
            return Generation(name, int(described["format"]), model, int(described["dimensions"]))
        except (KeyError, TypeError, ValueError) as error:
            _log.warning("the description of index generation %s is damaged: %r", name, error)
            return None

    def _describe(self, generation: Generation) -> None:
        self.place.replace(self._description(generation.name), json.dumps(asdict(generation)).encode())

    def _known(self, name: str) -> Generation:
        generation = self._read(name)
        if generation is None:
            raise IndexUnavailable("this generation of the index is gone, or damaged")
        return generation

    def _live_name(self) -> str | None:
        live = self._read_object(LIVE)
        name = None if live is None else live.get("generation")
        if isinstance(name, str) and _is_name(name):
            return name
        if live and not live.keys() <= {
            TERM,
            LEADER,
        }:  # A leader wrote its term before there was a generation.
            _log.warning("%s names no generation", LIVE)
        return None

    def _read_object(self, path: str) -> dict[str, Any] | None:
        """None where the file is missing, unreadable or no JSON object; all but the first is logged."""
        if (content := self.place.read(path)) is None:
            return None
        try:
            found = json.loads(content)
        except ValueError as error:
            _log.warning("%s cannot be read: %s", path, error)
            return None
        if isinstance(found, dict):
            return found
        _log.warning("%s is damaged", path)
        return None

    def _table(self, generation: str, name: str) -> "OwnerTable":
        """Of very many owners only the last used stay open."""
        from recollect.infra.index.tables import OwnerTable

        key = (generation, name)
        with self._tables_lock:
            table = self._tables.pop(key, None) or OwnerTable(
                self.place.table(generation, name), self._fail_points, partial(self._compacted, key)
            )
            self._tables[key] = table
            if len(self._tables) > _OPEN_TABLES:
                self._tables.popitem(last=False)
            return table

    def _compacted(self, table: tuple[str, str], error: BaseException | None = None) -> None:
        """It succeeded, or was not needed, unless there is an error."""
        self._uncompacted.pop(table, None)
        if error is not None:
            self.compaction_failures += 1
            self._uncompacted[table] = f"the index could not be compacted: {type(error).__name__}"
            _log.warning("a table of the index could not be compacted: %s", error)

    def _forget_tables(self, chosen: Callable[[tuple[str, str]], bool]) -> None:
        with self._tables_lock:
            for key in [key for key in self._tables if chosen(key)]:
                del self._tables[key]


def _refuse_unopened(generation: str) -> None:
    """Not in the midst of a call to its place: nothing is wrong with that."""
    if not generation:
        raise IndexUnreachable("the index is not open yet")


def _is_name(name: str) -> bool:
    return name == PurePosixPath(name).name and name != "" and not name.startswith(".")
