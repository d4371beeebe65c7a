"""What the index store promises: in a folder or, with `--deployment=cluster`, in S3."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recollect.domain.recall.rows import Generation, IndexRow, StoredRows, Vectors
from recollect.errors import IndexUnavailable
from recollect.infra.index.store import LanceIndex
from tests import deployment

G = "g1"
ANN, BOB = "default/users/ann", "default/users/bob"
MODEL, DIMENSIONS = "a-model", 4

AWKWARD_IDS = [
    "it's", "''", "back\\slash", "\\'", '"double"', "`tick`", "a\nb", "\r\n", "tab\t", "nul\x00nul", "👩‍👩‍👧", "你好",
    "e\u0301", "é", "%_", "') OR 1=1 --", "; DROP TABLE", "", " ", "x" * 2000,
]  # fmt: skip


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncIterator[LanceIndex]:
    store = LanceIndex(deployment.HOMES.index(tmp_path / "index"))
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def store(empty: LanceIndex) -> LanceIndex:
    """With an empty generation, live, that has no model yet."""
    await empty.create(Generation(G, 1))
    await empty.promote(G)
    return empty


def row(row_id: str, text: str = "hello", **fields: object) -> IndexRow:
    whole = IndexRow(
        row_id=row_id,
        type="turn",
        text=text,
        timestamp=1_778_248_980_000,
        thread_id="t1",
        position=3,
        message_ids=("m1", "m2"),
        role="user",
        sender="ann",
        agent_id="agent",
        tags=("home", "wörk"),
        path="default/users/ann/threads/t1",
        sources=("default/users/ann/threads/t1#t-1", "other"),
        until=1_778_248_980_001,
        pinned=True,
        edited=True,
    )
    return replace(whole, **fields)  # type: ignore[arg-type]


def vectors(*firsts: float) -> Vectors:
    return np.array([[first, 0, 0, 1] for first in firsts], np.float32)


async def put(store: LanceIndex, *rows: IndexRow, owner: str = ANN) -> None:
    await store.put(G, owner, rows, [f"words of {one.text}" for one in rows])


def ids(stored: StoredRows) -> list[str]:
    return [one.row_id for one in stored.rows]


async def ids_of(store: LanceIndex, owner: str = ANN) -> list[str]:
    return ids(await store.load(G, owner))


async def vector_of(store: LanceIndex, row_id: str) -> Sequence[float] | None:
    stored = await store.load(G, ANN)
    place = ids(stored).index(row_id)
    return stored.vectors[place].tolist() if stored.has_vector[place] else None


async def test_words_and_vectors_stay_with_their_rows_whatever_the_order(store: LanceIndex) -> None:
    await store.adopt_model(G, MODEL, DIMENSIONS)
    numbers = [int(number) for number in np.random.default_rng(1).permutation(3000)]
    await put(store, *(row(f"r{number}", f"text {number}", position=number) for number in numbers))
    odd = [number for number in numbers if number % 2]
    await store.set_vectors(G, ANN, [f"r{number}" for number in odd], vectors(*odd))
    stored = await store.load(G, ANN)
    assert [one.position for one in stored.rows] == list(range(3000))
    assert stored.words == [f"words of text {number}" for number in range(3000)]
    assert stored.has_vector.tolist() == [number % 2 == 1 for number in range(3000)]
    assert stored.vectors[:, 0].tolist() == [number if number % 2 else 0 for number in range(3000)]


async def test_of_two_rows_with_one_id_the_last_counts(store: LanceIndex) -> None:
    await store.put(G, ANN, [], [])
    assert await store.owners(G) == []
    await put(store, row("a", "old"), row("a", "new"))
    await put(store, row("b"), row("a", "newer"), row("a", "newest"))
    assert [(one.row_id, one.text) for one in (await store.load(G, ANN)).rows] == [
        ("a", "newest"),
        ("b", "hello"),
    ]


async def test_a_replaced_row_loses_its_vector_and_its_neighbour_keeps_it(store: LanceIndex) -> None:
    await store.adopt_model(G, MODEL, DIMENSIONS)
    await put(store, row("a", "old"), row("b"))
    await store.set_vectors(G, ANN, ["a", "b"], vectors(1, 2))
    await put(store, row("a", "new"), row("c"))
    stored = await store.load(G, ANN)
    assert [one.text for one in stored.rows] == ["new", "hello", "hello"]
    assert stored.has_vector.tolist() == [False, True, False]
    assert await vector_of(store, "b") == [2, 0, 0, 1]


async def test_vectors_come_after_the_rows_and_change_nothing_else(store: LanceIndex) -> None:
    rows = [row("a", tags=()), row("b", message_ids=())]
    await put(store, *rows)
    before = await store.load(G, ANN)
    await store.adopt_model(G, MODEL, DIMENSIONS)
    await store.set_vectors(G, ANN, ["b"], vectors(7))
    after = await store.load(G, ANN)
    assert (after.rows, after.words) == (before.rows, before.words)
    assert after.vectors.tolist() == [[0, 0, 0, 0], [7, 0, 0, 1]]
    assert after.has_vector.tolist() == [False, True]


@pytest.mark.parametrize(
    "wrong",
    [np.zeros((1, 3), np.float32), np.zeros((2, 4), np.float32), np.array([[1, 2, 3, np.nan]], np.float32)],
    ids=["too short", "too many", "no number"],
)
async def test_what_is_no_vector_of_the_model_is_refused(store: LanceIndex, wrong: Vectors) -> None:
    await put(store, row("a"))
    with pytest.raises(ValueError, match="vector"):
        await store.set_vectors(G, ANN, ["a"], vectors(1))  # There is no model yet.
    await store.adopt_model(G, MODEL, DIMENSIONS)
    with pytest.raises(ValueError, match="vector"):
        await store.set_vectors(G, ANN, ["a"], wrong)
    assert await vector_of(store, "a") is None


async def test_thousands_are_removed_at_once(store: LanceIndex) -> None:
    await put(store, *(row(f"r{number:04}") for number in range(2500)))
    await store.remove(G, ANN, [f"r{number:04}" for number in range(2400)])
    assert await ids_of(store) == [f"r{number:04}" for number in range(2400, 2500)]


@pytest.mark.parametrize("awkward", AWKWARD_IDS, ids=lambda row_id: ascii(row_id)[:20])
async def test_an_id_of_any_characters_means_that_row_alone(store: LanceIndex, awkward: str) -> None:
    await store.adopt_model(G, MODEL, DIMENSIONS)
    others = [row(other) for other in AWKWARD_IDS if other != awkward]
    await put(store, row(awkward, "old"), *others)
    await put(store, row(awkward, "new"))
    await store.set_vectors(G, ANN, [awkward], vectors(5))
    assert sorted(await ids_of(store)) == sorted(AWKWARD_IDS)
    assert await vector_of(store, awkward) == [5, 0, 0, 1]
    assert (await store.load(G, ANN)).has_vector.sum() == 1
    await store.remove(G, ANN, [awkward])
    assert sorted(await ids_of(store)) == sorted(other.row_id for other in others)


@pytest.mark.parametrize("owner", ["", "../../x", "Ann", "ann", "default/users/👩‍👩‍👧", "x" * 500, "it's"])
async def test_any_owner_has_rows_of_its_own(store: LanceIndex, owner: str) -> None:
    await put(store, row("a"), owner=owner)
    assert await store.owners(G) == [owner]
    assert await ids_of(store, owner) == ["a"]
    assert await ids_of(store, owner + "x") == []


async def test_a_dropped_owner_is_gone_and_can_begin_again(store: LanceIndex) -> None:
    for text in ("one", "two", "three"):
        await put(store, row("a", text))
        assert [one.text for one in (await store.load(G, ANN)).rows] == [text]
        for _ in range(2):
            await store.drop(G, ANN)
        assert await ids_of(store) == []
        assert await store.owners(G) == []


async def test_many_writers_and_readers_of_one_owner_lose_nothing(store: LanceIndex) -> None:
    await store.adopt_model(G, MODEL, DIMENSIONS)

    async def write(number: int) -> None:
        await put(store, row(f"r{number:02}"))
        await store.set_vectors(G, ANN, [f"r{number:02}"], vectors(number))
        await store.load(G, ANN)

    await asyncio.gather(*(write(number) for number in range(12)), store.compact(G, ANN), store.owners(G))
    stored = await store.load(G, ANN)
    assert ids(stored) == [f"r{number:02}" for number in range(12)]
    assert stored.vectors[:, 0].tolist() == list(range(12))


async def test_a_generation_is_live_only_when_it_is_promoted(empty: LanceIndex) -> None:
    store = empty
    assert (await store.live(), await store.generations()) == (None, [])
    await store.create(Generation("g1", 1))
    assert await store.live() is None
    await store.promote("g1")
    await store.create(Generation("g2", 2, MODEL, DIMENSIONS))
    assert await store.live() == Generation("g1", 1)
    await store.promote("g2")
    assert await store.live() == Generation("g2", 2, MODEL, DIMENSIONS)
    assert await store.generations() == [Generation("g1", 1), Generation("g2", 2, MODEL, DIMENSIONS)]


async def test_a_generation_is_created_twice_without_harm(store: LanceIndex) -> None:
    await put(store, row("a"))
    await store.create(Generation(G, 1))
    assert await ids_of(store) == ["a"]
    with pytest.raises(ValueError, match="another"):
        await store.create(Generation(G, 2))


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "/etc"])
async def test_a_name_that_is_no_folder_is_refused(empty: LanceIndex, name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        await empty.create(Generation(name, 1))


async def test_a_discarded_generation_is_gone_and_refuses_work(store: LanceIndex) -> None:
    await store.create(Generation("g2", 1))
    await store.put("g2", ANN, [row("a")], [""])
    with pytest.raises(ValueError, match="live"):
        await store.discard(G)
    for _ in range(2):
        await store.discard("g2")
    with pytest.raises(ValueError, match="no generation"):
        await store.promote("g2")
    with pytest.raises(IndexUnavailable):
        await store.adopt_model("g2", MODEL, DIMENSIONS)
    assert await store.generations() == [Generation(G, 1)]
    with pytest.raises(IndexUnavailable):
        await store.load("g2", ANN)
    with pytest.raises(IndexUnavailable):
        await store.put("g2", ANN, [row("a")], [""])
    assert await store.generations() == [Generation(G, 1)]


async def test_a_model_is_adopted_once(store: LanceIndex) -> None:
    adopted = Generation(G, 1, MODEL, DIMENSIONS)
    assert await store.adopt_model(G, MODEL, DIMENSIONS) == adopted
    assert await store.adopt_model(G, MODEL, DIMENSIONS) == adopted
    assert await store.live() == adopted
    for model, dimensions in (("other", DIMENSIONS), (MODEL, DIMENSIONS + 1)):
        with pytest.raises(ValueError, match="vectors of"):
            await store.adopt_model(G, model, dimensions)
    assert await store.live() == adopted


async def test_rows_are_counted_for_each_owner_and_generation(store: LanceIndex) -> None:
    await put(store, row("a"), row("b"), row("c"))
    await put(store, row("a"), owner=BOB)
    await put(store, row("b", "edited"))
    await store.remove(G, ANN, ["c"])
    counts = [await store.count(G, owner) for owner in (ANN, BOB, "default/users/carl")]
    assert counts == [2, 1, 0]
    with pytest.raises(IndexUnavailable):
        await store.count("g9", ANN)


async def test_the_rows_of_single_files_and_of_single_ids_are_read_alone(store: LanceIndex) -> None:
    rows = [
        row(name, path=path) for name, path in (("a", "it's"), ("b", "two"), ("c", "three"), ("d", "it's"))
    ]
    await store.adopt_model(G, MODEL, DIMENSIONS)
    await put(store, *rows)
    await store.set_vectors(G, ANN, ["a"], vectors(7))
    some = await store.load_files(G, ANN, {"it's", "none"}, {"b", "a", "no"})
    assert some.rows == [rows[0], rows[1], rows[3]]
    assert some.words == ["words of hello"] * 3
    assert (some.has_vector.tolist(), some.vectors[0].tolist()) == ([True, False, False], [7, 0, 0, 1])
    assert (await store.load_files(G, ANN, set())).rows == []
    assert (await store.load_files(G, BOB, {"two"})).rows == []
