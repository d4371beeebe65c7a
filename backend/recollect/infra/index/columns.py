"""Index rows as Arrow columns, and back. Importing this imports Arrow."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recollect.domain.recall.rows import IndexRow, StoredRows, Vectors
from recollect.errors import IndexUnavailable

VECTOR = "vector"
VECTOR_DIGEST = "vector_digest"
"""Checksum of a vector and its row: detects a vector that is damaged or another row's."""
Places = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
_TEXT = pa.string()
_TEXTS = pa.list_(pa.string())

SCHEMA = pa.schema(
    [
        pa.field("row_id", _TEXT, nullable=False),
        pa.field("type", _TEXT),
        pa.field("text", _TEXT),
        pa.field("words", _TEXT),
        pa.field("thread_id", _TEXT),
        pa.field("position", pa.int32()),
        pa.field("message_ids", _TEXTS),
        pa.field("role", _TEXT),
        pa.field("sender", _TEXT),
        pa.field("agent_id", _TEXT),
        pa.field("tags", _TEXTS),
        pa.field("path", _TEXT),
        pa.field("sources", _TEXTS),
        pa.field("until", pa.int64()),
        pa.field("pinned", pa.bool_()),
        pa.field("edited", pa.bool_()),
        pa.field("corrected", pa.int64()),
        pa.field("superseded_by", _TEXT),
        pa.field("shows", _TEXTS),
        pa.field("only_calls", pa.bool_()),
        pa.field("timestamp", pa.int64()),
        pa.field("owner", _TEXT),
        pa.field("digest", _TEXT),
    ]
)
"""What every table has; the vector comes with the first of them."""

_ORDER = [("thread_id", "ascending"), ("position", "ascending"), ("row_id", "ascending")]
_OF_ROW = tuple(field.name for field in fields(IndexRow) if field.name in SCHEMA.names)
"""The columns that make an IndexRow, in the order of its fields."""

_SHARED = frozenset({"type", "thread_id", "role", "sender", "agent_id", "path", "superseded_by"})


def vector_fields(dimensions: int) -> list[pa.Field]:
    return [
        pa.field(VECTOR, pa.list_(pa.float32(), dimensions), nullable=True),
        pa.field(VECTOR_DIGEST, pa.int64(), nullable=True),
    ]


def rows_table(owner: str, rows: Sequence[IndexRow], words: Sequence[str]) -> pa.Table:
    """One line a row. Of rows with the same id the last one counts."""
    last = {row.row_id: (row, terms) for row, terms in zip(rows, words, strict=True)}
    columns: dict[str, Any] = {name: [getattr(row, name) for row, _ in last.values()] for name in _OF_ROW}
    columns["words"] = [terms for _, terms in last.values()]
    columns["digest"] = [_digest(row, terms) for row, terms in last.values()]
    columns["owner"] = [owner] * len(last)
    return pa.table(columns, schema=SCHEMA)


def without_vectors(rows: pa.Table, dimensions: int) -> pa.Table:
    """The rows, each with an empty place for a vector of that many dimensions; 0 makes no place."""
    if dimensions == 0:
        return rows
    for field in vector_fields(dimensions):
        rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows


def with_vectors(described: pa.Table, row_ids: Sequence[str], vectors: Vectors) -> pa.Table:
    """The rows that were read, each with the vector of its id."""
    place = {row_id: number for number, row_id in enumerate(row_ids)}
    chosen = vectors[[place[row_id] for row_id in described["row_id"].to_pylist()]]
    flat = pa.array(np.ascontiguousarray(chosen, np.float32).ravel())
    vector, digest = vector_fields(vectors.shape[1])
    digests = _vector_digests(described["digest"].to_pylist(), chosen)
    return described.append_column(
        vector, pa.FixedSizeListArray.from_arrays(flat, type=vector.type)
    ).append_column(digest, pa.array(digests))


def stored_rows(read: pa.Table, dimensions: int) -> StoredRows:
    """All rows, by thread and position. A vector that is not the one that was set for its row counts as none.

    IndexUnavailable where a row or its words are not what was put there.
    """
    described = read.select(SCHEMA.names)
    order = pc.sort_indices(described, sort_keys=_ORDER)
    vectors = np.zeros((read.num_rows, dimensions), np.float32)
    has_vector = np.zeros(read.num_rows, np.bool_)
    ordered = described.take(order)
    if {VECTOR, VECTOR_DIGEST} <= set(read.column_names):
        _place_vectors(read[VECTOR].chunks, order.to_numpy(), vectors, has_vector)
        _drop_wrong_vectors(ordered["digest"], read[VECTOR_DIGEST].take(order), vectors, has_vector)
    rows = list(map(IndexRow, *(_values(ordered[name], name) for name in _OF_ROW)))
    words = _values(ordered["words"], "words")
    if list(map(_digest, rows, words)) != ordered["digest"].to_pylist():
        raise IndexUnavailable("rows in an owner's index are not what was put there")
    return StoredRows(rows=rows, words=words, vectors=vectors, has_vector=has_vector)


def _digest(row: IndexRow, words: str) -> str:
    """Of all that is stored of a row but its vector."""
    return hashlib.blake2b(words.encode(), digest_size=16, key=row.digest.encode()).hexdigest()


def _drop_wrong_vectors(
    row_digests: pa.ChunkedArray, set_digests: pa.ChunkedArray, vectors: Vectors, has_vector: Flags
) -> None:
    lines = np.flatnonzero(has_vector)
    there = pc.take(row_digests, lines).to_pylist()
    expected = pc.take(set_digests, lines).fill_null(0).to_numpy()
    wrong = lines[_vector_digests(there, (vectors[line] for line in lines)) != expected]
    vectors[wrong] = 0
    has_vector[wrong] = False


def _vector_digests(row_digests: Sequence[str], vectors: Iterable[Vectors]) -> npt.NDArray[np.int64]:
    digests = (
        hashlib.blake2b(vector.tobytes(), digest_size=8, key=of_row.encode()).digest()
        for of_row, vector in zip(row_digests, vectors, strict=True)
    )
    return np.frombuffer(b"".join(digests), np.int64)


def _place_vectors(chunks: Iterable[pa.Array], order: Places, vectors: Vectors, has_vector: Flags) -> None:
    """Each vector into its row's line, chunk by chunk: together they are most of the memory."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    start = 0
    for chunk in chunks:
        stop = start + len(chunk)
        is_there = chunk.is_valid().to_numpy(zero_copy_only=False)
        lines = place[start:stop][is_there]
        vectors[lines] = chunk.flatten().to_numpy().reshape(-1, vectors.shape[1])
        has_vector[lines] = True
        start = stop


def _values(column: pa.ChunkedArray, name: str) -> list[Any]:
    """Python values. Those that many rows have share one object, so that a thread's id costs memory once."""
    array = column.combine_chunks()
    if pa.types.is_list(array.type):
        flat = array.flatten().to_pylist()
        ends = [0, *np.cumsum(pc.list_value_length(array).to_numpy()).tolist()]
        return [tuple(flat[start:end]) for start, end in pairwise(ends)]
    if name in _SHARED:
        encoded = array.dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        return [distinct[number] for number in encoded.indices.to_numpy().tolist()]
    values: list[Any] = array.to_pylist()
    return values
