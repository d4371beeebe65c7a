"""What only a disk can get wrong."""

import asyncio
import errno
import os
import time
from pathlib import Path

import pytest

from recollect.domain.identity import text_digest
from recollect.domain.vault_file import FileStamp
from recollect.errors import StorageUnavailable
from recollect.failpoints import FailPoints
from recollect.infra.vault_folder import FolderVault
from recollect.infra.vault_read import put_in_place, stamp_of
from tests.persons_vault import PersonsVault, new_vault

NOBODYS: frozenset[str] = frozenset()
PATH = "default/users/ann/threads/t1/0001.md"


@pytest.fixture
async def vault(tmp_path: Path) -> PersonsVault:
    return await new_vault(tmp_path / "vault")


async def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    vault: PersonsVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    await vault.write(PATH, "old", NOBODYS)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageUnavailable):
        await vault.write(PATH, "new", frozenset({text_digest("old")}))
    assert [path.read_text() for path in (vault.root / PATH).parent.iterdir()] == ["old"]


async def test_what_a_kill_left_beside_is_gone_after_the_next_start_and_a_persons_own_files_stay(
    vault: PersonsVault,
) -> None:
    await vault.write(PATH, "x", NOBODYS)
    folder = (vault.root / PATH).parent
    for name in ("0001.md.0a1b2c3d.tmp", "mine.tmp", "0001.md.draft.tmp"):
        (folder / name).write_text("left")
    await asyncio.sleep(0.01)  # The clock of a disk is coarse.
    await FolderVault(vault.root).open(expected=True)
    assert {path.name for path in folder.iterdir()} == {"0001.md", "mine.tmp", "0001.md.draft.tmp"}


async def test_a_missing_vault_where_files_are_expected_is_not_made_again_and_written_once_it_is_back(
    vault: PersonsVault,
) -> None:
    vault.take_away()
    late = FolderVault(vault.root)
    await late.open(expected=True)
    assert late.problem() is not None
    assert not vault.root.exists()
    vault.bring_back()
    await late.write(PATH, "x", NOBODYS)
    assert await late.read(PATH) == "x"


async def test_a_vault_that_is_gone_for_good_can_be_made_again(tmp_path: Path) -> None:
    vault = FolderVault(tmp_path / "vault")
    await vault.open(expected=True)
    await vault.recreate()
    assert vault.problem() is None


@pytest.mark.parametrize("mount_point", [False, True], ids=["gone", "empty mount point"])
async def test_a_vault_that_goes_while_it_is_open_is_not_taken_for_an_empty_one(
    tmp_path: Path, vault: PersonsVault, mount_point: bool
) -> None:
    vault.root.rename(tmp_path / "elsewhere")
    if mount_point:
        vault.root.mkdir()
    with pytest.raises(StorageUnavailable):
        await vault.write(PATH, "x", NOBODYS)


async def test_bytes_that_are_no_text_are_read_with_marks_and_kept_byte_for_byte(vault: PersonsVault) -> None:
    (vault.root / "x.md").write_bytes(b"a\xff\xfeb")
    found = await vault.look("x.md")
    assert found is not None
    assert (found.text, found.is_whole) == ("a\ufffd\ufffdb", False)
    conflict = await vault.write("x.md", "ours", NOBODYS)
    assert conflict is not None
    assert (vault.root / conflict).read_bytes() == b"a\xff\xfeb"


async def test_a_file_that_was_just_written_has_no_stamp_to_rely_on(vault: PersonsVault) -> None:
    """A second edit of the same length could come within one tick of the disk's clock."""
    (vault.root / "x.md").write_text("new")
    new = await vault.look("x.md")
    os.utime(vault.root / "x.md", (1_000_000_000, 1_000_000_000))
    old = await vault.look("x.md")
    assert new is not None
    assert old is not None
    assert new.stamp is None
    assert old.stamp == (await vault.stamps())["x.md"]


async def test_hidden_files_and_those_being_written_have_no_stamps(vault: PersonsVault) -> None:
    for name in (".obsidian/x.md", "notes/.#x.md", "x.md.0a1b2c3d.tmp", "image.png"):
        (vault.root / name).parent.mkdir(exist_ok=True)
        (vault.root / name).write_text("x")
    assert await vault.stamps() == {}


async def test_an_editor_that_is_saving_is_waited_for(
    vault: PersonsVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has emptied the file, and writes it while we look."""
    target = vault.root / "x.md"
    target.write_text("")

    def look_while_it_saves(file: Path) -> FileStamp | None:
        before = stamp_of(file)
        target.write_text("theirs")
        return before

    monkeypatch.setattr("recollect.infra.vault_folder.stamp_of", look_while_it_saves)
    found = await vault.write_unless_foreign("x.md", "ours", NOBODYS)
    assert found is not None
    assert found.text == "theirs"


@pytest.fixture
def a_person_saves(vault: PersonsVault, monkeypatch: pytest.MonkeyPatch) -> None:
    """x.md, in the very moment in which it is replaced."""

    def put_in_place_after_a_save(new: Path, place: Path) -> bool:
        (vault.root / "x.md").write_text("theirs")
        return put_in_place(new, place)

    monkeypatch.setattr("recollect.infra.vault_folder.put_in_place", put_in_place_after_a_save)


@pytest.mark.usefixtures("a_person_saves")
async def test_what_is_saved_in_the_very_moment_of_a_write_is_kept(vault: PersonsVault) -> None:
    (vault.root / "x.md").write_text("old")
    conflict = await vault.write("x.md", "new", frozenset({text_digest("old")}))
    assert conflict is not None
    assert {path.name: path.read_text() for path in vault.root.iterdir()} == {
        ".recollect-vault": "",
        "x.md": "new",
        conflict: "theirs",
    }


async def test_a_disk_that_fills_up_while_an_edit_is_kept_leaves_no_half_of_it_and_the_next_write_keeps_it(
    vault: PersonsVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    def half_of_it(_source: Path, target: Path) -> None:
        target.write_text("edited")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("recollect.infra.vault_folder.os.link", no_links)
    (vault.root / "x.md").write_text("edited by hand")
    with monkeypatch.context() as full:
        full.setattr("recollect.infra.vault_folder.shutil.copyfile", half_of_it)
        with pytest.raises(StorageUnavailable):
            await vault.write("x.md", "ours", NOBODYS)
    assert sorted(path.name for path in vault.root.iterdir()) == [".recollect-vault", "x.md"]
    conflict = await vault.write("x.md", "ours", NOBODYS)
    assert conflict is not None
    assert (vault.root / conflict).read_text() == "edited by hand"


class _KilledError(Exception):
    """In the place of a kill."""


class _KilledAfterTheRename(FailPoints):
    def reach(self, name: str) -> None:
        if name == "vault.renamed":
            raise _KilledError


async def test_forgetting_removes_what_could_not_be_removed_a_while_ago(
    vault: PersonsVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = vault.root / "a" / "x.md.00000000-00000000-0a1b2c3d.tmp"
    await vault.write("a/x.md", "x", NOBODYS)
    left.write_text("what is to be forgotten")
    await vault.remove_leftovers("a")
    assert left.exists()  # It may be on its way into its place.
    now = time.time()
    monkeypatch.setattr("recollect.infra.vault_folder.time.time", lambda: now + 700)
    await vault.remove_leftovers("a")
    assert not left.exists()


async def test_what_the_kill_of_another_process_left_goes_with_a_later_write_into_its_folder(
    vault: PersonsVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = vault.root / "a" / "y.md.0a1b2c3d.tmp"
    await vault.write("a/x.md", "1", NOBODYS)
    left.write_text("half")
    await vault.write("a/x.md", "2", frozenset({text_digest("1")}))
    assert left.exists()  # It may be being written.
    now = time.time()
    monkeypatch.setattr("recollect.infra.vault_folder.time.time", lambda: now + 3600)
    await vault.write("a/x.md", "3", frozenset({text_digest("2")}))
    assert not left.exists()


@pytest.mark.parametrize("saved", [True, False], ids=["a person saved", "nobody saved"])
async def test_only_what_is_saved_in_the_very_moment_of_a_write_that_is_killed_is_kept_at_the_next_start(
    vault: PersonsVault, request: pytest.FixtureRequest, saved: bool
) -> None:
    (vault.root / "x.md").write_text("old")
    if saved:
        request.getfixturevalue("a_person_saves")
    killed = FolderVault(vault.root, fail_points=_KilledAfterTheRename())
    with pytest.raises(_KilledError):
        await killed.write("x.md", "new", frozenset({text_digest("old")}))
    assert len(list(vault.root.glob("*.tmp"))) == 1
    await asyncio.sleep(0.01)  # The clock of a disk is coarse.
    await FolderVault(vault.root).open(expected=True)
    assert sorted(path.read_text() for path in vault.root.glob("x*")) == (
        ["new", "theirs"] if saved else ["new"]
    )
    assert not list(vault.root.glob("*.tmp"))


async def test_forgetting_removes_leftovers_whoever_wrote_them(vault: PersonsVault) -> None:
    await vault.write("a/x.md", "ours", NOBODYS)
    left = vault.root / "a" / "x.md.00000000-00000000-0a1b2c3d.tmp"
    left.write_text("what a person saved")
    await asyncio.sleep(0.01)  # The clock of a disk is coarse.
    later = FolderVault(vault.root)
    await later.remove_leftovers("a")
    assert [path.name for path in (vault.root / "a").iterdir()] == ["x.md"]


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL])
async def test_a_disk_that_cannot_exchange_files_is_written_all_the_same(
    vault: PersonsVault, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(_one: Path, _other: Path) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("recollect.infra.vault_read._exchange", refuse)
    for text in ("old", "new"):
        await vault.write("x.md", text, frozenset({text_digest("old")}))
    assert (vault.root / "x.md").read_text() == "new"
    assert sorted(path.name for path in vault.root.iterdir()) == [".recollect-vault", "x.md"]


async def test_a_file_is_removed_alone_and_a_folder_only_where_it_is_empty(vault: PersonsVault) -> None:
    for path in ("a/b/one.md", "a/two.md"):
        await vault.write(path, "text", NOBODYS)
    await vault.remove_empty_folder("a/b")
    assert await vault.list_files() == ["a/b/one.md", "a/two.md"]
    assert await vault.remove_file("a/b/one.md", frozenset({text_digest("text")})) is None
    for _ in range(2):
        await vault.remove_empty_folder("a/b")
    assert not (vault.root / "a/b").exists()
    assert await vault.list_files() == ["a/two.md"]
