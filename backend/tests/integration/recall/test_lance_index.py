"""The LanceDB index on a disk: what is removed leaves it, files stay few, cancelling is safe."""

import asyncio
import random
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from recollect.domain.recall.rows import Generation
from recollect.errors import IndexUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.index import tables as owner_table
from recollect.infra.index.store import LanceIndex, table_name
from tests.forking import BACKEND
from tests.lance_tables import ANN, DIMENSIONS, G, index, put, rows_of, some_vectors, table

__all__ = ["index", "table"]


def files_with(folder: Path, secret: str) -> list[str]:
    return [
        path.name for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()
    ]


# What is removed leaves the disk.

SECRET = "Xq7-9vZk3-secret"


@pytest.mark.parametrize("neighbours", [0, 3, 400], ids=["alone", "among few", "among many"])
@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
async def test_what_is_removed_or_replaced_is_gone_from_the_disk_after_compaction(
    index: LanceIndex, tmp_path: Path, neighbours: int, replaced: bool
) -> None:
    await put(
        index, {"a": f"one {SECRET} one"} | {f"r{number}": f"text {number}" for number in range(neighbours)}
    )
    await index.set_vectors(G, ANN, ["a"], some_vectors(1))
    await index.compact(G, ANN)
    assert files_with(tmp_path, SECRET)
    if replaced:
        await put(index, {"a": "harmless"})
    else:
        await index.remove(G, ANN, ["a"])
    await index.compact(G, ANN)
    assert files_with(tmp_path, SECRET) == []
    assert len((await index.load(G, ANN)).rows) == neighbours + replaced


async def test_what_a_killed_write_left_is_gone_after_compaction(
    index: LanceIndex, tmp_path: Path, table: Path
) -> None:
    await put(index, {"a": "harmless"})
    (table / "data" / "0123456789abcdef.lance").write_text(SECRET)
    await index.compact(G, ANN)
    assert files_with(tmp_path, SECRET) == []


async def test_all_versions_can_be_read_while_tables_are_made(index: LanceIndex) -> None:
    owners = [f"default/users/u{number}" for number in range(20)]
    making = asyncio.gather(*(put(index, {"a": "text"}, owner=owner) for owner in owners))
    while not making.done():
        await asyncio.gather(*(index.all_versions() for _ in range(8)))
    await making
    assert len({each.owner for each in await index.all_versions()}) == len(owners)


async def test_what_a_killed_compaction_left_of_an_old_version_is_removed(
    index: LanceIndex, table: Path
) -> None:
    await put(index, {"a": SECRET})
    of_the_old_version = list((table / "data").iterdir())
    await put(index, {"a": "harmless"})
    for file in of_the_old_version:
        file.unlink()
    assert [version.rows for version in await index.all_versions()] == [(("a", ()),)]
    assert [row.row_id for row in (await index.load(G, ANN)).rows] == ["a"]


async def test_an_owner_that_is_dropped_leaves_no_file(index: LanceIndex, tmp_path: Path) -> None:
    await put(index, {"a": SECRET})
    await index.set_vectors(G, ANN, ["a"], some_vectors(1))
    await index.drop(G, ANN)
    assert [path.name for path in (tmp_path / "index" / G).iterdir()] == ["generation.json"]


async def test_what_a_killed_drop_left_is_removed_by_the_next(
    index: LanceIndex, tmp_path: Path, table: Path
) -> None:
    await put(index, {"a": SECRET})
    table.rename(table.with_name(f"dropped_{table_name(ANN)}"))
    assert await index.owners(G) == []
    await index.drop(G, ANN)
    assert files_with(tmp_path, SECRET) == []


async def test_what_a_killed_first_put_left_is_removed_by_compaction(
    index: LanceIndex, tmp_path: Path, table: Path
) -> None:
    await put(index, {"a": SECRET})
    await index.close()
    table.rename(table.with_name(f"new_{table.name}"))
    await index.compact(G, ANN)
    assert files_with(tmp_path, SECRET) == []


async def test_a_generation_is_discarded_while_it_is_still_being_written(
    index: LanceIndex, tmp_path: Path
) -> None:
    await index.create(Generation("g2", 1))
    writes = [
        asyncio.create_task(index.put("g2", f"owner {number}", rows_of({"a": SECRET}), [""]))
        for number in range(20)
    ]
    await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
    await index.discard("g2")
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} <= {type(None), IndexUnavailable}
    assert files_with(tmp_path, SECRET) == []
    assert await index.generations() == [Generation(G, 1, "a-model", DIMENSIONS)]


# Compaction by itself.


class BreaksAt(FailPoints):
    """Raises at a step, as a full disk would, for as long as `broken` is set."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._at = name
        self.broken = True
        self.seen = 0

    def reach(self, name: str) -> None:
        if name == self._at:
            self.seen += 1
            if self.broken:
                raise OSError("No space left on device")


async def test_a_compaction_that_fails_fails_no_write_and_is_tried_again(tmp_path: Path) -> None:
    point = BreaksAt("index.compacting")
    index = LanceIndex(tmp_path / "index", fail_points=point)
    await index.create(Generation(G, 1))
    number = 0
    while point.seen < 2:
        await put(index, {f"r{number}": "text"})
        number += 1
    assert index.compaction_failures == 2
    assert index.last_problem is not None
    point.broken = False
    while point.seen < 3:
        await put(index, {f"r{number}": "text"})
        number += 1
    assert [index.compaction_failures, index.last_problem] == [2, None]
    assert len((await index.load(G, ANN)).rows) == number
    assert (await index.size())[0] < 20
    await index.close()


async def test_a_compaction_that_was_asked_for_says_that_it_failed(tmp_path: Path) -> None:
    index = LanceIndex(tmp_path / "index", fail_points=BreaksAt("index.compacting"))
    await index.create(Generation(G, 1))
    await put(index, {"a": "text"})
    with pytest.raises(IndexUnavailable):
        await index.compact(G, ANN)
    assert index.compaction_failures == 1
    assert len((await index.load(G, ANN)).rows) == 1
    await index.close()


async def soak(index: LanceIndex, rows: int) -> tuple[int, float, float]:
    """Most files seen, most bytes and bytes at the end as multiples of text plus vectors."""
    chance = random.Random(5)
    words = ["".join(chance.choices("abcdefghijklmnoprstuvw", k=chance.randint(2, 9))) for _ in range(4000)]
    waiting: list[str] = []
    most_files, most_bytes, stored, payload, writes = 0, 0.0, 0, 0, 0
    while stored < rows:
        count = min(chance.randint(1, 20), rows - stored)
        texts = {f"r{stored + number}": " ".join(chance.choices(words, k=45)) for number in range(count)}
        await put(index, texts)
        stored += count
        payload += sum(len(text) for text in texts.values()) + 4 * DIMENSIONS * count
        waiting += texts
        if len(waiting) >= 32 or stored == rows:
            await index.set_vectors(G, ANN, waiting, some_vectors(len(waiting)))
            waiting = []
        writes += 1
        if writes % 5 == 0:
            files, size = await index.size()
            most_files = max(most_files, files)
            if stored > 1000:
                most_bytes = max(most_bytes, size / payload)
    files, size = await index.size()
    return max(most_files, files), most_bytes, size / payload


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("rows", [5_000, pytest.param(100_000, marks=pytest.mark.long)])
@pytest.mark.slow
async def test_rows_in_small_writes_stay_in_few_files(index: LanceIndex, rows: int) -> None:
    most_files, most_bytes, bytes_at_end = await soak(index, rows)
    sys.stdout.write(
        f"files at most {most_files}, bytes at most x{most_bytes:.2f}, at the end x{bytes_at_end:.2f}\n"
    )
    assert most_files < 300
    assert most_bytes < 5
    assert bytes_at_end < 5
    stored = await index.load(G, ANN)
    assert len(stored.rows) == rows
    assert stored.has_vector.all()


# Threads, and what is loaded when.


class Holds(FailPoints):
    """Stays at a step, the first time, until it is let go."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._at = name
        self.reached, self.let_go = threading.Event(), threading.Event()

    def reach(self, name: str) -> None:
        if name == self._at and not self.reached.is_set():
            self.reached.set()
            assert self.let_go.wait(20)


async def test_a_call_whose_caller_left_ends_before_the_next_begins(tmp_path: Path) -> None:
    point = Holds("index.written")
    index = LanceIndex(tmp_path / "index", fail_points=point)
    await index.create(Generation(G, 1))
    first = asyncio.create_task(put(index, {"a": "first"}))
    assert await asyncio.to_thread(point.reached.wait, 20)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.create_task(index.load(G, ANN))
    for number in range(10):  # Others go on meanwhile.
        await put(index, {f"r{number}": "text"}, owner="bob")
    assert not second.done()
    point.let_go.set()
    assert [row.row_id for row in (await second).rows] == ["a"]
    await index.close()


async def test_closing_waits_for_a_call_whose_caller_left(tmp_path: Path) -> None:
    point = Holds("index.written")
    index = LanceIndex(tmp_path / "index", fail_points=point)
    await index.create(Generation(G, 1))
    write = asyncio.create_task(put(index, {"a": "first"}))
    assert await asyncio.to_thread(point.reached.wait, 20)
    write.cancel()
    closing = asyncio.create_task(index.close())
    await asyncio.wait([write])
    assert not closing.done()
    point.let_go.set()
    await closing
    assert len((await index.load(G, ANN)).rows) == 1
    await index.close()


async def test_more_owners_than_stay_open_keep_their_rows(index: LanceIndex) -> None:
    owners = [f"owner {number:02}" for number in range(70)]
    for text in ("first", "second"):
        await asyncio.gather(*(put(index, {text: owner}, owner=owner) for owner in owners))
    assert await index.owners(G) == owners
    for owner in owners:
        assert [row.text for row in (await index.load(G, owner)).rows] == [owner, owner]


def test_lancedb_is_imported_only_when_rows_are_touched(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path\n"
        "from recollect.infra.index.store import LanceIndex; from recollect.domain.recall.rows import Generation\n"
        "async def main():\n"
        f"    index = LanceIndex(Path({str(tmp_path / 'index')!r}))\n"
        "    await index.create(Generation('g1', 1)); await index.promote('g1'); await index.live()\n"
        "    await index.size(); await index.generations(); await index.close()\n"
        "    print(sorted({'lancedb', 'pyarrow'} & set(sys.modules)))\n"
        "asyncio.run(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=BACKEND, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]", done.stderr


async def test_versions_that_are_dated_in_the_future_are_gone_after_compaction(
    index: LanceIndex, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the clock was set back: no version is old enough for LanceDB to remove it."""
    monkeypatch.setattr(owner_table, "_OLD", timedelta(days=1))
    await put(index, {"a": SECRET, "b": "stays"})
    await index.remove(G, ANN, ["a"])
    await index.compact(G, ANN)
    assert index.last_problem is None
    assert len(list((table / "_versions").glob("*.manifest"))) == 1
    assert files_with(table.parent, SECRET) == []
    await put(index, {"c": "new"})
    assert sorted(row.text for row in (await index.load(G, ANN)).rows) == ["new", "stays"]
