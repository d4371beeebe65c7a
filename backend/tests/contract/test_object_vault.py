"""What only a vault of objects can get wrong, in S3 and in a shared folder."""

import asyncio
from collections.abc import Awaitable, Callable, Sized

import pytest

from recollect.domain.identity import text_digest
from recollect.domain.images import images_folder
from recollect.errors import HomeUnusable, StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.image_objects import ObjectImages
from recollect.infra.object_stores import objects_at
from recollect.infra.object_watcher import ObjectWatcher
from recollect.infra.objects import REMOVED, Changed
from recollect.infra.s3_objects import S3Objects
from recollect.infra.vault_objects import MARKER, ObjectVault
from tests.buckets import PLACES, FaultyS3, new_bucket, new_url, nobody

in_both = pytest.mark.parametrize("place", PLACES)
PATH = "default/users/ann/notes/a.md"
OURS = frozenset([text_digest("ours")])


def _lost_once(name: str) -> Callable[[str, str], int | None]:
    """The answer to the first PUT of such a name is lost."""
    left = [name]
    return lambda method, path: 0 if method == "PUT" and left and left[0] in path and left.pop() else None


@in_both
async def test_of_two_processes_of_one_home_the_later_one_keeps_the_place(place: str) -> None:
    first = await new_bucket(place)
    second = ObjectVault(objects_at(first.objects.url), nobody)
    await second.open(expected=True)
    for _ in range(3):
        for vault in (first, second):
            await vault.stamps()
            if not vault.is_there():
                await vault.come_back()
        assert (first.is_there(), second.is_there()) == (False, True)


@in_both
@pytest.mark.parametrize("expected", [False, True])
async def test_a_vault_that_vanished_is_made_again_by_nobody_and_taken_once_it_is_brought_back(
    expected: bool, place: str
) -> None:
    vault = ObjectVault(objects_at(new_url(place)), nobody)
    if expected:
        vault.objects.make()
        vault.objects.replace(MARKER, b"")
    await vault.open(expected=expected)
    vault.objects.delete([MARKER])
    await vault.stamps()
    assert not await vault.come_back()
    assert list(vault.objects.list()) == []
    vault.objects.replace(MARKER, b"")
    assert await vault.come_back()


async def test_an_answer_to_the_probe_that_was_lost_is_no_error() -> None:
    url = new_url()
    with FaultyS3(_lost_once("probe")) as s3:
        vault = ObjectVault(S3Objects(url), nobody)
        await vault.open(expected=False)
    assert s3.faults == 1
    assert vault.is_there()


async def test_whoever_looks_for_a_missing_vault_survives_any_error(monkeypatch: pytest.MonkeyPatch) -> None:
    vault = await new_bucket()
    vault.take_away()
    errors = [RuntimeError("any"), Changed("x")]
    claim = ObjectVault._claim

    def failing(self: ObjectVault, *, create: bool) -> None:
        if errors:
            raise errors.pop()
        vault.objects.replace(MARKER, b"")
        claim(self, create=create)

    monkeypatch.setattr(ObjectVault, "_claim", failing)
    async with asyncio.timeout(10):
        assert await anext(ObjectWatcher(vault, seconds=0.01).changes()) == {""}
    assert errors == []


class _KilledError(Exception):
    """In the place of a kill."""


class _KilledBeforeTheDelete(FailPoints):
    def reach(self, name: str) -> None:
        if name == "vault.emptied":
            raise _KilledError


@in_both
async def test_what_is_saved_while_a_file_is_removed_stays(place: str) -> None:
    vault = await new_bucket(place)

    class Saving(FailPoints):
        def reach(self, name: str) -> None:
            if name == "vault.emptied":
                vault.files[PATH] = "theirs"

    await vault.write(PATH, "ours", frozenset())
    vault._fail_points = Saving()
    assert await vault.remove_file(PATH, OURS) is None
    assert dict(vault.files) == {PATH: "theirs"}


@pytest.mark.parametrize("look", [ObjectVault.stamps, ObjectVault.list_files])
async def test_a_removal_in_s3_that_was_interrupted_leaves_no_file_and_is_finished_at_the_next_look(
    look: Callable[[ObjectVault], Awaitable[Sized]],
) -> None:
    vault = await new_bucket()
    await vault.write(PATH, "ours", frozenset())
    vault._fail_points = _KilledBeforeTheDelete()
    with pytest.raises(_KilledError):
        await vault.remove_file(PATH, OURS)
    assert [each.path for each in vault.objects.list("default")] == [PATH]
    assert await vault.look(PATH) is None
    assert len(await look(vault)) == 0
    assert list(vault.objects.list("default")) == []


async def test_a_file_is_written_where_a_removal_was_interrupted() -> None:
    vault = await new_bucket()
    vault.objects.replace(PATH, REMOVED)
    assert await vault.write(PATH, "new", frozenset()) is None
    assert dict(vault.files) == {PATH: "new"}


async def test_a_removal_whose_answer_was_lost_is_finished() -> None:
    url = new_url()
    with FaultyS3() as s3:
        vault = ObjectVault(S3Objects(url), nobody)
        await vault.open(expected=False)
        await vault.write(PATH, "ours", frozenset())
        s3.fault = _lost_once("a.md")
        assert await vault.remove_file(PATH, OURS) is None
        assert s3.faults == 1
    assert list(vault.objects.list("default")) == []


@in_both
async def test_a_kept_version_that_was_changed_since_is_not_taken_for_kept(place: str) -> None:
    vault = await new_bucket(place)
    vault.files[PATH] = "theirs"
    kept = await vault.write(PATH, "ours", frozenset())
    assert kept is not None
    vault.files[kept], vault.files[PATH] = "edited", "theirs"
    again = await vault.write(PATH, "ours", frozenset())
    assert again not in (None, kept)
    assert sorted(dict(vault.files).values()) == ["edited", "ours", "theirs"]


@in_both
async def test_a_process_whose_place_was_taken_removes_no_folder(place: str) -> None:
    first = await new_bucket(place)
    await first.write(PATH, "ours", frozenset())
    await ObjectVault(objects_at(first.objects.url), nobody).open(expected=True)
    with pytest.raises(StorageUnavailable, match="another process"):
        await first.remove_folder("default/users/ann")
    assert dict(first.files) == {PATH: "ours"}


@in_both
async def test_what_a_killed_probe_left_is_no_file(place: str) -> None:
    vault = ObjectVault(objects_at(new_url(place)), nobody)
    vault.objects.make()
    vault.objects.replace(".recollect-probe-12345678", b"1")
    assert not await vault.exists()


@in_both
async def test_images_are_named_in_their_folder_only(place: str) -> None:
    vault, name = await new_bucket(place), "0" * 32 + ".png"
    images = ObjectImages(vault)
    await images.keep("default", "ann", name, b"1")
    vault.objects.replace(f"{images_folder('default', 'ann')}/old/{'1' * 32}.png", b"2")
    assert await images.names("default", "ann") == {name}


@pytest.mark.parametrize("endpoint", ["http://ann:topsecret@127.0.0.1:9", "https://ann:topsecret@127.0.0.1"])
def test_keys_in_an_address_are_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    with pytest.raises(HomeUnusable) as raised:
        S3Objects("s3://bucket/prefix")
    assert "secret@" not in str(raised.value)


@pytest.mark.parametrize("prefix", ["", "/homes/one"])
def test_without_an_endpoint_it_is_the_s3_of_aws(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert S3Objects(f"s3://bucket{prefix}").bucket == "bucket"
