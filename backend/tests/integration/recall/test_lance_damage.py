"""A damaged LanceDB index: noticed, told, and never taken for an index without rows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb
import pytest

from recollect.domain.recall.rows import Generation
from recollect.errors import IndexUnavailable
from recollect.infra.index.store import LanceIndex
from tests.lance_tables import ANN, DIMENSIONS, G, index, put, some_vectors, table

__all__ = ["index", "table"]


def files_of(table: Path, part: str) -> list[Path]:
    return sorted(path for path in (table / part).iterdir() if path.suffix in (".lance", ".manifest"))


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
    index: LanceIndex, tmp_path: Path, caplog: pytest.LogCaptureFixture, file: str, content: bytes | None
) -> None:
    path = tmp_path / "index" / file
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert await index.live() is None
    assert caplog.text or file == "live.json"


async def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("no folder")
    index = LanceIndex(tmp_path / "home" / "index")
    assert await index.live() is None
    with pytest.raises(IndexUnavailable):
        await index.create(Generation(G, 1))
    await index.close()


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
