"""One owner's rows in one LanceDB table. Importing this imports LanceDB: slow, so only where it is used."""

import json
import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import lancedb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recollect.domain.forgetting import StoredVersion
from recollect.domain.recall.rows import IndexRow, StoredRows, Vectors
from recollect.errors import IndexUnavailable
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
from recollect.infra.vault_read import sync

SUFFIX: Final = ".lance"
_IDS_AT_ONCE: Final = 500
_FEWEST_FILES: Final = 96
_MOST_FILES: Final = 240
_FILES_BEFORE_RETRY: Final = 32
_CLEANINGS: Final = 4
_NEVER_READ_AGAIN: Final = "_transactions"
"""Only writers in other processes would need it, and there are none."""
_OLD: Final = timedelta(milliseconds=1)
"""Versions older than this go. Zero would do the same and warn: suppressing warnings is not safe in threads."""
_CACHES: Final = {"index_cache_size_bytes": 1 << 20, "metadata_cache_size_bytes": 4 << 20}
_log = logging.getLogger("recollect.index")


class OwnerTable:
    """Blocking, and for one thread at a time. Whatever is acknowledged is on disk; each call is all or nothing,
    but for `remove` of very many ids, which can be made again.

    LanceDB never syncs what it writes, so this does.
    """

    def __init__(
        self, folder: Path, name: str, fail_points: FailPoints, compacted: Callable[..., None]
    ) -> None:
        """`compacted` is told the folder of the table, and the error where it could not be compacted."""
        self._folder = folder
        self._name = name
        self._fail_points = fail_points
        self._compacted = compacted
        self._path = folder / f"{name}{SUFFIX}"
        self._being_made = folder / f"new_{name}{SUFFIX}"
        self._being_dropped = folder / f"dropped_{name}"
        # A session of its own: caches go with this object, and never outlive a table that is dropped and made again.
        self._connection = lancedb.connect(folder, session=lancedb.Session(**_CACHES))
        self._table: Any = None
        self._synced: set[Path] = set()
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
            if self._open() is None:
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
            table = self._open()
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
                table = self._open()
                if table is None:
                    return
                table.delete(chosen)
                self._written()

    def drop(self) -> None:
        """Remove it from the disk, old versions and all. What a killed `drop` left is removed by the next."""
        with self._guarded("written"):
            self._table = None
            self._remove_leftovers()
            if self._path.is_dir():
                self._path.rename(self._being_dropped)
                sync(self._folder)
                self._remove_leftovers()
            self._compacted(self._path)

    def compact(self) -> None:
        """Leave one version, with nothing of what was removed or replaced."""
        with self._guarded("compacted"):
            self._remove_leftovers()
            table = self._open()
            if table is None:
                return
            try:
                self._optimize()
                if any(self._files_in("_deletions")):
                    # LanceDB keeps removed rows in a file until they are a tenth of it.
                    table.add(table.search().to_batches(), mode="overwrite", on_bad_vectors="null")
                    self._optimize()
            except BaseException as error:
                self._compacted(self._path, error)
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
            raise IndexUnavailable(f"the index cannot be {verb}; the log says why") from error

    def _open(self) -> Any:
        if self._table is None and self._path.is_dir():
            table = self._connection.open_table(self._name)
            if table.version < self._last_known_version():
                raise RuntimeError("the newest version of the table is missing")
            self._synced = set(self._all_files())
            self._table = table
        return self._table

    def _last_known_version(self) -> int:
        """LanceDB notes it beside the versions, and otherwise takes the newest that it finds for the newest there is."""
        try:
            return int(
                json.loads((self._path / "_versions" / "latest_version_hint.json").read_bytes())["version"]
            )
        except (FileNotFoundError, KeyError, TypeError, ValueError):
            return 0  # No more than a hint: it is not synced, and may be torn.

    def _has_vectors(self) -> bool:
        return {VECTOR, VECTOR_DIGEST} <= set(self._table.schema.names)

    def _remove_leftovers(self) -> None:
        """Of a `put` or `drop` that was killed half-way."""
        for leftover in (self._being_made, self._being_dropped):
            if leftover.exists():
                shutil.rmtree(leftover)
                sync(self._folder)

    def _create(self, rows: pa.Table) -> None:
        """Made under another name and renamed: a table that has its name is whole."""
        self._remove_leftovers()
        self._connection.create_table(self._being_made.stem, rows, on_bad_vectors="null")
        _sync({path for path in self._being_made.rglob("*") if path.is_file()})
        sync(self._being_made)
        if self._path.is_dir():
            self._path.rename(self._being_dropped)
        self._being_made.rename(self._path)
        sync(self._folder)
        self._remove_leftovers()
        self._open()

    def _merge(self, rows: pa.Table, *, insert: bool) -> None:
        merge = self._table.merge_insert("row_id").when_matched_update_all()
        if insert:
            merge = merge.when_not_matched_insert_all()
        # "null": rows without a vector are meant to have none. Vectors that are no numbers do not come this far.
        merge.execute(rows.select(self._table.schema.names), on_bad_vectors="null")

    def _written(self) -> None:
        files = self._sync_new_files()
        self._fail_points.reach("index.written")
        if files > max(_FEWEST_FILES, self._compact_above) and files > most_files(self._table.count_rows()):
            try:
                self._optimize()
            except BaseException as error:  # noqa: BLE001 - the write is done; this is counted, and tried again
                self._compacted(self._path, error)
                self._table = None
                self._compact_above = files + _FILES_BEFORE_RETRY

    def _optimize(self) -> None:
        self._fail_points.reach("index.compacting")
        # This process is the only one, and its calls come one by one: a file that no version names is a killed write's.
        for _ in range(_CLEANINGS):
            self._table.optimize(cleanup_older_than=_OLD, delete_unverified=True)
            if not self._old_versions():
                break  # A version that is no older than _OLD has to wait for the next round.
        else:
            self._recreate()
        self._sync_new_files()
        self._fail_points.reach("index.compacted")
        self._compact_above = 0
        self._compacted(self._path)
        return_free_memory()

    def _recreate(self) -> None:
        """Put a copy in the table's place: after the clock was set back, old versions are dated in the future, and LanceDB
        keeps them. A kill in between leaves no table, and the rows are put again.
        """
        rows = self._table.to_arrow()
        self._table = None
        self._connection = lancedb.connect(self._folder, session=lancedb.Session(**_CACHES))
        self._create(rows)

    def _sync_new_files(self) -> int:
        files = set(self._all_files())
        new = {path for path in files - self._synced if path.parent.name != _NEVER_READ_AGAIN}
        _sync(new)
        if {path.parent for path in new} - {path.parent for path in self._synced}:
            sync(self._path)
        self._synced = files
        return len(files)

    def _all_files(self) -> Iterator[Path]:
        for folder, _, names in os.walk(self._path):
            yield from (Path(folder, name) for name in names)

    def _old_versions(self) -> list[Path]:
        return sorted(self._files_in("_versions", ".manifest"))[1:]

    def _files_in(self, folder: str, suffix: str = "") -> list[Path]:
        path = self._path / folder
        return [file for file in path.iterdir() if file.name.endswith(suffix)] if path.is_dir() else []


def versions_of(path: Path) -> list[StoredVersion]:
    """Every version of a table. Raises IndexUnavailable where one cannot be read."""
    try:
        table: Any = lancedb.connect(path.parent).open_table(path.stem)
        return [_version(path, table, each["version"]) for each in table.list_versions()]
    except BaseException as error:  # A panic of LanceDB's is no Exception.
        _log.warning("a version of a table of the index cannot be read: %s", error)
        raise IndexUnavailable("an old version of the index cannot be read; the log says why") from error


def _version(path: Path, table: Any, number: int) -> StoredVersion:
    table.checkout(number)
    read = table.search().select(["row_id", "owner", "sources"]).to_arrow()
    owners = read["owner"].to_pylist()
    rows = zip(read["row_id"].to_pylist(), read["sources"].to_pylist(), strict=True)
    return StoredVersion(
        path.parent.name,
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


def most_files(rows: int) -> int:
    """How many files a table may have before it is compacted.

    Compaction writes all of the table, so a large one is compacted more rarely.
    """
    return min(_FEWEST_FILES + rows // 125, _MOST_FILES)


def _filters(values: Sequence[str], column: str = "row_id") -> list[str]:
    """Conditions that name all the values between them. In a quoted text only the quote itself is special."""
    quoted = ["'" + value.replace("'", "''") + "'" for value in dict.fromkeys(values)]
    return [
        f"{column} IN ({', '.join(quoted[start : start + _IDS_AT_ONCE])})"
        for start in range(0, len(quoted), _IDS_AT_ONCE)
    ]


def _sync(files: set[Path]) -> None:
    for path in [*files, *{path.parent for path in files}]:
        sync(path)
