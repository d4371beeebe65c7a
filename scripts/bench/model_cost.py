"""`python scripts/bench/model_cost.py FOLDER`: what a local embedding model costs, on one thread, as JSON.

A process of its own, so that its memory is the model's. The texts come as JSON on the standard input.
"""

import json
import os
import statistics
import sys
import time
from pathlib import Path

from recollect.infra.embedders.onnx_model import load_model, runs

_BATCH = 16
_WARM_UP = 32


def measured(folder: Path, messages: list[str], queries: list[str]) -> dict[str, float]:
    """Milliseconds of a query, messages a second, and MiB that the process takes more than before the model came."""
    before = _resident()
    model = load_model(folder, threads=1)

    def embed(texts: list[str]) -> float:
        began = time.perf_counter()
        rows = model.tokenize(texts)
        for numbers in runs(rows, _BATCH):
            model.run([rows[number] for number in numbers])
        return time.perf_counter() - began

    embed(messages[:_WARM_UP])
    asked = statistics.median(embed([query]) for query in queries)
    speed = len(messages) / embed(messages)
    return {
        "query_ms": 1000 * asked,
        "messages_a_second": speed,
        "mib": (_resident() - before) / 2**20,
    }


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1]), **json.load(sys.stdin))))
