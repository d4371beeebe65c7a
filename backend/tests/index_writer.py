"""Writes to an index for as long as it lives, and says what it does. Started, and killed, by tests.

Each line on stdout is a step in JSON, once before it is begun (`"done": false`) and once when it is acknowledged.
"""

import argparse
import asyncio
import json
import os
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np

from recollect.domain.recall.rows import Generation, IndexRow
from recollect.failpoints import FailPoints
from recollect.infra.index.store import LanceIndex

OWNER = "default/users/ann"
DIMENSIONS = 16
ROW_IDS = [f"r{number:03}" for number in range(300)]

Step = dict[str, Any]


class DiesAt(FailPoints):
    """Kills this process when the step is reached for the n-th time; never without a name."""

    def __init__(self, name: str, count: int) -> None:
        super().__init__()
        self._at, self._times = name, count

    def reach(self, name: str) -> None:
        if name == self._at:
            self._times -= 1
            if self._times == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def vectors_of(firsts: list[int]) -> "np.ndarray[Any, np.dtype[np.float32]]":
    return np.array([[first, *[1] * (DIMENSIONS - 1)] for first in firsts], np.float32)


class Writer:
    """Random steps, the same for the same seed and the same generations."""

    def __init__(self, index: LanceIndex, seed: int) -> None:
        self._index = index
        self._chance = random.Random(seed)
        self._seed = seed
        self._count = 0

    async def write_for_ever(self) -> None:
        live = await self._index.live()
        if live is None:
            live = Generation("g0", 1, "a-model", DIMENSIONS)
            await self._index.create(live)
            await self._do(self._promote, {"step": "promote", "generation": live.name})
        generation = live.name
        for leftover in await self._index.generations():
            if leftover.name != generation:
                await self._do(self._discard, {"step": "discard", "generation": leftover.name})
        while True:
            for _ in range(30):
                await self._change(generation)
            generation = await self._swap(generation)

    async def _change(self, generation: str) -> None:
        kind = self._chance.choices(["put", "vectors", "remove", "compact"], [6, 4, 1, 1])[0]
        ids = self._chance.sample(ROW_IDS, self._chance.randint(1, 8))
        self._count += 1
        step = {
            "step": kind,
            "generation": generation,
            "ids": ids,
            "number": self._seed * 10_000 + self._count,
        }
        await self._do(getattr(self, f"_{kind}"), step)

    async def _swap(self, old: str) -> str:
        """A new generation with other rows takes the place of the old one."""
        new = f"g{int(old[1:]) + 1}"
        await self._index.create(Generation(new, 1, "a-model", DIMENSIONS))
        await self._do(
            self._put, {"step": "put", "generation": new, "ids": ROW_IDS[:50], "number": self._seed}
        )
        await self._do(self._promote, {"step": "promote", "generation": new})
        await self._do(self._discard, {"step": "discard", "generation": old})
        return new

    async def _do(self, work: Callable[[Step], Awaitable[None]], step: Step) -> None:
        _say({**step, "done": False})
        await work(step)
        _say({**step, "done": True})

    async def _put(self, step: Step) -> None:
        rows = [IndexRow(row_id, "turn", f"{row_id} {step['number']}", 1) for row_id in step["ids"]]
        await self._index.put(step["generation"], OWNER, rows, ["words"] * len(rows))

    async def _vectors(self, step: Step) -> None:
        vectors = vectors_of([step["number"]] * len(step["ids"]))
        await self._index.set_vectors(step["generation"], OWNER, step["ids"], vectors)

    async def _remove(self, step: Step) -> None:
        await self._index.remove(step["generation"], OWNER, step["ids"])

    async def _compact(self, step: Step) -> None:
        await self._index.compact(step["generation"], OWNER)

    async def _promote(self, step: Step) -> None:
        await self._index.promote(step["generation"])

    async def _discard(self, step: Step) -> None:
        await self._index.discard(step["generation"])


def _say(step: Step) -> None:
    print(json.dumps(step), flush=True)  # noqa: T201 - this is how it speaks to the test


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--die-at", default="")
    parser.add_argument("--times", type=int, default=1)
    arguments = parser.parse_args()
    index = LanceIndex(arguments.folder, fail_points=DiesAt(arguments.die_at, arguments.times))
    asyncio.run(Writer(index, arguments.seed).write_for_ever())


if __name__ == "__main__":
    main()
