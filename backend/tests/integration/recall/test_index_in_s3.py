"""The index in S3 or a shared folder: what is removed leaves the bucket, a former leader does no harm, and an S3 that is down no damage."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from recollect.domain.recall.rows import Generation
from recollect.errors import IndexUnavailable, IndexUnreachable, StorageUnavailable
from recollect.infra import s3_objects
from recollect.infra.index import bucket
from recollect.infra.index.bucket import IndexBucket
from recollect.infra.index.store import LanceIndex
from recollect.infra.object_stores import objects_at
from recollect.infra.objects import INDEX, Found, Objects
from tests.buckets import PLACES, FaultyS3, new_url
from tests.lance_tables import ANN, DIMENSIONS, G, put, some_vectors

SECRET = "Xq7-9vZk3-secret"


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def url(place: str) -> str:
    """Of the files; the index is below it."""
    url = new_url(place)
    objects_at(url).make()
    return url


only_in_s3 = pytest.mark.parametrize("place", ["s3"], indirect=True)


@pytest.fixture
async def index(url: str) -> AsyncIterator[LanceIndex]:
    """With an empty live generation that has a model."""
    opened = await leader(url)
    await opened.create(Generation(G, 1, "a-model", DIMENSIONS))
    await opened.promote(G)
    yield opened
    await opened.close()


async def leader(url: str) -> LanceIndex:
    """Another process that leads from now on."""
    index = LanceIndex(IndexBucket(objects_at(url, INDEX)))
    await index.open()
    return index


def objects_with(url: str, secret: str) -> list[str]:
    objects = objects_at(url, INDEX)
    held = ((each.path, objects.get(each.path)) for each in objects.list())
    return [path for path, found in held if found is not None and secret.encode() in found.content]


async def texts(index: LanceIndex, owner: str = ANN) -> dict[str, bool]:
    stored = await index.load(G, owner)
    return dict(zip((row.text for row in stored.rows), stored.has_vector.tolist(), strict=True))


@pytest.mark.parametrize(
    ("neighbours", "replaced"),
    [(0, False), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((400, False), (400, True)))],
)
async def test_what_is_removed_or_replaced_is_gone_from_the_bucket_after_compaction(
    index: LanceIndex, url: str, neighbours: int, replaced: bool
) -> None:
    await put(index, {"a": f"one {SECRET} one"} | {f"r{n}": f"text {n}" for n in range(neighbours)})
    await index.set_vectors(G, ANN, ["a"], some_vectors(1))
    await index.compact(G, ANN)
    assert objects_with(url, SECRET)
    if replaced:
        await put(index, {"a": "harmless"})
    else:
        await index.remove(G, ANN, ["a"])
    await index.compact(G, ANN)
    assert objects_with(url, SECRET) == []
    assert len((await index.load(G, ANN)).rows) == neighbours + replaced


async def test_an_owner_that_is_dropped_leaves_no_object(index: LanceIndex, url: str) -> None:
    await put(index, {"a": SECRET})
    await index.drop(G, ANN)
    assert [each.path for each in objects_at(url, INDEX).list()] == [f"{G}/generation.json", "live.json"]


@pytest.mark.slow
async def test_many_small_writes_stay_in_few_objects(index: LanceIndex, url: str) -> None:
    for number in range(40):
        await put(index, {f"r{number}": "text"})
    assert len(list(objects_at(url, INDEX).list())) < 40
    assert len((await index.load(G, ANN)).rows) == 40


# One server after another.


async def test_the_next_leader_finds_rows_and_vectors(index: LanceIndex, url: str) -> None:
    await put(index, {"a": "one", "b": "two"})
    await index.set_vectors(G, ANN, ["b"], some_vectors(1))
    later = await leader(url)
    assert await later.live() == Generation(G, 1, "a-model", DIMENSIONS)
    assert await later.owners(G) == [ANN]
    assert await texts(later) == {"one": False, "two": True}
    await put(later, {"c": "three"})
    assert await texts(later) == {"one": False, "two": True, "three": False}
    await later.close()


async def test_a_former_leader_takes_nothing_from_a_later_one(index: LanceIndex, url: str) -> None:
    later = await leader(url)
    await put(later, {"a": "one"})
    assert await texts(index) == {}
    await index.drop(G, ANN)
    await index.compact(G, ANN)
    await index.all_versions()
    await later.close()
    assert await texts(later) == {"one": False}


async def test_a_table_that_a_former_leader_makes_late_is_not_taken(index: LanceIndex, url: str) -> None:
    later = await leader(url)
    assert await texts(later) == {}
    await put(index, {"a": "one"})
    assert await texts(later) == {}
    await put(later, {"b": "two"})
    assert await texts(later) == {"two": False}
    await later.close()


async def test_of_two_who_choose_the_same_term_one_leads(
    index: LanceIndex, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, get = IndexBucket(objects_at(url, INDEX)), Objects.get
    late = IndexBucket(objects_at(url, INDEX))

    def overtaken(objects: Objects, path: str, limit: int | None = None) -> Found | None:
        found = get(objects, path, limit)
        if objects is late.objects and not first.term:
            first.open()
        return found

    monkeypatch.setattr(Objects, "get", overtaken)
    with pytest.raises(StorageUnavailable, match="another server"):
        late.open()
    assert (late.term, first.term != "") == ("", True)
    assert await index.live() == Generation(G, 1, "a-model", DIMENSIONS)


async def test_before_it_is_open_the_index_cannot_be_reached_and_that_stops_nobody(index: LanceIndex) -> None:
    for refused in (index.load("", ANN), index.owners(""), index.adopt_model("", "a-model", DIMENSIONS)):
        with pytest.raises(IndexUnreachable, match="not open"):
            await refused
    assert await texts(index) == {}


async def test_what_a_former_leader_still_writes_is_not_read_and_goes(index: LanceIndex, url: str) -> None:
    await put(index, {"a": "one"})
    later = await leader(url)
    await put(later, {"b": "two"})
    await later.drop(G, "default/users/bob")
    for owner in (ANN, "default/users/bob"):
        try:
            await put(index, {"c": SECRET}, owner=owner)
        except IndexUnavailable:
            continue
    assert objects_with(url, SECRET)
    assert await texts(later) == {"one": False, "two": False}
    assert await texts(later, "default/users/bob") == {}
    assert [len(version.rows) for version in await later.all_versions()] == [1, 2]
    assert objects_with(url, SECRET) == []
    await later.close()
    again = await leader(url)
    assert await texts(again) == {"one": False, "two": False}
    await again.close()


@pytest.mark.slow
async def test_a_former_leader_makes_no_generation_live_and_removes_none(index: LanceIndex, url: str) -> None:
    await index.create(Generation("g2", 1))
    later = await leader(url)
    for work in (index.promote("g2"), index.discard("g2"), index.create(Generation("g3", 1))):
        with pytest.raises(IndexUnavailable, match="another server"):
            await work
    assert await later.live() == Generation(G, 1, "a-model", DIMENSIONS)
    assert [each.name for each in await later.generations()] == [G, "g2"]
    await later.close()


@pytest.mark.slow
async def test_writers_at_the_same_moment_lose_nothing_or_are_told(index: LanceIndex, url: str) -> None:
    """What a leader's own term and a condition on every version exclude, twice: LanceDB's versions collide."""
    await put(index, {"a": "one"})
    place = IndexBucket(objects_at(url, INDEX))
    other = LanceIndex(place)
    await other.open()
    place.term = index.place.term  # type: ignore[attr-defined]
    kept = {"a"}
    for number in range(5):
        writes = {
            f"x{number}": put(index, {f"x{number}": "t"}),
            f"y{number}": put(other, {f"y{number}": "t"}),
        }
        done = await asyncio.gather(*writes.values(), return_exceptions=True)
        assert {type(each) for each in done} <= {type(None), IndexUnavailable}
        kept |= {name for name, outcome in zip(writes, done, strict=True) if outcome is None}
    await index.close()
    stored = await index.load(G, ANN)
    assert {row.row_id for row in stored.rows} >= kept
    await other.close()


def test_listings_of_the_vault_pass_over_the_index_without_asking_for_its_pages(url: str, place: str) -> None:
    files = ["!before", ".a", ".indexes", "default/users/ann/notes/a.md", ".index.md", "zz/b.md"]
    objects, asked = objects_at(url), list[str]()
    for path in [*files, ".index/g1/generation.json", ".index/live.json"]:
        objects.replace(path, b"x")
    with FaultyS3(lambda method, path: asked.append(path)):
        listed = [each.path for each in objects_at(url).list()]
    assert sorted(listed) == sorted(files)
    assert ["start-after" in path for path in asked] == ([False, True] if place == "s3" else [])
    assert [each.path for each in objects_at(url, INDEX).list()] == ["g1/generation.json", "live.json"]


# S3 fails.


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call asks S3, even if it did not answer a moment ago."""
    monkeypatch.setattr(bucket, "_DOWN_SECONDS", 0.0)
    options = s3_objects._LANCE_OPTIONS | {"client_max_retries": "0"}
    monkeypatch.setattr(s3_objects, "_LANCE_OPTIONS", options)


@only_in_s3
@pytest.mark.slow
@pytest.mark.parametrize("status", [403, 503])
@pytest.mark.parametrize("part", ["data/", "_versions", "generation.json"])
async def test_an_s3_that_does_not_answer_is_no_damage(
    url: str, index: LanceIndex, no_pause: None, status: int, part: str
) -> None:
    await put(index, {"a": "one"})
    await index.close()
    with FaultyS3(lambda method, path: status if part in path or part in path.replace("%2F", "/") else None):
        again = LanceIndex(IndexBucket(objects_at(url, INDEX)))
        await again.open()
        with pytest.raises(IndexUnreachable):
            await again.load(G, ANN)
        with pytest.raises(IndexUnreachable):
            await put(again, {"b": "two"})
        await again.close()
    assert await texts(index) == {"one": False}


async def test_a_missing_object_is_damage(url: str, index: LanceIndex) -> None:
    await put(index, {"a": "one"})
    await index.close()
    objects = objects_at(url, INDEX)
    objects.delete([each.path for each in objects.list() if "/data/" in each.path])
    with pytest.raises(IndexUnavailable) as caught:
        await index.load(G, ANN)
    assert not isinstance(caught.value, IndexUnreachable)


@only_in_s3
async def test_nobody_waits_for_an_s3_that_hangs(
    url: str, index: LanceIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(index, {"a": "one"})
    monkeypatch.setattr(IndexBucket, "patience", 0.3)
    hangs, let_go = True, threading.Event()

    def fault(method: str, path: str) -> int | None:
        return 503 if hangs and let_go.wait(20) else None

    with FaultyS3(fault):
        index.place.objects = objects_at(url, INDEX)  # type: ignore[attr-defined]
        with pytest.raises(IndexUnreachable, match="too long"):
            await index.load(G, ANN)
        patient = asyncio.create_task(index.load(G, ANN, patient=True))
        begun = time.monotonic()
        assert await index.size() == (0, 0)  # As far as is known.
        assert time.monotonic() - begun < 5
        assert not patient.done()
        hangs = False
        let_go.set()
        monkeypatch.setattr(IndexBucket, "patience", 30.0)
        await asyncio.wait([patient])
        await asyncio.sleep(bucket._DOWN_SECONDS)
        assert await texts(index) == {"one": False}


@only_in_s3
async def test_whoever_asks_an_s3_that_is_down_again_is_told_at_once(url: str, index: LanceIndex) -> None:
    await put(index, {"a": "one"})
    with FaultyS3(lambda method, path: 403) as broken:
        index.place.objects = objects_at(url, INDEX)  # type: ignore[attr-defined]
        with pytest.raises(IndexUnreachable):
            await index.load(G, ANN)
        asked, begun = broken.faults, time.monotonic()
        with pytest.raises(IndexUnreachable):
            await index.load(G, ANN)
        assert (broken.faults, time.monotonic() - begun < 1) == (asked, True)
        assert (await index.size())[0] == 0  # As far as is known.
