"""An index writer, killed with SIGKILL at each step and at random: what it acknowledged is there, once, and no more.

The step that was under way is done or not done, never half.
"""

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.infra.index.store import LanceIndex
from tests.forking import Forked
from tests.index_writer import OWNER

pytestmark = pytest.mark.slow

STEPS = ("index.written", "index.compacting", "index.compacted", "index.promoting", "index.promoted")
SIGKILLED = -9
KILLS = 8
KILLS_IN_THE_LONG_RUN = 100

Rows = dict[str, tuple[str, int | None]]
"""By id: the text, and the first number of the vector if there is one."""


class Expected:
    """What the writer said, replayed."""

    def __init__(self) -> None:
        self.live: str | None = None
        self.rows: dict[str, Rows] = {}
        self.open_step: dict[str, Any] | None = None

    def hear(self, line: str) -> None:
        step = json.loads(line)
        if step["done"]:
            self.apply(step)
        self.open_step = None if step["done"] else step

    def apply(self, step: dict[str, Any]) -> None:
        rows = self.rows.setdefault(step["generation"], {})
        match step["step"]:
            case "put":
                rows.update({row_id: (f"{row_id} {step['number']}", None) for row_id in step["ids"]})
            case "vectors":
                for row_id in set(step["ids"]) & rows.keys():
                    rows[row_id] = (rows[row_id][0], step["number"])
            case "remove":
                for row_id in step["ids"]:
                    rows.pop(row_id, None)
            case "promote":
                self.live = step["generation"]
            case "discard":
                del self.rows[step["generation"]]

    def states(self) -> Iterator[tuple[str | None, Rows]]:
        """Live generation and its rows: without, and with, the step that was under way."""
        yield self.live, dict(self.rows.get(self.live or "", {}))
        if self.open_step is not None:
            self.apply(self.open_step)
            self.open_step = None
            yield self.live, dict(self.rows.get(self.live or "", {}))


async def found(folder: Path) -> tuple[str | None, Rows]:
    index = LanceIndex(folder)
    live = await index.live()
    if live is None:
        await index.close()
        return None, {}
    stored = await index.load(live.name, OWNER)
    await index.close()
    firsts = [
        int(vector[0]) if there else None
        for vector, there in zip(stored.vectors, stored.has_vector, strict=True)
    ]
    rows = {row.row_id: (row.text, first) for row, first in zip(stored.rows, firsts, strict=True)}
    assert len(rows) == len(stored.rows), "a row is there twice"
    return live.name, rows


def start(folder: Path, seed: int, *arguments: str) -> Forked:
    return Forked("tests.index_writer", str(folder), "--seed", str(seed), *arguments)


def listen(writer: Forked, expected: Expected, lines: int | None = None) -> None:
    """Hear what it says: some lines, or all until it ends. A last line that was cut off was not said."""
    assert writer.stdout is not None
    for count, line in enumerate(writer.stdout, 1):
        if line.endswith("\n"):
            expected.hear(line)
        if count == lines:
            return


def end(writer: Forked, expected: Expected) -> None:
    writer.kill()
    listen(writer, expected)
    assert writer.stdout is not None
    writer.stdout.close()
    assert writer.wait(30) == SIGKILLED


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("step", STEPS)
async def test_killed_at_a_step_nothing_acknowledged_is_lost_or_doubled(
    tmp_path: Path, step: str, times: int
) -> None:
    expected = Expected()
    for seed in range(2):
        writer = start(tmp_path / "index", seed, "--die-at", step, "--times", str(times))
        listen(writer, expected)
        end(writer, expected)
        assert await found(tmp_path / "index") in list(expected.states())
        expected = await continued(tmp_path / "index")


async def continued(folder: Path) -> Expected:
    """What the next writer starts from: what is there now."""
    expected = Expected()
    expected.live, rows = await found(folder)
    index = LanceIndex(folder)
    expected.rows = {generation.name: {} for generation in await index.generations()}
    await index.close()
    if expected.live is not None:
        expected.rows[expected.live] = rows
    return expected


async def kill_at_random(folder: Path, kills: int) -> None:
    chance = random.Random(11)
    expected = Expected()
    for seed in range(kills):
        writer = start(folder, seed)
        listen(writer, expected, chance.randint(1, 150))
        await asyncio.sleep(chance.uniform(0, 0.02))  # A moment of its own choosing: that is the point.
        end(writer, expected)
        assert await found(folder) in list(expected.states())
        expected = await continued(folder)


@pytest.mark.timeout(180)
async def test_killed_at_random_nothing_acknowledged_is_lost_or_doubled(tmp_path: Path) -> None:
    await kill_at_random(tmp_path / "index", KILLS)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_killed_at_random_a_hundred_times_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    await kill_at_random(tmp_path / "index", KILLS_IN_THE_LONG_RUN)
