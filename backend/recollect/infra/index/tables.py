"""One owner's rows in one LanceDB table. Importing this imports LanceDB: slow, so only where it is used."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recollect.domain.forgetting import StoredVersion
from recollect.domain.recall.rows import IndexRow, StoredRows, Vectors
from recollect.errors import IndexUnavailable, IndexUnreachable
from recollect.failpoints import FailPoints
from recollect.infra.home_lock import return_free_memory
from recollect.infra.index.columns import (
    SCHEMA,
    VECTOR,
    VECTOR_DIGEST,
    rows_table,
    stored_rows,
    vector_fields,
    with_vectors,
    without_vectors,
)
from recollect.infra.index.places import TablePlace

_IDS_AT_ONCE: Final = 500
_MOST_FILES: Final = 240
_FILES_BEFORE_RETRY: Final = 32
_CLEANINGS: Final = 4
_OLD: Final = timedelta(milliseconds=1)
"""Versions older than this go. Zero would do the same and warn: suppressing warnings is not safe in threads."""
_CACHES: Final = {"index_cache_size_bytes": 1 << 20, "metadata_cache_size_bytes": 4 << 20}
_log = logging.getLogger("recollect.index")


class OwnerTable:
    """Blocking, and for one thread at a time. Whatever is acknowledged is stored; each call is all or nothing,
    but for `remove` of very many ids, which can be made again.
    """

    def __init__(
        self, place: TablePlace, fail_points: FailPoints, compacted: Callable[[BaseException | None], None]
    ) -> None:
        """`compacted` is told the error where the table could not be compacted, and None where it was."""
        self._place = place
        self._fail_points = fail_points
        self._compacted = compacted
        self._connection: Any = None
        self._table: Any = None
        self._compact_above = 0

    def load(self, owner: str, dimensions: int) -> StoredRows:
        """All rows. Raises IndexUnavailable if one occurs twice or is not this owner's."""
        with self._guarded("read"):
            table = self._open()
            if table is None:
                return _no_rows(dimensions)
            stored = _checked_rows(table.to_arrow(), owner, dimensions)
        return_free_memory()
        return stored

    def load_files(
        self, owner: str, paths: Collection[str], row_ids: Collection[str], dimensions: int
    ) -> StoredRows:
        """The rows of these files, and those with these ids; IndexUnavailable as with `load`."""
        with self._guarded("read"):
            table = self._open()
            chosen = [*_filters(sorted(paths), "path"), *_filters(sorted(row_ids))]
            if table is None or not chosen:
                return _no_rows(dimensions)
            found = pa.concat_tables(table.search().where(each).to_arrow() for each in chosen)
            if len(chosen) > 1:
                first = {
                    row_id: place for place, row_id in reversed([*enumerate(found["row_id"].to_pylist())])
                }
                found = found.take(pa.array(sorted(first.values()), pa.int64()))
            return _checked_rows(found, owner, dimensions)

    def count(self, owner: str) -> int:
        """How many rows there are; checked as `load` does, without reading the texts."""
        with self._guarded("read"):
            table = self._open()
            if table is None:
                return 0
            read = table.search().select(["row_id", "owner"]).to_arrow()
            _refuse_strange_rows(read, owner)
            return int(read.num_rows)

    def owner(self) -> str | None:
        """Whose rows these are; None where there are none."""
        with self._guarded("read"):
            table = self._open()
            if table is None:
                return None
            found: list[str] = table.search().select(["owner"]).limit(1).to_arrow()["owner"].to_pylist()
            return found[0] if found else None

    def put(self, owner: str, rows: Sequence[IndexRow], words: Sequence[str], dimensions: int) -> None:
        if not rows:
            return
        new = rows_table(owner, rows, words)
        with self._guarded("written"):
            if self._open_to_write() is None:
                self._create(without_vectors(new, dimensions))
            else:
                self._merge(without_vectors(new, dimensions if self._has_vectors() else 0), insert=True)
            self._written()

    def set_vectors(self, row_ids: Sequence[str], vectors: Vectors, dimensions: int) -> None:
        if dimensions == 0 or vectors.shape != (len(row_ids), dimensions):
            raise ValueError(
                f"vectors of shape {vectors.shape} where {(len(row_ids), dimensions)} are expected"
            )
        if not np.isfinite(vectors).all():
            raise ValueError("a vector holds what is no number")
        with self._guarded("written"):
            table = self._open_to_write()
            if table is None:
                return
            # Whole rows are written: LanceDB updates single columns by reading all of the table.
            found = [
                table.search().where(chosen).select(SCHEMA.names).to_arrow() for chosen in _filters(row_ids)
            ]
            described = pa.concat_tables(found) if found else SCHEMA.empty_table()
            if described.num_rows == 0:
                return
            if not self._has_vectors():
                there = table.schema.names
                table.add_columns(
                    [field for field in vector_fields(vectors.shape[1]) if field.name not in there]
                )
            self._merge(with_vectors(described, row_ids, vectors), insert=False)
            self._written()

    def remove(self, row_ids: Sequence[str]) -> None:
        with self._guarded("written"):
            for chosen in _filters(row_ids):
                table = self._open_to_write()
                if table is None:
                    return
                table.delete(chosen)
                self._written()

    def drop(self) -> None:
        """Remove it, old versions and all. What a killed `drop` left is removed by the next."""
        with self._guarded("written"):
            self._table = None
            self._place.remove()
            self._compacted(None)

    def compact(self) -> None:
        """Leave one version, with nothing of what was removed or replaced."""
        with self._guarded("compacted"):
            table = self._open_to_write()
            self._place.remove_leftovers()
            if table is None:
                return
            try:
                self._optimize()
                if self._place.files_in("_deletions"):
                    # LanceDB keeps removed rows in a file until they are a tenth of it.
                    table.add(table.search().to_batches(), mode="overwrite", on_bad_vectors="null")
                    self._optimize()
            except BaseException as error:
                self._compacted(error)
                raise

    @contextmanager
    def _guarded(self, verb: str) -> Iterator[None]:
        """After an error what is in memory is in doubt: the next call opens the table again.

        The message names nobody; what LanceDB said is the cause.
        """
        try:
            yield
        except IndexUnavailable:
            self._table = None
            raise
        except BaseException as error:  # A panic of LanceDB's is no Exception.
            self._table = None
            _log.warning("a table of the index cannot be %s: %s", verb, error)
            if self._place.is_unreachable(error):
                raise IndexUnreachable(f"the index cannot be {verb}: its place does not answer") from error
            raise IndexUnavailable(f"the index cannot be {verb}; the log says why") from error

    def _open(self) -> Any:
        if self._table is None and (name := self._place.current()) is not None:
            table = self._connected().open_table(name)
            if table.version < self._place.last_known_version():
                raise RuntimeError("the newest version of the table is missing")
            self._place.opened()
            self._table = table
        return self._table

    def _open_to_write(self) -> Any:
        if self._open() is not None and not self._place.is_ours():
            self._recreate()
        return self._table

    def _connected(self) -> Any:
        """A session of its own: caches go with this object, and never outlive a table that is dropped and made again."""
        if self._connection is None:
            self._connection = self._place.connect(lancedb.Session(**_CACHES))
        return self._connection

    def _has_vectors(self) -> bool:
        return {VECTOR, VECTOR_DIGEST} <= set(self._table.schema.names)

    def _create(self, rows: pa.Table) -> None:
        name = self._place.begin()
        self._connected().create_table(name, rows, on_bad_vectors="null")
        self._place.put_in_place(name)
        self._open()

    def _merge(self, rows: pa.Table, *, insert: bool) -> None:
        merge = self._table.merge_insert("row_id").when_matched_update_all()
        if insert:
            merge = merge.when_not_matched_insert_all()
        # "null": rows without a vector are meant to have none. Vectors that are no numbers do not come this far.
        merge.execute(rows.select(self._table.schema.names), on_bad_vectors="null")

    def _written(self) -> None:
        files, fewest = self._place.settle(), self._place.fewest_files
        self._fail_points.reach("index.written")
        if files > max(fewest, self._compact_above) and files > most_files(fewest, self._table.count_rows()):
            try:
                self._optimize()
            except BaseException as error:  # noqa: BLE001 - the write is done; this is counted, and tried again
                self._compacted(error)
                self._table = None
                self._compact_above = files + _FILES_BEFORE_RETRY

    def _optimize(self) -> None:
        self._fail_points.reach("index.compacting")
        # This process is the only one, and its calls come one by one: a file that no version names is a killed write's.
        for _ in range(_CLEANINGS):
            self._table.optimize(cleanup_older_than=_OLD, delete_unverified=True)
            if len(self._place.files_in("_versions", ".manifest")) == 1:
                break  # A version that is no older than _OLD has to wait for the next round.
        else:
            self._recreate()
        self._place.settle()
        self._fail_points.reach("index.compacted")
        self._compact_above = 0
        self._compacted(None)
        return_free_memory()

    def _recreate(self) -> None:
        """Put a copy in the table's place: where another process made it; and after the clock was set back, when old
        versions are dated in the future, and LanceDB keeps them. In a folder, a kill in between leaves no table, and the
        rows are put again.
        """
        rows = self._table.to_arrow()
        self._table = self._connection = None
        self._create(rows)


def versions_of(generation: str, place: TablePlace) -> list[StoredVersion]:
    """Every version of a table. Raises IndexUnavailable where one cannot be read."""
    try:
        found: list[StoredVersion] = []
        for name in place.names():
            table: Any = place.connect(None).open_table(name)
            found += [_version(generation, table, each["version"]) for each in table.list_versions()]
        return found
    except BaseException as error:  # A panic of LanceDB's is no Exception.
        _log.warning("a version of a table of the index cannot be read: %s", error)
        if place.is_unreachable(error):
            raise IndexUnreachable("the index cannot be read: its place does not answer") from error
        raise IndexUnavailable("an old version of the index cannot be read; the log says why") from error


def _version(generation: str, table: Any, number: int) -> StoredVersion:
    table.checkout(number)
    read = table.search().select(["row_id", "owner", "sources"]).to_arrow()
    owners = read["owner"].to_pylist()
    rows = zip(read["row_id"].to_pylist(), read["sources"].to_pylist(), strict=True)
    return StoredVersion(
        generation,
        owners[0] if owners else "",
        tuple((row_id, tuple(sources or ())) for row_id, sources in rows),
    )


def _no_rows(dimensions: int) -> StoredRows:
    return StoredRows(vectors=np.zeros((0, dimensions), np.float32))


def _checked_rows(read: pa.Table, owner: str, dimensions: int) -> StoredRows:
    _refuse_strange_rows(read, owner)
    return stored_rows(read, dimensions)


def _refuse_strange_rows(read: pa.Table, owner: str) -> None:
    if pc.count_distinct(read["row_id"]).as_py() != read.num_rows:
        raise IndexUnavailable("an owner's index has a row twice")
    if pc.unique(read["owner"]).to_pylist() not in ([], [owner]):
        raise IndexUnavailable("rows in an owner's index are not its owner's")


def most_files(fewest: int, rows: int) -> int:
    """How many files a table may have before it is compacted.

    Compaction writes all of the table, so a large one is compacted more rarely.
    """
    return min(fewest + rows // 125, _MOST_FILES)


def _filters(values: Sequence[str], column: str = "row_id") -> list[str]:
    """Conditions that name all the values between them. In a quoted text only the quote itself is special."""
    quoted = ["'" + value.replace("'", "''") + "'" for value in dict.fromkeys(values)]
    return [
        f"{column} IN ({', '.join(quoted[start : start + _IDS_AT_ONCE])})"
        for start in range(0, len(quoted), _IDS_AT_ONCE)
    ]
