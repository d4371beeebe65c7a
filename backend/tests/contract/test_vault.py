"""What every vault promises, in a folder of the home, in S3 and in a shared folder."""

import asyncio
from pathlib import Path

import pytest

from recollect.domain.identity import text_digest
from recollect.errors import StorageUnavailable
from tests import buckets
from tests.buckets import PersonsBucket
from tests.persons_vault import PersonsVault, new_vault

NOBODYS: frozenset[str] = frozenset()
PATH = "default/users/ann/threads/t1/0001.md"
AnyVault = PersonsVault | PersonsBucket


@pytest.fixture(params=["home", *buckets.PLACES])
async def vault(tmp_path: Path, request: pytest.FixtureRequest) -> AnyVault:
    if request.param == "home":
        return await new_vault(tmp_path / "vault")
    return await buckets.new_bucket(request.param)


async def test_an_empty_vault_has_no_problem_and_no_file(vault: AnyVault) -> None:
    assert vault.problem() is None
    assert (await vault.read(PATH), await vault.look(PATH), await vault.list_files()) == (None, None, [])
    assert await vault.remove_file(PATH, NOBODYS) is None
    await vault.remove_folder("default")


@pytest.mark.parametrize("text", ["", "one\n", "a\r\nb\rc\n\n", "\ufeff你好 👩‍👩‍👧 e\u0301\u2028"])
async def test_what_is_written_reads_the_same(vault: AnyVault, text: str) -> None:
    await vault.write(PATH, text, NOBODYS)
    assert await vault.read(PATH) == text


async def test_what_is_ours_is_replaced_without_a_trace(vault: AnyVault) -> None:
    await vault.write(PATH, "old", NOBODYS)
    assert await vault.write(PATH, "new", frozenset({text_digest("old")})) is None
    assert list(vault.files) == [PATH]
    assert await vault.read(PATH) == "new"


async def test_every_version_that_a_person_wrote_is_kept_beside_once(vault: AnyVault) -> None:
    for text in ("first edit", "second edit", "second edit"):
        vault.files[PATH] = text
        conflict = await vault.write(PATH, "ours", frozenset({text_digest("old")}))
        assert conflict is not None
        assert conflict.startswith("default/users/ann/threads/t1/0001.conflict-")
        assert conflict.endswith(".md")
        assert (await vault.read(conflict), await vault.read(PATH)) == (text, "ours")
    assert len(await vault.list_files()) == 3


async def test_a_persons_version_is_returned_and_left_alone(vault: AnyVault) -> None:
    vault.files[PATH] = "theirs"
    found = await vault.write_unless_foreign(PATH, "ours", NOBODYS)
    assert found is not None
    assert (found.text, found.digest, found.is_whole) == ("theirs", text_digest("theirs"), True)
    assert await vault.list_files() == [PATH]
    assert await vault.read(PATH) == "theirs"


@pytest.mark.parametrize("there", [None, "old", "new"], ids=["nothing", "ours", "the same words"])
async def test_where_nobody_changed_anything_the_file_is_written(vault: AnyVault, there: str | None) -> None:
    if there is not None:
        vault.files[PATH] = there
    assert await vault.write_unless_foreign(PATH, "new", frozenset({text_digest("old")})) is None
    assert await vault.read(PATH) == "new"
    assert await vault.list_files() == [PATH]


async def test_a_copy_of_a_persons_version_is_kept_and_the_file_stays(vault: AnyVault) -> None:
    vault.files[PATH] = "theirs"
    kept = await vault.keep_copy(PATH, text_digest("theirs"))
    assert kept is not None
    assert await vault.read(kept) == await vault.read(PATH) == "theirs"


async def test_a_version_that_is_there_no_longer_is_not_kept(vault: AnyVault) -> None:
    vault.files[PATH] = "newer"
    assert await vault.keep_copy(PATH, text_digest("theirs")) is None
    assert await vault.keep_copy("default/users/ann/x.md", text_digest("theirs")) is None
    assert await vault.list_files() == [PATH]


async def test_a_look_with_a_limit_reads_so_far_and_says_so(vault: AnyVault) -> None:
    vault.files[PATH] = "0123456789"
    found, whole = await vault.look(PATH, 4), await vault.look(PATH, 10)
    assert found is not None
    assert whole is not None
    assert (found.text, found.is_whole, whole.text, whole.is_whole) == ("0123", False, "0123456789", True)
    assert found.digest == whole.digest == text_digest("0123456789")


async def test_a_stamp_changes_with_the_file(vault: AnyVault) -> None:
    vault.files[PATH] = "one"
    before = await vault.stamps()
    vault.files[PATH] = "three"
    after = await vault.stamps("default/users")
    assert list(before) == list(after) == [PATH]
    assert before != after
    assert await vault.stamps("elsewhere") == {}


async def test_files_are_listed_sorted_and_below_a_folder_alone(vault: AnyVault) -> None:
    for path in ("b/2.md", "b/1.md", "a/1.md", "bb/1.md"):
        await vault.write(path, "x", NOBODYS)
    assert await vault.list_files() == ["a/1.md", "b/1.md", "b/2.md", "bb/1.md"]
    assert await vault.list_files("b") == ["b/1.md", "b/2.md"]


async def test_a_folder_goes_with_all_that_is_in_it_and_nothing_else(vault: AnyVault) -> None:
    for path in ("a/t1/0001.md", "a/t1/deep/x.md", "a/t10/0001.md"):
        await vault.write(path, "x", NOBODYS)
    await vault.remove_folder("a/t1")
    assert await vault.list_files() == ["a/t10/0001.md"]


async def test_a_missing_vault_says_so_and_takes_and_loses_nothing(vault: AnyVault) -> None:
    vault.files[PATH] = "text"
    vault.take_away()
    assert vault.problem() is not None
    for change in (
        vault.write(PATH, "x", NOBODYS),
        vault.remove_folder("default"),
        vault.remove_file(PATH, NOBODYS),
    ):
        with pytest.raises(StorageUnavailable):
            await change
    vault.bring_back()
    assert dict(vault.files) == {PATH: "text"}


async def test_two_writers_of_one_file_do_not_disturb_each_other(vault: AnyVault) -> None:
    texts = [str(number) * 50_000 for number in range(10)]
    ours = frozenset(text_digest(text) for text in texts)
    for _ in range(2):
        await asyncio.gather(*(vault.write(PATH, text, ours) for text in texts))
        assert await vault.read(PATH) in texts


async def test_a_persons_version_of_a_removed_file_is_kept_beside(vault: AnyVault) -> None:
    vault.files["a/one.md"] = "mine"
    conflict = await vault.remove_file("a/one.md", frozenset({text_digest("ours")}))
    assert conflict is not None
    assert await vault.list_files() == [conflict]
    assert await vault.read(conflict) == "mine"
