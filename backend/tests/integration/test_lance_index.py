"""The LanceDB index on a disk: what is removed leaves it, damage is noticed, files stay few, cancelling is safe."""

import asyncio
import logging
import random
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pytest

from recollect.domain.recall.rows import Generation, IndexRow, Vectors
from recollect.errors import IndexUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.index import tables as owner_table
from recollect.infra.index.store import LanceIndex, table_name
from tests.forking import BACKEND

G = "g1"
ANN = "default/users/ann"
DIMENSIONS = 384


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[LanceIndex]:
    """With an empty live generation that has a model."""
    index = LanceIndex(tmp_path / "index")
    await index.create(Generation(G, 1, "a-model", DIMENSIONS))
    await index.promote(G)
    yield index
    await index.close()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "index" / G / f"{table_name(ANN)}.lance"


def rows_of(texts: dict[str, str]) -> list[IndexRow]:
    return [
        IndexRow(row_id, "turn", text, 1, position=place)
        for place, (row_id, text) in enumerate(texts.items())
    ]


async def put(index: LanceIndex, texts: dict[str, str], *, owner: str = ANN) -> None:
    await index.put(G, owner, rows_of(texts), list(texts.values()))


def some_vectors(count: int) -> Vectors:
    return np.random.default_rng(count).random((count, DIMENSIONS), np.float32)


def files_with(folder: Path, secret: str) -> list[str]:
    return [
        path.name for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()
    ]


def files_of(table: Path, part: str) -> list[Path]:
    return sorted(path for path in (table / part).iterdir() if path.suffix in (".lance", ".manifest"))


# What is removed leaves the disk.

SECRET = "Xq7-9vZk3-secret"


@pytest.mark.parametrize("neighbours", [0, 3, 400], ids=["alone", "among few", "among many"])
async def test_what_is_removed_is_gone_from_the_disk_after_compaction(
    index: LanceIndex, tmp_path: Path, neighbours: int
) -> None:
    await put(
        index, {"a": f"one {SECRET} one"} | {f"r{number}": f"text {number}" for number in range(neighbours)}
    )
    await index.set_vectors(G, ANN, ["a"], some_vectors(1))
    await index.compact(G, ANN)
    assert files_with(tmp_path, SECRET)
    await index.remove(G, ANN, ["a"])
    await index.compact(G, ANN)
    assert files_with(tmp_path, SECRET) == []
    assert len((await index.load(G, ANN)).rows) == neighbours


async def test_what_is_replaced_is_gone_from_the_disk_after_compaction(
    index: LanceIndex, tmp_path: Path
) -> None:
    await put(index, {f"r{number}": f"text {number}" for number in range(300)} | {"a": SECRET})
    await index.compact(G, ANN)
    assert files_with(tmp_path, SECRET)
    await put(index, {"a": "harmless"})
    await index.compact(G, ANN)
    assert files_with(tmp_path, SECRET) == []


async def test_what_a_killed_write_left_is_gone_after_compaction(
    index: LanceIndex, tmp_path: Path, table: Path
) -> None:
    await put(index, {"a": "harmless"})
    (table / "data" / "0123456789abcdef.lance").write_text(SECRET)
    await index.compact(G, ANN)
    assert files_with(tmp_path, SECRET) == []


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


async def test_a_discarded_generation_leaves_no_file(index: LanceIndex, tmp_path: Path) -> None:
    await index.create(Generation("g2", 1))
    await index.put("g2", ANN, rows_of({"a": SECRET}), [""])
    await index.discard("g2")
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == [G, "live.json"]


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


# Damage is noticed, and never taken for an index without rows.


async def three_versions(index: LanceIndex) -> None:
    await put(index, {f"r{number}": f"text {number}" for number in range(100)})
    await index.set_vectors(G, ANN, ["r1", "r2"], some_vectors(2))
    await put(index, {"s": "another"})
    await index.close()


def cut_in_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def cut_all(paths: list[Path]) -> None:
    for path in paths:
        cut_in_half(path)


def remove_all(paths: list[Path]) -> None:
    for path in paths:
        path.unlink()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "data files cut": lambda table: cut_all(files_of(table, "data")),
    "data file missing": lambda table: remove_all(files_of(table, "data")[:1]),
    "newest manifest missing": lambda table: remove_all(files_of(table, "_versions")[:1]),
    "all manifests missing": lambda table: remove_all(files_of(table, "_versions")),
    "manifest cut": lambda table: cut_all(files_of(table, "_versions")[:1]),
    "manifest empty": lambda table: files_of(table, "_versions")[0].write_bytes(b""),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_table_is_unavailable_and_the_message_names_nobody(
    index: LanceIndex, table: Path, damage: str
) -> None:
    await three_versions(index)
    DAMAGES[damage](table)
    for _ in range(2):
        with pytest.raises(IndexUnavailable) as caught:
            await index.load(G, ANN)
        assert ANN not in caught.value.message
        assert table.stem not in caught.value.message


async def test_one_owners_damage_leaves_the_others_alone(index: LanceIndex, table: Path) -> None:
    await put(index, {"a": "of bob"}, owner="bob")
    await three_versions(index)
    files_of(table, "data")[0].unlink()
    assert [row.text for row in (await index.load(G, "bob")).rows] == ["of bob"]


async def test_a_table_that_is_whole_again_is_read_again(index: LanceIndex, table: Path) -> None:
    await three_versions(index)
    away = table.with_suffix(".away")
    manifest = files_of(table, "_versions")[0]
    manifest.rename(away)
    with pytest.raises(IndexUnavailable):
        await index.load(G, ANN)
    away.rename(manifest)
    assert len((await index.load(G, ANN)).rows) == 101


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version":', b'{"version": null}', b"\xff"])
async def test_a_torn_hint_of_the_newest_version_does_no_harm(
    index: LanceIndex, table: Path, content: bytes
) -> None:
    await three_versions(index)
    (table / "_versions" / "latest_version_hint.json").write_bytes(content)
    assert len((await index.load(G, ANN)).rows) == 101


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("live.json", None),
        ("live.json", b""),
        ("live.json", b"\xff\xfe"),
        ("live.json", b"[]"),
        ("live.json", b'{"generation": 7}'),
        ("live.json", b'{"generation": "../index"}'),
        ("live.json", b'{"generation": ""}'),
        ("live.json", b'{"generation": "g2"}'),
        (f"{G}/generation.json", None),
        (f"{G}/generation.json", b"{"),
        (f"{G}/generation.json", b"{}"),
        (f"{G}/generation.json", b'{"name": "g1", "format": "x", "model": null, "dimensions": 0}'),
    ],
)
async def test_a_damaged_or_missing_description_means_that_nothing_is_live(
    index: LanceIndex, tmp_path: Path, file: str, content: bytes | None
) -> None:
    path = tmp_path / "index" / file
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert await index.live() is None


async def test_damage_of_the_live_generation_is_logged(
    index: LanceIndex, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "index" / G / "generation.json").write_bytes(b"{")
    with caplog.at_level(logging.WARNING):
        await index.live()
    assert "damaged" in caplog.text


async def test_what_a_killed_rebuild_left_is_listed_and_can_be_discarded(
    index: LanceIndex, tmp_path: Path
) -> None:
    (tmp_path / "index" / "g2").mkdir()
    assert [generation.name for generation in await index.generations()] == [G, "g2"]
    assert (await index.generations())[1].format == 0
    await index.discard("g2")
    assert [generation.name for generation in await index.generations()] == [G]


async def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("no folder")
    index = LanceIndex(tmp_path / "home" / "index")
    assert await index.live() is None
    with pytest.raises(IndexUnavailable):
        await index.create(Generation(G, 1))
    await index.close()


@pytest.mark.parametrize("place", ["index", f"index/{G}"])
async def test_what_stands_in_the_place_of_a_folder_is_moved_aside(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("somebody's")
    index = LanceIndex(tmp_path / "index")
    assert await index.live() is None
    await index.create(Generation(G, 1))
    await index.promote(G)
    assert await index.live() == Generation(G, 1)
    (aside,) = (tmp_path / place).parent.glob("*.damaged-*")
    assert aside.read_text() == "somebody's"
    await index.close()


@pytest.mark.parametrize("place", ["live.json", f"{G}/generation.json"])
async def test_a_folder_in_the_place_of_a_file_is_moved_aside(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "kept").write_text("somebody's")
    index = LanceIndex(tmp_path)
    assert await index.live() is None
    await index.create(Generation(G, 1))
    await index.promote(G)
    assert await index.live() == Generation(G, 1)
    assert await index.generations() == [Generation(G, 1)]
    (aside,) = (tmp_path / place).parent.glob(".*.damaged-*")
    assert (aside / "kept").read_text() == "somebody's"
    await index.close()


async def test_a_link_to_nowhere_in_the_place_of_the_index_is_moved_aside(tmp_path: Path) -> None:
    (tmp_path / "index").symlink_to("gone")
    index = LanceIndex(tmp_path / "index")
    await index.create(Generation(G, 1))
    assert await index.generations() == [Generation(G, 1)]
    await index.close()


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


async def test_versions_that_cannot_be_removed_are_a_failed_compaction(
    index: LanceIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(index, {"a": "text"})
    await index.remove(G, ANN, ["a"])
    monkeypatch.setattr(owner_table, "_OLD", timedelta(hours=1))
    with pytest.raises(IndexUnavailable):
        await index.compact(G, ANN)
    assert index.last_problem is not None
    await index.drop(G, ANN)
    assert index.last_problem is None


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


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rows", [5_000, pytest.param(20_000, marks=pytest.mark.long)])
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


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_a_hundred_thousand_rows_in_small_writes_stay_in_few_files(index: LanceIndex) -> None:
    most_files, most_bytes, _ = await soak(index, 100_000)
    assert most_files < 300
    assert most_bytes < 5


@pytest.mark.slow
async def test_a_small_table_stays_in_fewer_files(index: LanceIndex) -> None:
    seen = []
    for number in range(120):
        await put(index, {f"r{number}": "text"})
        seen.append((await index.size())[0])
    assert max(seen) < 150


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


# What others did to the files of a table is not believed.


async def embedded(index: LanceIndex) -> None:
    texts = {f"r{number}": f"text {number}" for number in range(5)}
    await put(index, texts)
    await index.set_vectors(G, ANN, list(texts), some_vectors(5))
    await index.close()


def opened(table: Path) -> Any:
    return lancedb.connect(table.parent).open_table(table.stem)


async def has_vectors(index: LanceIndex) -> list[bool]:
    flags: list[bool] = (await index.load(G, ANN)).has_vector.tolist()
    return flags


async def test_a_row_that_stands_there_twice_is_damage(index: LanceIndex, table: Path) -> None:
    await embedded(index)
    other = opened(table)
    other.add(other.to_arrow().slice(0, 1))
    for read in (index.load, index.count):
        with pytest.raises(IndexUnavailable, match="twice"):
            await read(G, ANN)


async def test_a_row_of_another_owner_is_damage(index: LanceIndex, table: Path) -> None:
    await embedded(index)
    opened(table).update(where="row_id = 'r1'", values={"owner": "default/users/bob"})
    for read in (index.load, index.count):
        with pytest.raises(IndexUnavailable, match="not its owner's"):
            await read(G, ANN)


@pytest.mark.parametrize("column", ["text", "words", "thread_id", "sender"])
async def test_a_row_that_was_changed_is_damage(index: LanceIndex, table: Path, column: str) -> None:
    await embedded(index)
    opened(table).update(where="row_id = 'r1'", values={column: "something else"})
    with pytest.raises(IndexUnavailable, match="not what was put there"):
        await index.load(G, ANN)


async def test_vectors_that_changed_places_count_as_none(index: LanceIndex, table: Path) -> None:
    await embedded(index)
    assert await has_vectors(index) == [True] * 5
    await index.close()
    read = opened(table).to_arrow()
    column = read.schema.get_field_index("vector")
    swapped = read["vector"].take([1, 0, 2, 3, 4])
    opened(table).add(read.set_column(column, read.schema.field(column), swapped), mode="overwrite")
    assert await has_vectors(index) == [False, False, True, True, True]
    stored = await index.load(G, ANN)
    assert not stored.vectors[:2].any()


async def test_a_vector_with_another_number_in_it_counts_as_none(index: LanceIndex, table: Path) -> None:
    await embedded(index)
    changed = [0.5] * DIMENSIONS
    opened(table).update(where="row_id = 'r3'", values={"vector": changed})
    assert await has_vectors(index) == [True, True, True, False, True]


async def test_vectors_are_believed_after_compaction_and_an_edit_of_others(index: LanceIndex) -> None:
    await embedded(index)
    await put(index, {"r1": "edited"})
    await index.remove(G, ANN, ["r2"])
    await index.compact(G, ANN)
    kept = await index.load(G, ANN)
    assert {row.row_id for row, is_there in zip(kept.rows, kept.has_vector, strict=True) if is_there} == {
        "r0", "r3", "r4",
    }  # fmt: skip
