"""The limit that search is measured against: LanceDB's own full-text and vector search on the same rows.

A process of its own: makes its table, says "ready", then answers each line of JSON with one of figures.
"""

import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import lancedb
import lancedb.index
import numpy as np
import numpy.typing as npt
import pyarrow
import texts

LIMIT = 10


def make_table(folder: str, count: int, seed: int) -> Any:
    rows = texts.texts(count, seed)
    flat = pyarrow.array(texts.vectors(rows).ravel())
    table = lancedb.connect(folder).create_table(
        "rows",
        pyarrow.table(
            {
                "id": [f"m{number}" for number in range(count)],
                "text": rows,
                "vector": pyarrow.FixedSizeListArray.from_arrays(flat, texts.DIMENSIONS),
            }
        ),
    )
    table.create_index(
        "text", config=lancedb.index.FTS(base_tokenizer="icu/split", stem=True, with_position=False)
    )
    table.optimize()
    return table


def search(table: Any, query: str, vector: npt.NDArray[np.float32]) -> tuple[float, int, int]:
    """Seconds for both searches, one after the other, and how many rows each found."""
    started = time.perf_counter()
    by_words = table.search(query, query_type="fts").select(["id", "text", "_score"]).limit(LIMIT).to_list()
    by_meaning = table.search(vector).select(["id", "text", "_distance"]).limit(LIMIT).to_list()
    seconds = time.perf_counter() - started
    return seconds, len(by_words), len(by_meaning)


def run(table: Any, clients: int, some: Sequence[str]) -> dict[str, float]:
    vectors = texts.vectors(some)
    with ThreadPoolExecutor(clients) as pool:
        found = list(pool.map(lambda pair: search(table, *pair), zip(some, vectors, strict=True)))
    latencies = sorted(seconds for seconds, _, _ in found)
    by_words, by_meaning = (sum(each[leg] for each in found) for leg in (1, 2))
    if not by_words or by_meaning != LIMIT * len(found):
        raise RuntimeError(f"{len(found)} queries found {by_words} by words, {by_meaning} by meaning")
    return {
        "p50_ms": latencies[len(latencies) // 2] * 1000,
        "p95_ms": latencies[int(len(latencies) * 0.95)] * 1000,
    }


def main() -> None:
    folder, count, seed = sys.argv[1:]
    table = make_table(folder, int(count), int(seed))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        wanted = json.loads(line)
        some = texts.queries(wanted["requests"], wanted["seed"])
        sys.stdout.write(json.dumps(run(table, wanted["clients"], some)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
